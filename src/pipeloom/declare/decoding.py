"""Decode attention: few new tokens per sequence, each with a context of its own length.

    decode_attention   softmax(Q K^T * scale) V and its LSE, for each share of a sequence's keys
    decode_reduce      the shares of all keys as one result

The query heads of a key head, times the new tokens, are the rows of one small tile, so keys and
values are read once. How many shares there are is for the launch to say: enough workgroups to fill
the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pipeloom.declare.composed import LN2, LOG2_E
from pipeloom.declare.functions import exp2, keep, maximum, rcp
from pipeloom.declare.loop import Loop
from pipeloom.declare.online_softmax import LOWEST, TINY, attend, of_type
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, DType, dtype_for
from pipeloom.program.address_maps import Sum
from pipeloom.program.index_forms import Digit, digit

SHARES = "splits"
PROBLEMS = ("batch", "heads", SHARES)
SCALES = ("k_scale", "v_scale")


def decode_attention(
    rows: int = 16,
    keys: int = 64,
    depth: int = 128,
    dv: int | None = None,
    dtype: DType | str = BF16,
    *,
    cache: DType | str | None = None,
    scales: str | None = None,
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
        dtype: The element type of Q, in which is multiplied.
        cache: The element type of K and V, ``dtype`` unless given. They are converted behind LDS.
        scales: What K and V are multiplied with, ``k_scale`` and ``v_scale``: numbers of the launch
            ("tensor"), f32 arrays by head ("head"), or by head and key, as K lies ("token").
        page: Where K and V lie in pages of so many keys: ``table``, i32, [batch, table_length],
            names the pages of each sequence; K is [heads, pages, slots, c], V [.., .., .., w].
        group: Where there are several new tokens: rows of each, which see the keys up to their own.
            Row t * group + g is head g of the t-th new token, and the last key is the last one's.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="keys")
    q = loop.resident("Q", dtype, q=rows, d=depth)
    k = loop.stream("K", cache or dtype, keys=keys, d=depth)
    v = loop.stream("V", cache or dtype, keys=keys, v=dv or depth)
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True) * (1 / LN2)
    of_k, of_v = _scales(loop, scales, keys, dtype)
    by_key = scales == "token"

    def scores() -> Tensor:
        found = (q @ of_type(k.staged(), dtype)).named("S")
        least: Tensor | int = 1
        if group is not None:
            least = maximum((loop.left("q", rows) + (group - 1)) // group, 1)
        found = found if of_k is None or not by_key else found * of_k
        return keep(found, loop.left("keys", keys), least)

    whole = scale if of_k is None or by_key else scale * of_k
    found = attend(loop, scores, v, whole, dtype, rows, of_v if by_key else None)
    loop.store("out", found.rows if of_v is None or by_key else found.rows * of_v)
    loop.store("lse", found.lse)
    loop.batch("Q", over=PROBLEMS[:2])
    caches = ("K", "V", *SCALES) if by_key else ("K", "V")
    loop.batch(*caches, over=PROBLEMS[:2] if page is None else PROBLEMS[1:2])
    if scales == "head":
        loop.batch(*SCALES, over=PROBLEMS[1:2])
    if page is not None:
        number, slot = digit("page", "table_length"), digit("slot", page)
        table = loop.indices("table", number, per="batch")
        columns = {"K": ("d", "c"), "V": ("v", "w")}
        for array in caches:
            dims: dict[str, Sequence[Digit] | Sum] = {"keys": (number, slot)}
            rest: dict[str, Sequence[Digit] | Sum] = {}
            if array in columns:
                dim, along = columns[array]
                dims[dim], rest[along] = (digit(along, along),), digit(along, along)
            loop.place(array, **dims, pages=table, slots=slot, **rest)
    loop.batch("out", "lse", over=PROBLEMS)
    loop.lengths("lengths", per="batch")
    loop.share(SHARES)
    return loop


def _scales(
    loop: Loop, per: str | None, keys: int, dtype: DType | str
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """What K and V are multiplied with."""
    if per is None:
        return None, None
    if per == "token" and dtype_for(dtype).bits == 8:
        raise ConfigError(
            f"scales by token: weights times them have no room in {dtype_for(dtype)}",
            hint='multiply in 16 bits, dtype="bf16", cache="fp8"; or take scales="head"',
            field="scales",
        )
    made: Mapping[str, Callable[[str], Tensor]] = {
        "tensor": lambda name: loop.scalar(name, usual=1.0, positive=True),
        "head": lambda name: loop.resident(name, F32),
        "token": lambda name: loop.stream(name, F32, keys=keys).staged(),
    }
    if per not in made:
        raise ConfigError(
            f"scales per {per!r}", hint=f"one of {', '.join(made)}, or None", field="scales"
        )
    return made[per](SCALES[0]), made[per](SCALES[1])


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
