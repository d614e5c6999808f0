"""Vector memory: buffer, global and flat instructions, and loads straight into LDS.

All count in vmcnt, stores included, and retire in order. Addresses and store data are taken at
issue; the data moves when the operation lands.

Scratch: the private memory of each lane, where compilers spill.

Poison goes in and out with the data, since a compiler may spill a value that is partly undefined.
Counts in vmcnt, in order, so a reload after a spill needs no wait between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pipeloom.array_kinds import Flags, Indices, Places, Words
from pipeloom.judge.emulate.addressing import (
    OFF,
    TRANSFERS,
    Locate,
    Reached,
    Transfer,
    buffer_address,
    global_address,
    merged_half,
    reach,
    screen_stored,
)
from pipeloom.judge.emulate.atomics import build_atomic
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.ds import lds_footprint, lds_touches, report_race
from pipeloom.judge.emulate.global_memory import (
    Spread,
    load_octets,
    load_words,
    store_octets,
    store_words,
)
from pipeloom.judge.emulate.lds_shadow import SOURCE
from pipeloom.judge.emulate.observe import Effect
from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import (
    LANES,
    M0,
    VGPR,
    each_register,
    register_bits,
)
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.screening import (
    check_in_flight,
    check_sources,
    screen_load,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import POISON_WORD, Wave, lanes_of
from pipeloom.machine.chips import target_for

_LDS_DMA_MASK = 0x3FFFF
"""Bits of M0 that address LDS for a load into it; 18 cover gfx950's 160 KiB."""


def build(instruction: Decoded, arch: str) -> MicroOp | None:
    """The step of a vector memory instruction, or None."""
    if instruction.encoding not in ("MUBUF", "GLOBAL", "SCRATCH", "FLAT", "MTBUF"):
        return None
    name = instruction.name
    if name in ("buffer_wbl2", "buffer_inv"):
        return MicroOp(instruction, lambda wave: None)
    space, verb, *rest = name.split("_")
    if verb == "atomic" and space in ("buffer", "global", "flat"):
        step = build_atomic(instruction)
        return _flat(step) if space == "flat" else step
    if space == "tbuffer" or verb not in ("load", "store"):
        raise unsupported(instruction)
    into_lds = bool(instruction.fields.get("lds")) or rest[0] == "lds"
    key = "_".join(rest[1:] if rest[0] == "lds" else rest)
    if key not in TRANSFERS:
        raise unsupported(instruction)
    transfer = TRANSFERS[key]
    if into_lds:
        most = target_for(arch).dma_max_bytes_per_lane.value
        if transfer.size > most or transfer.size not in (1, 2, 4, 12, 16):
            raise unsupported(instruction, f"{transfer.size} bytes per lane into LDS on {arch}")
    if space == "scratch":
        if into_lds or transfer.size < 4:
            raise unsupported(instruction)
        return build_scratch(instruction, transfer, verb == "store")
    if space == "buffer":
        locate, reads = buffer_address(instruction, transfer)
        data_field = "vdata"
    else:
        locate, reads = global_address(instruction)
        data_field = "data" if verb == "store" else "vdst"
    if into_lds:
        return _load_to_lds(instruction, transfer, locate, reads)
    row = data_row(instruction, data_field)
    build_access = _store if verb == "store" else _load
    step = build_access(instruction, transfer, locate, reads, row)
    return _flat(step) if space == "flat" else step


def _flat(step: MicroOp) -> MicroOp:
    """A flat access counts in lgkmcnt as well, out of order: both must be waited for.

    Addresses are those of global memory; the apertures of LDS and scratch are not modelled.
    """
    access, written = step.run, step.writes

    def run(wave: Wave) -> None:
        access(wave)
        lanes = wave.exec_mask if written else 0
        wave.group.issue(
            wave, Pending(step.instruction, WaitQueue.SMEM, lambda: None, written, lanes)
        )

    return replace(step, run=run)


