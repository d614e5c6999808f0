"""Products that are added to what an array holds, in slices that any number of workgroups take."""

from __future__ import annotations

from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16, F32, DType


def gemm_added(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    *,
    name: str = "gemm_added",
) -> Loop:
    """C[m, n] += sum over s and k of A[s, m, k] * B[s, n, k], in f32, by atomic additions.

    Slices s are those of a split K, as views of matrices whose rows go on (A[m, s * k] seen as
    [s, m, k]), or the problems of a batch whose gradients are one. The order in which they are
    added is nobody's: sums that round may differ between launches.

    Args:
        m: Rows of the tile of A and of C.
        n: Rows of the tile of B, columns of C.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k).staged()
    b = loop.stream("B", dtype, n=n, k=k).staged()
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += a @ b
    loop.store("C", total)
    loop.adds("C")
    loop.batch("A", "B", over=("slices",))
    return loop
