"""Source and destination operands as functions of a wave.

A reader is chosen once, when the program is built, so that executing an instruction never looks
at an operand code again. Scalar readers give ints. Vector readers give arrays of 64 lanes, or of
one where the operand is the same for all lanes; NumPy broadcasts the two together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.register_numbers import AGPR, EXEC, SCC, VCC, VGPR, WORD, register_bits
from pipeloom.judge.emulate.traps import UnsupportedInstructionError
from pipeloom.judge.emulate.wave import Wave

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]
ScalarReader = Callable[[Wave], int]
ScalarWriter = Callable[[Wave, int], None]

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


def scalar_bits(code: int, words: int = 1) -> int:
    """The registers that a scalar operand reads."""
    if code < 128:
        return register_bits(code, words)
    if code == _VCCZ:
        return register_bits(VCC, 2)
    if code == _EXECZ:
        return register_bits(EXEC, 2)
    return 1 << SCC if code == SCC else 0


def source_bits(code: int, words: int = 1) -> int:
    """The registers that a vector instruction's source reads."""
    return register_bits(code, words) if code >= VGPR else scalar_bits(code, words)


def all_source_bits(codes: Iterable[int]) -> int:
    """The registers that several sources of one word read."""
    bits = 0
    for code in codes:
        bits |= source_bits(code)
    return bits


def scalar_reader(code: int, words: int, instruction: Decoded) -> ScalarReader:
    """A reader of one (32-bit) or two (64-bit) words from a scalar source."""
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


def word_reader(code: int, kind: str, instruction: Decoded) -> Callable[[Wave], Words]:
    """A reader of 32 bits per lane."""
    if code >= VGPR:
        row = code - VGPR
        return lambda wave: wave.v[row]
    value = constant(code, kind, instruction)
    if value is not None:
        fixed = np.array([value & WORD], np.uint32)
        fixed.setflags(write=False)
        return lambda wave: fixed
    read = scalar_reader(code, 1, instruction)
    return lambda wave: np.array([read(wave)], np.uint32)


def long_reader(code: int, kind: str, instruction: Decoded) -> Callable[[Wave], Longs]:
    """A reader of 64 bits per lane, from register pairs."""
    if code >= VGPR:
        row = code - VGPR
        return lambda wave: join_words(wave.v[row], wave.v[row + 1])
    if code == LITERAL and kind != "f64":
        value: int | None = _long_literal(instruction)
    else:
        value = constant(code, kind, instruction)
    if value is not None:
        fixed = np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64)
        fixed.setflags(write=False)
        return lambda wave: fixed
    read = scalar_reader(code, 2, instruction)
    return lambda wave: np.array([read(wave)], np.uint64)


def join_words(low: Words, high: Words) -> Longs:
    """Two 32-bit halves as 64 bits."""
    pair = np.empty((low.size, 2), np.uint32)
    pair[:, 0] = low
    pair[:, 1] = high
    return pair.view(np.uint64)[:, 0]
