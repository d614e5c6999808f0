"""``pipeloom trace``: the simulated run as a file for Perfetto or chrome://tracing."""

from __future__ import annotations

import argparse

from pipeloom.cli.common import check_ending, print_json, simulate_job
from pipeloom.cli.options import (
    EMITTED,
    JSON,
    LAUNCH,
    MACHINE,
    CommandUsage,
    option,
    source,
    sync,
    tile,
)
from pipeloom.drive.simulating import prepare
from pipeloom.drive.timing_files import launched, time_start
from pipeloom.files import write_file
from pipeloom.show.chrome_trace import chrome_trace

SHOWN = 8
"""Iterations of a kernel file's main loop in a trace."""


USAGE = CommandUsage(
    "Write what pipeloom simulate computes as a trace: one track per wave and "
    "unit, arrows from every load to the wait that guarantees it; with --emitted of the "
    "emitted kernel, with --launch of the main loop of a kernel file. Open the file at "
    "https://ui.perfetto.dev or in chrome://tracing; one microsecond there is one cycle.",
    (
        source(compiled=True),
        tile(default="bf16"),
        sync(),
        EMITTED,
        MACHINE,
        option("-o --output FILE.json", "the trace", required=True),
        LAUNCH,
        JSON,
    ),
    examples=("pipeloom trace ping_pong -o trace.json",),
)


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write the file, say what is in it."""
    check_ending(arguments.output, ".json", "a trace in JSON")
    emitted = False
    if arguments.launch:
        timing = time_start(*launched(arguments.source, arguments.launch[-1], arguments.kernel))
        trace, header = timing.shown(SHOWN), str(timing.main)
    else:
        simulation = prepare(simulate_job(arguments))
        trace, header = simulation.run(), simulation.header
        emitted = simulation.emission is not None
    text = chrome_trace(trace, title=str(arguments.source))
    write_file(arguments.output, text)
    figures = {
        "output": arguments.output,
        "bytes": len(text.encode("utf-8")),
        "waves": len(trace.programs),
        "instructions": len(trace.events),
        "total_cycles": trace.total_cycles,
        "emitted": emitted,
    }
    if arguments.json:
        print_json(figures)
        return 0
    print(
        f"wrote {arguments.output}: {header}, "
        f"{len(trace.programs)} waves, {len(trace.events)} instructions, "
        f"{trace.total_cycles} cycles; open it at https://ui.perfetto.dev"
    )
    return 0
