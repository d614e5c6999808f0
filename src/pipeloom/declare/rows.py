"""Row by row: softmax, norms, losses and gates, a row in the registers of a wave, over rows.

Arrays have three dimensions: ``b`` workgroups, ``r`` rows of each, ``n`` columns, at most a tile of
them. Columns are any number: what lies past the end of a row is masked. So are rows.
"""

from __future__ import annotations

from pipeloom.declare.composed import LOG2_E
from pipeloom.declare.functions import exp, exp2, keep, log, rcp, rsqrt, sigmoid, where, within
from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16, F32, I32, DType


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


def layer_norm(
    columns: int = 1024,
    rows: int = 4,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    epsilon: float = 1e-5,
    name: str = "layer_norm",
) -> Loop:
    """out[b, r, :] = (X - mean) / sqrt(variance + epsilon) * weight + bias, of X[b, r, :].

    Args:
        columns: The largest row that fits: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        dtype: The element type of X.
        out: The element type of the output.
        epsilon: What is added to the variance, so that no row divides by 0.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    weight, bias = (loop.resident(array, F32, n=columns) for array in ("weight", "bias"))
    centred = (x - x.mean("n")).named("centred")
    variance = (centred * centred).mean("n")
    loop.store("out", (centred * rsqrt(variance + epsilon) * weight + bias).to(out))
    return loop


def add_rms_norm(
    columns: int = 1024,
    rows: int = 4,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    epsilon: float = 1e-6,
    name: str = "add_rms_norm",
) -> Loop:
    """H = X + R, and out = H / sqrt(mean of H ** 2 + epsilon) * weight: both are stored.

    Args:
        columns: The largest row that fits: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        dtype: The element type of X, R and H.
        out: The element type of the normalised output.
        epsilon: What is added to the mean square, so that no row divides by 0.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    added = x + loop.stream("R", dtype, b=1, r=rows, n=columns)
    weight = loop.resident("weight", F32, n=columns)
    loop.store("H", added.to(dtype))
    mean = added.sum_squares("n") / loop.size("n")
    loop.store("out", (added * rsqrt(mean + epsilon) * weight).to(out))
    return loop


def cross_entropy(
    columns: int = 1024,
    rows: int = 4,
    dtype: DType | str = BF16,
    *,
    name: str = "cross_entropy",
) -> Loop:
    """loss[b, r] = ln of the sum of exp(X[b, r, :]) - X[b, r, T[b, r]], and that sum as ``lse``.

    A label that is no column (-100, to leave a row out) has X taken as 0: the loss is the lse.

    Args:
        columns: The largest number of classes: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        dtype: The element type of X.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", dtype, b=1, r=rows, n=columns)
    label = loop.stream("T", I32, b=1, r=rows)
    top = x.max("n")
    lse = top + log(exp(x - top).sum("n"))
    picked = where(loop.index("n", columns) == label, x, 0.0).sum("n")
    loop.store("loss", lse - picked)
    loop.store("lse", lse)
    return loop


def top2_gate(experts: int = 64, rows: int = 4, *, name: str = "top2_gate") -> Loop:
    """The two largest of X[b, r, :], which they are (``first``, ``second``), and their softmax.

    Of equal ones, the first is taken.

    Args:
        experts: The largest number of experts: a workgroup holds whole rows.
        rows: Rows that one iteration takes.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="r")
    x = loop.stream("X", F32, b=1, r=rows, n=experts)
    place = loop.index("n", experts)
    best = x.max("n")
    first = where(x == best, place, float(experts)).min("n")
    rest = where(place == first, float("-inf"), x)
    next_best = rest.max("n")
    second = where(rest == next_best, place, float(experts)).min("n")
    share = sigmoid(best - next_best)
    for output, value in (("first", first), ("second", second)):
        loop.store(output, value.to(I32))
    loop.store("weight", share)
    loop.store("other_weight", 1.0 - share)
    return loop
