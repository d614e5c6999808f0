"""How long ``pipeloom check`` takes on a 256x256 GEMM at 4 K tiles: emulation, judgement, needless.

    python -m benchmarks.bench_check

The kernel is our own ping-pong (8 waves, bf16). The target is 20 s and 2 GB.
"""

from __future__ import annotations

import resource
import time

from benchmarks.check_kernels import own
from pipeloom.drive.checking import check

TARGET_SECONDS, TARGET_GB = 20.0, 2.0


def main() -> int:
    kernel, start = own("ping_pong", 256, 256)
    began = time.perf_counter()
    verdict = check(kernel, start.grid, start.block, start.args).verdict
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{verdict.summary()}\n{verdict.figures}, {len(verdict.needless)} not needed")
    print(f"{seconds:.1f} s (target {TARGET_SECONDS:g}), {peak:.2f} GB (target {TARGET_GB:g})")
    return int(seconds > TARGET_SECONDS or peak > TARGET_GB)


if __name__ == "__main__":
    raise SystemExit(main())
