"""Products by group: rows that an index array gathers, weights that each block's expert has.

    grouped      out[r] = X[r] @ W[expert].T for the rows r that ``rows`` names, block by block
    moe_up       the first stage of routed experts: silu(gate) * up for each (token, slot)
    moe_down     the second: each (token, slot)'s product, times its weight

Rows are sorted by expert outside, each expert's padded to whole blocks of ``m`` rows with entries
that name no row; ``experts`` has one entry per block, -1 for a block that has none. Padding reads
zeros and is not stored. Each row that is stored may be named once.
"""

from __future__ import annotations

from pipeloom.declare.activations import gated
from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16, F32, DType
from pipeloom.program.index_forms import digit

TOKEN_BITS = 24
"""Of an entry of ``ids``: the token in its low bits, the slot above them."""
SLOT_BITS = 7


def grouped(
    m: int = 128,
    n: int = 128,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    name: str = "grouped",
) -> Loop:
    """out[rows[i]] = X[rows[i]] @ W[e].T, where e is the expert of i's block.

    X is [r, d], W is [e, n, k], out is [r, f]. ``rows`` has an entry for each row of every block.

    Args:
        m: Rows of a block.
        n: Columns of a block.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of X and W.
        out: The element type of the output.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    x = loop.stream("X", dtype, m=m, k=k)
    w = loop.stream("W", dtype, n=n, k=k)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += x.staged() @ w.staged()
    loop.store("out", total.to(out))
    rows = loop.indices("rows", "m")
    column, depth = digit("column", "f"), digit("depth", "d")
    loop.place("X", k=(depth,), r=rows, d=depth)
    loop.place("out", n=(column,), r=rows, f=column)
    loop.choose("W", over="e", by="experts", per="m")
    return loop


def moe_up(
    m: int = 64,
    n: int = 64,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    slots: int = 8,
    activation: str = "silu",
    limit: float = 0.0,
    shuffled: bool = False,
    name: str = "moe_up",
) -> Loop:
    """H[token * slots + slot] = act(X[token] @ G[e].T) * (X[token] @ U[e].T).

    X is [tokens, d], G and U are [e, n, k] (the halves of W1), H is [pairs, f]. An entry of ``ids``
    is token + slot * 2^24; one whose token or pair does not exist is padding.

    Args:
        m: Rows of a block.
        n: Columns of a block.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of X, G and U.
        out: The element type of H.
        slots: Experts of each token.
        activation: What the gate goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        limit: Where gate and up are clamped, as gpt-oss does it; 0 for nowhere.
        shuffled: Whether G and U were shuffled (``loop.shuffle``) and go straight to registers.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    x = loop.stream("X", dtype, m=m, k=k).staged()
    gates, ups = loop.stream("G", dtype, n=n, k=k), loop.stream("U", dtype, n=n, k=k)
    gate = loop.carry("gate", F32, start=0, m=m, n=n)
    up = loop.carry("up", F32, start=0, m=m, n=n)
    gate += x @ (gates if shuffled else gates.staged())
    up += x @ (ups if shuffled else ups.staged())
    loop.store("H", gated(gate, up, activation, limit).to(out))
    ids = loop.indices("ids", "m")
    token, slot = ids.part(0, TOKEN_BITS), ids.part(TOKEN_BITS, SLOT_BITS)
    column, depth = digit("column", "f"), digit("depth", "d")
    loop.place("X", k=(depth,), tokens=token, d=depth)
    loop.place("H", n=(column,), pairs=slots * token + slot, f=column)
    loop.choose("G", "U", over="e", by="experts", per="m")
    if shuffled:
        loop.shuffle("G", "U")
    return loop


def moe_down(
    m: int = 64,
    n: int = 64,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = F32,
    *,
    slots: int = 8,
    shuffled: bool = False,
    add: bool = False,
    name: str = "moe_down",
) -> Loop:
    """Y[token * slots + slot] = weight * H[token * slots + slot] @ D[e].T, summed over slots later.

    H is [pairs, d], D is [e, n, k], Y is [pairs, f]; ``weights`` has one for each entry of ``ids``.
    With ``add`` Y is [tokens, f], f32, and slots are added to what it holds, in any order.

    Args:
        m: Rows of a block.
        n: Columns of a block.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of H and D.
        out: The element type of Y.
        slots: Experts of each token.
        shuffled: Whether D was shuffled (``loop.shuffle``) and goes straight to registers.
        add: Whether the slots of a token are added up, atomically: sums that round may differ
            between launches. Without it a second kernel adds them in order.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    x = loop.stream("H", dtype, m=m, k=k)
    w = loop.stream("D", dtype, n=n, k=k)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += x.staged() @ (w if shuffled else w.staged())
    loop.store("Y", (total * loop.resident("weights", F32, m=m)).to(out))
    ids = loop.indices("ids", "m")
    token, slot = ids.part(0, TOKEN_BITS), ids.part(TOKEN_BITS, SLOT_BITS)
    pair = slots * token + slot
    column, depth = digit("column", "f"), digit("depth", "d")
    loop.place("H", k=(depth,), pairs=pair, d=depth)
    if add:
        loop.place("Y", n=(column,), tokens=token, f=column)
        loop.adds("Y")
    else:
        loop.place("Y", n=(column,), pairs=pair, f=column)
    loop.choose("D", over="e", by="experts", per="m")
    if shuffled:
        loop.shuffle("D")
    return loop
