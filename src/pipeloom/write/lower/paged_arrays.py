"""Loads of a stream whose rows lie in pages, which an index array names: caches of keys and values.

What a lane adds within a page stays in a register. The entries of a tile's pages are loaded by the
scalar unit, with those of the next tiles where they are few: few trips of a loop wait for them. An
entry outside of the array becomes the first page that is not there, which reads as zero, as does
every row behind the end.

    s_buffer_load_dwordx4 s[8:11], s[4:7], s12     entries of four pages; zero behind the table
    s_min_u32     s8, s8, s20                      none: as many as there are
    s_mul_i32     s8, s8, s21                      bytes of that page
    v_cmp_gt_i32  vcc, s22, v7                     rows that are left
    v_cndmask_b32 v9, v6, v8, vcc
    buffer_load   v9, s[0:3], s8 ... lds           all lanes in one page: its bytes are the offset

Waits of the program never become wrong by the scalar unit's loads: they count with those of LDS,
and wait longer for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pipeloom.program import Meaning
from pipeloom.program.address_maps import AddressMap
from pipeloom.program.index_forms import IndexEntry
from pipeloom.write.addresses import OUT_OF_RANGE, RAW_BUFFER, quotient
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.global_arrays import Array
from pipeloom.write.lower.linear import PlannedNumber, Table, lane_number
from pipeloom.write.lower.loop_taps import LoopPlace
from pipeloom.write.lower.mapped_arrays import MappedArray

AT_ONCE, USUAL = 8, 4
"""Entries that a scalar load brings at most; and at least, where those of the next iterations
follow: they are there then, and nothing waits for them."""
ENTRY_BYTES = 4


@dataclass(frozen=True, slots=True)
class _Pages:
    """Pages of one load, counted from the tile's first one: what waves and what lanes add."""

    waves: tuple[int, ...]
    lanes: int
    """How many pages the lanes of a wave have."""
    offset: str
    """A register: each lane's bytes within its page."""
    row: str
    """A register: each lane's row of the tile."""
    page: str
    """A register: each lane's page, counted from its wave's first one, where there are several."""


@dataclass(slots=True)
class HeldEntries:
    """What scalars for entries hold as code is written: of which array, place and waves. Those of
    ``raw`` are numbers of pages, others bytes."""

    what: tuple[object, ...] = ()
    first: int = 0
    count: int = 0
    raw: set[int] = field(default_factory=set)

    def has(self, what: tuple[object, ...], first: int, count: int) -> bool:
        """Whether pages from the ``first``-th on are there."""
        stop = self.first + self.count
        return what == self.what and self.first <= first and first + count <= stop


