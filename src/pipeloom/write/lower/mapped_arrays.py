"""Loads of a stream that lies elsewhere (``Node.at``): convolutions, without a matrix in memory.

What a row of the tile adds to an address is divided out once, before the loop, and stays in a
register; so does a bit for every tap that would lie outside of the array there. In the loop,

    uniform     the scalar unit finds the iteration's tap: its bytes are the scalar offset, and its
                number shifts the bits of each row, whose first then says whether to read
    per lane    the same in lanes, where an iteration has several taps

    v_lshlrev_b32 v9, s40, v7           bit 31: this tap of this row is outside
    v_and_or_b32  v9, v9, s41, v8       then the offset is one that no descriptor has
    buffer_load   v9, s[8:11], s42 ... lds

Bases lie early by what indices may lie before the array, so that no offset is negative. Every lane
that is outside has its highest bit set, and descriptors end just before that; or with the array,
where iterations may begin behind its columns and no digit of the loop tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.program import Meaning
from pipeloom.program.address_maps import AddressMap, CountedDim, LoadForm
from pipeloom.program.index_forms import Digit, IndexEntry
from pipeloom.program.placed_streams import taps_of
from pipeloom.write.addresses import (
    BASE_HIGH,
    OUT_OF_RANGE,
    RAW_BUFFER,
    SPAN_LIMIT,
    advance_base,
    divide,
    quotient,
)
from pipeloom.write.code import Code
from pipeloom.write.isa import VCC, Bank, Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Array
from pipeloom.write.lower.linear import PlannedNumber, Table, lane_number
from pipeloom.write.lower.loop_taps import ALL_BITS, LoopPlace, LoopTaps, MappedLoad, TapBits

WORKS = 7
"""Vector scratch of a row's setup."""
WHOLE = 32
ALL_RATES = 0x4F7FFFFE
"""2^32 less 512 as f32: a reciprocal times this is at most 2^32 over the divisor."""


def load_entry(frame: Frame, entry: IndexEntry, rows: PlannedNumber, work: str) -> str:
    """A register of the preamble with the entries of lanes' rows, loaded first of all."""

    def make(code: Code, result: Register) -> None:
        rows.write(code, result, frame[work])
        code("v_lshlrev_b32", result, 2, result)
        buffer = frame[f"buffer {entry.array}"]
        code("buffer_load_dword", result, result, buffer, 0, modifiers=["offen"])

    return frame.ahead(("entry", entry.array, rows.number), f"entry {entry.array}", make)


def take_entry(code: Code, entry: IndexEntry, result: Register, whole: Register) -> None:
    """An entry's bits; those of a number with its sign are large where that is negative."""
    if entry.width == WHOLE:
        code("v_mov_b32", result, whole)
    else:
        code("v_bfe_u32", result, whole, entry.low, entry.width)