def _fetch(
    wave: Wave, instruction: Decoded, transfer: Transfer, target: Reached
) -> Callable[[], Words]:
    """Check bounds now; return what reads the data when called: one row per accessing lane."""
    count, words, size = target.lanes.size, transfer.words, transfer.size
    clipped = target.clipped
    if clipped is not None:
        return _fetch_clipped(wave, instruction, transfer, target, clipped)
    extents = reach(wave, instruction, target.base, target.spread, size, "reads")
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
    instruction: Decoded,
    transfer: Transfer,
    target: Reached,
    clipped: Flags,
) -> Callable[[], Words]:
    """A load that crosses the descriptor's end: dword by dword, zeros past it."""
    parts: list[tuple[int, Flags, Callable[[], Words]]] = []
    for i in range(transfer.words):
        inside = ~clipped[:, i]
        places = Spread(target.addresses[inside] + 4 * i)
        part = Reached(target.lanes[inside], 0, places, target.active)
        parts.append((i, inside, _fetch(wave, instruction, Transfer(4), part)))

    def gather() -> Words:
        result = np.zeros((target.lanes.size, transfer.words), np.uint32)
        for i, inside, fetch in parts:
            if inside.any():
                result[inside, i] = fetch()[:, 0]
        return result

    return gather


def _load(
    instruction: Decoded, transfer: Transfer, locate: Locate, reads: int, row: int
) -> MicroOp:
    words, half = transfer.words, transfer.half
    written = register_bits(VGPR + row, words)

    def run(wave: Wave) -> None:
        target = locate(wave)
        fetch = _fetch(wave, instruction, transfer, target)
        lanes, active = target.lanes, target.active
        if wave.full and not half:
            wave.v[row : row + words] = POISON_WORD
        elif not half:
            wave.v[row : row + words, active] = POISON_WORD

        def land() -> None:
            if lanes.size != active.size:
                for i in range(words):
                    old = wave.v[row + i, active]
                    wave.v[row + i, active] = merged_half(old, np.zeros_like(old), half)
            if not lanes.size:
                return
            data = fetch()
            if lanes.size == LANES and not half:
                wave.v[row : row + words] = data.T
                return
            for i in range(words):
                wave.v[row + i, lanes] = merged_half(wave.v[row + i, lanes], data[:, i], half)

        touches = target.touches(wave, Effect.READ, transfer.size)
        wave.group.issue(
            wave,
            Pending(instruction, WaitQueue.VM, land, written, wave.exec_mask, touches=touches),
        )

    kept = written if half else 0
    return MicroOp(instruction, run, reads, written, screen_load(WaitQueue.VM), keeps=kept)


def _store(
    instruction: Decoded, transfer: Transfer, locate: Locate, reads: int, row: int
) -> MicroOp:
    words, size = transfer.words, transfer.size
    upper = transfer.half == "high"

    def run(wave: Wave) -> None:
        group = wave.group
        target = locate(wave)
        lanes, data = target.lanes, wave.v[row : row + words]
        data = (data if lanes.size == LANES else data[:, lanes]).T.copy()
        writes: list[Callable[[], None]] = []
        if target.clipped is not None:
            for i in range(words):
                inside = ~target.clipped[:, i]
                column = np.ascontiguousarray(data[inside, i : i + 1])
                places = Spread(target.addresses[inside] + 4 * i)
                extents = reach(wave, instruction, 0, places, 4, "writes")
                writes.append(partial(store_words, extents, column))
        else:
            extents = reach(wave, instruction, target.base, target.spread, size, "writes")
            if size >= 4:
                writes.append(partial(store_words, extents, data))
            else:
                value = data[:, 0] >> np.uint32(16 if upper else 0)
                writes.append(partial(store_octets, extents, value, size))

        def land() -> None:
            for write in writes:
                write()

        values = data >> np.uint32(16) if upper else data
        touches = target.touches(wave, Effect.WRITE, size, values)
        group.issue(wave, Pending(instruction, WaitQueue.VM, land, touches=touches))

    data_bits = register_bits(VGPR + row, words)
    screen = screen_stored(locate, reads, data_bits)
    return MicroOp(instruction, run, reads | data_bits, 0, screen)


