"""Matrix products as declarations, plain and with vector work before the store.

    product     as BLAS has them: C = alpha * op(A) @ op(B) + beta * C, and what may follow
    gemm, gemm_bias, gemm_gate, gemm_scaled     row-major, B transposed: the shipped kernels

Arrays are row-major, with the dimensions in the order in which they lie in memory; what a product
sums over is the dimension that both operands have, so a transposed operand is only declared the
other way round. The argument ``C`` is what C was, ``out`` what it becomes: they may be one array.

What is done to a sum when the loop has ended is part of the declaration like everything else. The
loop itself is that of the plain product: what only the end needs is loaded there.
"""

from __future__ import annotations

from pipeloom.checks import check_known
from pipeloom.declare.activations import activation_for, gated
from pipeloom.declare.functions import fma
from pipeloom.declare.gemm_problem import PLAIN, Finish, stored_dims
from pipeloom.declare.loop import Loop
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, E8M0, F32, FP4, FP8, DType, dtype_for
from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program.index_forms import digit

BLOCK = 128
"""Elements along each side of a block that has a scale."""


def summed(
    loop: Loop,
    m: int,
    n: int,
    k: int,
    dtype: DType | str,
    *,
    total: str = "C",
    layout: str = "NT",
    dtype_b: DType | str | None = None,
    blocks: bool = False,
) -> Tensor:
    """op(A) @ op(B), both operands through LDS, in f32: the carried value called ``total``."""
    sizes, dims = {"m": m, "n": n, "k": k}, stored_dims(layout)
    a = loop.stream("A", dtype, **{dim: sizes[dim] for dim in dims["A"]})
    b = loop.stream("B", dtype_b or dtype, **{dim: sizes[dim] for dim in dims["B"]})
    found = loop.carry(total, F32, start=0, m=m, n=n)
    if blocks:
        shared = loop.stream("blocks_A", E8M0, m=m, k=k), loop.stream("blocks_B", E8M0, n=n, k=k)
        found += loop.apply("scaled_matmul", a.staged(), b.staged(), *shared, over=("k",))
    else:
        found += a.staged() @ b.staged()
    return found


def gemm(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    name: str = "gemm",
) -> Loop:
    """out[m, n] = sum over k of A[m, k] * B[n, k], both operands through LDS.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    loop.store("out", summed(loop, m, n, k, dtype).to(out))
    return loop


def gemm_bias(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    activation: str = "gelu",
    bias: DType | str = F32,
    name: str = "gemm_bias",
) -> Loop:
    """out[m, n] = activation(sum over k of A[m, k] * B[n, k] + bias[n]).

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        activation: What the sum goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        bias: The element type of the bias.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    added = summed(loop, m, n, k, dtype) + loop.resident("bias", bias, n=n)
    loop.store("out", activation_for(activation)(added).to(out))
    return loop


def gemm_gate(
    m: int = 256,
    n: int = 128,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    activation: str = "silu",
    limit: float = 0.0,
    name: str = "gemm_gate",
) -> Loop:
    """out = activation(A @ G.T) * (A @ U.T), both products in one loop that loads A once.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tiles of G and U, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A, G and U.
        out: The element type of the output.
        activation: What the gate goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        limit: Where both are clamped, as gpt-oss does it; 0 for nowhere.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k).staged()
    gates = loop.stream("G", dtype, n=n, k=k)
    ups = loop.stream("U", dtype, n=n, k=k)
    gate = loop.carry("gate", F32, start=0, m=m, n=n)
    up = loop.carry("up", F32, start=0, m=m, n=n)
    gate += a @ gates.staged()
    up += a @ ups.staged()
    loop.store("out", gated(gate, up, activation, limit).to(out))
    return loop


def gemm_scaled(
    m: int = 256,
    n: int = 256,
    k: int = 128,
    dtype: DType | str = FP8,
    out: DType | str = BF16,
    *,
    scales: str = "tensor",
    name: str = "gemm_scaled",
) -> Loop:
    """out = (A @ B.T) * scale, for products of small floats.

    ``scales`` of ``tensor`` is one number, an argument of the launch; of ``rows``, one per row of A
    and one per row of B, and ``scale`` only where the output is of 8 bits and has one of its own.
    Of ``blocks``, as DeepSeek has them, scale_A is [m, k / 128], one for each 128 of a row, and
    scale_B [n / 128, k / 128, 1], one for each 128 x 128: sums of 128 products are scaled in f32,
    and added up.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        scales: ``tensor`` for one scale, ``rows`` for one per row of A and of B, ``blocks`` for one
            per 128 of a row of A, and per 128 x 128 of B.
        name: What pages and the kernel's symbol call it.
    """
    check_known(scales, ("tensor", "rows", "blocks"), f"scales is {scales!r}", "scales")
    loop = Loop(name, over="k")
    added = _summed_in_blocks if scales == "blocks" else summed
    value = added(loop, m, n, k, dtype)
    if scales == "rows":
        value = value * loop.resident("scale_A", F32, m=m) * loop.resident("scale_B", F32, n=n)
    if scales == "tensor" or dtype_for(out).bits == 8:
        value = value * loop.scalar("scale", usual=1.0)
    loop.store("out", value.to(out))
    return loop


def _summed_in_blocks(loop: Loop, m: int, n: int, k: int, dtype: DType | str) -> Tensor:
    """op(A) @ op(B), where blocks of 128 have scales, in f32."""
    if k != BLOCK:
        raise ConfigError(
            f"an iteration takes {k} along k, and {BLOCK} share a scale",
            hint=f"say k={BLOCK}: each iteration's product has one",
            field="k",
        )
    a, b = loop.stream("A", dtype, m=m, k=k).staged(), loop.stream("B", dtype, n=n, k=k).staged()
    by_row = loop.stream("scale_A", F32.per(BLOCK), m=m, k=k).staged()
    by_block = loop.stream("scale_B", F32.per(BLOCK), n=n, k=k)
    down, row = digit("n_block", "n_blocks"), digit("n_row", BLOCK)
    across, column = digit("k_block", "k_blocks"), digit("k_column", BLOCK)
    loop.place(
        "scale_B", n=(down, row), k=(across, column), n_blocks=down, k_blocks=across, code=column
    )
    total = loop.carry("C", F32, start=0, m=m, n=n)
    return total.becomes(fma(a @ b, by_row.max("k") * by_block.max("k"), total))


def gemm_mx(
    m: int = 256,
    n: int = 256,
    k: int = 256,
    dtype: DType | str = FP4,
    out: DType | str = BF16,
    *,
    shuffled: bool = True,
    name: str = "gemm_mx",
) -> Loop:
    """out[m, n] = sum over k of A[m, k] * B[n, k], where 32 elements along K share a power of two.

    The scales are ``blocks_A`` and ``blocks_B``. With ``shuffled`` they and B lie as
    ``loop.shuffle`` says, and go from memory to registers: B once, if the waves share out columns
    only.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B: ``fp4`` or ``fp8``.
        out: The element type of the output.
        shuffled: Whether B and the scales were shuffled; else all are row-major, and B goes through
            LDS.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a, b = loop.stream("A", dtype, m=m, k=k).staged(), loop.stream("B", dtype, n=n, k=k)
    scales = loop.stream("blocks_A", E8M0, m=m, k=k), loop.stream("blocks_B", E8M0, n=n, k=k)
    total = loop.carry("C", F32, start=0, m=m, n=n)
    matrix = b if shuffled else b.staged()
    total += loop.apply("scaled_matmul", a, matrix, *scales, over=("k",))
    loop.store("out", total.to(out))
    if shuffled:
        loop.shuffle("B", "blocks_A", "blocks_B")
    return loop


