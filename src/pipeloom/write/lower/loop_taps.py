"""The loop's part of an address that lies elsewhere: which tap an iteration has, and its bytes.

Nothing is carried from iteration to iteration: the tap follows from how far the loop has come, by a
few instructions on the scalar unit, or in lanes where a tile has several taps. They are computed
once for all loads of an iteration.

Which taps of a row lie outside of its array, as the bits of one register.

A field has a bit for every tap that its digits count, and one for what is past the last, the first
tap highest. Shifted left by the number of a tap, the register's highest bit says whether that tap
is outside; with several fields, one shift for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Protocol

from pipeloom.program.address_maps import AddressMap, IndexedDim
from pipeloom.program.index_forms import Digit
from pipeloom.write.addresses import divide, quotient
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Array

HIGHEST = 31
ALL_BITS = 0xFFFFFFFF
Field = tuple[tuple[str, int], ...]
"""Digits and their counts, the last one fastest."""


@dataclass(frozen=True, slots=True)
class TapBits:
    """The fields of a stream's word, and which digits of the loop there are but the fastest."""

    fields: tuple[Field, ...]
    outer: tuple[Digit, ...]

    @property
    def starts(self) -> list[int]:
        """The first bit of each field, counted from the highest."""
        counts = [taps(part) + 1 for part in self.fields]
        return [sum(counts[:at]) for at in range(len(counts))]

    @property
    def lasts(self) -> list[int]:
        """The bit of each field that stands for what is past its last tap."""
        return [s + taps(f) for s, f in zip(self.starts, self.fields, strict=True)]

    @property
    def past(self) -> int:
        """Those bits."""
        return sum(1 << HIGHEST - last for last in self.lasts)

    @property
    def flat(self) -> bool:
        """Whether one field has all digits but the fastest, and so is their number."""
        names = [[name for name, _ in part] for part in self.fields]
        return names == [[digit.name for digit in self.outer]]

    def of(self, dim: IndexedDim) -> list[tuple[int, int]]:
        """What the loop's digits add to an index, with the bits of the taps that do."""
        factors, found = dict(dim.index.factors), dict[int, int]()
        for part, start in zip(self.fields, self.starts, strict=True):
            if not any(name in factors for name, _ in part):
                continue
            for at, digits in enumerate(product(*(range(count) for _, count in part))):
                named = zip((name for name, _ in part), digits, strict=True)
                reach = sum(factors.get(name, 0) * value for name, value in named)
                found[reach] = found.get(reach, 0) | 1 << HIGHEST - start - at
        return sorted(found.items()) or [(0, ALL_BITS)]

    def weights(self, digit: Digit) -> list[tuple[int, int]]:
        """The fields whose shift a digit adds to, and how much each of it adds."""
        found = []
        for at, part in enumerate(() if self.flat else self.fields):
            names = [name for name, _ in part]
            if digit.name in names:
                found.append((at, taps(part[names.index(digit.name) + 1 :])))
        return found


def taps(field: Field) -> int:
    """How many a field counts."""
    return prod(count for _, count in field)


class LoopPlace(Protocol):
    """What loads ask of the clock: a scalar, ``at 1``, with the elements before the section's
    iteration, and a number that changes where what was computed of it may no longer stand."""

    epoch: int

    def follow_elements(self) -> None:
        """Keep that scalar."""

    def elements_left(self, code: Code, iteration: int, *, again: bool = False) -> Register:
        """A scalar: elements from the first one of ``iteration`` on; may be negative."""


@dataclass(frozen=True, slots=True)
class MappedLoad:
    """One load, planned: the registers that its lanes' offsets are made of."""

    taps: LoopTaps
    base: str
    outside: str | None
    column: str | None
    columns: str | None
    scratch: str

    def address(
        self, code: Code, clock: LoopPlace, iteration: int
    ) -> tuple[Register, Register | int]:
        """Its lanes' offsets, and the scalar one."""
        return self.taps.offset(code, clock, iteration, self)


