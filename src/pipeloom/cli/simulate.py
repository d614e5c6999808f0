"""``pipeloom simulate``: cycles, stalls and a timeline."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pipeloom.cli.common import Commands, add_json, add_source, add_sync, load_compiled, print_json
from pipeloom.compiled import CompiledSchedule
from pipeloom.errors import InternalError, SpecError
from pipeloom.kernels import kernel_for
from pipeloom.simulate import Trace, simulate, simulate_stream
from pipeloom.simulate.estimate import Estimate, GemmProblem, TileTiming, estimate_gemm
from pipeloom.targets.chips import MACHINES, machine_for


def add_parser(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "simulate",
        help="cycles per iteration, efficiency, stalls and a timeline",
        description="Run one workgroup on a model of one compute unit, built from public "
        "measurements (docs/performance-model.md says how far to trust it). A schedule without a "
        "tile shape is simulated for a 256x256x64 bf16 tile. With --stream, a hand-written loop: "
        'pipeloom simulate --stream "wv10 B R8 G2 wl0 B M16 branch" --waves-per-simd 2 --stagger',
    )
    add_source(parser, compiled=True, required=False)
    add_sync(parser)
    add_machine(parser)
    add_problem(parser)
    parser.add_argument("--stream", metavar="TEXT", help="simulate this loop instead of a schedule")
    parser.add_argument("--mfma", default="16x16x32_f16", help="what M is in a stream")
    parser.add_argument("--waves-per-simd", type=int, default=1, help="for a stream")
    parser.add_argument("--stagger", action="store_true", help="for a stream: two wave groups")
    parser.add_argument("--iterations", type=int, default=24, help="for a stream (default 24)")
    add_json(parser)
    parser.set_defaults(run=run)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """What the simulating commands share: the machine, the problem's K, jitter."""
    names = ", ".join(machine.arch for machine in MACHINES)
    parser.add_argument("--arch", default="gfx950", help=f"one of {names} (default gfx950)")
    parser.add_argument("--k-tiles", type=int, default=32, help="K tiles to sum (default 32)")
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
        print_json({**trace_data(trace), **extra})
        return 0
    from pipeloom.report.console import TerminalConsole
    from pipeloom.report.timeline import render_estimate, render_trace

    console = TerminalConsole()
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
        return None, simulate_stream(
            arguments.stream,
            arch=arguments.arch,
            mfma=arguments.mfma,
            waves_per_simd=arguments.waves_per_simd,
            stagger=arguments.stagger,
            iterations=arguments.iterations,
            jitter=arguments.jitter,
            seed=arguments.seed,
        )
    if arguments.source is None:
        raise SpecError("nothing to simulate", hint="name a schedule or a spec, or give --stream")
    compiled = load_compiled(arguments, tiled=True)
    return compiled, trace_of(arguments, compiled)


def trace_of(arguments: argparse.Namespace, compiled: CompiledSchedule | None = None) -> Trace:
    """The trace of ``compiled``, by default the schedule that the arguments name."""
    return simulate(
        load_compiled(arguments, tiled=True) if compiled is None else compiled,
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
