"""Attention backward: what dK, dV and dQ are, of the scores computed once more.

    attention_backward_rows      shift = -lse, to base 2; delta = the sum of O * dO, by row
    attention_backward_keys      dK, dV of a block of keys, over the queries
    attention_backward_queries   dQ of a block of queries, over the keys

Nothing is added by two workgroups, so the result is the same in every run. The price is that scores
and dP are computed in both: seven products where atomic sums would take five.
"""

from __future__ import annotations

from pipeloom.declare.composed import LOG2_E
from pipeloom.declare.functions import exp2, fma, keep, maximum, within
from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16, F32, DType

NO_KEY = -1e30
"""The lse of a row that sees no key is taken as this: minus infinity has no product with 0."""


def attention_backward_rows(
    queries: int = 64,
    columns: int = 64,
    dtype: DType | str = BF16,
    *,
    name: str = "attention_backward_rows",
) -> Loop:
    """shift = -lse * log2(e) and delta = the sum of O * dO over a row: what both others take.

    Args:
        queries: Rows of a workgroup.
        columns: How much of a row one iteration takes; rows are of any length.
        dtype: The element type of O and dO.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="v")
    out = loop.stream("O", dtype, q=queries, v=columns)
    gradient = loop.stream("dO", dtype, q=queries, v=columns)
    lse = loop.resident("lse", F32, q=queries)
    total = loop.carry("sum", F32, start=0, q=queries)
    total += (out * gradient).sum("v")
    loop.store("shift", maximum(lse, NO_KEY) * -LOG2_E)
    loop.store("delta", total)
    loop.batch("O", "dO", "lse", "shift", "delta", over=("batch", "heads", "group"))
    return loop


def attention_backward_keys(
    keys: int = 128,
    queries: int = 32,
    depth: int = 64,
    dtype: DType | str = BF16,
    *,
    causal: bool = False,
    name: str = "attention_backward_keys",
) -> Loop:
    """dK and dV of one block of keys, which stays in registers, over the queries.

    ``shift`` and ``delta`` are those of ``attention_backward_rows``. ``causal``, aligned to the
    end, as in ``attention``, and then each key head has a ``group`` of query heads, which the loop
    takes in turns. Without it they follow each other along ``q``.

    Args:
        keys: Keys and values of a workgroup.
        queries: Queries that one iteration takes.
        depth: The size of a query, of a key and of a value.
        dtype: The element type of Q, K, V, dO and the outputs.
        causal: Whether a query sees only keys up to its own place, counted from the end.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="q", since="keys" if causal else None)
    k = loop.resident("K", dtype, keys=keys, d=depth)
    v = loop.resident("V", dtype, keys=keys, d=depth)
    q = loop.stream("Q", dtype, q=queries, d=depth).staged()
    gradient = loop.stream("dO", dtype, q=queries, d=depth).staged()
    shift, delta = (loop.stream(array, F32, q=queries).staged() for array in ("shift", "delta"))
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True)
    of_keys = loop.carry("dK sum", F32, start=0, keys=keys, d=depth)
    of_values = loop.carry("dV sum", F32, start=0, keys=keys, d=depth)
    scores = (k @ q).named("S")
    left = loop.left("q", queries)
    scores = keep(scores, loop.left("keys", keys), left) if causal else keep(scores, left, 1)
    of_p = (v @ gradient).named("dP")
    p = exp2(fma(scores, scale * LOG2_E, shift)).named("P")
    of_values += p.to(dtype) @ gradient
    of_scores = p * (of_p - delta)
    if causal:  # before the first query that sees a key, infinities of dP would make it NaN
        of_scores = within(of_scores, loop.left("keys", keys), left)
    of_keys += of_scores.to(dtype) @ q
    loop.store("dK", (of_keys * scale).to(dtype))
    loop.store("dV", of_values.to(dtype))
    turns = ("group",) if causal else ()  # else heads of a group may follow each other along q
    loop.batch("K", "V", "dK", "dV", over=("batch", "heads"))
    loop.batch("Q", "dO", "shift", "delta", over=("batch", "heads", *turns))
    if causal:
        loop.turns("group")
    return loop