def product(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    layout: str = "NT",
    finish: Finish = PLAIN,
    dtype_b: DType | str | None = None,
    blocks: bool = False,
    align: int = LOAD_BYTES,
    name: str = "gemm",
) -> Loop:
    """out = op(A) @ op(B), and what ``finish`` makes of it.

    ``blocks``: 32 elements of A along K share a scale of the stream ``blocks_A``, those of B one of
    ``blocks_B``: M x K / 32 and N x K / 32 codes of E8M0, whatever the layout.
    ``align`` is what rows and beginnings of A and B are whole multiples of, in bytes.
    """
    loop = Loop(name, over="k")
    total = summed(loop, m, n, k, dtype, total="sum", layout=layout, dtype_b=dtype_b, blocks=blocks)
    loop.align("A", "B", to=align)
    value = _finished(loop, total, out, m, n, finish)
    loop.store("out", value.to(out))
    return loop


def slices_sum(
    m: int = 8,
    n: int = 256,
    out: DType | str = BF16,
    *,
    finish: Finish = PLAIN,
    name: str = "gemm_sum",
) -> Loop:
    """The rest of a product whose K was cut into slices: their sums, in order, and what follows."""
    loop = Loop(name, over="s")
    part = loop.stream("P", F32, s=1, m=m, n=n)
    total = loop.carry("sum", F32, start=0, m=m, n=n)
    total += part.sum("s")
    value = _finished(loop, total, out, m, n, finish)
    loop.store("out", value if dtype_for(out) == F32 and value is total else value.to(out))
    return loop


def packed(
    dtype: DType | str = BF16,
    rows: int = 32,
    columns: int = 64,
    *,
    along: bool,
    name: str = "gemm_pack",
) -> Loop:
    """P = X, a matrix of any alignment in rows that are aligned.

    The loop goes along the dimension before whose first element zeros are put: with ``along`` that
    of the rows, whose ends are then aligned; else across them, and their beginnings are.
    """
    loop = Loop(name, over="c" if along else "r")
    loop.store("P", loop.stream("X", dtype, r=rows, c=columns))
    return loop


def _finished(
    loop: Loop, total: Tensor, out: DType | str, m: int, n: int, finish: Finish
) -> Tensor:
    """What follows the sum; beta's part first, which frees C's registers."""
    before: Tensor | None = None
    if finish.beta:
        before = loop.resident("C", out, m=m, n=n)
        before = before if dtype_for(out) == F32 else before.to(F32)
        before = before * loop.scalar("beta")
    value = total
    if finish.scales:
        value = value * loop.resident("scale_A", F32, m=m) * loop.resident("scale_B", F32, n=n)
    if finish.alpha:
        value = value * loop.scalar("alpha")
    if before is not None:
        value = before + value
    if finish.bias:
        value = value + loop.resident("bias", F32, n=n)
    return activation_for(finish.activation)(value)
