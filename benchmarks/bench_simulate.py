"""How fast the simulator is: a ping-pong at 32 K tiles, and the measured loops.

The target is under one second for the ping-pong: eight waves, about 270 instructions per wave and
iteration, 16 iterations of two K tiles. Needs nothing but the package.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable

from evidence.calibration import loop_cases
from pipeloom.judge.simulate import Trace, simulate_stream

# bf16 256x256x64 by KERNELS.md's counts: per K tile and wave, quadrants of 16 MFMAs, A fragments of
# 8 reads, B fragments of 4, load operations of 2 instructions.
_BLOCKS = ("R4 R8 G2", "R4 G2", "R8 G2", "G2 wv6")
PING_PONG = (
    "("
    + " ".join(f"S2 {memory} wl0 B prio(1) M16 prio(0) V B" for memory in _BLOCKS)
    + ")x2 branch"
)
TARGET_SECONDS = 1.0
REPEATS = 5


def ping_pong() -> Trace:
    """Eight waves in two groups, 32 K tiles."""
    return simulate_stream(
        PING_PONG, arch="gfx950", mfma="16x16x32_f16", waves_per_simd=2, stagger=True, iterations=16
    )


def summarised_ping_pong() -> None:
    """The same, with the questions a command asks of it."""
    trace = ping_pong()
    trace.stall_table()
    trace.summary()


def best_time(run: Callable[[], object]) -> float:
    """The least of a few runs: the machine may be shared."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print the table."""
    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs,")
    print(f"         Python {platform.python_version()}; best of {REPEATS}\n")
    print(f"{'what':44} {'instructions':>12} {'seconds':>8} {'per second':>11}")
    trace = ping_pong()
    rows: list[tuple[str, int, float]] = [
        ("ping-pong, 32 K tiles: simulate", len(trace.events), best_time(ping_pong)),
        (
            "ping-pong, 32 K tiles: simulate and summarise",
            len(trace.events),
            best_time(summarised_ping_pong),
        ),
    ]
    for case in loop_cases():
        if case.basis != "given":
            continue

        def run(stream: str = case.stream, arch: str = case.arch) -> Trace:
            return simulate_stream(stream, arch=arch, iterations=24)

        rows.append((case.id, len(run().events), best_time(run)))
    for what, count, seconds in rows:
        print(f"{what:44} {count:12d} {seconds:8.3f} {count / seconds:11.0f}")
    verdict = "met" if rows[0][2] < TARGET_SECONDS else "MISSED"
    print(f"\ntarget: ping-pong under {TARGET_SECONDS:g} s: {verdict}")


if __name__ == "__main__":
    main()
