"""``pipeloom simulate``: cycles, stalls and a timeline."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from pipeloom.cli.common import (
    add_json,
    add_source,
    add_sync,
    add_tile,
    load_compiled,
    print_json,
    require_tile,
    tile_header,
)
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.compiled import CompiledSchedule
from pipeloom.errors import InternalError, SpecError
from pipeloom.kernels import kernel_for
from pipeloom.report.headers import tile_text
from pipeloom.simulate import Trace, simulate, simulate_stream
from pipeloom.simulate.estimate import Estimate, GemmProblem, TileTiming, estimate_gemm
from pipeloom.targets.chips import MACHINES, machine_for

K_TILES = 32
STREAM: Mapping[str, Any] = MappingProxyType(
    {"mfma": "16x16x32_f16", "waves_per_simd": 1, "stagger": False, "iterations": 24}
)
"""Options of a stream alone, with their defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Run one workgroup on a model of one compute unit, built from public "
        "measurements (docs/performance-model.md says how far to trust it). A schedule without a "
        "tile shape is simulated for a 256x256x64 bf16 tile. With --stream, a hand-written loop: "
        'pipeloom simulate --stream "wv10 B R8 G2 wl0 B M16 branch" --waves-per-simd 2 --stagger'
    )
    add_source(parser, compiled=True, required=False)
    add_tile(parser, default="bf16")
    add_sync(parser)
    add_machine(parser)
    add_problem(parser)
    parser.add_argument("--stream", metavar="TEXT", help="simulate this loop instead of a schedule")
    parser.add_argument("--mfma", help=f"what M is in a stream (default {STREAM['mfma']})")
    parser.add_argument(
        "--waves-per-simd", type=at_least(1), metavar="N", help="for a stream (default 1)"
    )
    parser.add_argument(
        "--stagger", action="store_true", default=None, help="for a stream: two wave groups"
    )
    parser.add_argument(
        "--iterations", type=at_least(1), metavar="N", help="for a stream (default 24)"
    )
    add_json(parser)
    parser.set_defaults(run=run, k_tiles=None)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """What the simulating commands share: the machine, the problem's K, jitter."""
    names = ", ".join(machine.arch for machine in MACHINES)
    parser.add_argument("--arch", default="gfx950", help=f"one of {names} (default gfx950)")
    parser.add_argument(
        "--k-tiles",
        type=int,
        default=K_TILES,
        metavar="N",
        help=f"K tiles to sum (default {K_TILES})",
    )
    parser.add_argument(
        "--jitter", type=float, default=0.0, help="stretch each load by up to this share (0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the jitter (0)")


def add_problem(parser: argparse.ArgumentParser) -> None:
    """The problem for the whole-GPU estimate."""
    for name in ("m", "n", "k"):
        parser.add_argument(
            f"--{name}",
            type=int,
            metavar=name.upper(),
            help=f"{name.upper()} of a whole problem: with --m, --n and --k a model of its TFLOPS",
        )


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print."""
    compiled, trace = _trace(arguments)
    estimate = None if compiled is None else estimate_of(arguments, compiled, trace)
    if arguments.json:
        extra = {} if estimate is None else {"estimate": asdict(estimate)}
        tile = {} if compiled is None else {"tile": tile_text(compiled, arguments.tile)}
        print_json({**trace_data(trace), **tile, **extra})
        return 0
    from pipeloom.report.console import TerminalConsole
    from pipeloom.report.timeline import render_estimate, render_trace

    console = TerminalConsole()
    if compiled is not None:
        console.print(tile_header(arguments, compiled))
    console.print(render_trace(trace, width=min(console.width, 120)))
    if estimate is not None:
        console.print(render_estimate(estimate))
    return 0


def _trace(arguments: argparse.Namespace) -> tuple[CompiledSchedule | None, Trace]:
    if arguments.stream is not None and arguments.source is not None:
        raise SpecError("give a schedule or --stream, not both", hint="drop one of the two")
    if arguments.stream is not None:
        if any(getattr(arguments, name) is not None for name in ("m", "n", "k")):
            raise SpecError(
                "a stream has no tile shape, so there is no whole problem to estimate",
                hint="drop --m, --n and --k, or simulate a schedule",
            )
        _refuse_with_stream(arguments)
        given = {name: getattr(arguments, name) for name in STREAM}
        options = {name: STREAM[name] if given[name] is None else given[name] for name in STREAM}
        return None, simulate_stream(
            arguments.stream,
            arch=arguments.arch,
            **options,
            jitter=arguments.jitter,
            seed=arguments.seed,
        )
    if arguments.source is None:
        raise SpecError("nothing to simulate", hint="name a schedule or a spec, or give --stream")
    for name in STREAM:
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for --stream, not for a schedule")
    if arguments.k_tiles is None:
        arguments.k_tiles = K_TILES
    compiled = load_compiled(arguments)
    return compiled, trace_of(arguments, compiled)


def _refuse_with_stream(arguments: argparse.Namespace) -> None:
    """A stream is the loop itself: nothing about compiling a schedule applies to it."""
    given = {
        "--k-tiles": arguments.k_tiles is not None,
        "--set": bool(arguments.settings),
        "--tile": arguments.tile is not None,
        "--sync": arguments.sync != "reference",
        "--reorder": arguments.reorder,
    }
    for option, is_given in given.items():
        if is_given:
            instead = "; --iterations says how long it runs" if option == "--k-tiles" else ""
            raise UsageError(f"{option} is for a schedule, not for --stream{instead}")


def trace_of(arguments: argparse.Namespace, compiled: CompiledSchedule) -> Trace:
    """The trace of ``compiled``, which the arguments name, on the machine they ask for."""
    require_tile(arguments, compiled)
    return simulate(
        compiled,
        machine_for(arguments.arch),
        k_tiles=arguments.k_tiles,
        jitter=arguments.jitter,
        seed=arguments.seed,
    )


def estimate_of(
    arguments: argparse.Namespace, compiled: CompiledSchedule, trace: Trace
) -> Estimate | None:
    """The whole-GPU model for ``--m --n --k``; ``None`` where none of the three is given."""
    given = [getattr(arguments, name) for name in ("m", "n", "k")]
    if all(size is None for size in given):
        return None
    if any(size is None for size in given):
        raise SpecError("the whole-GPU estimate needs all of --m, --n and --k", hint="give three")
    shape = compiled.geometry
    if shape is None:
        raise InternalError("a simulated schedule has a tile shape")
    kernel = kernel_for(compiled)
    timing = TileTiming.from_trace(
        trace,
        tile_m=shape.BM,
        tile_n=shape.BN,
        k_per_iteration=kernel.tiles_per_iteration * shape.BK,
        k_outside_loop=kernel.tiles(0) * shape.BK,
    )
    problem = GemmProblem(given[0], given[1], given[2], input_bytes=shape.elem_bytes)
    return estimate_gemm(trace.machine, problem, timing)


def trace_data(trace: Trace) -> dict[str, Any]:
    """The summary and the stall table as plain data."""
    stalls = [
        {
            "phase": row.phase.value,
            "position": row.position,
            "label": row.label,
            "cycles": row.cycles,
            "cause": row.cause.text,
            "waited_for": row.waited_for,
        }
        for row in trace.stall_table()
    ]
    return {**trace.summary(), "stalls": stalls}
