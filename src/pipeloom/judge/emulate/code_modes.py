"""Modes that are no state of a wave here but stretches of code: VGPR indexing and vector skip.

    s_set_gpr_idx_on s4, 0x1        M0[7:0] = s4, M0[15:12] = 1: source 0 is indexed
    v_mov_b32 v0, v8                v0 = v[8 + s4]
    s_set_gpr_idx_off

Indexing lasts from the instruction that turns it on to the one that turns it off: branches within
it, or into it, are refused. Which operands move stands in M0 (bit 12 source 0, 13 source 1, 14
source 2, 15 destination). Source: CDNA3 ISA, "VGPR Indexing" and S_SET_GPR_IDX_ON.

    s_setvskip s20, 3               skip if bit 3 of s20 is set
    global_atomic_add_f32 ...
    s_setvskip 0, 0                 issue again

Skipping is a branch: with the bit set, the wave goes on at the next s_setvskip. Between the two
there may be vector instructions and waits: a wait that is jumped over orders nothing, so nothing is
taken to be in order that is not. Source: Vega ISA, "S_SETVSKIP".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import scalar_source, unsupported
from pipeloom.judge.emulate.register_numbers import M0, VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.emulate.wave import Wave
from pipeloom.machine.cdna import VECTOR_REGISTERS

_ON, _OFF, _MODE, _IDX = (f"s_set_gpr_idx_{what}" for what in ("on", "off", "mode", "idx"))
_OPERANDS = (
    # (bit of M0, field, code of v0 in it)
    (12, "src0", VGPR),
    (13, "src1", VGPR),
    (13, "vsrc1", 0),
    (14, "src2", VGPR),
    (15, "vdst", 0),
)
_VECTOR = ("VOP1", "VOP2", "VOP3", "VOP3P", "VOPC")


def indexed_pcs(instructions: Sequence[Decoded]) -> frozenset[int]:
    """The vector instructions that run while indexing is on."""
    inside = False
    found: dict[int, bool] = {}
    for instruction in instructions:
        if instruction.name in (_ON, _OFF):
            inside = instruction.name == _ON
        elif inside:
            found[instruction.pc] = instruction.encoding in _VECTOR
    if not found:
        return frozenset()
    for instruction in instructions:
        target = instruction.target
        if target is not None and (instruction.pc in found or target in found):
            raise unsupported(instruction, "a branch while VGPR indexing is on")
    return frozenset(pc for pc, is_vector in found.items() if is_vector)


def build(instruction: Decoded) -> MicroOp | None:
    """The step of an instruction that sets the mode, or None."""
    name, m0 = instruction.name, 1 << M0
    if name == _OFF:
        return MicroOp(instruction, lambda wave: None)
    if name == _MODE:
        bits = (instruction.fields["simm16"] & 0xF) << 12

        def set_mode(wave: Wave) -> None:
            wave.s[M0] = wave.s[M0] & ~0xF000 | bits

        return MicroOp(instruction, set_mode, m0, m0, keeps=m0)
    if name not in (_ON, _IDX):
        return None
    read, reads = scalar_source(instruction.fields["ssrc0"], 1, instruction)
    kept = ~0xF0FF if name == _ON else ~0xFF
    mode = (instruction.fields["ssrc1"] & 0xF) << 12 if name == _ON else 0

    def set_index(wave: Wave) -> None:
        wave.s[M0] = wave.s[M0] & kept | read(wave) & 0xFF | mode

    # What M0 held is kept in bits that indexing does not look at: no use of a value.
    return MicroOp(instruction, set_index, reads | (m0 if name == _IDX else 0), m0, keeps=m0)


def indexed(instruction: Decoded, make: Callable[[Decoded], MicroOp]) -> MicroOp:
    """The step of a vector instruction under indexing: what ``make`` gives for the moved one."""
    plain = make(instruction)
    variants: dict[int, MicroOp] = {}

    def moved(wave: Wave) -> MicroOp:
        key = wave.s[M0] & 0xF0FF
        if key not in variants:
            variants[key] = make(_moved(instruction, key))
        return variants[key]

    def run(wave: Wave) -> None:
        moved(wave).run(wave)

    def screen(wave: Wave, step: MicroOp) -> None:
        real = moved(wave)
        real.screen(wave, real)

    step = MicroOp(
        instruction,
        run,
        plain.reads | 1 << M0,
        plain.writes,
        screen,
        plain.whole_wave,
        keeps=plain.keeps,
        moved=moved,
    )
    step.touched |= register_bits(VGPR, VECTOR_REGISTERS)
    return step


def _moved(instruction: Decoded, key: int) -> Decoded:
    fields: Mapping[str, int] = dict(instruction.fields)
    shifted = {
        name: fields[name] + (key & 0xFF)
        for bit, name, first in _OPERANDS
        if key >> bit & 1 and fields.get(name, -1) >= first
    }
    for name, first in ((name, first) for _, name, first in _OPERANDS if name in shifted):
        if shifted[name] - first > 255:
            raise EmulateError(
                f"{instruction.name} at pc {instruction.pc:#x}: {name} is indexed to register "
                f"{shifted[name] - first}; there are 256",
                hint="keep the index of s_set_gpr_idx_on within the registers",
            )
    return replace(instruction, fields={**fields, **shifted})


_SKIP = "s_setvskip"
_ZERO = 128
"""The operand code of the constant 0: skipping is turned off."""
_WAITS = ("s_nop", "s_waitcnt")
_SCALAR = ("SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM")


def skip_places(instructions: Sequence[Decoded]) -> Mapping[int, int]:
    """By pc of an s_setvskip, the place of the next, if only vector instructions lie between."""
    found: dict[int, int] = {}
    last: int | None = None
    for place, instruction in enumerate(instructions):
        if instruction.name == _SKIP:
            if last is not None:
                found[last] = place
            last = instruction.pc
        elif instruction.encoding in _SCALAR and instruction.name not in _WAITS:
            last = None
    return found


def build_skip(instruction: Decoded, places: Mapping[int, int]) -> MicroOp | None:
    """The step of s_setvskip, or None; ``places`` are those of ``skip_places``."""
    if instruction.name != _SKIP:
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
