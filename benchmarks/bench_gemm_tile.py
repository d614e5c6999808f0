"""The GEMM tile by modulo scheduling against the specification's orders, under one cost model.

    python benchmarks/bench_gemm_tile.py [--work-limit W] [--latencies 600,1000,2000]

First table, per chip, type and wave grid: the MFMA bound, the II and the depth it needs. Second
table: cycles per K tile of finished schedules, the modulo one and the specification's order with
its own waits (reference) and with proven ones; *model* is the in-order replay under the costs that
the modulo schedule was made with (issue slots and barriers free), *simulated* the cycle simulator.
Third table: what longer memory latency does to II and depth.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass
from typing import Any

from pipeloom import CompiledSchedule, ScheduleError, build_schedule, load_spec, verify
from pipeloom.drive.programs import simulate
from pipeloom.order.modulo import Objective
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.pipelining import PipelinedLoop, PipeliningGoal, derive_pipeline
from pipeloom.reference.pipelining.costs import TileCosts
from pipeloom.reference.pipelining.inorder import in_order_cycles
from pipeloom.reference.schedules.gemm_tile import GemmTileSchedule

DEPTH_FIRST = (Objective.STAGES, Objective.BUFFERS)
SIMULATED_TRIPS = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A chip, an element type and a wave grid."""

    arch: str
    elem_bytes: int
    kernel: str

    @property
    def name(self) -> str:
        dtype = {1: "fp8", 2: "bf16"}[self.elem_bytes]
        return f"{self.arch} {dtype:<4} {self.kernel:<9}"

    def schedule(self, work_limit: float, **keys: Any) -> GemmTileSchedule:
        spec = {
            "schedule": "gemm_tile",
            "arch": self.arch,
            "kernel": self.kernel,
            "geometry": {"elem_bytes": self.elem_bytes},
            "work_limit": work_limit,
            **keys,
        }
        schedule = load_spec(spec)
        assert isinstance(schedule, GemmTileSchedule)
        return schedule


CASES = tuple(
    Case(arch, elem_bytes, kernel)
    for arch in ("gfx950", "gfx942")
    for elem_bytes in (2, 1)
    for kernel in ("four_wave", "ping_pong")
)


def depth_of(loop: PipelinedLoop) -> str:
    """Stages, kernel unrolling, and LDS buffers as a range."""
    counts = [count for name, count in loop.counts if name.startswith("LDS")]
    buffers = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}-{max(counts)}"
    return f"{loop.stages:>6} {loop.unroll:>6} {buffers:>7} {loop.result.lds_bytes / 1024:>7.0f}"


def bounds_table(work_limit: float) -> None:
    """II against the MFMA bound."""
    print(
        f"\n{'':<22} {'tile':<12} {'MFMA bound':>10} {'II':>6} {'proved':>6} "
        f"{'stages':>6} {'unroll':>6} {'buffers':>7} {'LDS KiB':>7} {'seconds':>7}"
    )
    for case in CASES:
        schedule = case.schedule(work_limit)
        tile = schedule.tile
        costs = TileCosts(tile, schedule.machine)
        started = time.perf_counter()
        goal = PipeliningGoal(loop=schedule.loop, objectives=DEPTH_FIRST, work_limit=work_limit)
        loop = derive_pipeline(goal)
        seconds = time.perf_counter() - started
        print(
            f"{case.name:<22} {f'{tile.BM}x{tile.BN}x{tile.BK}':<12} {costs.mfma_bound:>10} "
            f"{loop.cycles_per_tile:>6} {'yes' if loop.result.proved else 'no':>6} "
            f"{depth_of(loop)} {seconds:>7.1f}"
        )


def orders_table(work_limit: float) -> None:
    """The same tile in three orders."""
    print(f"\n{'cycles per K tile':<22} {'schedule':<28} {'verdict':>8} {'model':>8} simulated")
    for case in CASES:
        schedule = case.schedule(work_limit)
        costs = TileCosts(schedule.tile, schedule.machine)
        for name, compiled in _orders(case, schedule):
            if isinstance(compiled, str):
                print(f"{case.name:<22} {name:<28} {compiled}")
                continue
            kernel = kernel_for(compiled)
            trace = simulate(compiled, schedule.machine, k_tiles=kernel.tiles(SIMULATED_TRIPS))
            cycles = trace.summary()["steady_cycles_per_iteration"] / kernel.tiles_per_iteration
            print(
                f"{case.name:<22} {name:<28} {verify(compiled).status.name:>8} "
                f"{in_order_cycles(compiled, costs):>8.0f} {cycles:>9.0f}"
            )


def _orders(case: Case, schedule: GemmTileSchedule) -> list[tuple[str, CompiledSchedule | str]]:
    tile = schedule.tile
    geometry = {
        name: getattr(tile, name)
        for name in ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")
    }
    spec = {"schedule": case.kernel, "geometry": geometry}
    found: list[tuple[str, CompiledSchedule | str]] = []
    for sync in ("reference", "proven"):
        name = f"specification, {sync}"
        try:
            compiled = build_schedule(spec, sync=sync, reorder=sync == "proven")
        except ScheduleError as error:
            found.append((name, str(error).splitlines()[0]))
        else:
            found.append((name, compiled))
    found.append(("modulo", build_schedule(schedule)))
    return found


def latency_table(work_limit: float, latencies: list[int]) -> None:
    """Depth as a function of the latency planned for, bf16 on gfx950."""
    print(
        f"\n{'':<22} {'latency':>8} {'II':>6} {'proved':>6} "
        f"{'stages':>6} {'unroll':>6} {'buffers':>7} {'LDS KiB':>7}"
    )
    for case in CASES[:2]:
        for latency in latencies:
            schedule = case.schedule(work_limit, global_latency=latency)
            goal = PipeliningGoal(loop=schedule.loop, objectives=DEPTH_FIRST, work_limit=work_limit)
            loop = derive_pipeline(goal)
            print(
                f"{case.name:<22} {latency:>8} {loop.cycles_per_tile:>6} "
                f"{'yes' if loop.result.proved else 'no':>6} {depth_of(loop)}"
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--work-limit", type=float, default=10.0, help="per solve, units of about a second"
    )
    parser.add_argument("--latencies", default="600,1000,1500,3000,4500")
    arguments = parser.parse_args()
    print(
        f"machine: {platform.machine()} {platform.processor()}, Python {platform.python_version()}"
    )
    bounds_table(arguments.work_limit)
    orders_table(arguments.work_limit)
    latency_table(arguments.work_limit, [int(n) for n in arguments.latencies.split(",")])


if __name__ == "__main__":
    main()
