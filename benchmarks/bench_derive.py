"""Derived loops against their bounds and against the specification's orders of the same tile.

    python benchmarks/bench_derive.py [--only TEXT] [--no-run]

Every kernel is derived without the store, proved, emitted, its own instructions simulated, and run
in the emulator against NumPy. Columns: share of time that the matrix unit works in the steady
loop, cycles per K tile, by how many percent the plan's II is beside them, the bound and the unit
that sets it, prologue and epilogue cycles, processor seconds until within 5 % and 1 % of the bound
and in all, verdict, emulator, and the fastest of the specification's orders (ping-pong and
four-wave, IDENTITY, GREEDY and CSP) where one has this tile. Below each row stands the curve of its
search: processor seconds, and the best so far in percent of the bound. The search has one thread,
so on a quiet machine processor seconds are seconds.

Targets: 99.5 % of the bound for gfx950's 256x256 tiles, 97 % for all; a plan within 2 %; 5 s to
within 5 %, 60 s to within 1 %. Rows that miss one are listed at the end, and the exit status is 1
then.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from dataclasses import dataclass
from math import inf

from benchmarks.planned import planned_cycles
from pipeloom import ScheduleError, compile_schedule, load_spec
from pipeloom.declare.kernels import gemm
from pipeloom.declare.loop import Loop
from pipeloom.declare.products import product
from pipeloom.drive.certifying import Progress
from pipeloom.drive.deriving import derive
from pipeloom.drive.programs import as_program, simulate
from pipeloom.drive.store import Store
from pipeloom.drive.trial import run_program
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code import simulate_emitted
from pipeloom.order.node_tasks import lower
from pipeloom.write import assemble, emit_program

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

    @property
    def loop(self) -> Loop:
        """Its declaration; of mx types, with block scales."""
        if self.dtype.startswith("mx"):
            return product(self.m, self.n, self.k, self.dtype[2:], blocks=True)
        return gemm(self.m, self.n, self.k, self.dtype)


SIZES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128), (192, 256))
OTHERS = (
    *((64, 256), (256, 64), (96, 160), (160, 96), (96, 256), (256, 96), (128, 192), (192, 128)),
    *((160, 160), (128, 224), (192, 192), (256, 192), (208, 256), (224, 256), (240, 256)),
)
LARGE = (
    *(Case(256, 256, 64, dtype, waves=w) for dtype in ("bf16", "fp16") for w in (8, 4)),
    *(Case(256, 256, 128, "fp8", waves=w) for w in (8, 4)),
    Case(256, 256, 64, "fp16", "gfx942", 8),
    *(Case(256, 256, 64, dtype, "gfx942") for dtype in ("fp16", "bf16")),
    Case(256, 256, 256, "mxfp4"),
)
TILES = (
    *(Case(m, n, 64) for m, n in (*SIZES, *OTHERS)),
    *(Case(m, n, 64, "fp16") for m, n in SIZES[:6]),
    *(Case(m, n, 128, "fp8") for m, n in SIZES),
    *(Case(m, n, 64, "fp16", "gfx942") for m, n in ((64, 64), (96, 160), (128, 128))),
)


def specification(case: Case, target: Target) -> float | None:
    """Cycles per K tile of the fastest of the specification's orders of this tile."""
    if case.dtype.startswith("mx"):
        return None
    depth = {"bf16": 32, "fp16": 32, "fp8": 128}[case.dtype] // (1 if case.arch == "gfx950" else 2)
    size = 1 if case.dtype == "fp8" else 2
    shape = {"BM": case.m, "BN": case.n, "BK": case.k, "MMA_K": depth, "elem_bytes": size}
    found = []
    for name in ("ping_pong", "four_wave"):
        for order in ("identity", "greedy", "csp"):
            spec = {"schedule": name, "geometry": shape, "schedule_config": {"scheduling": order}}
            try:
                compiled = compile_schedule(load_spec(spec))
                trace = simulate(compiled, target)
            except ScheduleError:
                continue
            step = sum(factor for _, factor in as_program(compiled).iterations.factors)
            found.append(trace.steady_cycles_per_iteration / step)
    return min(found, default=None)


def measure(case: Case, run: bool) -> tuple[str, list[str]]:
    """One row, and the targets that it misses."""
    target = target_for(case.arch)
    curve: list[tuple[float, float]] = []
    start = time.process_time()

    def tell(progress: Progress) -> None:
        curve.append((time.process_time() - start, progress.cycles / progress.bound))

    loop = case.loop
    found = derive(loop, target, case.waves, progress=tell, store=Store(None))
    took = time.process_time() - start
    if found is None:
        return f"{case.name:<34} not woven", ["not woven"]
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

    def within(share: float) -> float:
        return min((seconds for seconds, ratio in curve if ratio <= share), default=inf)

    lowered = lower(loop.meaning, target, loop.ops, loop.staged, case.waves)
    plan = 100 * (planned_cycles(lowered, found.pattern) / cycles - 1)
    other = specification(case, target)
    share = 100 * found.bound / cycles
    wanted = 99.5 if (case.m, case.n, case.arch) == (256, 256, "gfx950") else 97
    by = "exact" if found.pattern.exact else f"turns of {found.pattern.cluster}"
    misses = {
        f"{share:.2f} % of its bound": share < wanted,
        f"the plan is {plan:+.1f} % beside": abs(plan) > 2,
        "more than 5 s to within 5 %": within(1.05) > 5,
        "more than 60 s to within 1 %": within(1.01) > 60,
        "slower than the specification's": other is not None and other < cycles,
        emitted.status.name: emitted.status.name != "PROVED",
        "the emulator disagrees": answer == "WRONG",
    }
    row = (
        f"{case.name:<34}{100 * found.matrix / cycles:>7.2f}{cycles:>9.1f}{plan:>+6.1f}"
        f"{found.bound:>7} {found.unit:<13}{share:>7.2f}"
        f"{trace.prologue_cycles:>8.0f}{trace.epilogue_cycles:>8.0f}"
        f"{within(1.05):>6.1f}{within(1.01):>6.1f}{took:>6.1f} {emitted.status.name:<7}{answer:<6}"
        f"{'-' if other is None else f'{other:.0f}':>6}"
        f"  {len(program.groups)} group(s), {by}\n  "
        + ", ".join(f"{seconds:.1f} s {100 * ratio:.2f} %" for seconds, ratio in curve)
    )
    return row, [what for what, missed in misses.items() if missed]


def main() -> int:
    """Print the table; 1 if a row misses a target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--no-run", action="store_true", help="leave the emulator out")
    chosen = parser.parse_args()
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{'kernel':<34}{'busy %':>7}{'cycles':>9}{'plan':>6}{'bound':>7} {'by':<13}{'% of it':>7}"
        f"{'before':>8}{'after':>8}{'5 %':>6}{'1 %':>6}{'s':>6} {'verdict':<7}{'run':<6}{'spec':>6}"
    )
    missed: list[str] = []
    for case in (*LARGE, *TILES):
        if chosen.only in case.name:
            row, misses = measure(case, not chosen.no_run)
            print(row, flush=True)
            missed += [f"{case.name}: {miss}" for miss in misses]
    print("missed: " + ("; ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
