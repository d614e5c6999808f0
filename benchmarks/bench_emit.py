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

from pipeloom import compile_schedule
from pipeloom.drive.trial import Launchable, run_gemm
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSpec
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.write import assemble, emit_kernel

T = TypeVar("T")
BF16 = GeometrySpec(BM=256, BN=256, BK=64, MMA_K=32, elem_bytes=2)
FP8 = GeometrySpec(BM=256, BN=256, BK=128, MMA_K=128, elem_bytes=1)
CASES = (
    ("ping_pong", "bf16", PingPongSpec(geometry=BF16)),
    ("ping_pong", "fp8", PingPongSpec(geometry=FP8)),
    ("four_wave", "bf16", FourWaveSpec(geometry=BF16)),
    ("four_wave", "fp8", FourWaveSpec(geometry=FP8)),
    ("single_buffer", "bf16", SingleBufferSpec()),
)
REPEATS = 3
TILE = 256


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
    for name, dtype, spec in CASES:
        compiled = synchronize(compile_schedule(spec.build()))
        cpu = time.process_time()
        emit_time, emitted = timed(lambda c=compiled, d=dtype: emit_kernel(c, dtype=d))  # type: ignore[misc]
        cpu = (time.process_time() - cpu) / REPEATS
        assemble_time, code = timed(lambda e=emitted: assemble(e))  # type: ignore[misc]
        ready = Launchable.load(emitted, code)
        run_time, trial = timed(
            lambda e=emitted, r=ready: run_gemm(e, r, M=TILE, N=TILE, K=512, seed=1)  # type: ignore[misc]
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
