"""Products whose results are quantised at once, with their scales as a second output."""

from __future__ import annotations

from math import floor, log2

from pipeloom.declare.activations import activation_for
from pipeloom.declare.functions import clamp, maximum, rcp, where
from pipeloom.declare.in_blocks import block_amax, power_below
from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16, E8M0, F32, FP8, DType, Specials, dtype_for

LEAST = 2.0**-60
"""What is taken for the largest of a block that is all but zero: its scale has a reciprocal."""


def gemm_quantised(
    m: int = 256,
    n: int = 256,
    k: int = 64,
    dtype: DType | str = BF16,
    out: DType | str = FP8,
    *,
    block: int = 128,
    powers: bool = False,
    activation: str = "none",
    name: str = "gemm_quantised",
) -> Loop:
    """out[m, n] * scale[m, n / block] is about act(A @ B.T): a scale for each block of a row.

    ``scale`` is f32: the largest of a block, over the largest of the type of ``out``. Sizes along
    ``n`` are multiples of ``block``. With ``powers`` it is the power of two of mxfp8, for 32
    columns each: the largest not above the largest of its block, over that of the type; what is
    then past the largest of the type saturates.

    Args:
        m: Rows of the tile of A and of the outputs.
        n: Rows of the tile of B, columns of the outputs.
        k: How far along ``k`` one iteration goes.
        dtype: The element type of A and B.
        out: The element type of the output: an 8-bit float of the chip, or ``i8``.
        block: Columns that share a scale: 16, 32, 64, 128, ...
        powers: Whether scales are powers of two, stored as ``e8m0``.
        activation: What the sum goes through: ``none``, ``relu``, ``silu`` or ``gelu``.
        name: What pages and the kernel's symbol call it.
    """
    loop, kind = Loop(name, over="k"), dtype_for(out)
    a = loop.stream("A", dtype, m=m, k=k).staged()
    b = loop.stream("B", dtype, n=n, k=k).staged()
    total = loop.carry("C", F32, start=0, m=m, n=n)
    total += a @ b
    value = total if activation == "none" else activation_for(activation)(total)
    most = maximum(block_amax(value, "n", E8M0.covers if powers else block), LEAST)
    if powers:
        scale = power_below(most * 2.0 ** -floor(log2(kind.largest)))
        loop.store("scale", scale.to(E8M0))
    else:
        scale = most * (1 / kind.largest)
        loop.store("scale", scale)
    code = value * rcp(scale)
    if powers and kind.specials is Specials.IEEE:  # a NaN stays one, which clamp alone would not
        most_of_type = float(kind.largest)
        code = where(abs(code) > most_of_type, clamp(code, -most_of_type, most_of_type), code)
    loop.store("out", code.to(kind))
    return loop
