"""``pipeloom report``: everything about one schedule as a page."""

from __future__ import annotations

import argparse

from pipeloom.cli.common import (
    add_json,
    add_source,
    add_sync,
    add_tile,
    load_compiled,
    print_json,
    tile_header,
    write_file,
)
from pipeloom.cli.simulate import add_machine, add_problem, estimate_of
from pipeloom.compiled import CompiledSchedule
from pipeloom.simulate import Trace, simulate
from pipeloom.targets.chips import machine_for
from pipeloom.verify import verify


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
    add_machine(parser)
    add_problem(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", required=True, help="the page")
    parser.add_argument(
        "--timeline-iterations",
        type=int,
        default=4,
        metavar="N",
        help="iterations shown in the timeline (default 4); the figures are from all K tiles",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile, verify, simulate, write."""
    from pipeloom.report.page import render_page
    from pipeloom.report.page_data import page_data

    compiled = load_compiled(arguments)
    verdict = verify(compiled)
    trace = _trace(compiled, arguments)
    page = render_page(
        page_data(
            compiled,
            verdict,
            trace,
            timeline_iterations=arguments.timeline_iterations,
            jitter=arguments.jitter,
            seed=arguments.seed,
            unsimulated=f"Not simulated: {compiled.schedule} has no tile shape, so its ops have no "
            "instruction counts.",
            estimate=None if trace is None else estimate_of(arguments, compiled, trace),
            elements=arguments.tile,
        )
    )
    write_file(arguments.output, page)
    size = len(page.encode("utf-8"))
    if arguments.json:
        print_json(
            {
                "output": arguments.output,
                "bytes": size,
                "verdict": verdict.status.name,
                "simulated": trace is not None,
            }
        )
        return 0
    figures = "not simulated: no tile shape"
    if trace is not None:
        figures = f"{trace.steady_cycles_per_iteration:.0f} cycles per iteration"
    header = tile_header(arguments, compiled)
    print(f"wrote {arguments.output} ({size / 1e6:.1f} MB)")
    print(f"{header}: {verdict.status.name}, {figures}")
    return 0


def _trace(compiled: CompiledSchedule, arguments: argparse.Namespace) -> Trace | None:
    machine = machine_for(arguments.arch)
    if compiled.geometry is None:
        return None
    return simulate(
        compiled,
        machine,
        k_tiles=arguments.k_tiles,
        jitter=arguments.jitter,
        seed=arguments.seed,
    )
