"""Decode attention: few new tokens per sequence, each with a context of its own length.

    decode_attention   softmax(Q K^T * scale) V and its LSE, for each share of a sequence's keys
    decode_reduce      the shares of all keys as one result

The query heads of a key head, times the new tokens, are the rows of one small tile, so keys and
values are read once. How many shares there are is for the launch to say: enough workgroups to fill
the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.declare.composed import LN2, LOG2_E
from pipeloom.declare.functions import exp2, keep, maximum, rcp
from pipeloom.declare.loop import Loop
from pipeloom.declare.online_softmax import LOWEST, TINY, attend
from pipeloom.declare.tensor import Tensor
from pipeloom.machine.dtypes import BF16, F32, DType
from pipeloom.program.address_maps import Sum
from pipeloom.program.index_forms import Digit, digit

SHARES = "splits"
PROBLEMS = ("batch", "heads", SHARES)


def decode_attention(
    rows: int = 16,
    keys: int = 64,
    depth: int = 128,
    dv: int | None = None,
    dtype: DType | str = BF16,
    *,
    page: int | None = None,
    group: int | None = None,
    name: str = "decode_attention",
) -> Loop:
    """out = softmax(Q K^T * scale) V over a share of the first ``lengths[b]`` keys of sequence b.

    Q is [batch, heads, q, d] with the heads of a group, times the new tokens, along q; K and V are
    [batch, heads, keys, d]. ``out`` (f32) and ``lse`` have a dimension ``splits`` before q: each
    split takes as many tiles of keys as the others. One without keys has out = 0, lse = -infinity.

    Args:
        rows: Rows of a workgroup, heads of a group times new tokens or more.
        keys: Keys and values that one iteration takes.
        depth: The size of a query and of a key.
        dv: The size of a value; ``depth`` unless given.
        dtype: The element type of Q, K and V.
        page: Where K and V lie in pages of so many keys: ``table``, i32, [batch, table_length],
            names the pages of each sequence; K is [heads, pages, slots, c], V [.., .., .., w].
        group: Where there are several new tokens: rows of each, which see the keys up to their own.
            Row t * group + g is head g of the t-th new token, and the last key is the last one's.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="keys")
    q = loop.resident("Q", dtype, q=rows, d=depth)
    k = loop.stream("K", dtype, keys=keys, d=depth)
    v = loop.stream("V", dtype, keys=keys, v=dv or depth)
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True) * (1 / LN2)

    def scores() -> Tensor:
        least: Tensor | int = 1
        if group is not None:
            least = maximum((loop.left("q", rows) + (group - 1)) // group, 1)
        return keep((q @ k.staged()).named("S"), loop.left("keys", keys), least)

    found = attend(loop, scores, v, scale, dtype, rows)
    loop.store("out", found.rows)
    loop.store("lse", found.lse)
    loop.batch("Q", over=PROBLEMS[:2])
    loop.batch("K", "V", over=PROBLEMS[:2] if page is None else PROBLEMS[1:2])
    if page is not None:
        number, slot = digit("page", "table_length"), digit("slot", page)
        table = loop.indices("table", number, per="batch")
        for array, dim, along in (("K", "d", "c"), ("V", "v", "w")):
            column = digit(along, along)
            dims: dict[str, Sequence[Digit] | Sum] = {"keys": (number, slot), dim: (column,)}
            loop.place(array, **dims, pages=table, slots=slot, **{along: column})
    loop.batch("out", "lse", over=PROBLEMS)
    loop.lengths("lengths", per="batch")
    loop.share(SHARES)
    return loop


def decode_reduce(
    rows: int = 16,
    dv: int = 128,
    out: DType | str = BF16,
    *,
    name: str = "decode_reduce",
) -> Loop:
    """out = sum of exp(lse - max) * O over the splits, over the sum of those factors.

    O is [splits, r, v] and L, the LSE of its rows, [splits, r]. Splits are added in their order.

    Args:
        rows: Rows of a workgroup.
        dv: The size of a value.
        out: The element type of the output.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over=SHARES)
    part = loop.stream("O", F32, splits=1, r=rows, v=dv)
    lse = loop.stream("L", F32, splits=1, r=rows)
    top = loop.carry("m", F32, start=LOWEST, r=rows)
    weight = loop.carry("l", F32, start=0, r=rows)
    total = loop.carry("total", F32, start=0, r=rows, v=dv)
    higher = maximum(top, lse.max(SHARES))
    shrink = exp2((top - higher) * LOG2_E)
    factor = exp2((lse - higher) * LOG2_E)
    weight = weight.becomes(weight * shrink + factor.sum(SHARES))
    total = total.becomes(total * shrink + (part * factor).sum(SHARES))
    top.becomes(higher)
    loop.store("out", (total * rcp(maximum(weight, TINY))).to(out))
    return loop