class PagedArray:
    """One stream in pages: its scalars, asked of a frame, and the code of its loads.

    Where a tile has more pages than a scalar load brings, entries do not last from load to load,
    and all such arrays share the scalars for them.
    """

    def __init__(
        self, frame: Frame, meaning: Meaning, array: Array, later: bool, shared: HeldEntries
    ) -> None:
        assert array.node.at is not None
        self.frame, self.array, self.over = frame, array, meaning.over
        self.place: AddressMap = array.node.at
        self.entry: IndexEntry = self.place.entries[0]
        self.slots = self.place.digits(self.over)[-1].count
        self.tile = array.node.type.sizes[self.over]
        self._later = later
        for axis in range(len(self.place.dims) - 1):
            frame.scalar(self._stride(axis))
        frame.scalar("scratch")
        frame.scalar("wide scratch", 2, 2)
        self.pages = max(self.tile // self.slots, 1)
        words, own = _loaded(min(self.pages, AT_ONCE)), self.pages <= AT_ONCE
        self.held = HeldEntries() if own else shared
        name = f"entries {array.name}" if own else "entries"
        self._entries = frame.later_scalar(name, words, min(words, 4))
        self._place = frame.spare(f"place of {name}")
        self._further = ""
        if own and self.tile % self.slots == 0:
            count = _loaded(max(self.pages, USUAL))
            self._further = frame.spare(f"further {name}", count, min(count, 4))
        self.inside = frame.spare(f"inside {array.name}", 2, 2)
        self.asked: tuple[object, ...] = ()
        """Which lanes have a row inside, as that scalar holds it: of which place and rows."""
        for number in range(3):
            frame.work(number)

    def _stride(self, axis: int) -> str:
        return f"stride {self.array.name}.{axis}"

    @property
    def pitch(self) -> str:
        """The scalar into which the leading dimension is loaded: rows', or pages' of elements."""
        return self._stride(len(self.place.dims) - 2)

    @property
    def _row(self) -> Register | int:
        """Bytes from row to row."""
        return self.frame[self._stride(1)] if len(self.place.dims) > 2 else self.array.element

    def locate(self, code: Code) -> None:
        """Bytes from row to row, and from page to page."""
        pitch = self.frame[self.pitch]
        if self.array.element > 1:
            code("s_lshl_b32", pitch, pitch, self.array.element.bit_length() - 1)
        if len(self.place.dims) > 2:
            slots = self.frame[f"size {self.place.dims[1]}"]
            code("s_mul_i32", self.frame[self._stride(0)], pitch, slots)

    def end(self, code: Code) -> None:
        """The rest of the descriptor: it ends with the last page."""
        buffer, count = self.frame[f"buffer {self.array.name}"], f"size {self.place.dims[0]}"
        code("s_mul_i32", buffer.part(2), self.frame[self._stride(0)], self.frame[count])
        code("s_mov_b32", buffer.part(3), RAW_BUFFER)

    def plan(
        self, tables: Sequence[Sequence[Table]], members: Sequence[int], clock: LoopPlace
    ) -> PagedLoads:
        """The loads of a step, whose lanes stand at ``tables`` of the tile, by dimension."""
        clock.follow_elements()
        loads = [self._plan(rows, columns, members) for rows, *columns in tables]
        outside = self.frame.prepared("outside", "outside", _fill)
        starts = {one.waves: self._by_wave(one.waves, members) for one in loads}
        return PagedLoads(self, loads, starts, outside, self.frame.scratch("paged", 2), clock)

    def _by_wave(self, waves: Sequence[int], members: Sequence[int]) -> str | int:
        """What waves add to the place of the first of them in the table, in bytes."""
        bytes_of = {w: ENTRY_BYTES * (n - waves[0]) for w, n in zip(members, waves, strict=True)}
        return self.frame.by_wave([bytes_of.get(w, 0) for w in range(self.frame.waves)])

    def _plan(self, rows: Table, columns: Sequence[Table], members: Sequence[int]) -> _Pages:
        frame, name = self.frame, self.array.name
        what = f"the place of a lane in {name}"
        pages = rows // self.slots if self.slots < self.tile else np.zeros_like(rows)
        inside = rows - pages * self.slots
        first = pages.min(axis=1)
        lanes = pages - first[:, None]
        if (lanes != lanes[0]).any():
            raise EmitError(
                f"rows of {name} that waves load together lie in other pages of {self.slots} than "
                "those of other waves do",
                hint="use pages whose size is a power of two, and tiles with whole ones",
                field=name,
            )
        numbers = [lane_number(table, what) for table in (rows, lanes, inside, *columns)]
        planned = [PlannedNumber.of(frame, members, number) for number in numbers]
        row, page = (
            frame.prepared((kind, one.number), kind, partial(self._one, one))
            for kind, one in zip(("row", "page"), planned, strict=False)
        )
        offset = frame.prepared(
            ("paged", name, *numbers[2:]),
            f"offset {name}",
            lambda code, result: self._offset(code, result, *planned[2:]),
        )
        return _Pages(tuple(map(int, first)), int(lanes.max()) + 1, offset, row, page)

    def _one(self, number: PlannedNumber, code: Code, result: Register) -> None:
        number.write(code, result, self.frame[self.frame.work(0)])

    def _offset(
        self, code: Code, result: Register, inside: PlannedNumber, *columns: PlannedNumber
    ) -> None:
        frame = self.frame
        work, spare, outside = (frame[frame.work(n)] for n in range(3))
        inside.write(code, result, work)
        code("v_mul_lo_u32", result, result, self._row)
        if not columns:
            return
        columns[0].write(code, spare, work)
        code("v_mov_b32", outside, OUT_OF_RANGE)
        code("v_cmp_gt_u32", VCC, frame[f"size {self.array.dims[1]}"], spare)
        if self.array.element > 1:
            code("v_lshlrev_b32", spare, self.array.element.bit_length() - 1, spare)
        code("v_add_u32", result, spare, result)
        code("v_cndmask_b32", result, outside, result, VCC)

    def _find(self, code: Code, iteration: int) -> None:
        """Where the table has an iteration's first page, and the bytes before its first row."""
        frame = self.frame
        at = row = self._at
        if self.slots > self.tile:
            row = frame["scratch"]
        code("s_add_u32", row, frame["at 1"], iteration * self.tile)
        if self._later:
            code("s_add_u32", row, row, frame["slice start"])
        quotient(code, at, row, self.slots)
        if self.slots > self.tile:
            before = frame["wide scratch"].part(1)
            code("s_mul_i32", before, at, self.slots)
            code("s_sub_u32", before, row, before)
            code("s_mul_i32", before, before, self._row)
        code("s_lshl_b32", at, at, ENTRY_BYTES.bit_length() - 1)

    @property
    def ahead(self) -> bool:
        """Whether there is room for the entries of the next iterations."""
        return bool(self._further) and self._further in self.frame

    @property
    def at_once(self) -> int:
        """Entries that a load brings."""
        return max(self.pages, USUAL) if self.ahead else min(self.pages, AT_ONCE)

    @property
    def entries(self) -> Register:
        """The pages that were loaded last."""
        return self.frame[self._further if self.ahead else self._entries]

    @property
    def _at(self) -> Register:
        """Where the table has them."""
        frame = self.frame
        return frame[self._place] if self._place in frame else frame["wide scratch"].part(0)

    def load_entries(
        self, code: Code, iteration: int, first: int, count: int, wave: str | int
    ) -> None:
        """The numbers of ``count`` pages of an iteration from the ``first``-th on, in
        ``entries``."""
        frame, at = self.frame, self._at
        self._find(code, iteration)
        words = _loaded(count)
        if first:
            code("s_add_u32", at, at, ENTRY_BYTES * first)
        if wave != 0:
            code("s_add_u32", at, at, wave if isinstance(wave, int) else frame[wave])
        load = f"s_buffer_load_dword{f'x{words}' if words > 1 else ''}"
        table = frame[f"buffer {self.entry.array}"]
        code(load, self.entries.part(0, words), table, at)
        code.wait(lgkm=0)

    def count_bytes(self, code: Code, one: Register) -> None:
        """The bytes of a page for its number."""
        frame = self.frame
        code("s_min_u32", one, one, frame[f"size {self.place.dims[0]}"])
        code("s_mul_i32", one, one, frame[self._stride(0)])
        if self.slots > self.tile:
            code("s_add_u32", one, one, frame["wide scratch"].part(1))
            code("s_min_u32", one, one, frame[f"buffer {self.array.name}"].part(2))


def _loaded(entries: int) -> int:
    """Words of the load that brings so many entries: it may bring more, of which none is used."""
    return 1 << (entries - 1).bit_length()


def _fill(code: Code, result: Register) -> None:
    code("v_mov_b32", result, OUT_OF_RANGE)


def elsewhere(
    frame: Frame, meaning: Meaning, array: Array, later: bool, shared: HeldEntries
) -> MappedArray | PagedArray:
    """An array with dimensions of its own.

    Args:
        frame: Whom to ask for registers.
        meaning: What the kernel computes.
        array: The array.
        later: Whether a loop may begin behind its first row.
        shared: What scalars hold that all arrays with many pages share.
    """
    if array.is_paged:
        return PagedArray(frame, meaning, array, later, shared)
    return MappedArray(frame, meaning, array)


@dataclass(slots=True)
class PagedLoads:
    """The loads of a step, planned."""

    source: PagedArray
    loads: Sequence[_Pages]
    starts: dict[tuple[int, ...], str | int]
    outside: str
    scratch: str
    clock: LoopPlace

    def begin(self, code: Code, iteration: int) -> PagedAddresses:
        """As they are written: where an iteration's pages are, and how many rows it has left."""
        left = self.clock.elements_left(code, iteration, again=True)
        return PagedAddresses(self, iteration, left, self.clock.epoch)


@dataclass(slots=True)
class PagedAddresses:
    """The addresses of a step's loads, one after the other."""

    planned: PagedLoads
    iteration: int
    left: Register
    epoch: int
    _offset: Register | int = 0

    def _entry(self, code: Code, number: int, page: int) -> Register:
        """The bytes of a page of load ``number``; loaded with its neighbours, unless here."""
        planned, source = self.planned, self.planned.source
        one, held = planned.loads[number], source.held
        first = one.waves[0] + page
        apart = tuple(n - one.waves[0] for n in one.waves)
        # Pages of the next iterations follow, counted from where all began.
        before = self.iteration * source.pages if source.ahead else 0
        turn = None if source.ahead else self.iteration
        what = (source.array.name, self.epoch, turn, apart)
        if not held.has(what, before + first, 1):
            # Those of the other loads of the tile, too, as far as they fit.
            begin = 0 if source.ahead else first - first % source.at_once
            if first + one.lanes - page > begin + source.at_once:
                begin = first
            held.what, held.first, held.count = what, before + begin, source.at_once
            held.raw = set(range(held.count))
            start = planned.starts[one.waves]
            source.load_entries(code, self.iteration, begin, source.at_once, start)
        found = before + first - held.first
        if found in held.raw:
            held.raw.remove(found)
            source.count_bytes(code, source.entries.part(found))
        return source.entries.part(found)

    def lanes(self, code: Code, number: int) -> Register:
        """The lanes' offsets of load ``number``."""
        planned, frame = self.planned, self.planned.source.frame
        one = planned.loads[number]
        result, other = (frame[planned.scratch].part(n) for n in range(2))
        place = frame[one.offset]
        self._offset = self._entry(code, number, 0)
        if one.lanes > 1:
            code("v_mov_b32", result, self._offset)
            for page in range(1, one.lanes):
                code("v_mov_b32", other, self._entry(code, number, page))
                code("v_cmp_ne_u32", VCC, page, frame[one.page])
                code("v_cndmask_b32", result, other, result, VCC)
            code("v_add_u32", result, result, place)
            place, self._offset = result, 0
        source, what = planned.source, (self.epoch, self.iteration, one.row)
        kept = source.inside in frame
        inside = frame[source.inside] if kept else VCC
        if not kept or source.asked != what:
            source.asked = what
            code("v_cmp_lt_i32", inside, frame[one.row], self.left)
        code("v_cndmask_b32", result, frame[planned.outside], place, inside)
        return result

    def scalar(self, code: Code) -> Register | int:
        """The page's bytes, where all lanes have one."""
        return self._offset
