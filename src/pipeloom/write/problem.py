"""Which sizes a GEMM kernel computes: everything that its 32-bit arithmetic can hold.

Block bases are 64 bits wide; within a block offsets are 32 bits, and hardware compares them with
the descriptor's 32-bit size. So what must stay small is one block's reach, not the matrix:

    bytes along K                     < 2^31    the loop counts them, signed
    min(BM, M) rows of A, BN of B     < 2^32    the descriptor's size, and a load's row offset
    BM rows of C                      < 2^31    a row past M still gets an offset, and a column past
                                                N one of 2^31 more: neither may wrap around
    M, N, K, lda, ldb, ldc            < 2^31    32-bit arguments

A size beyond these would not fail: it would read or write elsewhere in the same matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.write.faults import EmitError

_SIGNED = 1 << 31
_UNSIGNED = 1 << 32


@dataclass(frozen=True, slots=True)
class Problem:
    """C[M, N] = A[M, K] B[N, K]^T; leading dimensions in elements, None for rows without a gap."""

    M: int
    N: int
    K: int
    lda: int | None = None
    ldb: int | None = None
    ldc: int | None = None


def check_problem(
    problem: Problem, shape: KernelGeometry, *, out_bytes: int, k_min: int, k_step: int
) -> None:
    """Raise ``EmitError`` naming the first size that does not fit, and what to do."""
    M, N, K = problem.M, problem.N, problem.K
    for name in ("M", "N", "K"):
        _check_argument(name, getattr(problem, name), 1 if name != "K" else 0)
    if k_min > K or (K - k_min) % k_step:
        raise EmitError(
            f"K is {K}, but the schedule starts with {k_min} and steps by {k_step}",
            hint=f"choose K = {k_min} + n * {k_step}, or pad K with zeros",
            field="K",
        )
    size = shape.elem_bytes
    if K * size >= _SIGNED:
        raise EmitError(
            f"K is {K}: rows of {K * size} bytes, but the loop counts less than 2 GiB along K",
            hint=f"keep K below {_SIGNED // size}, or sum several products",
            field="K",
        )
    operands = (
        ("lda", problem.lda, K, "A", min(shape.BM, M), size, _UNSIGNED),
        ("ldb", problem.ldb, K, "B", min(shape.BN, N), size, _UNSIGNED),
        ("ldc", problem.ldc, N, "C", shape.BM, out_bytes, _SIGNED),
    )
    for name, given, row, matrix, rows, element, limit in operands:
        stride = row if given is None else given
        _check_argument(name, stride, 0)
        _check_row(name, stride, row, matrix, element)
        if rows * stride * element >= limit:
            raise EmitError(
                f"{name} is {stride}: the {rows} rows of {matrix} in a block span "
                f"{rows * stride * element} bytes, {limit >> 30} GiB or more",
                hint=f"keep {name} below {-(-limit // (rows * element))}, or split the problem "
                f"along {'N' if matrix == 'C' else 'K'}",
                field=name,
            )


def _check_argument(name: str, value: object, least: int) -> None:
    if type(value) is not int:
        raise EmitError(
            f"{name} is {value!r}, which is no whole number", hint="pass an int", field=name
        )
    if value < least:
        raise EmitError(f"{name} is {value}", hint=f"it must be at least {least}", field=name)
    if value >= _SIGNED:
        raise EmitError(
            f"{name} is {value}, but arguments are 32-bit and signed",
            hint=f"keep {name} below {_SIGNED}, or split the problem",
            field=name,
        )


def _check_row(name: str, stride: int, row: int, matrix: str, element: int) -> None:
    if stride < row:
        raise EmitError(
            f"{name} is {stride}, shorter than a row of {row}",
            hint="leading dimensions are in elements",
            field=name,
        )
    if matrix != "C" and stride * element % LOAD_BYTES:
        raise EmitError(
            f"{name} is {stride} elements of {element} bytes: rows of {matrix} are not "
            "16-byte aligned",
            hint=f"pad it to a multiple of {LOAD_BYTES // element}",
            field=name,
        )