class MappedArray:
    """One stream that lies elsewhere: its scalars, asked of a frame, and the code of its loads."""

    def __init__(self, frame: Frame, meaning: Meaning, array: Array) -> None:
        assert array.node.at is not None
        self.frame, self.meaning, self.array = frame, meaning, array
        self.place: AddressMap = array.node.at
        self.over = meaning.over
        fields = taps_of(meaning.name, self.over, array.node)
        self.bits = TapBits(fields, self.place.digits(self.over)[:-1])
        tile = array.node.type.sizes[self.over]
        self.ends = meaning.ragged and len(self.place.digits(self.over)) == 1
        self.per_lane = self.place.form(self.over, tile) is LoadForm.PER_LANE
        for axis in range(len(self.place.dims) - 1):
            frame.scalar(self.stride(axis))
        for digit in self._divisors:
            frame.scalar(self._scalar("count", digit.name))
            frame.scalar(self._scalar("rate", digit.name))
        for digit in self.place.digits(self.over)[:-1]:
            frame.scalar(self._scalar("unit", digit.name))
        for name in ("lead", "first", "rest", "quotient", "part", "tap"):
            frame.scalar(self._scalar(name))
        for number in range(len(fields)):
            frame.scalar(self._scalar("shift", str(number)))
        frame.scalar("wide scratch", 2, 2)
        frame.scalar("scratch")
        for number in range(WORKS):
            frame.work(number)
        factors = {f for one in self.place.indexed for _, f in one.index.factors if f > 1}
        self._constants = {factor: frame.constant(factor) for factor in sorted(factors)}
        sign = frame.constant(OUT_OF_RANGE) if fields else ""
        if self.per_lane:
            for digit in self.place.digits(self.over):
                for number in (digit.count, divide(digit.count)[1]):
                    self._constants[number] = frame.constant(number)
        self.taps = LoopTaps(
            frame,
            array,
            self.place,
            self.bits,
            self._scalar,
            self.per_lane,
            self._constants,
            sign,
            self.ends,
        )

    def _scalar(self, what: str, which: str = "") -> str:
        return f"{what} {self.array.name}" + (f".{which}" if which else "")

    def stride(self, axis: int) -> str:
        """The scalar with the bytes between neighbours along a dimension of the array."""
        return f"stride {self.array.name}.{axis}"

    @property
    def pitch(self) -> str:
        """The scalar into which the leading dimension is loaded."""
        return self.stride(len(self.place.dims) - 2)

    @property
    def _rows(self) -> tuple[CountedDim, ...]:
        return tuple(one for one in self.place.counted if one.dim != self.over)

    @property
    def _gathered(self) -> tuple[str, ...]:
        """Dimensions of the tile whose index is one of index arrays."""
        return tuple(dict.fromkeys(entry.dim for entry in self.place.entries))

    @property
    def _divisors(self) -> tuple[Digit, ...]:
        return tuple(digit for one in self._rows for digit in one.digits[1:])

    @property
    def _moved(self) -> CountedDim | None:
        """The counted dimension whose first digit alone is the index along the array's first: the
        base goes along with it, so that only what a block touches has to be near."""
        form = self.place.indexed[0].index
        found = [one for one in self._rows if form == one.digits[0].form]
        return found[0] if found and found[0].dim in self.meaning.grid else None

    # --- before the loop --------------------------------------------------------------------------

    def locate(self, code: Code) -> None:
        """Strides, counts, and the base at the first that this block may touch."""
        frame, place = self.frame, self.place
        last = len(place.dims) - 1
        scratch = frame["scratch"]
        for axis in reversed(range(last)):
            stride = frame[self.stride(axis)]
            if axis == last - 1:
                if self.array.element > 1:
                    code("s_lshl_b32", stride, stride, self.array.element.bit_length() - 1)
            else:
                size = frame[f"size {place.dims[axis + 1]}"]
                code("s_mul_i32", stride, frame[self.stride(axis + 1)], size)
        for digit in self._divisors:
            self._count(code, digit)
        for digit in place.digits(self.over)[:-1]:
            unit = frame[self._scalar("unit", digit.name)]
            code("s_mov_b32", unit, 0)
            for axis, one in enumerate(place.indexed[:-1]):
                factor = dict(one.index.factors).get(digit.name, 0)
                if factor:
                    code("s_mul_i32", scratch, frame[self.stride(axis)], factor)
                    code("s_add_u32", unit, unit, scratch)
        buffer, first = frame[f"buffer {self.array.name}"], frame[self._scalar("first")]
        code("s_mov_b32", first, 0)
        if self._moved is not None:
            code("s_mov_b32", first, frame[f"origin {self._moved.dim}"])
            for digit in reversed(self._moved.digits[1:]):
                self._divide_scalar(code, first, digit)
            step = frame[self.stride(0)]
            advance_base(code, buffer, first, step, frame["wide scratch"])
        lead = frame[self._scalar("lead")]
        code("s_mov_b32", lead, 0)
        for axis, one in enumerate(place.indexed[:-1]):
            if one.index.constant < 0:
                code("s_mul_i32", scratch, frame[self.stride(axis)], -one.index.constant)
                code("s_add_u32", lead, lead, scratch)
        code("s_sub_u32", buffer.part(0), buffer.part(0), lead)
        code("s_subb_u32", buffer.part(1), buffer.part(1), 0)
        code("s_and_b32", buffer.part(1), buffer.part(1), BASE_HIGH)

    def end(self, code: Code) -> None:
        """The rest of the descriptor."""
        buffer = self.frame[f"buffer {self.array.name}"]
        records = buffer.part(2)
        if self.ends:
            self._span(code, records)
            code("s_min_u32", records, records, SPAN_LIMIT)
        else:
            code("s_mov_b32", records, SPAN_LIMIT)
        code("s_mov_b32", buffer.part(3), RAW_BUFFER)

    def _span(self, code: Code, result: Register) -> None:
        """Bytes from the base to the array's end, or more than any offset where those are more."""
        frame = self.frame
        rows, high = frame["scratch"], frame["wide scratch"].part(0)
        step = frame[self.stride(0)] if len(self.place.dims) > 1 else max(self.array.element, 1)
        code("s_sub_u32", rows, frame[f"size {self.place.dims[0]}"], frame[self._scalar("first")])
        code("s_max_i32", rows, rows, 0)
        code("s_mul_hi_u32", high, rows, step)
        code("s_mul_i32", result, rows, step)
        code("s_min_u32", high, high, 1)
        code("s_sub_u32", high, 0, high)
        code("s_or_b32", result, result, high)
        code("s_min_u32", result, result, SPAN_LIMIT)
        code("s_add_u32", result, result, frame[self._scalar("lead")])

    def _count(self, code: Code, digit: Digit) -> None:
        """A digit's count, and 2^32 over it, for divisions of any 32 bits.

        One step of Newton's method makes the rate of the reciprocal at most the true one, and less
        by so little that a quotient is at most 2 too small (LLVM, AMDGPUCodeGenPrepare,
        expandDivRem32).
        """
        frame, scratch = self.frame, self.frame["scratch"]
        count, rate = (frame[self._scalar(what, digit.name)] for what in ("count", "rate"))
        if digit.along:
            code("s_add_i32", count, frame[f"size {digit.along}"], digit.more + digit.step - 1)
            quotient(code, count, count, digit.step)
        else:
            code("s_mov_b32", count, digit.count)
        work = frame[frame.work(0)]
        code("v_mov_b32", work, count)
        code("v_cvt_f32_u32", work, work)
        code("v_rcp_f32", work, work)
        code("v_mul_f32", work, ALL_RATES, work)
        code("v_cvt_u32_f32", work, work)
        code("v_readfirstlane_b32", rate, work)
        code("s_sub_u32", scratch, 0, count)
        code("s_mul_i32", scratch, scratch, rate)
        code("s_mul_hi_u32", scratch, scratch, rate)
        code("s_add_u32", rate, rate, scratch)

    def _divide_scalar(self, code: Code, value: Register, digit: Digit) -> None:
        """``value //= count``."""
        frame = self.frame
        count, rate = (frame[self._scalar(what, digit.name)] for what in ("count", "rate"))
        rest, scratch = frame[self._scalar("rest")], frame["scratch"]
        code("s_mul_hi_u32", frame[self._scalar("quotient")], value, rate)
        code("s_mul_i32", rest, frame[self._scalar("quotient")], count)
        code("s_sub_u32", rest, value, rest)
        code("s_mov_b32", value, frame[self._scalar("quotient")])
        for _ in range(2):
            code("s_cmp_ge_u32", rest, count)
            code("s_cselect_b32", scratch, 1, 0)
            code("s_add_u32", value, value, scratch)
            code("s_mul_i32", scratch, scratch, count)
            code("s_sub_u32", rest, rest, scratch)

    def _divide(self, code: Code, value: Register, part: Register, digit: Digit) -> None:
        """``value, part = divmod(value, count)`` in lanes."""
        frame = self.frame
        count, rate = (frame[self._scalar(what, digit.name)] for what in ("count", "rate"))
        found, less = (frame[frame.work(n)] for n in (WORKS - 2, WORKS - 1))
        code("v_mul_hi_u32", found, value, rate)
        code("v_mul_lo_u32", part, found, count)
        code("v_sub_u32", part, value, part)
        code("v_mov_b32", value, found)
        for _ in range(2):
            code("v_cmp_le_u32", VCC, count, part)
            code("v_sub_u32", less, part, count)
            code("v_cndmask_b32", part, part, less, VCC)
            code("v_add_u32", found, 1, value)
            code("v_cndmask_b32", value, value, found, VCC)

    # --- loads ------------------------------------------------------------------------------------

    def plan(self, tables: Sequence[Table], members: Sequence[int], clock: LoopPlace) -> MappedLoad:
        """A load, whose lanes stand at ``tables`` of the tile, by dimension."""
        frame, name = self.frame, self.array.name
        clock.follow_elements()
        what = f"the place of a lane in {name}"
        numbers = {
            dim: lane_number(table, what)
            for dim, table in zip(self.array.dims, tables, strict=True)
        }
        planned = {d: PlannedNumber.of(frame, members, number) for d, number in numbers.items()}
        rows = tuple(number for dim, number in numbers.items() if dim != self.over)
        along = numbers[self.over]
        outside = columns = column = None
        if self.bits.fields:
            # Written with the row's offset, of which it shares the divisions.
            outside = frame.prepared(("outside", name, rows), f"outside {name}", lambda c, r: None)
        if self.per_lane:
            work = frame.work(0)
            column = frame.prepared(
                ("column", name, along),
                f"column {name}",
                lambda code, result: planned[self.over].write(code, result, frame[work]),
            )
            columns = f"taps {name} {frame.group} {along}"
            frame.always(columns, Bank.VECTOR, 1 + len(self.bits.fields))
        held = {
            entry.array: load_entry(frame, entry, planned[entry.dim], frame.work(0))
            for entry in self.place.entries
        }
        base = frame.prepared(
            ("placed", name, rows, None if self.per_lane else along),
            f"offset {name}",
            lambda code, result: self._row(code, planned, held, result, outside),
        )
        scratch = frame.scratch("placed", 4 if self.per_lane else 1)
        return MappedLoad(self.taps, base, outside, column, columns, scratch)

    def _row(
        self,
        code: Code,
        planned: dict[str, PlannedNumber],
        held: dict[str, str],
        result: Register,
        outside: str | None,
    ) -> None:
        """A row's bytes, and which of its taps are outside."""
        frame = self.frame
        value, part, work, bits = (frame[frame.work(n)] for n in (0, 1, 2, 4))
        mask = frame[outside] if outside is not None else bits
        code("v_mov_b32", result, frame[self._scalar("lead")])
        code("v_mov_b32", mask, self.bits.past)
        if not self.per_lane:
            planned[self.over].write(code, part, work)
            if self.array.element > 1:
                code("v_lshlrev_b32", part, self.array.element.bit_length() - 1, part)
            code("v_add_u32", result, part, result)
        decided = {digit.name for one in self._rows for digit in one.digits}
        decided |= {entry.name for entry in self.place.entries}
        for rows in self._gathered:
            planned[rows].write(code, value, work)
            code("v_cmp_le_u32", VCC, frame[f"left {rows}"], value)
            code("v_cndmask_b32", work, 0, -1, VCC)
            code("v_or_b32", mask, work, mask)
        for axis, dim in enumerate(self.place.indexed[:-1]):
            own = dict(dim.index.factors)
            entries = [entry for entry in self.place.entries if entry.name in own]
            for number, entry in enumerate(entries):
                into = work if number else part
                take_entry(code, entry, into, frame[held[entry.array]])
                if own[entry.name] > 1:
                    times = frame[self._constants[own[entry.name]]]
                    code("v_mul_lo_u32", into, into, times)
                if number:
                    code("v_add_u32", part, work, part)
            if entries:
                self._add_index(code, axis, 1, part, result, mask)
        for axis, dim in enumerate(self.place.indexed[:-1]):
            if not decided & {name for name, _ in dim.index.factors}:
                code("v_mov_b32", part, 0)
                self._add_index(code, axis, 1, part, result, mask)
        for one in self._rows:
            planned[one.dim].write(code, value, work)
            in_grid = one.dim in self.meaning.grid
            bound = frame[f"{'left' if in_grid else 'size'} {one.dim}"]
            code("v_cmp_le_u32", VCC, bound, value)
            code("v_cndmask_b32", work, 0, -1, VCC)
            code("v_or_b32", mask, work, mask)
            if in_grid:
                code("v_add_u32", value, frame[f"origin {one.dim}"], value)
            for digit in reversed(one.digits):
                if digit is not one.digits[0]:
                    self._divide(code, value, part, digit)
                elif self._moved is one:
                    code("v_sub_u32", part, value, frame[self._scalar("first")])
                else:
                    code("v_mov_b32", part, value)
                for axis, dim in enumerate(self.place.indexed[:-1]):
                    factor = dict(dim.index.factors).get(digit.name, 0)
                    if factor:
                        self._add_index(code, axis, factor, part, result, mask)
        if outside is None:
            code("v_and_b32", mask, OUT_OF_RANGE, mask)
            code("v_or_b32", result, mask, result)

    def _add_index(
        self, code: Code, axis: int, factor: int, digit: Register, result: Register, mask: Register
    ) -> None:
        """What a digit adds along a dimension, and at which taps that lies outside."""
        frame, dim = self.frame, self.place.indexed[axis]
        work, index = frame[frame.work(2)], frame[frame.work(3)]
        if factor == 1:
            code("v_mov_b32", index, digit)
        else:
            code("v_mul_lo_u32", index, digit, frame[self._constants[factor]])
        if dim.index.constant:
            code("v_add_u32", index, dim.index.constant & ALL_BITS, index)
        code("v_mul_lo_u32", work, index, frame[self.stride(axis)])
        code("v_add_u32", result, work, result)
        if dim not in self.place.checked():
            return
        for reach, bits in self.bits.of(dim):
            code("v_add_u32", work, reach, index)
            code("v_cmp_le_u32", VCC, frame[f"size {dim.dim}"], work)
            code("v_cndmask_b32", work, 0, -1, VCC)
            if bits != ALL_BITS:
                code("v_and_b32", work, bits, work)
            code("v_or_b32", mask, work, mask)
