"""Instructions from the text of an op's lowering: ``v_max_f32 {d}, 0, {0}``.

``{d}`` is the result, ``{0}``, ``{1}`` the operands, ``{t}`` a scratch register; besides these an
operand is ``vcc``, an integer or a float. An opcode that the instruction table lacks, but the judge
of wait states knows, gets a signature from its text: the first operand is written, the others are
read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from pipeloom.machine.mnemonics import MNEMONICS, Pipe
from pipeloom.program import OpDef
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import OPCODES, VCC, Opcode, Operand, Register

_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"-?\d+\.\d*(e-?\d+)?$")
_PLACE = re.compile(r"\{(d|t|\d)\}$")
OPERANDS = "operands are {d}, {0}, {1}, ..., {t}, vcc and numbers"
INLINE = range(-16, 65)
"""Integers that an instruction holds without a literal (CDNA3 ISA, 5.2)."""


def float_bits(value: float) -> int:
    """The f32 bit pattern."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


@dataclass(frozen=True, slots=True)
class Template:
    """One line: an opcode and its operands, of which strings stand for registers to come."""

    opcode: Opcode
    operands: tuple[str | int | Register, ...]
    modifiers: tuple[str, ...]

    @property
    def takes_scalar(self) -> bool:
        """Whether one of its operands may be a scalar: gfx9 reads one constant per instruction."""
        literal = any(isinstance(o, int) and o not in INLINE for o in self.operands)
        return not literal and VCC not in self.operands

    def filled(self, places: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """The operands with registers in their places."""
        return tuple(places[o] if isinstance(o, str) else o for o in self.operands)


def templates_of(op: OpDef) -> tuple[Template, ...]:
    """The lines of an op; raises ``EmitError`` naming what cannot be read."""
    lowered = op.lowered()
    if lowered is None:
        raise EmitError(
            f"op {op.name!r} has no lowering",
            hint="give its OpDef the instructions for one register: lowering=('v_... {d}, {0}',)",
            field=op.name,
        )
    return tuple(_template(op, line) for line in lowered.instructions)


def _template(op: OpDef, line: str) -> Template:
    name, _, rest = line.strip().partition(" ")
    parts = [part.strip() for part in rest.split(",")] if rest.strip() else []
    modifiers: tuple[str, ...] = ()
    if parts:
        last, *modifiers_ = parts[-1].split()
        parts[-1], modifiers = last, tuple(modifiers_)
    operands = tuple(_operand(op, line, part) for part in parts)
    if not operands or not name.startswith("v_"):
        raise _unreadable(op, line, "is no vector instruction with a result")
    opcode, known = OPCODES.get(name), MNEMONICS.get(re.sub(r"_e(32|64)$", "", name))
    if opcode is None and known is None:
        near = get_close_matches(name, [*OPCODES, *MNEMONICS], n=3)
        hint = f"near it: {', '.join(dict.fromkeys(near))}" if near else "names are LLVM's"
        raise _unreadable(op, line, f"has the unknown instruction {name}", hint)
    if opcode is None:
        if known is not None and known.results > 1:
            raise _unreadable(op, line, "writes two results")
        codes = ["cs2" if operands[0] == VCC else "v1"]
        codes += ["cs2" if operand == VCC else "svi1" for operand in operands[1:]]
        opcode = Opcode(name, Pipe.VALU, ("=" + codes[0], *codes[1:]))
    elif opcode.unit is not Pipe.VALU or len(opcode.operands) != len(operands):
        raise _unreadable(op, line, f"does not fit {name} {', '.join(opcode.operands)}")
    written = [o for o, how in zip(operands, opcode.operands, strict=True) if how.startswith("=")]
    changes = any(isinstance(o, str) and o.isdigit() for o in written)
    if changes or (known is not None and (known.swaps or known.writes_exec)):
        raise _unreadable(op, line, "writes an operand, or which lanes run")
    return Template(opcode, operands, modifiers)


def _operand(op: OpDef, line: str, part: str) -> str | int | Register:
    if part == "vcc":
        return VCC
    place = _PLACE.match(part)
    if place:
        if place[1].isdigit() and int(place[1]) >= op.arity:
            raise _unreadable(op, line, f"takes {part} of {op.arity} operand(s)")
        return place[1]
    if _INTEGER.match(part):
        return int(part, 0)
    if _FLOAT.match(part):
        return float_bits(float(part))
    raise _unreadable(op, line, f"has operand {part!r}")


def _unreadable(op: OpDef, line: str, what: str, hint: str = OPERANDS) -> EmitError:
    return EmitError(
        f"lowering of op {op.name!r}: {line!r} {what}", hint=hint, field=f"{op.name}.lowering"
    )
