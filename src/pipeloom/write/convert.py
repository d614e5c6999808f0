"""f32 registers to and from the packed types of memory: rounding to nearest even, NaN kept.

Where the chip has no instruction for bf16 (gfx942) the rounding is spelt out, and takes two scalar
constants, which a kernel sets up once, and a NaN that ``prepare`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.machine.dtypes import DType, Specials, dtype_for
from pipeloom.machine.target import Target
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Register
from pipeloom.write.lower.templates import float_bits

STORED_BITS = {
    "bf16": 16, "fp16": 16, "f32": 32, "fp8": 8, "bf8": 8, "fp8_fnuz": 8, "bf8_fnuz": 8,
    "i8": 8, "u8": 8,
}  # fmt: skip
"""Types that f32 becomes."""
INTEGER_BITS = {"i4": 4, "u4": 4, "i8": 8, "u8": 8}
"""Types of whole numbers that become f32."""
_FP4_FIELDS = 0x81C00000
"""Sign, exponent and mantissa of an e2m1, where f32 has the last bits of its exponent."""
_FP4_SCALE = 2.0**126
"""The bias of f32 less that of e2m1: a denormal of f32 becomes one of e2m1, too."""
HIGH_HALF = 0xFFFF0000
PACK_BF16 = "v_cvt_pk_bf16_f32"
CONSTANTS = {"round": 0x7FFF, "pack": 0x07060302}
"""What the rounding to bf16 adds, and which bytes it keeps (``v_perm_b32``)."""


@dataclass(frozen=True, slots=True)
class ConvertScratch:
    """Two vector registers of work, one for the NaN of bf16, and two scalars.

    Without ``nan``, the lower half of every NaN is zero, and adding to it keeps it one.
    """

    work: Register
    nan: Register | None
    round: Register
    pack: Register


def is_encoded(dtype: DType) -> bool:
    """Whether registers hold codes of a type, packed or alone, and not 32 bits to compute with, as
    truth values are (1.0 and 0)."""
    return dtype.bits < 32 and not dtype.is_bool


def needs_constants(target: Target, dtype: str) -> bool:
    """Whether ``prepare`` must come before a conversion."""
    return dtype == "bf16" and PACK_BF16 not in target.extra_instructions


def prepare(code: Code, target: Target, dtype: str, scratch: ConvertScratch) -> None:
    """The NaN of a conversion, where it takes one."""
    if needs_constants(target, dtype) and scratch.nan is not None:
        code("v_mov_b32", scratch.nan, 0x7FFF0000)


def pack(
    code: Code, target: Target, dtype: str, result: Register, sources: Sequence[Register],
    scratch: ConvertScratch, *, exact: bool = False,
) -> None:  # fmt: skip
    """Two or four f32 as one register of elements, which are 16 or 8 bits each.

    ``exact``: they are values of the type, so that nothing is rounded.
    """
    work = scratch.work
    low, high = sources[:2]
    if dtype in ("i8", "u8"):
        limits = (-128, 127) if dtype == "i8" else (0, 255)
        _pack_integers(code, result, sources, work, *limits)
    elif STORED_BITS.get(dtype) == 8:
        _pack_bytes(code, target, dtype, result, sources, work)
    elif dtype == "fp16":
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
    elif exact:
        code("v_perm_b32", result, high, low, scratch.pack)
    else:
        for source, rounded in ((low, work.part(0)), (high, work.part(1))):
            _round_to_bf16(code, source, rounded, scratch)
        # Upper halves of both: bytes 2, 3 of the second operand, then of the first.
        code("v_perm_b32", result, work.part(1), work.part(0), scratch.pack)


def _pack_bytes(
    code: Code, target: Target, dtype: str, result: Register, sources: Sequence[Register],
    work: Register,
) -> None:  # fmt: skip
    """Two instructions, of which each fills half of the register and keeps the other half.

    Past the largest value they give NaN (CDNA3 ISA, "V_CVT_PK_FP8_F32", without FP16_OVFL), the
    type saturates: numbers are clamped before, and a NaN, which a minimum would lose, is kept.
    """
    kind = dtype_for(dtype)
    _check_has_bytes(target, dtype, "to")
    verb = f"v_cvt_pk_{dtype.removesuffix('_fnuz')}_f32"
    limits = [float_bits(limit) for limit in (kind.largest, -kind.largest)]
    for half in range(2):
        pair = list(sources[2 * half : 2 * half + 2])
        if kind.specials is not Specials.IEEE:
            for i, source in enumerate(pair):
                clamped = work.part(i)
                code("v_min_f32", clamped, limits[0], source)
                code("v_max_f32", clamped, limits[1], clamped)
                code("v_cmp_u_f32", VCC, source, source)
                code("v_cndmask_b32", clamped, clamped, source, VCC)
                pair[i] = clamped
        code(verb, result, *pair, modifiers=["op_sel:[0,0,1]"] if half else [])


def _check_has_bytes(target: Target, dtype: str, way: str) -> None:
    """The instructions of one name convert the chip's own 8-bit floats: OCP's, or those of fnuz."""
    if not target.multiplies(dtype):
        raise EmitError(
            f"{target.arch} has no conversion {way} {dtype}",
            hint="its 8-bit floats are those that its matrix instructions multiply",
            field="dtype",
        )


def whole_number(code: Code, result: Register, source: Register) -> None:
    """f32 to i32, to nearest even; past the largest it saturates, and of a NaN it is 0 (CDNA3 ISA,
    "V_CVT_I32_F32")."""
    code("v_rndne_f32", result, source)
    code("v_cvt_i32_f32", result, result)


def _pack_integers(
    code: Code, result: Register, sources: Sequence[Register], work: Register, low: int, high: int
) -> None:
    """Four f32 as bytes: rounded, clamped, and joined from the last one on."""
    byte, joined = work.part(0), work.part(1)
    for place, source in reversed(list(enumerate(sources))):
        whole_number(code, byte, source)
        code("v_max_i32", byte, low, byte)
        code("v_min_i32", byte, high, byte)
        code("v_and_b32", byte, 0xFF, byte)
        last = place == len(sources) - 1
        code("v_lshl_or_b32", joined, 0 if last else joined, 8, byte)
    code("v_mov_b32", result, joined)


def _round_to_bf16(code: Code, source: Register, result: Register, scratch: ConvertScratch) -> None:
    """Round to nearest even into the upper half; a NaN stays one."""
    if scratch.nan is not None:
        code("v_cmp_u_f32", VCC, source, source)
    code("v_bfe_u32", result, source, 16, 1)
    code("v_add3_u32", result, source, result, scratch.round)
    if scratch.nan is not None:
        code("v_cndmask_b32", result, result, scratch.nan, VCC)


def unpack(
    code: Code, target: Target, dtype: str, result: Register, source: Register, position: int
) -> None:
    """Element ``position`` of a register of smaller elements, as f32."""
    bits = STORED_BITS.get(dtype)
    if dtype == "i32":
        code("v_cvt_f32_i32", result, source)
        return
    if dtype in INTEGER_BITS:
        _unpack_integer(code, dtype, result, source, position)
        return
    if dtype == "fp4":
        code("v_bfe_i32", result, source, 4 * position, 4)
        code("v_lshlrev_b32", result, 22, result)
        code("v_and_b32", result, _FP4_FIELDS, result)
        code("v_mul_f32", result, float_bits(_FP4_SCALE), result)
        return
    if dtype == "e8m0":  # the exponent of f32; 0 is a denormal, and what would be infinity a NaN
        code("v_bfe_u32", result, source, 8 * position, 8)
        code("v_lshlrev_b32", result, 23, result)
        code("v_max_i32", result, float_bits(2.0**-127), result)
        code("v_fma_f32", result, result, 0, result)
        return
    if dtype == "bf16":
        if position:
            code("v_and_b32", result, HIGH_HALF, source)
        else:
            code("v_lshlrev_b32", result, 16, source)
    elif bits in (8, 16):
        if bits == 8:
            _check_has_bytes(target, dtype, "from")
        if position:
            code("v_lshrrev_b32", result, bits * position, source)
            source = result
        code(f"v_cvt_f32_{'f16' if bits == 16 else dtype.removesuffix('_fnuz')}", result, source)
    else:
        raise EmitError(
            f"no conversion from {dtype} to f32 is known",
            hint="vector instructions take f32, bf16, fp16, fp4 and the chip's 8-bit floats: "
            "convert the array before",
            field="dtype",
        )


def _unpack_integer(
    code: Code, dtype: str, result: Register, source: Register, position: int
) -> None:
    """The field of its bits, with its sign, as a number; a byte without sign at once."""
    bits = INTEGER_BITS[dtype]
    if dtype == "u8":
        code(f"v_cvt_f32_ubyte{position}", result, source)
    elif dtype == "u4":
        code("v_bfe_u32", result, source, bits * position, bits)
        code("v_cvt_f32_ubyte0", result, result)
    else:
        code("v_bfe_i32", result, source, bits * position, bits)
        code("v_cvt_f32_i32", result, result)


def packed_words(
    code: Code, target: Target, dtype: str, sources: Sequence[Register], words: Register,
    scratch: ConvertScratch,
) -> Register:  # fmt: skip
    """f32 registers as words of another type; ``words`` may be the first of the sources."""
    each = 32 // STORED_BITS[dtype]
    count = -(-len(sources) // each)
    whole = [*sources, *[sources[-1]] * (count * each - len(sources))]
    for i in range(count):
        pack(code, target, dtype, words.part(i), whole[each * i : each * (i + 1)], scratch)
    return words.part(0, count)
