"""How long emitting and assembling take, and a run in the emulator.

    python benchmarks/bench_emit.py

Targets: emit + assemble under 1 s; a 256 x 256 tile at K = 512 in the emulator under 5 s.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import TypeVar

from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.sources import Source
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.write import assemble, emit_program

T = TypeVar("T")
CASES = (
    ("ping_pong", "bf16"),
    ("ping_pong", "fp8"),
    ("four_wave", "bf16"),
    ("four_wave", "fp8"),
    ("single_buffer", "bf16"),
    ("gemm_tile", "bf16"),
)
REPEATS = 3
SIZES = {"m": 256, "n": 256, "k": 512}


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The best of a few runs, in seconds, and what the last returned."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    load = os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}")
    print(f"Python {platform.python_version()}; wall clock, best of {REPEATS}\n")
    header = ("kernel", "dtype", "emit ms", "(CPU ms)", "assemble ms", "sum ms", "lines", "run s")
    print("{:14} {:6} {:>8} {:>8} {:>12} {:>8} {:>7} {:>7}".format(*header))
    for name, dtype in CASES:
        program = emit(EmitJob(Source(name, dtype=dtype))).program
        cpu = time.process_time()
        emit_time, emitted = timed(lambda p=program: emit_program(p))  # type: ignore[misc]
        cpu = (time.process_time() - cpu) / REPEATS
        assemble_time, code = timed(lambda e=emitted: assemble(e))  # type: ignore[misc]
        ready = Launchable.load(emitted, code)
        run_time, trial = timed(
            lambda e=emitted, r=ready: run_program(e, r, sizes=SIZES, seed=1)  # type: ignore[misc]
        )
        assert trial.ok, trial.summary()
        total = emit_time + assemble_time
        print(
            f"{name:14} {dtype:6} {1e3 * emit_time:8.0f} {1e3 * cpu:8.0f} "
            f"{1e3 * assemble_time:12.0f} {1e3 * total:8.0f} {emitted.text.count(chr(10)):7} "
            f"{run_time:7.2f}"
        )


if __name__ == "__main__":
    main()