def _source_words(target: Reached, size: int) -> Words:
    """Where each dword of each active lane comes from; 0 for the zeros outside a descriptor."""
    found = target.spread.dwords(size // 4) + np.uint32(target.base & 0xFFFFFFFF)
    if target.clipped is not None:
        found[target.clipped] = 0
    if target.lanes.size == target.active.size:
        return found
    words = np.zeros((target.active.size, size // 4), np.uint32)
    words[np.isin(target.active, target.lanes)] = found
    return words


def _load_to_lds(instruction: Decoded, transfer: Transfer, locate: Locate, reads: int) -> MicroOp:
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
        number = lds.begin(wave.index, WaitQueue.VM, instruction, writes=True)
        piece = lds_footprint(
            wave, instruction, lambda lanes: base + lanes * size, (base, 0), size, "writes"
        )
        whole = target.lanes.size == piece.lanes.size == active.size

        def source() -> Words | None:
            # Part of an address tells nothing: with a shadow of bytes the source is not compared.
            if lds.granule != 4:
                return None
            words = _source_words(target, size)
            return words if whole else words[np.isin(active, piece.lanes)]

        def values() -> Words | None:
            words = source()
            return None if words is None else lds.per_granule(piece, words)

        racing = lds.record_write(number, wave.barriers, piece, values, SOURCE)
        if racing:
            report_race(wave, instruction, racing)

        def land() -> None:
            if whole:
                data = fetch()
            else:
                data = np.zeros((active.size, size // 4), np.uint32)
                if target.lanes.size:
                    data[np.isin(active, target.lanes)] = fetch()
                data = data[np.isin(active, piece.lanes)]
            lds.store(piece, data)
            lds.settle(piece, None)

        touches = target.touches(wave, Effect.READ, transfer.size)
        if group.observer is not None:
            touches += lds_touches(wave, Effect.WRITE, [(piece, source())])
        group.issue(wave, Pending(instruction, WaitQueue.VM, land, access=number, touches=touches))

    return MicroOp(instruction, run, reads | 1 << M0)


def build_scratch(instruction: Decoded, transfer: Transfer, is_store: bool) -> MicroOp:
    """The step of a scratch load or store."""
    fields = instruction.fields
    words = transfer.words
    offset = signed(fields["offset"], 13)
    vector = fields["addr"] if fields["sve"] else None
    scalar = fields["saddr"] if fields["saddr"] != OFF else None
    row = data_row(instruction, "data" if is_store else "vdst")
    data_bits = register_bits(VGPR + row, words)
    address_bits = 0
    if vector is not None:
        address_bits |= 1 << (VGPR + vector)
    if scalar is not None:
        address_bits |= 1 << scalar

    def slots(wave: Wave, lanes: Indices) -> Places | None:
        place = np.full(lanes.size, offset, np.int64)
        if vector is not None:
            place += wave.v[vector, lanes].astype(np.int64)
        if scalar is not None:
            place += wave.s[scalar]
        limit = 4 * (wave.scratch.shape[0] - words)
        bad = (place < 0) | (place > limit) | (place & 3 != 0)
        if bad.any():
            wave.group.report(
                DefectKind.OUT_OF_BOUNDS,
                wave,
                instruction,
                f"scratch address {int(place[bad][0])}; the wave has "
                f"{4 * wave.scratch.shape[0]} bytes per lane",
            )
            return None
        return place >> 2

    def run_store(wave: Wave) -> None:
        lanes = wave.lane_numbers()
        where = slots(wave, lanes)
        data = wave.v[row : row + words, lanes].copy()
        poison = [wave.poison.get(VGPR + row + i, 0) for i in range(words)]

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.scratch[where + i, lanes] = data[i]
                wave.scratch_poison[where + i, lanes] = lanes_of(poison[i])[lanes]

        wave.group.issue(wave, Pending(instruction, WaitQueue.VM, land))

    def run_load(wave: Wave) -> None:
        lanes = wave.lane_numbers()
        where = slots(wave, lanes)

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.v[row + i, lanes] = wave.scratch[where + i, lanes]
                bad = wave.scratch_poison[where + i, lanes]
                if bad.any():
                    wave.taint(row + i, 1, lanes[bad])

        wave.group.issue(wave, Pending(instruction, WaitQueue.VM, land, data_bits, wave.exec_mask))

    def screen_store(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, each_register(address_bits & wave.dirty))
        for register in each_register(data_bits & wave.in_flight):
            check_in_flight(wave, step, register, wave.exec_mask)

    if is_store:
        return MicroOp(instruction, run_store, address_bits | data_bits, 0, screen_store)
    return MicroOp(instruction, run_load, address_bits, data_bits, screen_load(WaitQueue.VM))