def attention_backward_queries(
    queries: int = 128,
    keys: int = 32,
    depth: int = 64,
    dtype: DType | str = BF16,
    *,
    causal: bool = False,
    name: str = "attention_backward_queries",
) -> Loop:
    """dQ of one block of queries, which stays in registers, over the keys.

    ``shift`` and ``delta`` are those of ``attention_backward_rows``. ``causal``, aligned to the
    end, as in ``attention``. Each key head has a ``group`` of query heads.

    Args:
        queries: Queries of a workgroup.
        keys: Keys and values that one iteration takes.
        depth: The size of a query, of a key and of a value.
        dtype: The element type of Q, K, V, dO and the output.
        causal: Whether a query sees only keys up to its own place, counted from the end.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="keys", until="q" if causal else None)
    q = loop.resident("Q", dtype, q=queries, d=depth)
    gradient = loop.resident("dO", dtype, q=queries, d=depth)
    k = loop.stream("K", dtype, keys=keys, d=depth).staged()
    v = loop.stream("V", dtype, keys=keys, d=depth).staged()
    shift, delta = (loop.resident(array, F32, q=queries) for array in ("shift", "delta"))
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True)
    total = loop.carry("dQ sum", F32, start=0, q=queries, d=depth)
    least = maximum(loop.left("q", queries), 1) if causal else 1
    scores = keep((q @ k).named("S"), loop.left("keys", keys), least)
    p = exp2(fma(scores, scale * LOG2_E, shift)).named("P")
    of_scores = p * ((gradient @ v).named("dP") - delta)
    if causal:  # beyond what a query sees, infinities of dP would make it NaN
        of_scores = within(of_scores, loop.left("keys", keys), least)
    total += of_scores.to(dtype) @ k
    loop.store("dQ", (total * scale).to(dtype))
    loop.batch("K", "V", over=("batch", "heads"))
    arrays = ("Q", "dO", "shift", "delta", "dQ")
    loop.batch(*arrays, over=("batch", "heads", "group"))
    return loop


def attention_backward_added(
    keys: int = 256,
    queries: int = 32,
    depth: int = 64,
    dtype: DType | str = BF16,
    *,
    causal: bool = False,
    name: str = "attention_backward_added",
) -> Loop:
    """dK and dV of one block of keys, over the queries, and its part of dQ, which is added to f32.

    One kernel instead of two, five products instead of seven. Blocks of keys add to the same dQ, in
    an order that nobody decides: its last places may differ from run to run. dQ begins as zeros.
    ``shift`` and ``delta`` are those of ``attention_backward_rows``; the heads of a group follow
    each other along ``q``.

    Waves divide the keys. K stays in LDS, and dS goes through it, so that for dQ, which is a sum
    over all of these keys, they divide the columns instead.

    Args:
        keys: Keys and values of a workgroup.
        queries: Queries that one iteration takes.
        depth: The size of a query, of a key and of a value.
        dtype: The element type of Q, K, V, dO, dK and dV.
        causal: Whether a query sees only keys up to its own place, counted from the end; a kernel
            of one query head for each key head.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="q", since="keys" if causal else None)
    k = loop.resident("K", dtype, keys=keys, d=depth).staged()
    v = loop.resident("V", dtype, keys=keys, d=depth)
    q = loop.stream("Q", dtype, q=queries, d=depth).staged()
    gradient = loop.stream("dO", dtype, q=queries, d=depth).staged()
    shift, delta = (loop.stream(array, F32, q=queries).staged() for array in ("shift", "delta"))
    scale = loop.scalar("scale", usual=depth**-0.5, positive=True)
    of_keys = loop.carry("dK sum", F32, start=0, keys=keys, d=depth)
    of_values = loop.carry("dV sum", F32, start=0, keys=keys, d=depth)
    scores = (k @ q).named("S")
    left, keys_left = loop.left("q", queries), loop.left("keys", keys)
    scores = keep(scores, keys_left, left) if causal else keep(scores, left, 1)
    of_p = (v @ gradient).named("dP")
    p = exp2(fma(scores, scale * LOG2_E, shift)).named("P")
    of_values += p.to(dtype) @ gradient
    of_scores = p * (of_p - delta)
    if causal:
        of_scores = within(of_scores, keys_left, left)
    of_scores = of_scores.to(dtype)
    if not causal:  # where no key is, infinities of P would make dQ NaN
        of_scores = loop.apply("within", of_scores, keys_left, dtype=dtype)
    of_scores = of_scores.named("dS").staged()
    of_keys += of_scores @ q
    loop.store("dK", (of_keys * scale).to(dtype))
    loop.store("dV", of_values.to(dtype))
    loop.store("dQ", (of_scores @ k) * scale)
    loop.adds("dQ")
    arrays = ("K", "V", "Q", "dO", "shift", "delta", "dK", "dV", "dQ")
    loop.batch(*arrays, over=("batch", "heads"))
    return loop
