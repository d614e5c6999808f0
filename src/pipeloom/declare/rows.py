"""Row by row: softmax and RMS norm, a row in the registers of a wave, pipelined over rows.

Arrays have three dimensions: ``b`` workgroups, ``r`` rows of each, ``n`` columns, at most a tile of
them. Rows and columns are any number: what lies past the end of a row is masked.
"""

from __future__ import annotations

from pipeloom.declare.functions import exp2, keep, rcp, rsqrt, within
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import LOG2_E
from pipeloom.machine.dtypes import BF16, F32, DType


def softmax(
    columns: int = 1024,
    rows: int = 4,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    name: str = "softmax",
) -> Loop:
    """out[b, r, :] = softmax(X[b, r, :]), ``rows`` at a time.

    Args:
        columns: The largest row that fits: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        dtype: The element type of X.
        out: The element type of the output.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    x = keep(x, loop.left("n", columns), 1).named("inside")
    weights = exp2((x - x.max("n")) * LOG2_E).named("P")
    loop.store("out", (weights * rcp(weights.sum("n"))).to(out))
    return loop


def rms_norm(
    columns: int = 1024,
    rows: int = 4,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    epsilon: float = 1e-6,
    name: str = "rms_norm",
) -> Loop:
    """out[b, r, :] = X[b, r, :] / sqrt(mean of X[b, r, :] ** 2 + epsilon) * weight, by rows.

    Args:
        columns: The largest row that fits: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        dtype: The element type of X.
        out: The element type of the output.
        epsilon: What is added to the mean square, so that no row divides by 0.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    weight = loop.resident("weight", F32, n=columns)
    left = loop.left("n", columns)
    x = within(x, left).named("inside")
    mean = x.sum_squares("n") / within(1.0, left).sum("n")
    loop.store("out", (x * rsqrt(mean + epsilon) * weight).to(out))
    return loop
