"""How long executing takes: medians of wall and CPU time, with the machine named.

Target: 10 ms for a run of the lifted program (ready to run, trips 2).
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.random_programs.classify import classify
from benchmarks.random_programs.strict import fully_synchronized
from pipeloom import build_schedule
from pipeloom.judge.execute import Executor
from pipeloom.program import Program
from pipeloom.reference.lift import lift_in_units

NAMES = ("ping_pong", "four_wave", "single_buffer")


def medians_ms(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median wall and CPU milliseconds of ``work``, after one warm-up."""
    work()
    wall, cpu = [], []
    for _ in range(runs):
        start = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    return statistics.median(wall) * 1e3, statistics.median(cpu) * 1e3


def unrolled(program: Program) -> object:
    """What every wave does, from scratch."""
    return Executor(program).walks(2)


def main() -> None:
    """Print the table."""
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    print(f"{'what':<46}{'wall ms':>10}{'CPU ms':>10}{'target':>10}")
    for name in NAMES:
        program = lift_in_units(build_schedule(name))
        executor = Executor(program)
        jobs: list[tuple[str, Callable[[], object], int, str]] = [
            ("unroll, trips 2", partial(unrolled, program), 15, ""),
            ("run, worst", partial(executor.run, trips=2), 31, "10"),
            (
                "run, random timing and order",
                partial(executor.run, trips=2, policy="random", order="random"),
                31,
                "",
            ),
            ("run, explained", partial(executor.run, trips=2, explain=True), 15, ""),
            (
                "classify a right one, trips 0 to 3",
                partial(classify, fully_synchronized(program)),
                3,
                "",
            ),
        ]
        for what, work, runs, target in jobs:
            wall, cpu = medians_ms(work, runs)
            print(f"{name + ': ' + what:<46}{wall:>10.1f}{cpu:>10.1f}{target:>10}")


if __name__ == "__main__":
    main()
