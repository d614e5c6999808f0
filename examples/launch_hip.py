"""Launch a kernel on a GPU from Python, and compare it with NumPy.

    pipeloom gemm 512 384 256 --target MI355X -o k.hsaco
    python examples/launch_hip.py k.hsaco --m 512 --n 384 --k 256

UNTESTED ON HARDWARE: it was written on a machine without a GPU, and runs in the tests against a
stand-in for HIP whose launches go to pipeloom's emulator. ``pipeloom run k.hsaco --on gpu`` does
the same for every kernel; this is how a program of your own does it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

import pipeloom as pl


def main(command: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("code", help="a product of bf16, NT: k.hsaco, with k.json beside it")
    for name in "mnk":
        parser.add_argument(f"--{name}", type=int, default=512)
    given = parser.parse_args(command)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (given.m, given.k)).astype(np.float32)
    b = rng.integers(-3, 4, (given.n, given.k)).astype(np.float32)

    # NumPy has no bf16: its codes are uint16. Tensors of PyTorch are passed as they are.
    codes = {"A": pl.BF16.encode(a).astype(np.uint16), "B": pl.BF16.encode(b).astype(np.uint16)}
    try:
        out = pl.launch(given.code, guard=4096, A=codes["A"], B=codes["B"])["out"]
    except pl.ScheduleError as error:
        print(error, file=sys.stderr)
        return 1
    wrong = int((pl.BF16.decode(out) != pl.BF16.round(a @ b.T)).sum())
    print(f"{wrong} of {out.size} elements are wrong" if wrong else "equal to NumPy")
    return 5 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