@dataclass(slots=True)
class LoopTaps:
    """What the loop's digits add to the addresses of one stream."""

    frame: Frame
    array: Array
    place: AddressMap
    bits: TapBits
    names: Callable[..., str]
    """The scalars of the stream, by what they hold."""
    per_lane: bool
    constants: dict[int, str]
    sign: str
    ends: bool
    """Whether the descriptor ends with the array; offsets of tiles behind that are held there."""
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def over(self) -> str:
        """The dimension that the loop runs along."""
        return self.array.over

    @property
    def tile(self) -> int:
        """How far one iteration goes."""
        return self.array.node.type.sizes[self.over]

    def _fresh(self, key: str, clock: LoopPlace, iteration: int) -> bool:
        """Whether something must be computed for an iteration, and is not there already."""
        now = clock.epoch, iteration
        had = self._known.get(key)
        self._known[key] = now
        return had != now

    def tap(self, code: Code, clock: LoopPlace, iteration: int) -> Register:
        """The scalar offset of an iteration; ``shift`` scalars say where its bits are."""
        frame = self.frame
        tap, rest, found, part = (
            frame[self.names(name)] for name in ("tap", "rest", "quotient", "part")
        )
        if not self._fresh("tap", clock, iteration):
            return tap
        code("s_add_u32", rest, frame["at 1"], iteration * self.tile)
        *outer, inner = self.place.digits(self.over)
        size = self.array.element.bit_length() - 1
        if not outer:
            code("s_lshl_b32", tap, rest, size)
            if self.ends:  # num_records less the scalar offset must not be negative
                code("s_min_u32", tap, tap, frame[f"buffer {self.array.name}"].part(2))
            return tap
        shifts = [frame[self.names("shift", str(n))] for n in range(len(self.bits.fields))]
        quotient(code, found, rest, inner.count)
        code("s_mul_i32", part, found, inner.count)
        code("s_sub_u32", tap, rest, part)
        code("s_lshl_b32", tap, tap, size)
        for shift, start, last in zip(shifts, self.bits.starts, self.bits.lasts, strict=True):
            if self.bits.flat:
                code("s_min_u32", shift, found, last)
            else:
                code("s_mov_b32", shift, start)
        for digit in reversed(outer):
            if digit is outer[0]:
                code("s_min_u32", part, found, digit.count)
            else:
                quotient(code, rest, found, digit.count)
                code("s_mul_i32", part, rest, digit.count)
                code("s_sub_u32", part, found, part)
                code("s_mov_b32", found, rest)
            for at, weight in self.bits.weights(digit):
                code("s_mul_i32", rest, part, weight)
                code("s_add_u32", shifts[at], shifts[at], rest)
            code("s_mul_i32", part, part, frame[self.names("unit", digit.name)])
            code("s_add_u32", tap, tap, part)
        return tap

    def lane_taps(self, code: Code, clock: LoopPlace, iteration: int, load: MappedLoad) -> Register:
        """What the columns of lanes add, bytes first, then their places among the bits."""
        frame = self.frame
        assert load.columns is not None
        assert load.column is not None
        taps = frame[load.columns]
        if not self._fresh(load.columns, clock, iteration):
            return taps
        rest, found, part, more = (frame[load.scratch].part(n) for n in range(4))
        scalar, tap = frame[self.names("rest")], taps.part(0)
        code("s_add_u32", scalar, frame["at 1"], iteration * self.tile)
        code("v_add_u32", rest, scalar, frame[load.column])
        *outer, inner = self.place.digits(self.over)
        self._quotient(code, found, rest, inner.count)
        code("v_mul_lo_u32", part, found, frame[self.constants[inner.count]])
        code("v_sub_u32", tap, rest, part)
        if self.array.element > 1:
            code("v_lshlrev_b32", tap, self.array.element.bit_length() - 1, tap)
        for at, (start, last) in enumerate(zip(self.bits.starts, self.bits.lasts, strict=True)):
            if self.bits.flat:
                code("v_min_u32", taps.part(1 + at), last, found)
            else:
                code("v_mov_b32", taps.part(1 + at), start)
        for digit in reversed(outer):
            if digit is outer[0]:
                code("v_min_u32", part, digit.count, found)
            else:
                self._quotient(code, rest, found, digit.count)
                code("v_mul_lo_u32", part, rest, frame[self.constants[digit.count]])
                code("v_sub_u32", part, found, part)
                code("v_mov_b32", found, rest)
            for at, weight in self.bits.weights(digit):
                code("v_mul_u32_u24", more, weight, part)
                code("v_add_u32", taps.part(1 + at), more, taps.part(1 + at))
            code("v_mul_lo_u32", part, part, frame[self.names("unit", digit.name)])
            code("v_add_u32", tap, part, tap)
        return taps

    def _quotient(self, code: Code, result: Register, value: Register, number: int) -> None:
        """``result = value // number`` in lanes, of values below 2^31."""
        before, factor, after = divide(number)
        if before or not factor:
            code("v_lshrrev_b32", result, before, value)
            value = result
        if factor:
            code("v_mul_hi_u32", result, value, self.frame[self.constants[factor]])
            if after:
                code("v_lshrrev_b32", result, after, result)

    def offset(
        self, code: Code, clock: LoopPlace, iteration: int, load: MappedLoad
    ) -> tuple[Register, Register | int]:
        """The lanes' offsets of a load, and the scalar one."""
        frame, result = self.frame, self.frame[load.scratch].part(0)
        base = frame[load.base]
        if not self.per_lane:
            tap = self.tap(code, clock, iteration)
            if load.outside is None:
                return base, tap
            for at in range(len(self.bits.fields)):
                shift, mask = frame[self.names("shift", str(at))], frame[load.outside]
                if at:
                    code("v_lshl_or_b32", result, mask, shift, result)
                else:
                    code("v_lshlrev_b32", result, shift, mask)
            code("v_and_or_b32", result, result, frame[self.sign], base)
            return result, tap
        taps = self.lane_taps(code, clock, iteration, load)
        moved = frame[load.scratch].part(1)
        code("v_add_u32", moved, taps.part(0), base)
        if load.outside is None:
            return moved, 0
        for at in range(len(self.bits.fields)):
            mask, shift = frame[load.outside], taps.part(1 + at)
            if at:
                code("v_lshl_or_b32", result, mask, shift, result)
            else:
                code("v_lshlrev_b32", result, shift, mask)
        code("v_and_or_b32", result, result, frame[self.sign], moved)
        return result, 0
