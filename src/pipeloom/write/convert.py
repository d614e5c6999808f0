"""f32 registers to and from the packed types of memory: rounding to nearest even, NaN kept.

Where the chip has no instruction for bf16 (gfx942) the rounding is spelt out, and takes two scalar
constants and a NaN that ``prepare`` sets up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.machine.target import Target
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Register

STORED_BITS = {"bf16": 16, "fp16": 16, "f32": 32}
"""Types that f32 becomes."""
HIGH_HALF = 0xFFFF0000
PACK_BF16 = "v_cvt_pk_bf16_f32"


@dataclass(frozen=True, slots=True)
class ConvertScratch:
    """Two vector registers of work, one for the NaN of bf16, and two scalars."""

    work: Register
    nan: Register
    round: Register
    pack: Register


def needs_constants(target: Target, dtype: str) -> bool:
    """Whether ``prepare`` must come before a conversion."""
    return dtype == "bf16" and PACK_BF16 not in target.extra_instructions


def prepare(code: Code, target: Target, dtype: str, scratch: ConvertScratch) -> None:
    """The constants of a conversion, where it takes any."""
    if needs_constants(target, dtype):
        code("s_mov_b32", scratch.round, 0x7FFF)
        code("v_mov_b32", scratch.nan, 0x7FFF0000)
        code("s_mov_b32", scratch.pack, 0x07060302)


def pack_halves(
    code: Code, target: Target, dtype: str, result: Register, low: Register, high: Register,
    scratch: ConvertScratch,
) -> None:  # fmt: skip
    """Two f32 as one register of two 16-bit elements."""
    work = scratch.work
    if dtype == "fp16":
        code("v_cvt_f16_f32", work.part(0), low)
        code("v_cvt_f16_f32", work.part(1), high)
        code("v_pack_b32_f16", result, work.part(0), work.part(1))
    elif dtype != "bf16":
        raise EmitError(
            f"no conversion from f32 to {dtype} is known",
            hint=f"use one of: {', '.join(STORED_BITS)}",
            field="dtype",
        )
    elif PACK_BF16 in target.extra_instructions:
        code(PACK_BF16, result, low, high)
    else:
        for source, rounded in ((low, work.part(0)), (high, work.part(1))):
            _round_to_bf16(code, source, rounded, scratch)
        # Upper halves of both: bytes 2, 3 of the second operand, then of the first.
        code("v_perm_b32", result, work.part(1), work.part(0), scratch.pack)


def _round_to_bf16(code: Code, source: Register, result: Register, scratch: ConvertScratch) -> None:
    """Round to nearest even into the upper half; a NaN stays one."""
    code("v_cmp_u_f32", VCC, source, source)
    code("v_bfe_u32", result, source, 16, 1)
    code("v_add3_u32", result, source, result, scratch.round)
    code("v_cndmask_b32", result, result, scratch.nan, VCC)


def unpack(code: Code, dtype: str, result: Register, source: Register, position: int) -> None:
    """Element ``position`` of a register of 16-bit elements, as f32."""
    if dtype == "bf16":
        if position:
            code("v_and_b32", result, HIGH_HALF, source)
        else:
            code("v_lshlrev_b32", result, 16, source)
    elif dtype == "fp16":
        if position:
            code("v_lshrrev_b32", result, 16, source)
            source = result
        code("v_cvt_f32_f16", result, source)
    else:
        raise EmitError(
            f"no conversion from {dtype} to f32 is known",
            hint="vector instructions take f32, bf16 and fp16",
            field="dtype",
        )


def packed_words(
    code: Code, target: Target, dtype: str, sources: Sequence[Register], words: Register,
    scratch: ConvertScratch,
) -> Register:  # fmt: skip
    """f32 registers as words of another type; ``words`` may be the first of the sources."""
    for i in range(len(sources) // 2):
        pack_halves(code, target, dtype, words.part(i), sources[2 * i], sources[2 * i + 1], scratch)
    return words.part(0, max(len(sources) // 2, 1))
