"""Operands of vector instructions: where they lie, how they are read and written.

A type says both. u32 i32 f32, u16 i16 f16 (half of a register, the upper one by op_sel), u64 i64
f64 (register pairs). Of packed instructions (VOP3P), 2u16 2i16 2f16, 2u32 and 2f32 are two values,
as two rows of an array: halves of a register, or registers of a pair, as op_sel picks for the first
and op_sel_hi for the second. ``picked`` is the f32 of a pair that op_sel picks, ``mixed`` an f32
or, where op_sel_hi says so, the f16 that op_sel picks.

A 16-bit result of one or two sources clears the other half of its register, one of three keeps it,
unless op_sel or SDWA says otherwise: so gfx9 according to LLVM (GCNSubtarget::
zeroesHigh16BitsOfDest, "mostly derived from experimentation", and its test preserve-hi16.ll). The
CDNA3 ISA agrees but for v_mac_f16, v_madak_f16 and v_madmk_f16, which clear it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.lane_select import dpp_selection
from pipeloom.judge.emulate.operands import (
    LITERAL,
    ReadOperand,
    all_registers,
    constant,
    long_source,
    unsupported,
    word_source,
)
from pipeloom.judge.emulate.register_numbers import VGPR, register_bits
from pipeloom.judge.emulate.wave import Wave

Reader = Callable[[Wave], Array]
Shape = Callable[[Array], Array]


class ResultWriter(NamedTuple):
    """What writes a result, and whether it leaves part of the old one where all lanes are on."""

    write: Callable[[Wave, Array], None]
    keeps: bool = False


DTYPES: dict[str, type[np.generic]] = {
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
}
PACKED = "2"
"""Begins the name of a type of two values."""
PICKED, MIXED = "picked", "mixed"
_LITERAL_SECOND = ("v_fmamk_f32", "v_madmk_f16")
"""a*K + b of two sources and the literal K."""
_LITERAL_LAST = ("v_fmaak_f32", "v_madak_f16")
"""a*b + K."""


def words_of(kind: str) -> int:
    """Registers that a value of this type takes."""
    return 2 if kind.endswith("64") or kind in ("2f32", "2u32") else 1


def source_codes(instruction: Decoded) -> tuple[int, ...]:
    """9-bit source codes in operand order, whatever the encoding."""
    fields, variant = instruction.fields, instruction.variant
    if variant.startswith("SDWA"):
        first = fields["vsrc0"] + (0 if fields.get("s0") else VGPR)
    elif variant == "DPP16":
        first = fields["vsrc0"] + VGPR
    else:
        first = fields["src0"]
    if instruction.encoding == "VOP1":
        return (first,)
    if instruction.encoding in ("VOP2", "VOPC"):
        scalar = variant.startswith("SDWA") and fields.get("s1")
        second = fields["vsrc1"] + (0 if scalar else VGPR)
        if instruction.name in _LITERAL_SECOND:
            return (first, LITERAL, second)
        return (first, second, LITERAL) if instruction.name in _LITERAL_LAST else (first, second)
    return (first, fields["src1"], fields["src2"])


def vector_sources(
    instruction: Decoded, kinds: Sequence[str], codes: Sequence[int] = ()
) -> list[ReadOperand]:
    """The sources of an instruction, or those at other codes, of these types."""
    codes = codes or source_codes(instruction)
    return [_source(instruction, at, codes[at], kind) for at, kind in enumerate(kinds)]


def _source(instruction: Decoded, position: int, code: int, kind: str) -> ReadOperand:
    """A typed source, with the encoding's modifiers applied."""
    if kind.startswith(PACKED):
        return _packed(instruction, position, code, kind.removeprefix(PACKED))
    if kind == PICKED:
        return _of_pair(instruction, position, code, upper=False)
    if kind == MIXED:
        return _mixed(instruction, position, code)
    fields = instruction.fields
    signs = modifiers(instruction, position)
    if any(signs) and not kind.startswith("f"):
        raise unsupported(instruction, "sign modifier on an integer source")
    if words_of(kind) == 2:
        return _with_signs(_viewed(long_source(code, kind, instruction), kind), *signs)
    found = word_source(code, kind, instruction)
    if instruction.variant.startswith("SDWA") and position < 2:
        select = fields[f"src{position}_sel"]
        extend = bool(fields[f"src{position}_sext"])
        found = found.then(_sdwa_part(select, extend))
    elif instruction.variant == "DPP16" and position == 0:
        selection, read = dpp_selection(instruction), found.read
        found = found._replace(read=lambda wave: selection.gather(wave, read(wave)))
    if kind.endswith("16"):
        found = _half(found, kind, bool(fields.get("opsel", 0) >> position & 1))
    elif kind != "u32":
        found = _viewed(found, kind)
    return _with_signs(found, *signs)


