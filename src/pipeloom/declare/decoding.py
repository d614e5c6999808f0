"""Decode attention: few new tokens per sequence, each with a context of its own length.

    decode_attention   softmax(Q K^T * scale) V and its LSE, for each share of a sequence's keys
    decode_latent      the same where values are the first columns of keys (MLA)
    decode_reduce      the shares of all keys as one result

The query heads of a key head, times the new tokens, are the rows of one small tile, so keys and
values are read once. How many shares there are is for the launch to say: enough workgroups to fill
the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pipeloom.declare.composed import LN2, LOG2_E
from pipeloom.declare.functions import exp2, keep, maximum, minimum, rcp
from pipeloom.declare.loop import Loop
from pipeloom.declare.online_softmax import LOWEST, TINY, attend, of_type
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, DType, dtype_for
from pipeloom.program.address_maps import Sum
from pipeloom.program.index_forms import Digit, digit
from pipeloom.program.nodes import POSITIVE

SHARES = "splits"
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
    factors = _scales(loop, SCALES, scales, keys, dtype)
    _attend(loop, q, k, v, depth, factors, group)
    _lie(loop, {"K": ("d", "c"), "V": ("v", "w")}, factors, ("heads",), page)
    return loop


def decode_latent(
    rows: int = 16,
    keys: int = 32,
    latent: int = 512,
    rope: int = 64,
    dtype: DType | str = BF16,
    *,
    cache: DType | str | None = None,
    scales: str | None = None,
    page: int | None = None,
    group: int | None = None,
    name: str = "decode_latent",
) -> Loop:
    """Attention of MLA: out = softmax(Q K^T * scale) V, where V is the first columns of K.

    K is [batch, keys, d], the latent columns of a key and those with its place; Q is [batch, q, d]
    with the heads, times the new tokens, along q, its latent part multiplied by the weights that
    raise keys. ``out`` is in latent columns. Otherwise as ``decode_attention``.

    Args:
        rows: Rows of a workgroup.
        keys: Keys that one iteration takes.
        latent: The columns of a key that are its value, too.
        rope: The columns behind them.
        dtype: The element type of Q, in which is multiplied.
        cache: The element type of K, ``dtype`` unless given.
        scales: What K is multiplied with, ``k_scale``: "tensor" or "token".
        page: Where K lies in pages of so many keys: it is [pages, slots, c].
        group: Rows of each new token, where there are several.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="keys")
    depth = latent + rope
    q = loop.resident("Q", dtype, q=rows, d=depth)
    k = loop.stream("K", cache or dtype, keys=keys, d=depth)
    v = loop.view("V", k, keys=keys, v=latent)
    factors = _scales(loop, SCALES[:1], scales, keys, dtype)
    _attend(loop, q, k, v, depth, factors * 2, group)
    _lie(loop, {"K": ("d", "c")}, factors, (), page)
    return loop


def _attend(
    loop: Loop,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    depth: int,
    factors: Sequence[Tensor],
    group: int | None,
) -> None:
    """What an iteration does, and what is stored; ``factors`` of keys and values, if any."""
    dtype, rows, keys = q.type.dtype, q.type.sizes["q"], k.type.sizes["keys"]
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True) * (1 / LN2)
    of_k, of_v = factors or (None, None)
    by_key = of_k is not None and "keys" in of_k.type.dims

    def scores() -> Tensor:
        found = (q @ of_type(k.staged(), dtype)).named("S")
        least: Tensor | int = 1
        if group is not None:
            least = maximum((loop.left("q", rows) + (group - 1)) // group, 1)
        found = found if of_k is None or not by_key else found * of_k
        return keep(found, loop.left("keys", keys), least)

    # Away from 0 and infinity as ``scale`` alone is: a masked score then has weight 0.
    whole = scale
    if of_k is not None and not by_key:
        whole = minimum(maximum(scale * of_k, POSITIVE[0]), POSITIVE[1])
    found = attend(loop, scores, v, whole, dtype, rows, of_v if by_key else None)
    loop.store("out", found.rows if of_v is None or by_key else found.rows * of_v)
    loop.store("lse", found.lse)


def _lie(
    loop: Loop,
    columns: Mapping[str, tuple[str, str]],
    factors: Sequence[Tensor],
    heads: tuple[str, ...],
    page: int | None,
) -> None:
    """Where arrays lie: caches by their columns, of the tile and of pages; lengths and shares."""
    by_key = [*columns, *(one.name for one in factors if "keys" in one.type.dims)]
    loop.batch("Q", over=("batch", *heads))
    loop.batch(*by_key, over=("batch", *heads) if page is None else heads)
    if page is not None:
        number, slot = digit("page", "table_length"), digit("slot", page)
        table = loop.indices("table", number, per="batch")
        for array in by_key:
            dims: dict[str, Sequence[Digit] | Sum] = {"keys": (number, slot)}
            rest: dict[str, Sequence[Digit] | Sum] = {}
            if array in columns:
                dim, along = columns[array]
                dims[dim], rest[along] = (digit(along, along),), digit(along, along)
            loop.place(array, **dims, pages=table, slots=slot, **rest)
    loop.batch("out", "lse", over=("batch", *heads, SHARES))
    loop.lengths("lengths", per="batch")
    loop.share(SHARES)


def _scales(
    loop: Loop, names: Sequence[str], per: str | None, keys: int, dtype: DType | str
) -> tuple[Tensor, ...]:
    """What caches are multiplied with; nothing where that is not asked for."""
    if per is None:
        return ()
    if per == "token" and dtype_for(dtype).bits == 8:
        raise ConfigError(
            f"scales by token: weights times them have no room in {dtype_for(dtype)}",
            hint='multiply in 16 bits, dtype="bf16", cache="fp8"; or take scales="tensor"',
            field="scales",
        )
    made: dict[str, Callable[[str], Tensor]] = {
        "tensor": lambda name: loop.scalar(name, usual=1.0, positive=True),
        "token": lambda name: loop.stream(name, F32, keys=keys).staged(),
    }
    if len(names) > 1:
        made["head"] = lambda name: loop.resident(name, F32)
    if per not in made:
        raise ConfigError(
            f"scales per {per!r}", hint=f"one of {', '.join(made)}, or None", field="scales"
        )
    found = tuple(made[per](name) for name in names)
    if per == "head":
        loop.batch(*names, over=("heads",))
    return found


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
