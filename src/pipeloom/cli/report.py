"""``pipeloom report``: everything about one schedule as a page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeloom import drive, show
from pipeloom.cli.common import measured_overlay, simulate_job
from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import check_ending, print_json
from pipeloom.cli.source_options import (
    EMITTED,
    LAUNCH,
    MACHINE,
    MEASURED,
    PROBLEM,
    source,
    sync,
    tile,
)
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.judging import emit_note
from pipeloom.drive.reporting import TIMELINE_ITERATIONS, report
from pipeloom.files import write_file
from pipeloom.show.headers import no_loop_text
from pipeloom.show.page import fill_page
from pipeloom.show.step_rows import pace

USAGE = CommandUsage(
    "Write one HTML file that needs no network: the simulated timeline of all "
    "waves, the dependence graph, LDS buffers over time, the verdict with its counterexample, "
    "the stalls and the knobs. Of a kernel that others wrote, with --launch, the page shows "
    "its main loop with its own disassembly. With --measured, a thread trace of rocprofv3 beside "
    "the simulation of the instructions that its waves executed, two lanes per wave.",
    (
        source(compiled=True, required=False),
        tile(default="bf16"),
        sync(),
        EMITTED,
        MACHINE,
        PROBLEM,
        option(
            "-o --output FILE.html",
            "the page; default: the name of the schedule or file with .html, in this folder",
        ),
        option(
            "--timeline-iterations N",
            "trips of the loop in the timeline (default 4); the figures are from all K tiles",
            type=at_least(1),
            default=TIMELINE_ITERATIONS,
        ),
        MEASURED,
        LAUNCH,
        JSON,
    ),
    examples=(
        "pipeloom report ping_pong -o report.html",
        "pipeloom report --measured folder -o measured.html",
        "pipeloom report k.hsaco --launch launch.json -o k.html",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Compile, verify, simulate, write."""
    if arguments.source is None and not arguments.measured:
        raise UsageError("name what to report, or give --measured FOLDER")
    named = arguments.measured or arguments.source
    output: str = arguments.output or f"{_stem(named)}.html"
    check_ending(output, ".html", "an HTML page")
    if arguments.measured:
        return _write_measured(arguments, output)
    if arguments.launch:
        return _write_kernel(arguments, output)
    found = report(simulate_job(arguments), arguments.timeline_iterations)
    simulation, verdict, trace = found.simulation, found.verdict, found.trace
    told = {
        "verdict": verdict.status.name,
        "simulated": trace is not None,
        "emitted": simulation.emission is not None,
        "emit": None if found.emitted is None else found.emitted.to_dict(),
    }
    figures = "not simulated: no tile shape"
    if trace is not None:
        figures = ", ".join(
            filter(None, pace(simulation.program, trace.steady_cycles_per_iteration))
        )
        if not trace.iterations:
            no_loop = no_loop_text(simulation.program)
            figures = f"{trace.total_cycles} cycles in all: {no_loop}"
    status = "" if simulation.emission else f": {verdict.status.name}"
    note = emit_note(found.emitted)
    lines = [f"{simulation.header}{status}, {figures}", *([f"note: {note}"] if note else [])]
    return _written(arguments, output, found.page, told, lines)


def _written(
    arguments: argparse.Namespace,
    output: str,
    page: str,
    told: Mapping[str, Any],
    lines: Sequence[str],
) -> int:
    """Write the page, and say so: as data with what is ``told``, or with these lines."""
    write_file(output, page)
    size = len(page.encode("utf-8"))
    if arguments.json:
        print_json({"output": output, "bytes": size, **told})
    else:
        print("\n".join([f"wrote {output} ({size / 1e6:.1f} MB)", *lines]))
    return 0


def _write_measured(arguments: argparse.Namespace, output: str) -> int:
    overlay = measured_overlay(arguments)
    page = fill_page(show.overlay_page.overlay_page(overlay, arguments.timeline_iterations))
    lines = [show.overlay_text.overlay_summary(overlay).plain]
    return _written(arguments, output, page, {"measured": overlay.to_dict()}, lines)


def _stem(source: str) -> str:
    """``Name`` of ``my.py:Name``, else the name of the schedule or file."""
    return source.rpartition(":")[2] if ".py:" in source else Path(source).stem


def _write_kernel(arguments: argparse.Namespace, output: str) -> int:
    page, timing, verdict = drive.kernel_reporting.report_file(
        arguments.source,
        arguments.launch[-1],
        arguments.kernel,
        iterations=arguments.timeline_iterations,
    )
    told = {"verdict": verdict.title, "timing": timing.to_dict()}
    lines = [f"{timing.name}: {verdict.title}, {timing.main}"]
    return _written(arguments, output, page, told, lines)