def _viewed(source: ReadOperand, kind: str) -> ReadOperand:
    read, dtype = source.read, DTYPES[kind]
    return source._replace(read=lambda wave: read(wave).view(dtype))


def _half(source: ReadOperand, kind: str, upper: bool) -> ReadOperand:
    dtype = DTYPES[kind]
    return source.then(
        lambda words: (words >> 16 if upper else words).astype(np.uint16).view(dtype)
    )


def _picks(instruction: Decoded, position: int) -> tuple[bool, bool]:
    """(op_sel, op_sel_hi) of a source."""
    fields = instruction.fields
    high = fields["opsel_hi2"] if position == 2 else fields["opsel_hi"] >> position & 1
    return bool(fields["opsel"] >> position & 1), bool(high)


def _two_signs(instruction: Decoded, position: int) -> tuple[bool, bool]:
    """(neg, neg_hi) of a source."""
    fields = instruction.fields
    return bool(fields["neg"] >> position & 1), bool(fields["neg_hi"] >> position & 1)


def _packed(instruction: Decoded, position: int, code: int, kind: str) -> ReadOperand:
    """Two values of a type, as rows."""
    picks, signs = _picks(instruction, position), _two_signs(instruction, position)
    if kind == "f32":
        if code >= VGPR and picks == (False, True) and not any(signs):
            row = code - VGPR
            return ReadOperand(
                lambda wave: wave.v[row : row + 2].view(np.float32), register_bits(code, 2)
            )
        parts = [_of_pair(instruction, position, code, upper=upper) for upper in (False, True)]
    else:
        word = word_source(code, "f16" if kind == "f16" else "u16", instruction)
        both = zip(picks, signs, strict=True)
        parts = [_with_signs(_half(word, kind, upper), minus, False) for upper, minus in both]
    first, second = (part.read for part in parts)

    def rows(wave: Wave) -> Array:
        low = first(wave)
        pair = np.empty((2, low.size), low.dtype)
        pair[0], pair[1] = low, second(wave)
        return pair

    return ReadOperand(rows, all_registers(parts))


def _of_pair(instruction: Decoded, position: int, code: int, *, upper: bool) -> ReadOperand:
    """One f32 of a register pair, for the lower or the upper result; constants fill both halves."""
    is_constant = constant(code, "f32", instruction) is not None
    pick = 0 if is_constant else _picks(instruction, position)[upper]
    part = _viewed(word_source(code + pick, "f32", instruction), "f32")
    return _with_signs(part, _two_signs(instruction, position)[upper], False)


def _mixed(instruction: Decoded, position: int, code: int) -> ReadOperand:
    upper, is_half = _picks(instruction, position)
    kind = "f16" if is_half else "f32"
    word = word_source(code, kind, instruction)
    part = _half(word, kind, upper) if is_half else _viewed(word, kind)
    # In the mixed forms neg_hi means absolute value.
    return _with_signs(part, *_two_signs(instruction, position))


def modifiers(instruction: Decoded, position: int) -> tuple[bool, bool]:
    """(negate, absolute) of a source."""
    fields = instruction.fields
    if instruction.variant.startswith(("SDWA", "DPP")):
        if position > 1:
            return False, False
        return bool(fields[f"src{position}_neg"]), bool(fields[f"src{position}_abs"])
    if instruction.encoding == "VOP3":
        return bool(fields["neg"] >> position & 1), bool(fields.get("abs", 0) >> position & 1)
    if instruction.encoding == "VOP3SD":
        return bool(fields["neg"] >> position & 1), False
    return False, False


def _with_signs(source: ReadOperand, negate: bool, absolute: bool) -> ReadOperand:
    """A source whose value loses its sign, then is negated."""
    if absolute:
        source = source.then(np.abs)
    return source.then(np.negative) if negate else source


def _sdwa_part(select: int, extend: bool) -> Callable[[Words], Words]:
    """Byte (0..3), half-word (4, 5) or whole dword (6) of a register."""
    if select == 6:
        return lambda words: words
    shift, bits = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)

    def chosen(words: Words) -> Words:
        value: Words = words >> np.uint32(shift) & np.uint32((1 << bits) - 1)
        return sign_extended(value, bits) if extend else value

    return chosen


def sign_extended(words: Array, bits: int) -> Words:
    """The lowest ``bits`` as a signed number of 32."""
    spare = 32 - bits
    return ((words << spare).view(np.int32) >> spare).view(np.uint32)


