"""Declarations that between them use everything that can be lowered."""

from __future__ import annotations

import numpy as np

from pipeloom.declare import Loop, maximum, where
from pipeloom.program.vocabulary import OpDef

RELU = OpDef("acme.relu", 1, lambda a: np.maximum(a, 0), lowering=("v_max_f32 {d}, 0, {0}",))


def gemm_with(
    *, staged: str = "AB", m: int = 64, n: int = 64, k: int = 32, bias: bool = False
) -> Loop:
    """A product with some operands staged, and perhaps a row added at the end."""
    loop = Loop("gemm", over="k")
    tiles = {"A": loop.stream("A", "bf16", m=m, k=k), "B": loop.stream("B", "bf16", n=n, k=k)}
    for name in staged:
        tiles[name].staged()
    c = loop.carry("C", m=m, n=n)
    c += tiles["A"] @ tiles["B"]
    if bias:
        row = loop.resident("bias", "f32", n=n)
        loop.store("out", maximum(c + row * row, 0.0).to("bf16"))
    else:
        loop.store("out", c)
    return loop


def resident_weights(*, staged: bool) -> Loop:
    """A stored tile per iteration, of a product with what never changes."""
    loop = Loop("apply", over="n")
    w = loop.resident("W", "bf16", m=64, k=32)
    x = loop.stream("X", "bf16", n=64, k=32)
    if staged:
        w.staged()
    loop.store("Y", (w @ x.staged()).to("bf16"))
    return loop


def two_products() -> Loop:
    """Two sums of different element types, multiplied at the end."""
    loop = Loop("gated", over="k")
    c, d = loop.carry("C", m=64, n=64), loop.carry("D", m=64, n=64)
    a, b = loop.stream("A", "bf16", m=64, k=32), loop.stream("B", "bf16", n=64, k=32)
    e, f = loop.stream("E", "fp16", m=64, k=32), loop.stream("F", "fp16", n=64, k=32)
    c += a.staged() @ b.staged()
    d += e.staged() @ f.staged()
    loop.store("out", (c * d).to("bf16"))
    return loop


def lazy_maximum() -> Loop:
    """A maximum per row, updated only where some row has grown by enough."""
    loop = Loop("lazy", over="k")
    x = loop.stream("X", "f32", m=8, k=64)
    top = loop.carry("top", start=0, m=8)
    slack = loop.scalar("slack")
    rows = x.max("k")
    grown = (rows > top + slack).any()
    with loop.when(grown):
        top = top.becomes(maximum(top, rows))
    loop.store("out", top)
    return loop


def masked_rows() -> Loop:
    """An update per row, under a condition per row."""
    loop = Loop("rows", over="k")
    x = loop.stream("X", "f32", m=8, k=64)
    top = loop.carry("top", start=0, m=8)
    rows = x.max("k")
    with loop.when(rows > top):
        top = top.becomes(rows * 1.0)
    loop.store("out", top)
    return loop


def two_carries() -> Loop:
    """Each becomes what depends on the other: one of them needs a second copy."""
    loop = Loop("fibonacci", over="k")
    x = loop.stream("X", "f32", k=1, n=256)
    a, b = loop.carry("a", start=0, n=256), loop.carry("b", start=1, n=256)
    following = a + b + x.sum("k")
    loop.update(a, b)
    loop.update(b, following)
    loop.store("out", a + b)
    return loop


def scaled_sum() -> Loop:
    """Elements of two streams, a scalar, a selection, stored per iteration."""
    loop = Loop("axpy", over="n")
    x, y = loop.stream("X", "f32", n=1024), loop.stream("Y", "f32", n=1024)
    z = x * loop.scalar("s") + y
    loop.store("Z", where(z > 0.0, z, 0.0))
    return loop


def own_op() -> Loop:
    """An op that the vocabulary lacks."""
    loop = Loop("own", over="k")
    total = loop.carry("total", n=512)
    total += loop.apply(RELU, loop.stream("X", "f32", k=1, n=512)).sum("k")
    loop.store("out", total)
    return loop


def staged_sum() -> Loop:
    """A stream through LDS that no product reads."""
    loop = Loop("staged_sum", over="k")
    total = loop.carry("total", n=512)
    total += loop.stream("X", "f32", k=4, n=512).staged().sum("k")
    loop.store("out", total)
    return loop


def row_totals() -> Loop:
    """The last dimension summed: across lanes."""
    loop = Loop("row_totals", over="k")
    total = loop.carry("total", m=16)
    total += loop.stream("X", "f32", m=16, k=64).sum("k")
    loop.store("out", total)
    return loop
