"""Triton's fp32 matmul on gfx942, judged: Triton 3.8.0 compiles it to a race, 3.9.0 does not.

    pip install triton==3.8.0 && python examples/triton_matmul.py
    pip install triton==3.9.0 && python examples/triton_matmul.py

Compiled ahead of time and run in the emulator: no GPU is needed. The fault is triton-lang/triton
#11696: a barrier stands before the wait of the LDS reads that it should protect.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

import pipeloom as pl


@triton.jit  # type: ignore[untyped-decorator]
def matmul(a, b, c, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * sa + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * sb + n[None, :])
        sums += tl.dot(x, y, input_precision="ieee")
    tl.store(c + m[:, None] * sc + n[None, :], sums)


def main(K: int = 256, BM: int = 128, BN: int = 128, BK: int = 64) -> pl.CheckVerdict:
    """Compile for eight waves and two stages, check, and print the verdict."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (BM, K)).astype(np.float32)
    b = rng.integers(-3, 4, (K, BN)).astype(np.float32)
    c = np.zeros((BM, BN), np.float32)
    checked = pl.check_triton(
        matmul,
        (1,),
        *(a, b, c, K, K, BN, BN),
        BM=BM,
        BN=BN,
        BK=BK,
        arch="gfx942",
        num_warps=8,
        options={"num_stages": 2},
    )
    print(f"Triton {triton.__version__}: {checked.verdict.summary()}")
    return checked.verdict


if __name__ == "__main__":
    raise SystemExit(0 if main().status is pl.CheckStatus.PROVED else 3)
