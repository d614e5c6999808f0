"""Which bytes a vector memory instruction names: buffer descriptors and 64-bit global addresses.

An access outside the buffer descriptor's range is defined (loads give 0, stores do nothing) and no
finding; one inside the descriptor but outside every allocation is, and so is a descriptor that
describes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeloom.array_kinds import Flags, Indices, Places, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.global_memory import Extent, Spread
from pipeloom.judge.emulate.observe import AddressSpace, Effect, LaneAccess
from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.operands import scalar_source, unsupported
from pipeloom.judge.emulate.register_numbers import LANES, VGPR, each_register, register_bits
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.screening import check_in_flight, check_poison, check_sources
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave, lanes_to_mask

_NO_LANES: Indices = np.empty(0, np.intp)
_ZERO = np.zeros((1, LANES), np.uint32)

OFF = 0x7F
"""The scalar address field's code for "none"."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one lane moves: bytes, sign extension, and which half of the register (d16)."""

    size: int
    is_signed: bool = False
    half: str = ""

    @property
    def words(self) -> int:
        return max(self.size // 4, 1)


def merged_half(old: Words, value: Words, half: str) -> Words:
    """What a register holds where only one half of it is loaded, or all of it."""
    if half == "low":
        return old & np.uint32(0xFFFF0000) | value & np.uint32(0xFFFF)
    return old & np.uint32(0xFFFF) | value << np.uint32(16) if half == "high" else value


TRANSFERS = {
    "ubyte": Transfer(1),
    "sbyte": Transfer(1, True),
    "ushort": Transfer(2),
    "sshort": Transfer(2, True),
    "byte": Transfer(1),
    "short": Transfer(2),
    "dword": Transfer(4),
    "dwordx2": Transfer(8),
    "dwordx3": Transfer(12),
    "dwordx4": Transfer(16),
    "ubyte_d16": Transfer(1, False, "low"),
    "ubyte_d16_hi": Transfer(1, False, "high"),
    "sbyte_d16": Transfer(1, True, "low"),
    "sbyte_d16_hi": Transfer(1, True, "high"),
    "short_d16": Transfer(2, False, "low"),
    "short_d16_hi": Transfer(2, False, "high"),
    "byte_d16_hi": Transfer(1, False, "high"),
}


@dataclass(slots=True, eq=False)
class Reached:
    """The lanes that really access memory, where, and which lanes are outside the descriptor."""

    lanes: Indices
    base: int
    spread: Spread
    active: Indices
    clipped: Flags | None = None

    @property
    def addresses(self) -> Places:
        return self.spread.values + self.base

    def touches(
        self, wave: Wave, effect: Effect, size: int, values: Words | None = None
    ) -> tuple[LaneAccess, ...]:
        """What an observer, if there is one, is told of the access."""
        if wave.group.observer is None:
            return ()
        return (LaneAccess(AddressSpace.GLOBAL, effect, self.lanes, self.addresses, size, values),)


Locate = Callable[[Wave], Reached]


def _spread(wave: Wave, row: int, words: int) -> Spread:
    """The offsets or addresses that the active lanes hold in registers from ``row``."""
    registers = wave.v[row : row + words]
    return wave.group.memory.spread(registers, wave.exec_mask, wave.lane_numbers)


def reach(
    wave: Wave, instruction: Decoded, base: int, spread: Spread, size: int, verb: str
) -> list[Extent]:
    """The buffers that hold ``size`` bytes at each place; what falls in none is a finding."""
    memory = wave.group.memory
    extents, outside = memory.reach(base, spread, size)
    if outside.size:
        where = memory.describe(int(outside[0]))
        lanes = f" in {outside.size} lanes" if instruction.encoding != "SMEM" else ""
        message = f"{verb} {size} bytes at {where}{lanes}"
        wave.group.report(DefectKind.OUT_OF_BOUNDS, wave, instruction, message)
    return extents


def global_address(instruction: Decoded) -> tuple[Locate, int]:
    """64-bit vector address, or scalar base plus 32-bit vector offset; and the registers read."""
    fields = instruction.fields
    offset, row, base = signed(fields["offset"], 13), fields["addr"], fields["saddr"]
    if instruction.encoding == "FLAT":
        offset, base = fields["offset"] & 0xFFF, OFF
    if base == OFF:

        def locate(wave: Wave) -> Reached:
            spread = _spread(wave, row, 2)
            return Reached(spread.lanes, offset, spread, spread.lanes)

        return locate, register_bits(VGPR + row, 2)
    read_base, of_base = scalar_source(base, 2, instruction)

    def locate_from(wave: Wave) -> Reached:
        spread = _spread(wave, row, 1)
        start = signed(read_base(wave) + offset & 0xFFFFFFFFFFFFFFFF, 64)
        return Reached(spread.lanes, start, spread, spread.lanes)

    return locate_from, 1 << (VGPR + row) | of_base


_RAW_BUFFER = 0x00027000
"""Descriptor word 3 as compilers write it: data format 32, number format float."""
_UNMODELLED = (
    # (bits of word 3, shift, what they are), CDNA3 ISA "Buffer Resource Descriptor".
    (0x3, 19, "user VM mode"),
    (0x3, 21, "index stride"),
    (0x1, 23, "add-tid"),
    (0x1, 27, "non-volatile"),
    (0x3, 30, "a type that is no buffer"),
)


def _is_valid(wave: Wave, instruction: Decoded, resource: int) -> bool:
    """Whether the descriptor describes memory; data format 0 does not, and is a finding.

    Raises UnsupportedInstructionError for fields that change the address and are not modelled.
    """
    word = wave.s[resource + 3]
    if wave.s[resource + 1] >> 31:
        raise unsupported(instruction, "swizzled buffer descriptor")
    for mask, shift, what in _UNMODELLED:
        if word >> shift & mask:
            raise unsupported(instruction, f"buffer descriptor with {what}, word 3 is {word:#x}")
    if word >> 15 & 0xF:
        return True
    wave.group.report(
        DefectKind.INVALID_DESCRIPTOR,
        wave,
        instruction,
        f"s[{resource}:{resource + 3}] has data format 0, so it describes no memory "
        f"(word 3 is {word:#x}; {_RAW_BUFFER:#x} is a raw buffer)",
    )
    return False


def buffer_address(instruction: Decoded, transfer: Transfer) -> tuple[Locate, int]:
    """Descriptor addressing: raw (stride 0 or no index) and structured without swizzle.

    Range check (CDNA3 ISA, "Buffer addressing"): raw buffers compare the offset, without soffset,
    to num_records - soffset, dword by dword; structured ones compare the index, and the offset only
    where they are swizzled: shipped kernels move 16 bytes at a stride of 4. On gfx9 the
    instruction's idxen decides, beside the stride, in which unit num_records counts (Mesa,
    si_descriptors.c, "NUM_RECORDS"): hand-written kernels set a stride and never index.
    """
    fields = instruction.fields
    resource, row, offset = fields["srsrc"], fields["vaddr"], fields["offset"]
    offen, idxen = bool(fields["offen"]), bool(fields["idxen"])
    read_soffset, of_soffset = scalar_source(fields["soffset"], 1, instruction)
    words = transfer.words

    def locate(wave: Wave) -> Reached:
        s = wave.s
        base = s[resource] | (s[resource + 1] & 0xFFFF) << 32
        stride, records = s[resource + 1] >> 16 & 0x3FFF if idxen else 0, s[resource + 2]
        plain = s[resource + 3] == _RAW_BUFFER and not s[resource + 1] >> 31
        if not plain and not _is_valid(wave, instruction, resource):
            return Reached(_NO_LANES, 0, Spread(_NO_LANES), wave.lane_numbers())
        soffset = read_soffset(wave)
        if offen:
            spread = _spread(wave, row + idxen, 1)
        else:
            spread = wave.group.memory.spread(_ZERO, wave.exec_mask, wave.lane_numbers)
        lanes = spread.lanes
        if not stride and spread.high + offset + transfer.size <= records - soffset:
            return Reached(lanes, base + soffset + offset, spread, lanes)
        within = spread.values + offset
        if stride:
            index = wave.v[row, lanes].astype(np.int64)
            outside = index >= records
            total = base + soffset + index * stride + within
        else:
            outside = within >= records - soffset
            total = base + soffset + within
        clipped = None
        if not stride and words > 1:
            last = within + 4 * (words - 1) >= records - soffset
            if (last & ~outside).any():
                place = within[:, None] + 4 * np.arange(words)
                clipped = (place >= records - soffset)[~outside]
        if outside.any():
            return Reached(lanes[~outside], 0, Spread(total[~outside]), lanes, clipped)
        return Reached(lanes, 0, Spread(total), lanes, clipped)

    reads = register_bits(resource, 4) | of_soffset
    if offen or idxen:
        reads |= register_bits(VGPR + row, int(offen) + int(idxen))
    return locate, reads


def screen_stored(locate: Locate, reads: int, data: int) -> Callable[[Wave, MicroOp], None]:
    """What is looked at before ``data`` is stored, at addresses that ``reads`` decide.

    Lanes outside the descriptor store nothing: compilers mask stores that way.
    """

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, each_register(reads & wave.dirty))
        kept = None
        for register in each_register(data & wave.dirty):
            check_in_flight(wave, step, register, wave.exec_mask)
            if wave.poison.get(register, 0) & wave.exec_mask:
                if kept is None:
                    kept = lanes_to_mask(locate(wave).lanes)
                check_poison(wave, step, register, kept)

    return screen
