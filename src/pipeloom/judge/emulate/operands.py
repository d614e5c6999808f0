"""Source and destination operands: functions of a wave, and the registers that they touch.

A reader is chosen once, when the program is built, so that executing an instruction never looks
at an operand code again. Scalar readers give ints. Vector readers give arrays of 64 lanes, or of
one where the operand is the same for all lanes; NumPy broadcasts the two together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.register_numbers import AGPR, EXEC, SCC, VCC, VGPR, WORD, register_bits
from pipeloom.judge.emulate.traps import UnsupportedInstructionError
from pipeloom.judge.emulate.wave import Wave

ScalarReader = Callable[[Wave], int]
ScalarWriter = Callable[[Wave, int], None]


class ReadOperand(NamedTuple):
    """An operand that is read: what gives its value, and the registers that hold it."""

    read: Callable[[Wave], Any]
    registers: int

    def then(self, function: Callable[[Any], Any]) -> ReadOperand:
        """The same registers, and what a function makes of their value."""
        read = self.read
        return ReadOperand(lambda wave: function(read(wave)), self.registers)


def all_registers(sources: Iterable[ReadOperand]) -> int:
    """The registers of several."""
    bits = 0
    for source in sources:
        bits |= source.registers
    return bits


LITERAL = 255
_VCCZ, _EXECZ = 251, 252
_FLOATS = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
    248: 0.15915494309189535,
}


def unsupported(instruction: Decoded, why: str = "") -> UnsupportedInstructionError:
    """The error for an instruction, or a form of it, that the emulator does not model."""
    reason = f" ({why})" if why else ""
    return UnsupportedInstructionError(
        f"{instruction.name} at pc {instruction.pc:#x} is not supported by the emulator{reason}",
        hint="docs/emulator.md lists what is modelled; compile the kernel without the instruction, "
        "or add it to its family's file in pipeloom/judge/emulate",
    )


def constant(code: int, kind: str, instruction: Decoded) -> int | None:
    """The bits of an inline constant or literal, or None for a register.

    ``kind`` decides how a float constant is encoded: f16, f32 or f64; integers keep their sign
    to 64 bits.
    """
    if 128 <= code <= 192:
        return code - 128
    if 193 <= code <= 208:
        return (192 - code) & 0xFFFFFFFFFFFFFFFF
    if code in _FLOATS:
        layout = {"f16": ("<e", "<H"), "f64": ("<d", "<Q")}.get(kind, ("<f", "<I"))
        value: int = struct.unpack(layout[1], struct.pack(layout[0], _FLOATS[code]))[0]
        return value
    if code == LITERAL:
        literal = instruction.literal
        if literal is None:
            raise unsupported(instruction, "literal without a value")
        if kind == "f64":
            return literal << 32
        return literal
    return None


def data_row(instruction: Decoded, field: str) -> int:
    """The vector register, VGPR or AGPR, that a data field names."""
    return instruction.fields[field] + (AGPR - VGPR if instruction.fields["acc"] else 0)


def _scalar_bits(code: int, words: int) -> int:
    """The registers that a scalar operand reads."""
    if code < 128:
        return register_bits(code, words)
    if code == _VCCZ:
        return register_bits(VCC, 2)
    if code == _EXECZ:
        return register_bits(EXEC, 2)
    return 1 << SCC if code == SCC else 0


def scalar_source(code: int, words: int, instruction: Decoded) -> ReadOperand:
    """One (32-bit) or two (64-bit) words of a scalar source."""
    return ReadOperand(_scalar_reader(code, words, instruction), _scalar_bits(code, words))


def _scalar_reader(code: int, words: int, instruction: Decoded) -> ScalarReader:
    value = constant(code, "f64" if words == 2 else "f32", instruction)
    if value is not None:
        fixed = value & (WORD if words == 1 else 0xFFFFFFFFFFFFFFFF)
        if words == 2 and code == LITERAL:
            fixed = _long_literal(instruction)
        return lambda wave: fixed
    if code < 128:
        if words == 1:
            return lambda wave: wave.s[code]
        return lambda wave: wave.s[code] | wave.s[code + 1] << 32
    if code == SCC:
        return lambda wave: wave.scc
    if code == _VCCZ:
        return lambda wave: int(not (wave.s[VCC] | wave.s[VCC + 1]))
    if code == _EXECZ:
        return lambda wave: int(not wave.exec_mask)
    raise unsupported(instruction, f"scalar source {code}")


def _long_literal(instruction: Decoded) -> int:
    """A literal as a 64-bit operand: of signed operations its sign goes on, others have zeros.

    LLVM, pull request 70274: "correctly sign extended or incorrectly zero extended by HW".
    """
    literal = instruction.literal or 0
    signed = instruction.name.endswith("_i64")
    return literal | (0xFFFFFFFF00000000 if signed and literal >> 31 else 0)


def scalar_writer(code: int, words: int, instruction: Decoded) -> ScalarWriter:
    """A writer of one or two words to a scalar destination."""
    if code >= 128:
        raise unsupported(instruction, f"scalar destination {code}")
    if code in (EXEC, EXEC + 1):

        def write_exec(wave: Wave, value: int) -> None:
            if words == 2:
                wave.set_exec(value)
            elif code == EXEC:
                wave.set_exec(wave.exec_mask & ~WORD | value)
            else:
                wave.set_exec(wave.exec_mask & WORD | value << 32)

        return write_exec
    if words == 1:

        def write_word(wave: Wave, value: int) -> None:
            wave.s[code] = value

        return write_word

    def write_pair(wave: Wave, value: int) -> None:
        wave.s[code] = value & WORD
        wave.s[code + 1] = value >> 32

    return write_pair


def word_source(code: int, kind: str, instruction: Decoded) -> ReadOperand:
    """32 bits per lane."""
    if code >= VGPR:
        row = code - VGPR
        return ReadOperand(lambda wave: wave.v[row], 1 << code)
    value = constant(code, kind, instruction)
    if value is not None:
        return _constant(value & WORD, np.uint32)
    return scalar_source(code, 1, instruction).then(lambda value: np.array([value], np.uint32))


def long_source(code: int, kind: str, instruction: Decoded) -> ReadOperand:
    """64 bits per lane, from register pairs."""
    if code >= VGPR:
        row = code - VGPR
        return ReadOperand(
            lambda wave: join_words(wave.v[row], wave.v[row + 1]), register_bits(code, 2)
        )
    if code == LITERAL and kind != "f64":
        value: int | None = _long_literal(instruction)
    else:
        value = constant(code, kind, instruction)
    if value is not None:
        return _constant(value & 0xFFFFFFFFFFFFFFFF, np.uint64)
    return scalar_source(code, 2, instruction).then(lambda value: np.array([value], np.uint64))


def _constant(value: int, dtype: type[np.generic]) -> ReadOperand:
    fixed = np.array([value], dtype)
    fixed.setflags(write=False)
    return ReadOperand(lambda wave: fixed, 0)


def join_words(low: Words, high: Words) -> Array:
    """Two 32-bit halves as 64 bits."""
    pair = np.empty((low.size, 2), np.uint32)
    pair[:, 0] = low
    pair[:, 1] = high
    return pair.view(np.uint64)[:, 0]
