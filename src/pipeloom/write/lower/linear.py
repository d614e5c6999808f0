"""Numbers that depend on wave and lane, as the few instructions that compute them.

A layout gives a table: which row, which byte, for each lane of each wave. Layouts are made of
powers of two and of swizzles, so such a table splits into a part of the wave and one of the lane,
added or xor-ed, and the part of the lane is linear over its six bits: again by xor (swizzles), or
by addition (rows dealt in runs that are no powers of two).

    lane             0  1  2 ... 16 17 ...      row = lane & 15, 16-byte chunk = lane >> 4
    byte             0 128 256 ... 16 144 ...   (lane << 7 & 0x780) ^ (lane & 0x30)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.write.code import Code
from pipeloom.write.faults import NotLinearError
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame

Table = NDArray[Any]
"""By wave of the group, then by lane."""
LANE_BITS = WAVE_LANES.bit_length() - 1


@dataclass(frozen=True, slots=True)
class LaneNumber:
    """``waves[w] + lane part``, or xor-ed; the lane part from the weights of the lane's bits."""

    waves: tuple[int, ...]
    weights: tuple[int, ...]
    by_xor: bool
    """How the weights of set bits combine."""
    joined_by_xor: bool
    """How wave and lane parts do."""
    common: int = 0
    """Added for every wave."""

    @property
    def apart(self) -> LaneNumber:
        """The same, what all waves have in common ``common``: such numbers share their scalars."""
        least = min(self.waves)
        if self.joined_by_xor or len(set(self.waves)) == 1 or not least:
            return self
        return replace(self, waves=tuple(w - least for w in self.waves), common=least)

    @property
    def is_constant(self) -> bool:
        """Whether all lanes of all waves have one number."""
        return not any(self.weights) and len(set(self.waves)) == 1


_BITS_OF_LANES = np.arange(WAVE_LANES)[:, None] >> np.arange(LANE_BITS) & 1


def lane_number(table: Table, what: str) -> LaneNumber:
    """A table as code computes it; raises ``NotLinearError`` where it is none."""
    first = table[0]
    for joined_by_xor in (False, True):
        if joined_by_xor:
            part = first ^ first[0]
            whole = table[:, :1] ^ part[None, :]
        else:
            part = first - first[0]
            whole = table[:, :1] + part[None, :]
        if not np.array_equal(whole, table):
            continue
        weights = [int(part[1 << bit]) for bit in range(LANE_BITS)]
        terms = _BITS_OF_LANES * np.array(weights, np.int64)
        for by_xor in (True, False):
            total = (np.bitwise_xor if by_xor else np.add).reduce(terms, axis=1)
            if min(weights, default=0) >= 0 and np.array_equal(total, part):
                waves = tuple(int(v) for v in table[:, 0])
                return LaneNumber(waves, tuple(weights), by_xor, joined_by_xor)
    raise NotLinearError(
        f"{what} is no linear function of the lane's bits",
        hint="use tiles, vectors and boxes whose sizes are powers of two",
        field="layout",
    )


def lane_part(
    code: Code, result: Register, lane: Register, number: LaneNumber, work: Register
) -> None:
    """``result`` = the lane's part; ``work`` is scratch, and neither is ``lane``."""
    terms = _fields(number.weights) if number.by_xor else _runs(number.weights)
    if not terms:
        code("v_mov_b32", result, 0)
    for position, (first, count, weight) in enumerate(terms):
        target = work if position else result
        # Bits of the lane from ``first``, times a weight.
        mask = ((1 << count) - 1) << first
        source = lane
        if mask != WAVE_LANES - 1:
            code("v_and_b32", target, mask, lane)
            source = target
        if weight & (weight - 1):
            code("v_lshrrev_b32", target, first, source)
            code("v_mul_u32_u24", target, weight, target)
        else:
            shift = weight.bit_length() - 1 - first
            if shift:
                verb = "v_lshlrev_b32" if shift > 0 else "v_lshrrev_b32"
                code(verb, target, abs(shift), source)
            elif source is lane:
                code("v_mov_b32", target, lane)
        if position:
            join = "v_xor_b32" if number.by_xor else "v_add_u32"
            code(join, result, result, work)


def _fields(weights: Sequence[int]) -> list[tuple[int, int, int]]:
    """Runs of neighbouring lane bits that move together: (first bit, how many, where it goes)."""
    moves = [(bit, 1 << out) for bit, weight in enumerate(weights) for out in _set_bits(weight)]
    return _joined(sorted(moves, key=lambda m: (m[1].bit_length() - m[0], m[0])))


def _runs(weights: Sequence[int]) -> list[tuple[int, int, int]]:
    """The same for weights that add up; a weight may be any number."""
    return _joined((bit, weight) for bit, weight in enumerate(weights) if weight)


def _joined(moves: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Bits and weights in order, neighbours that move together as one."""
    terms: list[tuple[int, int, int]] = []
    for bit, weight in moves:
        if terms:
            first, count, start = terms[-1]
            if bit == first + count and weight == start << count:
                terms[-1] = (first, count + 1, start)
                continue
        terms.append((bit, 1, weight))
    return terms


def _set_bits(value: int) -> list[int]:
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]


@dataclass(frozen=True, slots=True)
class PlannedNumber:
    """A number that a step will compute: asked for when it is planned, written later."""

    frame: Frame
    number: LaneNumber
    wave: str | int
    """The wave's part: a number, or a scalar's name."""

    @classmethod
    def of(cls, frame: Frame, members: Sequence[int], number: LaneNumber) -> PlannedNumber:
        """For the waves ``members`` of the workgroup."""
        values = dict(zip(members, number.waves, strict=True))
        fill = number.waves[0]
        wave = frame.by_wave([values.get(wave, fill) for wave in range(frame.waves)])
        return cls(frame, number, wave)

    def write(self, code: Code, result: Register, work: Register) -> None:
        """``result`` = the whole number; ``work`` is scratch."""
        number, wave = self.number, self.wave
        lane_part(code, result, self.frame["lane"], number, work)
        if wave != 0:
            join = "v_xor_b32" if number.joined_by_xor else "v_add_u32"
            code(join, result, wave if isinstance(wave, int) else self.frame[wave], result)
        if number.common:
            code("v_add_u32", result, number.common, result)
