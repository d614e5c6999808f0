"""Vector skip (s_setvskip): a scalar bit decides whether vector instructions are issued.

    s_setvskip s20, 3               skip if bit 3 of s20 is set
    global_atomic_add_f32 ...
    s_setvskip 0, 0                 issue again

The mode is not state of a wave here but a branch: with the bit set, the wave goes on at the next
s_setvskip. Between the two there may be vector instructions and waits: a wait that is jumped over
orders nothing, so nothing is taken to be in order that is not. Source: Vega ISA, "S_SETVSKIP".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import scalar_source, unsupported
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

_NAME = "s_setvskip"
_ZERO = 128
"""The operand code of the constant 0: skipping is turned off."""
_WAITS = ("s_nop", "s_waitcnt")
_SCALAR = ("SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM")


def skip_places(instructions: Sequence[Decoded]) -> Mapping[int, int]:
    """By pc of an s_setvskip, the place of the next, if only vector instructions lie between."""
    found: dict[int, int] = {}
    last: int | None = None
    for place, instruction in enumerate(instructions):
        if instruction.name == _NAME:
            if last is not None:
                found[last] = place
            last = instruction.pc
        elif instruction.encoding in _SCALAR and instruction.name not in _WAITS:
            last = None
    return found


def build(instruction: Decoded, places: Mapping[int, int]) -> MicroOp | None:
    """The step of s_setvskip, or None; ``places`` are those of ``skip_places``."""
    if instruction.name != _NAME:
        return None
    source, number = instruction.fields["ssrc0"], instruction.fields["ssrc1"]
    if source == _ZERO:
        return MicroOp(instruction, lambda wave: None)
    if instruction.pc not in places:
        raise unsupported(instruction, "with more than vector instructions up to the next one")
    target = places[instruction.pc]
    value, bit = (scalar_source(code, 1, instruction) for code in (source, number))

    def run(wave: Wave) -> None:
        if value.read(wave) >> (bit.read(wave) & 31) & 1:
            wave.next = target

    return MicroOp(instruction, run, value.registers | bit.registers)
