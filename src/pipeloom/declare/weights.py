"""Products with work on an operand between memory and the matrix unit.

    gemm_weights    weights of a small type, scaled by column, or by groups along K
    gemm_norm       RMSNorm of the rows of A, whose factor comes behind the sum

What an operand is computed of is declared like any other value. It is loaded in the layout of the
operand, so that nothing moves between lanes; instructions stand between those of the products.
"""

from __future__ import annotations

from pipeloom.declare.activations import activation_for
from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, F32, I8, DType, dtype_for


def gemm_weights(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    weights: DType | str = I8,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    group: int = 0,
    zeros: bool = False,
    scales: DType | str = F32,
    name: str = "gemm_weights",
) -> Loop:
    """out[m, n] = sum over k of A[m, k] * W[n, k], where W is made of a smaller type, B.

    Without ``group``, W[n, k] = B[n, k] * S[n]; the scale comes behind the sum. With it, W[n, k] =
    (B[n, k] - Z[n, k // group]) * S[n, k // group], rounded to ``dtype`` before the product.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        weights: The element type of B: ``i4``, ``u4``, ``i8``, ``u8``, ``fp4``, or the chip's 8-bit
            floats.
        dtype: The element type of A, in which is multiplied.
        out: The element type of the output.
        group: How many elements along K share a scale; 0 for one scale per column.
        zeros: Whether groups have a zero point ``Z``, of the type of the scales.
        scales: The element type of the scales.
        name: What pages and the kernel's symbol call it.
    """
    if zeros and not group:
        raise ConfigError(
            "zero points without groups",
            hint="give group=..., or store weights without a zero point: i4, i8",
            field="zeros",
        )
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k).staged()
    b = loop.stream("B", weights, n=n, k=k).staged()
    total = loop.carry("C", F32, start=0, m=m, n=n)
    if not group:
        total += a @ b.to(dtype)
        loop.store("out", (total * loop.resident("S", scales, n=n)).to(out))
        return loop
    shared = dtype_for(scales).per(group)
    scale = loop.stream("S", shared, n=n, k=k)
    raised = b - loop.stream("Z", shared, n=n, k=k) if zeros else b
    total += a @ (raised * scale).to(dtype)
    loop.store("out", total.to(out))
    return loop


def gemm_norm(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = BF16,
    *,
    activation: str = "none",
    name: str = "gemm_norm",
) -> Loop:
    """out[m, n] = sum over k of y[m, k] * B[n, k], where y = x * rsqrt(mean of x^2 + eps).

    x is A, or the activation of it. The factor of a row comes behind the sum; squares are summed of
    the tiles that are multiplied. ``inverse`` is 1 / K, an argument of the launch; the norm's
    weights by K go into B.

    Args:
        m: Rows of the tile of A and of the output.
        n: Rows of the tile of B, columns of the output.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output.
        activation: What A goes through first: ``none``, ``relu``, ``silu`` or ``gelu``.
        name: What pages and the kernel's symbol call it.
    """
    loop = Loop(name, over="k")
    a = loop.stream("A", dtype, m=m, k=k).staged()
    b = loop.stream("B", dtype, n=n, k=k).staged()
    total = loop.carry("C", F32, start=0, m=m, n=n)
    squares = loop.carry("squares", F32, start=0, m=m)
    x = a if activation == "none" else activation_for(activation)(a).to(dtype)
    total += x @ b
    squares += x.sum_squares("k")
    mean = squares * loop.scalar("inverse", usual=1 / 4096, positive=True)
    factor = loop.apply("rsqrt", mean + loop.scalar("eps", usual=1e-5))
    loop.store("out", (total * factor).to(out))
    return loop
