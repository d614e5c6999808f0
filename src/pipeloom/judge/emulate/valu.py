"""The vector ALU engine: operands, modifiers, EXEC, and one table row per operation.

An operation is a ``VecOp``: the type of its result, the types of its sources, and a NumPy function.
This file turns a row into a step for any encoding that carries it (VOP1, VOP2, VOP3, SDWA, DPP);
the rows live in ``valu_integer``, ``valu_float`` and ``valu_convert``. Example:

    "v_add_f32": VecOp("f32", ("f32", "f32"), np.add)

Types are u32 i32 f32, u16 i16 f16 (half of a register, the upper one by op_sel), u64 i64 f64
(register pairs). A 16-bit result clears the other half, as on gfx9, unless op_sel or SDWA says
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.lane_select import DppSelection, dpp_selection
from pipeloom.judge.emulate.operands import (
    LITERAL,
    long_reader,
    source_bits,
    unsupported,
    word_reader,
)
from pipeloom.judge.emulate.register_numbers import LANES, VCC, VGPR, register_bits
from pipeloom.judge.emulate.screening import (
    screen_bits,
    screen_copy,
    screen_reads,
    screen_upper,
)
from pipeloom.judge.emulate.step import MicroOp, Screen
from pipeloom.judge.emulate.wave import Wave, lanes_of, mask_of

Values = npt.NDArray[Any]
Function = Callable[..., Values]
Reader = Callable[[Wave], Values]
Writer = Callable[[Wave, Values], None]

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


_LEFTWARD = ("v_lshl_add_u64", "v_lshlrev_b64", "v_mad_u64_u32", "v_mad_i64_i32")
"""64-bit operations in which information flows upwards only."""
_LITERAL_SECOND = ("v_fmamk_f32", "v_madmk_f16")
"""a*K + b of two sources and the literal K."""
_LITERAL_LAST = ("v_fmaak_f32", "v_madak_f16")
"""a*b + K."""


@dataclass(frozen=True, slots=True)
class VecOp:
    """One vector operation. ``accumulates`` adds the old destination as the last source.

    ``copies`` marks plain moves, which carry poison instead of reporting it; ``moves_bits`` marks
    shifts, masks and picks, which carry undefined registers (see ``screening``). ``keeps_half``
    marks 16-bit results that leave the other half of the register alone. ``saturated`` is the
    function of an integer operation with clamp. The function of one that ``takes_mask`` has as its
    last argument the lanes of VCC, or of the source behind its own; one that ``gives_mask`` returns
    lanes beside its result, which go to the scalar destination or to VCC.
    """

    result: str
    sources: tuple[str, ...]
    function: Callable[..., Any]
    accumulates: bool = False
    copies: bool = False
    moves_bits: bool = False
    keeps_half: bool = False
    saturated: Callable[..., Values] | None = None
    takes_mask: bool = False
    gives_mask: bool = False


def in_turn(function: Function) -> Function:
    """The function of two on three: of the first two, then with the third."""
    return lambda a, b, c: function(function(a, b), c)


def comparing(least: Function, most: Function) -> dict[str, tuple[int, Function]]:
    """Smaller, larger and middle ones by name: how many sources, and what is computed."""
    return {
        "min": (2, least),
        "max": (2, most),
        "min3": (3, in_turn(least)),
        "max3": (3, in_turn(most)),
        "med3": (3, lambda a, b, c: most(least(a, b), least(most(a, b), c))),
    }


def words_of(kind: str) -> int:
    """Registers that a value of this type takes."""
    return 2 if kind.endswith("64") else 1


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


def source_reader(instruction: Decoded, position: int, code: int, kind: str) -> Reader:
    """A typed reader of one source, with the encoding's modifiers applied."""
    fields = instruction.fields
    signs = modifiers(instruction, position)
    if any(signs) and not kind.startswith("f"):
        raise unsupported(instruction, "sign modifier on an integer source")
    if words_of(kind) == 2:
        return with_signs(_viewed(long_reader(code, kind, instruction), DTYPES[kind]), *signs)
    read = word_reader(code, kind, instruction)
    if instruction.variant.startswith("SDWA") and position < 2:
        select = fields[f"src{position}_sel"]
        extend = bool(fields[f"src{position}_sext"])
        read = _sdwa_source(read, select, extend)
    elif instruction.variant == "DPP16" and position == 0:
        selection = dpp_selection(instruction)
        read = _gathered(read, selection)
    dtype = DTYPES[kind]
    if kind.endswith("16"):
        upper = bool(fields.get("opsel", 0) >> position & 1)
        whole = read

        def half(wave: Wave) -> Values:
            words = whole(wave)
            return (words >> 16 if upper else words).astype(np.uint16).view(dtype)

        typed: Reader = half
    else:
        typed = read if kind == "u32" else _viewed(read, dtype)
    return with_signs(typed, *signs)


