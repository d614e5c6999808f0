"""Address arithmetic that several kernels share.

A buffer descriptor starts with a base of 48 bits, in its first two words. A block's place in a
matrix is rows times stride, which outgrows 32 bits long before the matrix outgrows memory, so
both the product and the sum take two words:

    s_mul_i32    low, rows, stride
    s_mul_hi_u32 high, rows, stride
    s_add_u32    base, base, low
    s_addc_u32   base + 1, base + 1, high
"""

from __future__ import annotations

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.write.code import Code
from pipeloom.write.isa import Operand, Register

BASE_HIGH = 0xFFFF
"""Bits of a descriptor's word 1 that belong to its base; the rest is the stride, 0 here."""

RAW_BUFFER = 0x00027000
"""Descriptor word 3 of an untyped buffer on gfx9 (LLVM AMDGPU; data format 32)."""
OUT_OF_RANGE = 0x80000000
"""An offset past any descriptor: what a block addresses spans less than 2 GiB."""
SPAN_LIMIT = OUT_OF_RANGE - LOAD_BYTES
"""Where descriptors end at the latest: this and ``OUT_OF_RANGE`` together do not come round."""
LDS_WINDOW = 1 << 16
"""How far the offset of a ds instruction reaches."""


def advance_base(
    code: Code, buffer: Register, rows: Operand, stride: Operand, scratch: Register
) -> None:
    """Move a descriptor's base by ``rows * stride`` bytes; ``scratch`` is two scalar registers."""
    low, high = scratch.part(0), scratch.part(1)
    code("s_mul_i32", low, rows, stride)
    code("s_mul_hi_u32", high, rows, stride)
    code("s_add_u32", buffer.part(0), buffer.part(0), low)
    code("s_addc_u32", buffer.part(1), buffer.part(1), high)
    code("s_and_b32", buffer.part(1), buffer.part(1), BASE_HIGH)


def quotient(code: Code, result: Register, value: Register, number: int) -> None:
    """``result = value // number``, of values below 2^31, on the scalar unit."""
    before, factor, after = divide(number)
    if before or not factor:
        code("s_lshr_b32", result, value, before)
        value = result
    if factor:
        code("s_mul_hi_u32", result, value, factor)
        code("s_lshr_b32", result, result, after)


def divide(number: int) -> tuple[int, int, int]:
    """(shift, factor, shift) that divide what is below 2^31 by ``number``, rounding down.

    ``(x >> a) * factor >> 32 >> b``; a factor of 0 stands for one of 2^32 (Granlund and
    Montgomery, "Division by invariant integers using multiplication", theorem 4.2).
    """
    before = (number & -number).bit_length() - 1
    odd = number >> before
    if odd == 1:
        return before, 0, 0
    more = odd.bit_length()
    return before, (1 << 31 + more) // odd + 1, more - 1
