"""Projections of attention: rotary embedding and caches behind the product.

    gemm_rotary     Q or K of each head, rotated by position, dense or to rows of a cache
    gemm_scatter    V of each head, to rows of a cache

A workgroup has whole heads: partners of a rotary pair lie in the registers of one lane.
"""

from __future__ import annotations

from pipeloom.declare.functions import rsqrt
from pipeloom.declare.in_blocks import swapped
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, DType
from pipeloom.program.index_forms import digit


def gemm_rotary(
    m: int = 256,
    d: int = 128,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    pairs: str = "halves",
    norm: bool = False,
    scatter: bool = False,
    tables: DType | str = F32,
    name: str = "gemm_rotary",
) -> Loop:
    """out[h, i] = rotated(X[i] @ W[h].T) by the angles of row i: x1 cos - x2 sin, x2 cos + x1 sin.

    X is [m, k], W is [heads, d, k], out is [heads, m, d]. ``cos`` and ``sin`` are [m, d], with what
    each element is multiplied by, and its partner: -sin for the first of a pair, sin for the
    second. What is not rotated has cos 1 and sin 0.

    With ``norm`` each head of a row is divided by its root mean square first, plus ``eps`` under
    the root, and multiplied by ``weight`` [d]. With ``scatter`` row i goes to row ``slots[i]`` of
    out [heads, rows, d], a cache; -1 is stored nowhere. Strides of batches are the launch's: of a
    cache [rows, heads, d] pass such a view.

    Args:
        m: Rows of the tile of X.
        d: The size of a head.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of X and W.
        out: The element type of the output.
        pairs: Which elements are a pair: ``halves`` (i, i + d / 2), or ``neighbours`` (2i, 2i + 1).
        norm: Whether heads are normalised first.
        scatter: Whether rows are stored where ``slots`` says.
        tables: The element type of ``cos`` and ``sin``.
        name: What pages and the kernel's symbol call it.
    """
    if pairs not in ("halves", "neighbours"):
        raise ConfigError(f"pairs are {pairs!r}", hint="one of: halves, neighbours", field="pairs")
    loop, total = _projection(name, m, d, k, dtype)
    cos, sin = loop.resident("cos", tables, m=m, d=d), loop.resident("sin", tables, m=m, d=d)
    head = total
    if norm:
        mean = total.sum_squares("d") / loop.size("d")
        factor = rsqrt(mean + loop.scalar("eps", usual=1e-6))
        head = total * factor * loop.resident("weight", F32, d=d)
    partner = swapped(head, "d", d if pairs == "halves" else 2)
    loop.store("out", (head * cos + partner * sin).to(out))
    _heads(loop, scatter=scatter)
    return loop


def gemm_scatter(
    m: int = 256,
    d: int = 128,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    name: str = "gemm_scatter",
) -> Loop:
    """out[h, slots[i]] = X[i] @ W[h].T: rows of a cache, by an index array; -1 is stored nowhere.

    X is [m, k], W is [heads, d, k], out is [heads, rows, d].

    Args:
        m: Rows of the tile of X.
        d: The size of a head.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of X and W.
        out: The element type of the output.
        name: What pages and the kernel's symbol call it.
    """
    loop, total = _projection(name, m, d, k, dtype)
    loop.store("out", total.to(out))
    _heads(loop, scatter=True)
    return loop


def _projection(name: str, m: int, d: int, k: int, dtype: DType | str) -> tuple[Loop, Tensor]:
    loop = Loop(name, over="k")
    x = loop.stream("X", dtype, m=m, k=k).staged()
    w = loop.stream("W", dtype, d=d, k=k).staged()
    total = loop.carry("C", F32, start=0, m=m, d=d)
    total += x @ w
    return loop, total


def _heads(loop: Loop, *, scatter: bool) -> None:
    if scatter:
        slots, column = loop.indices("slots", "m"), digit("column", "columns")
        loop.place("out", d=(column,), rows=slots, columns=column)
    loop.batch("W", "out", over=("heads",))
