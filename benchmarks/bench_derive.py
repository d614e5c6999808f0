"""Derived loops against their bounds and against the specification's orders of the same tile.

    python benchmarks/bench_derive.py [--only TEXT] [--no-run]

Every kernel is derived without the store, proved, emitted, its own instructions simulated, and run
in the emulator against NumPy. Columns: share of time that the matrix unit works in the steady
loop, cycles per K tile, the bound and the unit that sets it, prologue and epilogue cycles, search
time until within 5 % and 1 % of the bound and in all, verdict, emulator, and the fastest of the
specification's orders (ping-pong and four-wave, IDENTITY and GREEDY) where one has this tile.

Targets: 99.5 % of the bound for 256x256 tiles, 97 % for all; 5 s to within 5 %, 60 s to within 1 %.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from dataclasses import dataclass

from pipeloom import ScheduleError, compile_schedule, load_spec
from pipeloom.declare.kernels import gemm
from pipeloom.drive.deriving import Progress, derive
from pipeloom.drive.programs import as_program, simulate
from pipeloom.drive.store import Store
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.lift import simulate_emitted
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.write import assemble
from pipeloom.write.lower.emit import emit_program

TRIPS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A tile, its elements, a chip and a number of waves."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    arch: str = "gfx950"
    waves: int = 4

    @property
    def name(self) -> str:
        return f"{self.arch} {self.dtype:<4} {self.m}x{self.n}x{self.k} {self.waves} waves"


SIZES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128), (192, 256))
LARGE = (
    *(Case(256, 256, 64, dtype, waves=w) for dtype in ("bf16", "fp16") for w in (8, 4)),
    *(Case(256, 256, 128, "fp8", waves=w) for w in (8, 4)),
    Case(256, 256, 64, "fp16", "gfx942", 8),
)
TILES = (
    *(Case(m, n, 64) for m, n in SIZES),
    *(Case(m, n, 64, "fp16") for m, n in SIZES[:6]),
    *(Case(m, n, 128, "fp8") for m, n in SIZES),
)


def specification(case: Case, target: Target) -> float | None:
    """Cycles per K tile of the fastest of the specification's orders of this tile."""
    depth = {"bf16": 32, "fp16": 32, "fp8": 128}[case.dtype] // (1 if case.arch == "gfx950" else 2)
    size = 1 if case.dtype == "fp8" else 2
    shape = {"BM": case.m, "BN": case.n, "BK": case.k, "MMA_K": depth, "elem_bytes": size}
    found = []
    for name in ("ping_pong", "four_wave"):
        for order in ("identity", "greedy"):
            spec = {"schedule": name, "geometry": shape, "schedule_config": {"scheduling": order}}
            try:
                compiled = compile_schedule(load_spec(spec))
                trace = simulate(compiled, target)
            except ScheduleError:
                continue
            step = sum(factor for _, factor in as_program(compiled).iterations.factors)
            found.append(trace.steady_cycles_per_iteration / step)
    return min(found, default=None)


def measure(case: Case, run: bool) -> str:
    """One row."""
    target = target_for(case.arch)
    curve: list[Progress] = []
    start = time.perf_counter()
    loop = gemm(case.m, case.n, case.k, case.dtype)
    found = derive(loop, target, case.waves, progress=curve.append, store=Store(None))
    took = time.perf_counter() - start
    if found is None:
        return f"{case.name:<34} not woven"
    program = found.program
    emitted = emit_program(program, judge=verify)
    least = program.iterations.at(program.min_trips)
    step = sum(factor for _, factor in program.iterations.factors)
    trace = simulate_emitted(emitted, target, least + TRIPS * step)
    cycles = trace.steady_cycles_per_iteration / step
    answer = "-"
    if run:
        sizes = {"m": case.m, "n": case.n, "k": case.k * (least + step)}
        answer = "right" if run_program(emitted, assemble(emitted), sizes=sizes).ok else "WRONG"

    def within(share: float) -> str:
        times = [p.seconds for p in curve if p.cycles <= share * p.bound]
        return f"{min(times):.1f}" if times else "-"

    other = specification(case, target)
    return (
        f"{case.name:<34}{100 * found.matrix / cycles:>7.2f}{cycles:>9.1f}{found.bound:>7}"
        f" {found.unit:<13}{100 * found.bound / cycles:>7.2f}"
        f"{trace.prologue_cycles:>8.0f}{trace.epilogue_cycles:>8.0f}"
        f"{within(1.05):>7}{within(1.01):>7}{took:>7.1f} {emitted.status.name:<7}{answer:<6}"
        f"{'-' if other is None else f'{other:.0f}':>7}"
        f"  {len(program.groups)} group(s), turns of {found.pattern.cluster}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--no-run", action="store_true", help="leave the emulator out")
    chosen = parser.parse_args()
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{'kernel':<34}{'busy %':>7}{'cycles':>9}{'bound':>7} {'by':<13}{'% of it':>7}"
        f"{'before':>8}{'after':>8}{'5 %':>7}{'1 %':>7}{'s':>7} {'verdict':<7}{'run':<6}{'spec':>7}"
    )
    for case in (*LARGE, *TILES):
        if chosen.only in case.name:
            print(measure(case, not chosen.no_run), flush=True)


if __name__ == "__main__":
    main()
