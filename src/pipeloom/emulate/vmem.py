"""Vector memory: buffer, global and scratch instructions, and loads straight into LDS.

All count in vmcnt, stores included, and retire in order. Addresses and store data are taken at
issue; the data moves when the operation lands.

An access outside the buffer descriptor's range is defined (loads give 0, stores do nothing) and no
finding; one inside the descriptor but outside every allocation is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeloom.emulate.decode import Instruction
from pipeloom.emulate.ds import report_race, settle_lds
from pipeloom.emulate.findings import FindingKind
from pipeloom.emulate.memory import (
    Addresses,
    load_octets,
    load_words,
    store_octets,
    store_words,
)
from pipeloom.emulate.operands import scalar_bits, scalar_reader, unsupported
from pipeloom.emulate.pending import Counter, Pending
from pipeloom.emulate.registers import AGPR, LANES, M0, VGPR, each_register, register_bits
from pipeloom.emulate.salu import signed
from pipeloom.emulate.screening import check_in_flight, check_sources, settle_writes
from pipeloom.emulate.step import Step
from pipeloom.emulate.wave import Wave

Words = npt.NDArray[np.uint32]
LaneList = npt.NDArray[np.intp]

_EVERY_LANE = np.arange(LANES)
_OFF = 0x7F
_LDS_DMA_MASK = 0x3FFFF
"""Bits of M0 that address LDS for a load into it; 18 cover gfx950's 160 KiB."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one lane moves: bytes, sign extension, and which half of the register (d16)."""

    size: int
    is_signed: bool = False
    half: str = ""

    @property
    def words(self) -> int:
        return max(self.size // 4, 1)


_TRANSFERS = {
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
class Target:
    """The lanes that really access memory, where, and which lanes are outside the descriptor."""

    lanes: LaneList
    addresses: Addresses
    active: LaneList
    clipped: npt.NDArray[np.bool_] | None = None


Locate = Callable[[Wave], Target]


def build(instruction: Instruction, arch: str) -> Step | None:
    """The step of a vector memory instruction, or None."""
    if instruction.encoding not in ("MUBUF", "GLOBAL", "SCRATCH", "FLAT", "MTBUF"):
        return None
    name = instruction.name
    if name in ("buffer_wbl2", "buffer_inv"):
        return Step(instruction, lambda wave: None)
    space, verb, *rest = name.split("_")
    if space in ("flat", "tbuffer") or verb not in ("load", "store"):
        raise unsupported(instruction)
    into_lds = bool(instruction.fields.get("lds")) or rest[0] == "lds"
    key = "_".join(rest[1:] if rest[0] == "lds" else rest)
    if key not in _TRANSFERS:
        raise unsupported(instruction)
    transfer = _TRANSFERS[key]
    if into_lds:
        wide = transfer.size in (12, 16) and arch == "gfx950"
        if not (transfer.size <= 4 or wide):
            raise unsupported(instruction, f"{transfer.size} bytes per lane into LDS on {arch}")
    if space == "scratch":
        if into_lds or transfer.size < 4:
            raise unsupported(instruction)
        return _scratch(instruction, transfer, verb == "store")
    if space == "buffer":
        locate, reads = _buffer_address(instruction, transfer)
        data_field = "vdata"
    else:
        locate, reads = _global_address(instruction)
        data_field = "data" if verb == "store" else "vdst"
    if into_lds:
        return _load_to_lds(instruction, transfer, locate, reads)
    row = instruction.fields[data_field] + (AGPR - VGPR if instruction.fields["acc"] else 0)
    if verb == "store":
        return _store(instruction, transfer, locate, reads, row)
    return _load(instruction, transfer, locate, reads, row)


# --- addresses ------------------------------------------------------------------------------------


def _active(wave: Wave) -> LaneList:
    return _EVERY_LANE if wave.full else np.flatnonzero(wave.active)


def _global_address(instruction: Instruction) -> tuple[Locate, int]:
    fields = instruction.fields
    offset, row, base = signed(fields["offset"], 13), fields["addr"], fields["saddr"]
    if base == _OFF:

        def locate(wave: Wave) -> Target:
            lanes = _active(wave)
            low = wave.v[row, lanes].astype(np.int64)
            high = wave.v[row + 1, lanes].astype(np.int64)
            return Target(lanes, (high << 32 | low) + offset, lanes)

        return locate, register_bits(VGPR + row, 2)
    read_base = scalar_reader(base, 2, instruction)

    def locate_from(wave: Wave) -> Target:
        lanes = _active(wave)
        start = read_base(wave) + offset
        return Target(lanes, wave.v[row, lanes].astype(np.int64) + start, lanes)

    return locate_from, 1 << (VGPR + row) | register_bits(base, 2)


def _buffer_address(instruction: Instruction, transfer: Transfer) -> tuple[Locate, int]:
    """Descriptor addressing: raw (stride 0) and structured without swizzle.

    Range check (CDNA3 ISA, "Buffer addressing"): raw buffers compare the offset, without soffset,
    to num_records - soffset, dword by dword; structured ones compare the index.
    """
    fields = instruction.fields
    resource, row, offset = fields["srsrc"], fields["vaddr"], fields["offset"]
    offen, idxen = bool(fields["offen"]), bool(fields["idxen"])
    read_soffset = scalar_reader(fields["soffset"], 1, instruction)
    words = transfer.words

    def locate(wave: Wave) -> Target:
        s = wave.s
        base = s[resource] | (s[resource + 1] & 0xFFFF) << 32
        stride, records = s[resource + 1] >> 16 & 0x3FFF, s[resource + 2]
        if s[resource + 1] >> 31 or s[resource + 3] >> 23 & 1:
            raise unsupported(instruction, "swizzled or add-tid buffer descriptor")
        soffset = read_soffset(wave)
        lanes = _active(wave)
        if offen:
            within = wave.v[row + idxen, lanes].astype(np.int64) + offset
        else:
            within = np.full(lanes.size, offset, np.int64)
        if stride:
            index = wave.v[row, lanes].astype(np.int64) if idxen else np.zeros(lanes.size, np.int64)
            outside = (index >= records) | (within + transfer.size > stride)
            total = base + soffset + index * stride + within
        else:
            if idxen:
                raise unsupported(instruction, "idxen with stride 0")
            outside = within >= records - soffset
            total = base + soffset + within
        clipped = None
        if not stride and words > 1:
            last = within + 4 * (words - 1) >= records - soffset
            if (last & ~outside).any():
                place = within[:, None] + 4 * np.arange(words)
                clipped = (place >= records - soffset)[~outside]
        if outside.any():
            return Target(lanes[~outside], total[~outside], lanes, clipped)
        return Target(lanes, total, lanes, clipped)

    reads = register_bits(resource, 4) | scalar_bits(fields["soffset"])
    if offen or idxen:
        reads |= register_bits(VGPR + row, int(offen) + int(idxen))
    return locate, reads


def _report_outside(
    wave: Wave, instruction: Instruction, outside: Addresses, size: int, verb: str
) -> None:
    where = wave.group.memory.describe(int(outside[0]))
    wave.group.report(
        FindingKind.OUT_OF_BOUNDS,
        wave,
        instruction,
        f"{verb} {size} bytes at {where} in {outside.size} lanes",
    )


def _screen_load(wave: Wave, step: Step) -> None:
    check_sources(wave, step, each_register(step.reads & wave.dirty))
    settle_writes(wave, step, loading=Counter.VM)


def _fetch(
    wave: Wave, instruction: Instruction, transfer: Transfer, target: Target
) -> Callable[[], Words]:
    """Check bounds now; return what reads the data when called: one row per accessing lane."""
    memory = wave.group.memory
    count, words, size = target.lanes.size, transfer.words, transfer.size
    clipped = target.clipped
    if clipped is not None:
        return _fetch_clipped(wave, instruction, transfer, target, clipped)
    extents, outside = memory.split(target.addresses, size)
    if outside.size:
        _report_outside(wave, instruction, outside, size, "reads")
    if size >= 4:
        return lambda: load_words(extents, count, words)
    shift = 32 - 8 * size

    def small() -> Words:
        value = load_octets(extents, count, size)
        if transfer.is_signed:
            value = ((value << shift).view(np.int32) >> shift).view(np.uint32)
        return value[:, None]

    return small


def _fetch_clipped(
    wave: Wave,
    instruction: Instruction,
    transfer: Transfer,
    target: Target,
    clipped: npt.NDArray[np.bool_],
) -> Callable[[], Words]:
    """A load that crosses the descriptor's end: dword by dword, zeros past it."""
    parts: list[tuple[int, npt.NDArray[np.bool_], Callable[[], Words]]] = []
    for i in range(transfer.words):
        inside = ~clipped[:, i]
        part = Target(target.lanes[inside], target.addresses[inside] + 4 * i, target.active)
        parts.append((i, inside, _fetch(wave, instruction, Transfer(4), part)))

    def gather() -> Words:
        result = np.zeros((target.lanes.size, transfer.words), np.uint32)
        for i, inside, fetch in parts:
            if inside.any():
                result[inside, i] = fetch()[:, 0]
        return result

    return gather


def _load(
    instruction: Instruction, transfer: Transfer, locate: Locate, reads: int, row: int
) -> Step:
    words, half = transfer.words, transfer.half
    written = register_bits(VGPR + row, words)

    def run(wave: Wave) -> None:
        target = locate(wave)
        fetch = _fetch(wave, instruction, transfer, target)
        lanes, active = target.lanes, target.active
        if not half:
            for i in range(words):
                wave.v[row + i, active] = 0xFFFFFFFF

        def land() -> None:
            if lanes.size != active.size:
                for i in range(words):
                    wave.v[row + i, active] = _merge(wave.v[row + i, active], half)
            if not lanes.size:
                return
            data = fetch()
            if lanes.size == LANES and not half:
                wave.v[row : row + words] = data.T
                return
            for i in range(words):
                value = data[:, i]
                if half == "low":
                    value = wave.v[row, lanes] & 0xFFFF0000 | value & 0xFFFF
                elif half == "high":
                    value = wave.v[row, lanes] & 0xFFFF | value << 16
                wave.v[row + i, lanes] = value

        wave.group.issue(wave, Pending(instruction, Counter.VM, land, written, wave.exec_mask))

    return Step(instruction, run, reads, written, _screen_load)


def _merge(old: Words, half: str) -> Words:
    """What a load outside the descriptor leaves: zero, in the half that it writes."""
    if half == "low":
        return old & np.uint32(0xFFFF0000)
    if half == "high":
        return old & np.uint32(0xFFFF)
    return np.zeros_like(old)


def _store(
    instruction: Instruction, transfer: Transfer, locate: Locate, reads: int, row: int
) -> Step:
    words, size = transfer.words, transfer.size
    upper = transfer.half == "high"

    def run(wave: Wave) -> None:
        group = wave.group
        target = locate(wave)
        lanes, addresses = target.lanes, target.addresses
        data = wave.v[row : row + words, lanes].T.copy()
        writes: list[Callable[[], None]] = []
        if target.clipped is not None:
            for i in range(words):
                inside = ~target.clipped[:, i]
                column = np.ascontiguousarray(data[inside, i : i + 1])
                extents, outside = group.memory.split(addresses[inside] + 4 * i, 4)
                if outside.size:
                    _report_outside(wave, instruction, outside, 4, "writes")
                writes.append(lambda e=extents, c=column: store_words(e, c))  # type: ignore[misc]
        else:
            extents, outside = group.memory.split(addresses, size)
            if outside.size:
                _report_outside(wave, instruction, outside, size, "writes")
            if size >= 4:
                writes.append(lambda: store_words(extents, data))
            else:
                value = data[:, 0] >> 16 if upper else data[:, 0]
                writes.append(lambda: store_octets(extents, value, size))

        def land() -> None:
            for write in writes:
                write()

        group.issue(wave, Pending(instruction, Counter.VM, land))

    return Step(instruction, run, reads | register_bits(VGPR + row, words), 0)


def _load_to_lds(
    instruction: Instruction, transfer: Transfer, locate: Locate, reads: int
) -> Step:
    """LDS address = M0 + the instruction's offset + lane * bytes (at least 4 per lane)."""
    size = max(transfer.size, 4)
    if instruction.encoding == "MUBUF":
        offset = instruction.fields["offset"]
    else:
        offset = signed(instruction.fields["offset"], 13)

    def run(wave: Wave) -> None:
        group = wave.group
        lds = group.lds
        target = locate(wave)
        fetch = _fetch(wave, instruction, transfer, target)
        active = target.active
        base = (wave.s[M0] & _LDS_DMA_MASK) + offset
        places = base + active.astype(np.int64) * size
        number = lds.begin(wave.index, Counter.VM, instruction)
        inside = (places >= 0) & (places <= lds.size - size)
        if not inside.all():
            worst = int(places[~inside][0])
            group.report(
                FindingKind.OUT_OF_BOUNDS,
                wave,
                instruction,
                f"writes {size} bytes at LDS address {worst}; "
                f"the workgroup has {lds.size} bytes",
            )
        kept_places = places[inside]
        racing = lds.record_write(number, wave.barriers, lds.granules(kept_places, size))
        if racing:
            report_race(wave, instruction, racing)

        def land() -> None:
            data = np.zeros((active.size, size // 4), np.uint32)
            if target.lanes.size == active.size:
                data = fetch()
            elif target.lanes.size:
                data[np.isin(active, target.lanes)] = fetch()
            lds.store(kept_places, data if inside.all() else data[inside])
            settle_lds(wave, kept_places, size, None)

        group.issue(wave, Pending(instruction, Counter.VM, land, access=number))

    return Step(instruction, run, reads | 1 << M0)


# --- scratch --------------------------------------------------------------------------------------


def _scratch(instruction: Instruction, transfer: Transfer, is_store: bool) -> Step:
    """Spills: each lane has its own memory; poison goes in and out with the data."""
    fields = instruction.fields
    words = transfer.words
    offset = signed(fields["offset"], 13)
    vector = fields["addr"] if fields["sve"] else None
    scalar = fields["saddr"] if fields["saddr"] != _OFF else None
    row = fields["data" if is_store else "vdst"] + (AGPR - VGPR if fields["acc"] else 0)
    data_bits = register_bits(VGPR + row, words)
    address_bits = 0
    if vector is not None:
        address_bits |= 1 << (VGPR + vector)
    if scalar is not None:
        address_bits |= 1 << scalar

    def slots(wave: Wave, lanes: LaneList) -> npt.NDArray[np.int64] | None:
        place = np.full(lanes.size, offset, np.int64)
        if vector is not None:
            place += wave.v[vector, lanes].astype(np.int64)
        if scalar is not None:
            place += wave.s[scalar]
        limit = 4 * (wave.scratch.shape[0] - words)
        bad = (place < 0) | (place > limit) | (place & 3 != 0)
        if bad.any():
            wave.group.report(
                FindingKind.OUT_OF_BOUNDS,
                wave,
                instruction,
                f"scratch address {int(place[bad][0])}; the wave has "
                f"{4 * wave.scratch.shape[0]} bytes per lane",
            )
            return None
        return place >> 2

    def run_store(wave: Wave) -> None:
        lanes = _active(wave)
        where = slots(wave, lanes)
        data = wave.v[row : row + words, lanes].copy()
        poison = [wave.poison.get(VGPR + row + i, 0) for i in range(words)]

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.scratch[where + i, lanes] = data[i]
                bad = poison[i]
                flags = np.array([bad >> int(lane) & 1 for lane in lanes], np.bool_) if bad else False
                wave.scratch_poison[where + i, lanes] = flags

        wave.group.issue(wave, Pending(instruction, Counter.VM, land))

    def run_load(wave: Wave) -> None:
        lanes = _active(wave)
        where = slots(wave, lanes)

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.v[row + i, lanes] = wave.scratch[where + i, lanes]
                bad = wave.scratch_poison[where + i, lanes]
                if bad.any():
                    mask = 0
                    for lane in lanes[bad].tolist():
                        mask |= 1 << lane
                    register = VGPR + row + i
                    wave.set_poison(register, wave.poison.get(register, 0) | mask)

        wave.group.issue(wave, Pending(instruction, Counter.VM, land, data_bits, wave.exec_mask))

    def screen_store(wave: Wave, step: Step) -> None:
        check_sources(wave, step, each_register(address_bits & wave.dirty))
        for register in each_register(data_bits & wave.in_flight):
            check_in_flight(wave, step, register, wave.exec_mask)

    if is_store:
        return Step(instruction, run_store, address_bits | data_bits, 0, screen_store)
    return Step(instruction, run_load, address_bits, data_bits, _screen_load)