def _gathered(read: Reader, selection: DppSelection) -> Reader:
    return lambda wave: selection.gather(wave, read(wave))


def _viewed(read: Reader, dtype: type[np.generic]) -> Reader:
    return lambda wave: read(wave).view(dtype)


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


def with_signs(read: Reader, negate: bool, absolute: bool) -> Reader:
    """A reader whose value loses its sign, then is negated."""
    if not negate and not absolute:
        return read

    def modified(wave: Wave) -> Values:
        value = read(wave)
        if absolute:
            value = np.abs(value)
        return -value if negate else value

    return modified


def _sdwa_source(read: Reader, select: int, extend: bool) -> Reader:
    """Byte (0..3), half-word (4, 5) or whole dword (6) of a register."""
    if select == 6:
        return read
    shift, bits = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)

    def chosen(wave: Wave) -> Values:
        value = read(wave) >> shift & ((1 << bits) - 1)
        if extend:
            unused = 32 - bits
            value = ((value << unused).view(np.int32) >> unused).view(np.uint32)
        return value

    return chosen


def result_writer(instruction: Decoded, op: VecOp) -> Writer:
    """A writer of the result into the destination, active lanes only."""
    fields, kind = instruction.fields, op.result
    row = fields["vdst"]
    clamp = bool(fields.get("clmp", 0))
    scale = fields.get("omod", 0)
    if (clamp or scale) and not kind.startswith("f"):
        if op.saturated is None:
            raise unsupported(instruction, "clamp on an integer result")
        clamp = False
    shape = _output_modifier(clamp, scale)
    dtype = DTYPES[kind]
    if instruction.variant == "DPP16":
        return _dpp_writer(instruction, row, kind, shape)
    if instruction.variant.startswith("SDWA") and words_of(kind) == 1:
        return _sdwa_writer(instruction, row, kind, shape)
    if words_of(kind) == 2:
        if fields.get("dst_sel", 6) != 6:
            raise unsupported(instruction, "SDWA selection of a 64-bit result")

        def write_long(wave: Wave, value: Values) -> None:
            bits = np.ascontiguousarray(shape(value), dtype).view(np.uint32).reshape(-1, 2)
            wave.write_vector(row, bits[:, 0])
            wave.write_vector(row + 1, bits[:, 1])

        return write_long
    if kind.endswith("16"):
        upper = bool(fields.get("opsel", 0) >> 3 & 1)
        keeps = upper or op.keeps_half

        def write_half(wave: Wave, value: Values) -> None:
            bits = np.asarray(shape(value), dtype).view(np.uint16).astype(np.uint32)
            if upper:
                bits = bits << 16 | wave.v[row] & 0xFFFF
            elif keeps:
                bits = bits | wave.v[row] & 0xFFFF0000
            wave.write_vector(row, bits)

        return write_half
    if kind == "u32":
        return lambda wave, value: wave.write_vector(row, value)
    if clamp or scale:
        return lambda wave, value: wave.write_vector(
            row, np.asarray(shape(value), dtype).view(np.uint32)
        )
    return lambda wave, value: wave.write_vector(row, np.asarray(value, dtype).view(np.uint32))


def clamped(value: Values) -> Values:
    """Between 0 and 1; a NaN is 0, since DX10_CLAMP is on (CDNA3 ISA, "MODE Register")."""
    between: Values = np.clip(value, 0, 1)
    return np.where(np.isnan(value), between.dtype.type(0), between)


def _output_modifier(clamp: bool, scale: int) -> Callable[[Values], Values]:
    factor = (1.0, 2.0, 4.0, 0.5)[scale]

    def shape(value: Values) -> Values:
        if scale:
            value = value * value.dtype.type(factor)
        return clamped(value) if clamp else value

    return shape if clamp or scale else lambda value: value


