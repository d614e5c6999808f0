"""How long compiling takes, warm: medians, with the machine named.

Targets: the default ping-pong in 2 ms, the four-wave in 1.5 ms, ``pipeloom --help`` in 0.3 s.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from pipeloom import compile_schedule, load_spec

RUNS = 200


def median_ms(work: Callable[[], object], runs: int = RUNS) -> float:
    """The median wall time of ``work`` in milliseconds, after one warm-up."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Print the table."""
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )
    print(f"{'what':<34}{'median ms':>10}{'target':>10}")
    for name, target in (("ping_pong", 2.0), ("four_wave", 1.5), ("single_buffer", 2.0)):
        schedule = load_spec({"schedule": name})
        took = median_ms(partial(compile_schedule, schedule))
        print(f"{'compile ' + name:<34}{took:>10.2f}{target:>10.1f}")
    help_ms = median_ms(
        lambda: subprocess.run(
            [sys.executable, "-m", "pipeloom.cli.main", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
        ),
        runs=11,
    )
    print(f"{'pipeloom --help':<34}{help_ms:>10.0f}{300:>10}")


if __name__ == "__main__":
    main()
