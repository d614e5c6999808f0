# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A plain matrix product in Triton, to compile and to emulate; importing it needs the wheel."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(
    a, b, c, M, N, K, sam, sbk, sbn, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """One tile of C; rows and columns beyond the end wrap around and are not stored."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + (rm % M)[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + (rn % N)[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * sbk
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * scm + rn[None, :], acc.to(c.dtype.element_ty), mask=mask)
