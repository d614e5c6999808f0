"""LDS instructions: reads, writes and transposed reads. All count in lgkmcnt, in order.

Addresses and data are taken at issue; the bytes move when the operation lands. The shadow (see
``lds_shadow``) is consulted at issue, since ordering is a matter of issue and retirement only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipeloom.array_kinds import Flags, Indices, Places, Words
from pipeloom.judge.emulate.addressing import merged_half
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import unpack_bits
from pipeloom.judge.emulate.lds_shadow import Footprint
from pipeloom.judge.emulate.observe import AddressSpace, Effect, LaneAccess
from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import LANES, VGPR, each_register, register_bits
from pipeloom.judge.emulate.screening import check_in_flight, check_sources, screen_load
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import POISON_WORD, Wave, lanes_of

_EVERY_LANE = np.arange(LANES)
UNWRITTEN_LDS = "LDS bytes never written"


@dataclass(frozen=True, slots=True)
class Pieces:
    """One access pattern: offsets of its pieces (bytes) and bytes per piece."""

    offsets: tuple[int, ...]
    size: int

    @property
    def words(self) -> int:
        """Registers of data."""
        return len(self.offsets) * max(self.size // 4, 1)


_SIZE = re.compile(r"_[biuf](\d+)")
_SUB_DWORD = ("_b8", "_u8", "_i8", "_b16", "_u16", "_i16")


def is_sub_dword(name: str) -> bool:
    """Whether an LDS instruction touches less than a dword per lane."""
    return (
        name.startswith(("ds_read_", "ds_write_"))
        and name.endswith(
            tuple(f"{part}{rest}" for part in _SUB_DWORD for rest in ("", "_d16", "_d16_hi"))
        )
        and "_tr_" not in name
    )


def lds_pieces(instruction: Decoded) -> Pieces:
    """What an instruction touches, from its address register on; pairs of f16 are one word."""
    name, fields = instruction.name, instruction.fields
    match = _SIZE.search(name)
    size = 4 if match is None or "pk_add" in name else max(int(match[1]) // 8, 1)
    if re.match(r"ds_(read|write|wrxchg)2", name):
        stride = size * (64 if "st64" in name else 1)
        return Pieces((fields["offset0"] * stride, fields["offset1"] * stride), size)
    return Pieces((fields["offset0"] | fields["offset1"] << 8,), size)


def build(instruction: Decoded) -> MicroOp | None:
    """The step of an LDS instruction, or None."""
    if instruction.encoding != "DS":
        return None
    name = instruction.name
    if instruction.fields["gds"]:
        raise unsupported(instruction, "gds")
    if name.startswith("ds_read_b64_tr_b"):
        return _transposed_read(instruction)
    if name.startswith(("ds_read_", "ds_read2")) and "addtid" not in name and "_tr_" not in name:
        return _read(instruction)
    if name.startswith(("ds_write_", "ds_write2")) and "addtid" not in name:
        return _write(instruction)
    if name == "ds_nop":
        return MicroOp(instruction, lambda wave: None)
    raise unsupported(instruction)


def lds_footprint(
    wave: Wave,
    instruction: Decoded,
    place: Callable[[Indices], Places],
    key: tuple[bytes | int, int],
    size: int,
    verb: str,
) -> Footprint:
    """The bytes of the active lanes; what falls outside LDS is reported and left out.

    ``place`` gives the addresses of lanes; with the same ``key`` those were the same before.
    """
    lds = wave.group.lds
    whole_key = (key[0], wave.exec_mask, key[1], size)
    known = lds.footprints.get(whole_key)
    if known is not None:
        return known
    lanes = wave.lane_numbers()
    addresses = place(lanes)
    outside = (addresses < 0) | (addresses > lds.size - size)
    if not outside.any():
        return lds.footprint(addresses, lanes, size, whole_key)
    wave.group.report(
        DefectKind.OUT_OF_BOUNDS,
        wave,
        instruction,
        f"{verb} {size} bytes at LDS address {int(addresses[outside][0])} in "
        f"{int(outside.sum())} lanes; the workgroup has {lds.size} bytes "
        "(its launch may add dynamic_lds)",
    )
    return lds.footprint(addresses[~outside], lanes[~outside], size)


def addressed(
    wave: Wave, instruction: Decoded, row: int, offset: int, size: int, verb: str
) -> Footprint:
    """The bytes at the addresses in a vector register, which are kept by what it holds."""
    register = wave.v[row]
    return lds_footprint(
        wave,
        instruction,
        lambda lanes: register[lanes].astype(np.int64) + offset & 0xFFFFFFFF,
        (register.tobytes(), offset),
        size,
        verb,
    )


def lds_touches(
    wave: Wave, effect: Effect, pieces: Iterable[tuple[Footprint, Words | None]]
) -> tuple[LaneAccess, ...]:
    """What an observer, if there is one, is told of an access: its bytes, and what it stores."""
    if wave.group.observer is None:
        return ()
    return tuple(
        LaneAccess(AddressSpace.LDS, effect, piece.lanes, piece.addresses, piece.size, values)
        for piece, values in pieces
    )


def _reading(
    instruction: Decoded,
    form: Pieces,
    place: Callable[[Wave, int, Footprint], None],
    *,
    overwrites: bool = True,
    whole_wave: bool = False,
) -> MicroOp:
    """A read of LDS; ``place`` puts a piece into the registers from a row on when it lands."""
    address_row, target = instruction.fields["addr"], data_row(instruction, "vdst")
    words = form.words
    each = words // len(form.offsets)
    written = register_bits(VGPR + target, words)

    def run(wave: Wave) -> None:
        group = wave.group
        lds = group.lds
        if whole_wave and not wave.full:
            raise unsupported(instruction, "with lanes disabled")
        number = lds.begin(wave.index, WaitQueue.LGKM, instruction, writes=False)
        pieces = []
        for offset in form.offsets:
            piece = addressed(wave, instruction, address_row, offset, form.size, "reads")
            writer = lds.record_read(number, wave.barriers, piece)
            pieces.append((piece, race_cause(wave, writer) if writer else ""))
        if wave.full and overwrites:
            wave.v[target : target + words] = POISON_WORD
        elif overwrites:
            wave.v[target : target + words, wave.active] = POISON_WORD

        def land() -> None:
            for at, (piece, cause) in enumerate(pieces):
                first = target + at * each
                place(wave, first, piece)
                if cause:
                    wave.taint(first, each, _EVERY_LANE if whole_wave else piece.lanes, cause)

        touches = lds_touches(wave, Effect.READ, ((piece, None) for piece, _ in pieces))
        group.issue(
            wave,
            Pending(instruction, WaitQueue.LGKM, land, written, wave.exec_mask, number, touches),
        )

    return MicroOp(
        instruction,
        run,
        1 << (VGPR + address_row),
        written,
        screen_load(WaitQueue.LGKM),
        keeps=0 if overwrites else written,
    )


def _read(instruction: Decoded) -> MicroOp:
    form = lds_pieces(instruction)
    name, size = instruction.name, form.size
    words = max(size // 4, 1)
    half = "high" if name.endswith("_d16_hi") else "low" if name.endswith("_d16") else ""
    sign_bits = 32 - 8 * size if name.split("_")[2].startswith("i") else 0

    def place(wave: Wave, first: int, piece: Footprint) -> None:
        lds, kept = wave.group.lds, piece.lanes
        if size >= 4 and kept.size == LANES:
            lds.load_into(piece, wave.v[first : first + words])
        elif size >= 4:
            wave.v[first : first + words, kept] = lds.load(piece)
        else:
            value = lds.octets[piece.addresses].astype(np.uint32)
            if size == 2:
                value |= lds.octets[piece.addresses + 1].astype(np.uint32) << 8
            if sign_bits:
                value = ((value << sign_bits).view(np.int32) >> sign_bits).view(np.uint32)
            wave.v[first, kept] = merged_half(wave.v[first, kept], value, half)
        if lds.may_be_poisoned(piece):
            _carry_poison(wave, first, words, piece)

    return _reading(instruction, form, place, overwrites=not half)


def race_cause(wave: Wave, writer: int) -> str:
    """Why a value read in a race is poison."""
    lds = wave.group.lds
    other = lds.instructions[writer]
    if other is None:
        return "an LDS race"
    return (
        f"read from LDS in a race with {other.name} of wave {lds.owner[writer]} at "
        f"{wave.group.place(other.pc)}"
    )


def _carry_poison(wave: Wave, first: int, words: int, piece: Footprint) -> None:
    """Destination registers of lanes that read unwritten LDS bytes become poison."""
    poisoned = wave.group.lds.poisoned
    if not poisoned[piece.where].any():
        return
    bad = poisoned[piece.granules]
    per_word = bad.shape[1] // words
    for i in range(words):
        part = bad[:, i * per_word : (i + 1) * per_word] if per_word else bad
        hit = part.any(axis=1)
        if hit.any():
            wave.taint(first + i, 1, piece.lanes[hit], UNWRITTEN_LDS)


def _write(instruction: Decoded) -> MicroOp:
    form = lds_pieces(instruction)
    name, size = instruction.name, form.size
    address_row = instruction.fields["addr"]
    rows = [data_row(instruction, "data0")]
    if len(form.offsets) == 2:
        rows.append(data_row(instruction, "data1"))
    words_each = max(size // 4, 1)
    upper = name.endswith("_d16_hi")
    data_bits = 0
    for row in rows:
        data_bits |= register_bits(VGPR + row, words_each)
    data_registers = each_register(data_bits)

    def run(wave: Wave) -> None:
        group = wave.group
        lds = group.lds
        number = lds.begin(wave.index, WaitQueue.LGKM, instruction, writes=True)
        dirty = bool(wave.poison_bits & data_bits)
        pieces: list[tuple[Footprint, Words, Flags | None]] = []
        for offset, row in zip(form.offsets, rows, strict=True):
            piece = addressed(wave, instruction, address_row, offset, size, "writes")
            kept, data = piece.lanes, wave.v[row : row + words_each]
            data = (data if kept.size == LANES else data[:, kept]).T.copy()
            if upper:
                data >>= 16
            values = partial(lds.per_granule, piece, data)
            racing = lds.record_write(number, wave.barriers, piece, values)
            if racing:
                report_race(wave, instruction, racing)
            bad = _poisoned_words(wave, row, words_each, kept) if dirty else None
            pieces.append((piece, data, bad))

        def land() -> None:
            for piece, data, bad in pieces:
                lds.store(piece, data)
                lds.settle(piece, bad)

        touches = lds_touches(wave, Effect.WRITE, ((piece, data) for piece, data, _ in pieces))
        group.issue(
            wave, Pending(instruction, WaitQueue.LGKM, land, access=number, touches=touches)
        )

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, [VGPR + address_row])
        for register in data_registers:
            check_in_flight(wave, step, register, wave.exec_mask)

    return MicroOp(instruction, run, data_bits | 1 << (VGPR + address_row), 0, screen)


def _poisoned_words(wave: Wave, row: int, words: int, lanes: Places) -> Flags:
    """Which words of the data to be written are poison, one row per access."""
    columns = [lanes_of(wave.poison.get(VGPR + row + i, 0))[lanes] for i in range(words)]
    return np.stack(columns, axis=1)


def report_race(wave: Wave, instruction: Decoded, other: int) -> None:
    """A write that is not ordered with an earlier access to the same LDS bytes."""
    lds = wave.group.lds
    cause = lds.instructions[other]
    if cause is None:
        return
    wave.group.report(
        DefectKind.LDS_RACE,
        wave,
        instruction,
        f"writes LDS that {cause.name} of wave {lds.owner[other]} at "
        f"{wave.group.place(cause.pc)} accesses, with no wait and barrier between",
        cause=cause,
    )


def _transposed_read(instruction: Decoded) -> MicroOp:
    """ds_read_b64_tr_b16 / _b8 / _b4: 16 lanes read a block and get it transposed.

    The 16 lanes' 128 bytes are rows of 16 elements (four rows of 16-bit, eight of 8-bit, sixteen of
    4-bit); lane i of the group receives column i.
    """
    bits = int(instruction.name.rpartition("_b")[2])
    dtype: type[np.generic] = np.uint16 if bits == 16 else np.uint8
    per_lane = 64 // bits

    def place(wave: Wave, first: int, piece: Footprint) -> None:
        lds = wave.group.lds
        data = np.full((LANES, 2), 0xFFFFFFFF, np.uint32)
        data[piece.lanes] = lds.load(piece).T
        held = data.view(dtype)
        if bits == 4:
            held = unpack_bits(held, 4)
        elements = held.reshape(4, per_lane, 16).transpose(0, 2, 1)
        moved = np.ascontiguousarray(elements).reshape(LANES, per_lane)
        if bits == 4:
            moved = moved[:, 0::2] | moved[:, 1::2] << 4
        wave.v[first : first + 2] = np.ascontiguousarray(moved).view(np.uint32).T
        if lds.may_be_poisoned(piece):
            bad = np.zeros(LANES, np.bool_)
            bad[piece.lanes] = lds.poisoned[piece.granules].any(axis=1)
            groups = np.flatnonzero(np.repeat(bad.reshape(4, 16).any(axis=1), 16))
            if groups.size:
                wave.taint(first, 2, groups, UNWRITTEN_LDS)

    offset = instruction.fields["offset0"] | instruction.fields["offset1"] << 8
    return _reading(instruction, Pieces((offset,), 8), place, whole_wave=True)