def result_writer(
    instruction: Decoded,
    kind: str,
    *,
    keeps: bool = False,
    upper: bool = False,
    saturates: bool = False,
) -> ResultWriter:
    """A writer of a result into the destination, active lanes only.

    A 16-bit one may keep the upper half of the register, or go to it. Of an integer
    that does not saturate by itself, clamp is refused.
    """
    fields = instruction.fields
    row, dtype = fields["vdst"], DTYPES[kind.removeprefix(PACKED)]
    clamp, scale = bool(fields.get("clmp")), fields.get("omod", 0)
    if "f" not in kind and (scale or (clamp and not saturates)):
        raise unsupported(instruction, "clamp on an integer result")
    shape = _output_modifier(clamp, scale) if "f" in kind and (clamp or scale) else _as_it_is
    if instruction.variant == "DPP16":
        return _dpp_writer(instruction, row, kind, shape, keeps)
    if instruction.variant.startswith("SDWA") and words_of(kind) == 1:
        return _sdwa_writer(instruction, row, kind, shape)
    if words_of(kind) == 2:
        if fields.get("dst_sel", 6) != 6:
            raise unsupported(instruction, "SDWA selection of a 64-bit result")

        def write_two(wave: Wave, value: Array) -> None:
            # Both are computed before either is written: the destination may be a source.
            bits = np.ascontiguousarray(shape(value), dtype).view(np.uint32)
            low, high = bits if kind.startswith(PACKED) else bits.reshape(-1, 2).T
            wave.write_vector(row, low)
            wave.write_vector(row + 1, high)

        return ResultWriter(write_two)
    if kind.startswith(PACKED):

        def write_halves(wave: Wave, value: Array) -> None:
            halves = np.ascontiguousarray(shape(value), dtype).view(np.uint16)
            low, high = halves.astype(np.uint32)
            wave.write_vector(row, low | high << 16)

        return ResultWriter(write_halves)
    if kind.endswith("16"):
        upper = upper or bool(fields.get("opsel", 0) >> 3 & 1)

        def write_half(wave: Wave, value: Array) -> None:
            bits = _as_word(shape(value), kind)
            if upper:
                bits = bits << 16 | wave.v[row] & 0xFFFF
            elif keeps:
                bits = bits | wave.v[row] & 0xFFFF0000
            wave.write_vector(row, bits)

        return ResultWriter(write_half, upper or keeps)
    if kind == "u32":
        return ResultWriter(lambda wave, value: wave.write_vector(row, value))
    return ResultWriter(
        lambda wave, value: wave.write_vector(row, np.asarray(shape(value), dtype).view(np.uint32))
    )


def clamped(value: Array) -> Array:
    """Between 0 and 1; a NaN is 0, since DX10_CLAMP is on (CDNA3 ISA, "MODE Register")."""
    between: Array = np.clip(value, 0, 1)
    return np.where(np.isnan(value), between.dtype.type(0), between)


def _as_it_is(value: Array) -> Array:
    return value


def _output_modifier(clamp: bool, scale: int) -> Shape:
    """What becomes of a float's value."""
    factor = (1.0, 2.0, 4.0, 0.5)[scale]

    def shape(value: Array) -> Array:
        if scale:
            value = value * value.dtype.type(factor)
        return clamped(value) if clamp else value

    return shape


def _as_word(value: Array, kind: str) -> Words:
    typed = np.asarray(value, DTYPES[kind])
    if kind.endswith("16"):
        return typed.view(np.uint16).astype(np.uint32)
    return typed.view(np.uint32)


def _dpp_writer(
    instruction: Decoded, row: int, kind: str, shape: Shape, keeps: bool
) -> ResultWriter:
    selection = dpp_selection(instruction)
    if words_of(kind) == 2:
        raise unsupported(instruction, "64-bit DPP")

    def write(wave: Wave, value: Array) -> None:
        word = _as_word(shape(value), kind)
        if keeps:
            word = word | wave.v[row] & 0xFFFF0000
        np.copyto(wave.v[row], word, where=selection.written(wave))

    return ResultWriter(write, keeps or selection.leaves_lanes)


def _sdwa_writer(instruction: Decoded, row: int, kind: str, shape: Shape) -> ResultWriter:
    select, unused = instruction.fields["dst_sel"], instruction.fields["dst_unused"]
    if select == 6:
        return ResultWriter(
            lambda wave, value: wave.write_vector(row, _as_word(shape(value), kind))
        )
    shift, bits = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)
    mask = ((1 << bits) - 1) << shift

    def write(wave: Wave, value: Array) -> None:
        word: Words = _as_word(shape(value), kind) << np.uint32(shift) & np.uint32(mask)
        if unused == 2:
            word = word | wave.v[row] & np.uint32(~mask & 0xFFFFFFFF)
        elif unused == 1:
            word = sign_extended(word, shift + bits)
        wave.write_vector(row, word)

    return ResultWriter(write, unused == 2)