def _as_word(value: Values, kind: str) -> npt.NDArray[np.uint32]:
    typed = np.asarray(value, DTYPES[kind])
    if kind.endswith("16"):
        return typed.view(np.uint16).astype(np.uint32)
    return typed.view(np.uint32)


def _dpp_writer(
    instruction: Decoded, row: int, kind: str, shape: Callable[[Values], Values]
) -> Writer:
    selection = dpp_selection(instruction)
    if words_of(kind) == 2:
        raise unsupported(instruction, "64-bit DPP")

    def write(wave: Wave, value: Values) -> None:
        word = _as_word(shape(value), kind)
        np.copyto(wave.v[row], word, where=selection.written(wave))

    return write


def _sdwa_writer(
    instruction: Decoded, row: int, kind: str, shape: Callable[[Values], Values]
) -> Writer:
    select, unused = instruction.fields["dst_sel"], instruction.fields["dst_unused"]
    if select == 6:
        return lambda wave, value: wave.write_vector(row, _as_word(shape(value), kind))
    shift, bits = (8 * select, 8) if select < 4 else (16 * (select - 4), 16)
    mask = ((1 << bits) - 1) << shift

    def write(wave: Wave, value: Values) -> None:
        word = _as_word(shape(value), kind) << shift & mask
        if unused == 2:
            word = word | wave.v[row] & np.uint32(~mask & 0xFFFFFFFF)
        elif unused == 1:
            spare = 32 - shift - bits
            word = ((word << spare).view(np.int32) >> spare).view(np.uint32)
        wave.write_vector(row, word)

    return write


def reads_old_destination(instruction: Decoded, op: VecOp) -> bool:
    """Whether part of the destination survives, so that its old value is a source."""
    if op.accumulates:
        return True
    if instruction.variant.startswith("SDWA"):
        fields = instruction.fields
        return fields.get("dst_sel", 6) != 6 and fields.get("dst_unused", 0) == 2
    return False


def build_op(instruction: Decoded, op: VecOp) -> MicroOp:
    """The step of one table row."""
    codes = source_codes(instruction)
    target = VGPR + instruction.fields["vdst"]
    width = words_of(op.result)
    if op.accumulates:
        codes = (*codes[: len(op.sources) - 1], target)
    readers = [
        source_reader(instruction, position, codes[position], kind)
        for position, kind in enumerate(op.sources)
    ]
    write = result_writer(instruction, op)
    function = op.function
    if op.saturated is not None and instruction.fields.get("clmp"):
        function = op.saturated
    reads = 0
    for code, kind in zip(codes, op.sources, strict=False):
        reads |= source_bits(code, words_of(kind))
    if reads_old_destination(instruction, op):
        reads |= register_bits(target, width)
    writes = register_bits(target, width)
    screen: Screen = screen_reads
    if op.copies:
        screen = screen_copy
    elif op.moves_bits:
        screen = screen_bits
    elif instruction.name in _LEFTWARD:
        uppers = [
            code + 1
            for code, kind in zip(codes, op.sources, strict=False)
            if kind == "u64" and code >= VGPR
        ]
        screen = screen_upper(uppers, target + 1)
    if instruction.variant == "DPP16":
        screen = dpp_selection(instruction).screen(codes[0], copies=op.copies)

    if op.takes_mask:
        taken = codes[len(op.sources)] if len(codes) > len(op.sources) else VCC
        reads |= register_bits(taken, 2)
        readers.append(lambda wave: lanes_of(wave.read_mask(taken)))

    def run(wave: Wave) -> None:
        write(wave, function(*[read(wave) for read in readers]))

    if not op.gives_mask:
        return MicroOp(instruction, run, reads, writes, screen)
    if instruction.variant not in ("", "LIT"):
        raise unsupported(instruction, instruction.variant)
    given = instruction.fields.get("sdst", VCC)

    def run_with_mask(wave: Wave) -> None:
        value, lanes = function(*[read(wave) for read in readers])
        write(wave, value)
        wave.write_mask(given, mask_of(np.broadcast_to(lanes, (LANES,))) & wave.exec_mask)

    return MicroOp(instruction, run_with_mask, reads, writes | register_bits(given, 2), screen)
