"""Atomic read-modify-write: on buffer, global and flat memory, and on LDS; of 32 or 64 bits.

An operation maps (old bits, operand bits, compare bits) to new bits, on plain ints of 32 or 64
bits; compare is 0 but for compare-and-swap. Lanes are applied one after the other in lane order,
where hardware promises only that each is indivisible.

    atomic_operation("umax", 32)(3, 7, 0)  ->  7
    ds_add_u32 v0, v1                          LDS[v0] += v1
    ds_cmpst_rtn_b32 v2, v0, v1, v3            v2 = LDS[v0]; if it equals v1, LDS[v0] = v3

In memory, sc0 lets the old value return to a register, like a load; compare-and-swap takes its new
value from the first data register (pair) and the value to compare with from the next. On LDS they
count in lgkmcnt like a read, and never race with each other; a cell that was never written stays
poison, whatever is added to it, and a swap makes it clean.

Source: CDNA3 and CDNA4 ISA, the descriptions of BUFFER_ATOMIC_*, GLOBAL_ATOMIC_* and DS_*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from pipeloom.array_kinds import Array, Indices, Octets
from pipeloom.judge.emulate.addressing import (
    Transfer,
    buffer_address,
    global_address,
    reach,
    screen_stored,
)
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.ds import (
    UNWRITTEN_LDS,
    addressed,
    lds_touches,
    race_cause,
    report_race,
)
from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.judge.emulate.observe import Effect
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import VGPR, register_bits
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.screening import screen_load, settle_writes
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

Combine = Callable[[int, int, int], int]


def _add_halves(old: int, new: int, _: int) -> int:
    a, b = (np.array([x], np.uint32).view(np.float16) for x in (old, new))
    return int((a + b).view(np.uint32)[0])


def _add_bf16(old: int, new: int, _: int) -> int:
    a, b = (bf16_to_f32(np.array([x], np.uint32).view(np.uint16)) for x in (old, new))
    return int(f32_to_bf16(a + b).view(np.uint32)[0])


def _increment(old: int, new: int, _: int) -> int:
    return 0 if old >= new else old + 1


def _decrement(old: int, new: int, _: int) -> int:
    return new if old == 0 or old > new else old - 1


_UNTYPED: dict[str, Combine] = {
    "swap": lambda old, new, _: new,
    "cmpswap": lambda old, new, compare: new if old == compare else old,
    "umin": lambda old, new, _: min(old, new),
    "umax": lambda old, new, _: max(old, new),
    "and": lambda old, new, _: old & new,
    "or": lambda old, new, _: old | new,
    "xor": lambda old, new, _: old ^ new,
    "mskor": lambda old, new, compare: old & ~compare | new,
    "inc": _increment,
    "dec": _decrement,
    "pk_add_f16": _add_halves,
    "pk_add_bf16": _add_bf16,
}


def _float_operation(name: str, bits: int) -> Combine | None:
    kind, word = ("f4", "u4") if bits == 32 else ("f8", "u8")

    def combine(old: int, new: int, compare: int) -> int:
        a, b, c = (np.array([x], word).view(kind) for x in (old, new, compare))
        if name == "add":
            result = a + b
        elif name == "min":
            result = b if bool(b[0] < a[0]) else a
        elif name == "max":
            result = b if bool(b[0] > a[0]) else a
        else:
            result = b if bool(a[0] == c[0]) else a
        return int(result.view(word)[0])

    return combine if name in ("add", "min", "max", "cmpswap") else None


def atomic_operation(name: str, bits: int) -> Combine | None:
    """The operation of this name on cells of 32 or 64 bits; None if there is none."""
    mask = (1 << bits) - 1
    if name in _UNTYPED:
        return _UNTYPED[name]
    if name.endswith(("_f32", "_f64")):
        return _float_operation(name[:-4], bits)
    integer: dict[str, Combine] = {
        "add": lambda old, new, _: old + new & mask,
        "sub": lambda old, new, _: old - new & mask,
        "rsub": lambda old, new, _: new - old & mask,
        "smin": lambda old, new, _: old if signed(old, bits) <= signed(new, bits) else new,
        "smax": lambda old, new, _: old if signed(old, bits) >= signed(new, bits) else new,
    }
    return integer.get(name)


def _lane_values(wave: Wave, row: int, words: int, lanes: Indices) -> list[int]:
    """What lanes hold in a register, or in a pair."""
    found = wave.v[row : row + words, lanes].T.copy().view(f"u{4 * words}")[:, 0]
    return list(map(int, found.tolist()))


def _rows(values: Array, words: int) -> Array:
    """What lanes hold, register by register."""
    return values.view(np.uint32).reshape(-1, words).T


def update_cells(
    octets: Octets,
    places: Sequence[int],
    size: int,
    combine: Combine,
    values: Sequence[int],
    others: Sequence[int],
) -> Array:
    """Update cells one after the other; what each held before."""
    old = np.zeros(len(places), f"u{size}")
    for number, (at, value, other) in enumerate(zip(places, values, others, strict=True)):
        before = int.from_bytes(octets[at : at + size].tobytes(), "little")
        old[number] = before
        after = combine(before, value, other).to_bytes(size, "little")
        octets[at : at + size] = np.frombuffer(after, np.uint8)
    return old


def build_atomic(instruction: Decoded) -> MicroOp:
    """The step of a buffer, global or flat atomic."""
    space, _, kind = instruction.name.split("_", 2)
    words = 2 if kind.endswith(("_x2", "_f64")) else 1
    kind = kind.removesuffix("_x2")
    combine = atomic_operation(kind, 32 * words)
    if combine is None:
        raise unsupported(instruction)
    operation, size = combine, 4 * words
    if space == "buffer":
        locate, reads = buffer_address(instruction, Transfer(size))
        data = target = data_row(instruction, "vdata")
    else:
        locate, reads = global_address(instruction)
        data, target = data_row(instruction, "data"), data_row(instruction, "vdst")
    compares = kind == "cmpswap"
    returns = bool(instruction.fields["sc0"])
    written = register_bits(VGPR + target, words) if returns else 0

    def run(wave: Wave) -> None:
        group = wave.group
        place = locate(wave)
        count = place.lanes.size
        values = _lane_values(wave, data, words, place.lanes)
        others = _lane_values(wave, data + words, words, place.lanes) if compares else [0] * count
        extents = reach(wave, instruction, place.base, place.spread, size, "updates")

        def land() -> None:
            old = np.zeros(count, f"u{size}")
            for extent in extents:
                lanes = extent.where.tolist()
                old[extent.where] = update_cells(
                    extent.buffer.octets,
                    (extent.offsets & ~3).tolist(),
                    size,
                    operation,
                    [values[lane] for lane in lanes],
                    [others[lane] for lane in lanes],
                )
            if returns:
                wave.v[target : target + words, place.active] = 0
                wave.v[target : target + words, place.lanes] = (
                    old.view(np.uint32).reshape(-1, words).T
                )

        lanes = wave.exec_mask if returns else 0
        touches = place.touches(wave, Effect.UPDATE, size)
        group.issue(wave, Pending(instruction, WaitQueue.VM, land, written, lanes, touches=touches))

    data_bits = register_bits(VGPR + data, words * (2 if compares else 1))
    check = screen_stored(locate, reads, data_bits)

    def screen(wave: Wave, step: MicroOp) -> None:
        check(wave, step)
        settle_writes(wave, step, loading=WaitQueue.VM)

    return MicroOp(instruction, run, reads | data_bits, written, screen)


_LDS_NAME = re.compile(
    r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|wrxchg|pk_add)(_rtn)?"
    r"_(u32|i32|b32|f32|u64|i64|b64|f64|f16|bf16)$"
)
_SIGNS = {"i": "s", "u": "u"}


def _lds_operation(verb: str, kind: str, bits: int) -> Combine | None:
    verb = {"wrxchg": "swap", "cmpst": "cmpswap"}.get(verb, verb)
    if verb == "pk_add" or kind in ("f32", "f64"):
        return atomic_operation(f"{verb}_{kind}", bits)
    if verb in ("min", "max"):
        verb = _SIGNS.get(kind[0], "") + verb
    return atomic_operation(verb, bits)


def build(instruction: Decoded) -> MicroOp | None:
    """The step of an LDS atomic, or None."""
    match = _LDS_NAME.match(instruction.name)
    if match is None:
        return None
    verb, returns, kind = match[1], bool(match[2]), match[3]
    words = 2 if kind.endswith("64") else 1
    combine = _lds_operation(verb, kind, 32 * words)
    if combine is None or instruction.fields["gds"]:
        raise unsupported(instruction)
    operation, size = combine, 4 * words
    fields = instruction.fields
    offset = fields["offset0"] | fields["offset1"] << 8
    first, target = data_row(instruction, "data0"), data_row(instruction, "vdst")
    compares = verb in ("cmpst", "mskor")
    new = data_row(instruction, "data1") if compares else first
    address_row = fields["addr"]
    written = register_bits(VGPR + target, words) if returns else 0
    overwrites = verb == "wrxchg"

    def run(wave: Wave) -> None:
        group = wave.group
        lds = group.lds
        number = lds.begin(wave.index, WaitQueue.LGKM, instruction, writes=True)
        piece = addressed(wave, instruction, address_row, offset, size, "updates")
        lanes = piece.lanes
        racing = lds.record_atomic(number, wave.barriers, piece)
        if racing:
            report_race(wave, instruction, racing)
        values = _lane_values(wave, new, words, lanes)
        others = _lane_values(wave, first, words, lanes) if compares else [0] * len(values)
        cause = race_cause(wave, racing) if racing else ""

        def land() -> None:
            places = piece.addresses.tolist()
            old = update_cells(lds.octets, places, size, operation, values, others)
            bad = lds.poisoned[piece.granules].any(axis=1)
            if overwrites:
                lds.settle(piece, None)
            if not returns:
                return
            wave.v[target : target + words, lanes] = _rows(old, words)
            if bad.any():
                wave.taint(target, words, lanes[bad], UNWRITTEN_LDS)
            if cause:
                wave.taint(target, words, lanes, cause)

        mask = wave.exec_mask if returns else 0
        touches = lds_touches(wave, Effect.UPDATE, [(piece, None)])
        group.issue(
            wave, Pending(instruction, WaitQueue.LGKM, land, written, mask, number, touches)
        )

    reads = 1 << (VGPR + address_row) | register_bits(VGPR + first, words)
    reads |= register_bits(VGPR + new, words)
    return MicroOp(instruction, run, reads, written, screen_load(WaitQueue.LGKM))
