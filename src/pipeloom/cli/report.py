"""``pipeloom report``: everything about one schedule as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeloom.cli.common import (
    add_json,
    add_source,
    add_sync,
    check_ending,
    print_json,
    write_file,
)
from pipeloom.cli.simulation import add_emitted, add_machine, add_problem, estimate_of, prepare
from pipeloom.cli.tile import add_tile
from pipeloom.cli.usage import at_least
from pipeloom.reference.verdict import verify
from pipeloom.reference.words import knobs, sync_text
from pipeloom.show.headers import no_loop_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Write one HTML file that needs no network: the simulated timeline of all "
        "waves, the dependence graph, LDS buffers over time, the verdict with its counterexample, "
        "the stalls and the knobs."
    )
    add_source(parser, compiled=True)
    add_tile(parser, default="bf16")
    add_sync(parser)
    add_emitted(parser)
    add_machine(parser)
    add_problem(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.html",
        help="the page; default: the name of the schedule or file with .html, in this folder",
    )
    parser.add_argument(
        "--timeline-iterations",
        type=at_least(1),
        default=4,
        metavar="N",
        help="iterations shown in the timeline (default 4); the figures are from all K tiles",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile, verify, simulate, write."""
    from pipeloom.show.page import render_page

    output: str = arguments.output or f"{Path(arguments.source).stem}.html"
    check_ending(output, ".html", "an HTML page")
    simulation = prepare(arguments, needs_tile=False)
    compiled = simulation.compiled
    verdict = verify(simulation.program)
    trace = shown = None
    if compiled.geometry is not None:
        trace = shown = simulation.run(arguments.k_tiles)
        if trace.iterations > arguments.timeline_iterations:
            shown = simulation.run(simulation.kernel.tiles(arguments.timeline_iterations))
    page = render_page(
        simulation.program,
        verdict,
        trace,
        shown=shown,
        unsimulated=f"Not simulated: {compiled.schedule} has no tile shape, so its ops have no "
        "instruction counts.",
        estimate=None if trace is None else estimate_of(arguments, simulation, trace),
        tile=simulation.tile,
        sync=sync_text(compiled),
        stream="" if simulation.emission is None else simulation.emission.kernel.name,
        knobs=knobs(compiled),
    )
    write_file(output, page)
    size = len(page.encode("utf-8"))
    if arguments.json:
        print_json(
            {
                "output": output,
                "bytes": size,
                "verdict": verdict.status.name,
                "simulated": trace is not None,
                "emitted": simulation.emission is not None,
            }
        )
        return 0
    figures = "not simulated: no tile shape"
    if trace is not None:
        figures = f"{trace.steady_cycles_per_iteration:.0f} cycles per iteration"
        if not trace.iterations:
            no_loop = no_loop_text(simulation.program)
            figures = f"{trace.total_cycles} cycles in all: {no_loop}"
    print(f"wrote {output} ({size / 1e6:.1f} MB)")
    status = "" if simulation.emission else f": {verdict.status.name}"
    print(f"{simulation.header}{status}, {figures}")
    return 0
