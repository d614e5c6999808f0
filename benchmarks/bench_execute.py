"""How long executing takes: medians of wall and CPU time, with the machine named.

Targets: 3 ms for a run on tile numbers (ready to run, trips 2), 2 s for a 256 x 256 tile at
K = 8 BK on numbers, from the compiled schedule to C.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from pipeloom import build_schedule
from pipeloom.judge.execute import Executor, classify, execute, fully_synchronized
from pipeloom.judge.execute.program import prepare
from pipeloom.reference.kernels import kernel_for

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


def main() -> None:
    """Print the table."""
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    print(f"{'what':<46}{'wall ms':>10}{'CPU ms':>10}{'target':>10}")
    for name in NAMES:
        compiled = build_schedule(name)
        executor, kernel = Executor(compiled), kernel_for(compiled)
        jobs: list[tuple[str, Callable[[], object], int, str]] = [
            ("unroll, trips 2", partial(prepare, compiled, kernel, 2), 15, ""),
            ("run, worst", partial(executor.run, trips=2), 51, "3"),
            (
                "run, random timing and order",
                partial(executor.run, trips=2, timing="random", order="random"),
                31,
                "",
            ),
            (
                "classify a right one, trips 0 to 3",
                partial(classify, fully_synchronized(compiled)),
                3,
                "",
            ),
        ]
        trips = next(count for count in range(9) if kernel.tiles(count) == 8)
        a, b = (np.random.default_rng(seed).integers(-8, 9, (256, 8 * 64)) for seed in (0, 1))
        tile = partial(execute, compiled, a, b, trips=trips)
        jobs.append(("execute a 256 x 256 tile at K = 8 BK", tile, 5, "2000"))
        for what, work, runs, target in jobs:
            wall, cpu = medians_ms(work, runs)
            print(f"{name + ': ' + what:<46}{wall:>10.1f}{cpu:>10.1f}{target:>10}")


if __name__ == "__main__":
    main()
