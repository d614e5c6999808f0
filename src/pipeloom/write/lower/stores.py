"""Registers to global memory: converted, masked, as wide as rows allow.

Elements of a lane that follow each other are stored together where sizes and leading dimension are
multiples of their number, else one by one; a scalar branch decides. What lies past the end of the
first dimension is behind the descriptor, past the end of another gets an offset that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.program import Region, Work
from pipeloom.program.idle import ends_with_block
from pipeloom.write.addresses import OUT_OF_RANGE, SPAN_LIMIT
from pipeloom.write.code import Code
from pipeloom.write.convert import STORED_BITS, ConvertScratch, packed_words, prepare
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import VCC, Bank, Register
from pipeloom.write.lower.columns import dealt_tile
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write, rounding_constants
from pipeloom.write.lower.global_arrays import Array
from pipeloom.write.lower.linear import LaneNumber, PlannedNumber, Table, lane_number
from pipeloom.write.lower.mapped_arrays import take_entry
from pipeloom.write.lower.register_tiles import WORD, WORDS, RegisterTile, repeats

RINGS = 2
"""Sets of data registers, so that a conversion need not wait for the store before it."""
LEFT = "left of the stored tile"
"""The scalar that says how many elements of an iteration's tile exist along the loop."""
MOST = 4
"""Elements of a store that converts them."""
NEAR = 16
"""Rows of which one has an offset of its own, and the others a scalar more."""
ATOMIC_ADD = "buffer_atomic_add_f32"
"""Adds a dword of each lane; without a result it is counted as a store is (CDNA3 ISA, 9.1.3)."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements that one store writes: their first slot, and where they go."""

    slot: int
    column: int
    """Added to the lanes' pattern along the last dimension."""
    row: tuple[int, ...]
    """The same along the other dimensions."""


_Lanes = tuple[PlannedNumber, ...]
"""What all runs of one kind share: by dimension, the lanes' coordinates."""


def plan_store(context: Context, work: Work) -> Write:
    """A tile's box to an output."""
    return _Store(context, work).emit


class _Store:
    """One store step, planned."""

    def __init__(self, context: Context, work: Work) -> None:
        self.context, self.work = context, work
        read, write = work.reads[0], work.writes[0]
        self.array: Array = context.memory.arrays[write.resource]
        self.tile: RegisterTile = context.tile(read, work)
        self.dtype = self.array.node.type.dtype.code
        self._check_type()
        if self.array.node.adds and (repeats(self.tile) or self.packed):
            raise EmitError(
                f"{work.label} adds what several lanes have: {self.tile.resource.type}",
                hint="add tiles whose lanes have elements of their own",
                field=work.label,
            )
        box = context.register_box(read, work)
        targets = context.boxes(write, work.parts)
        slots = self.tile.slots_in(box, work.label)
        lying = dealt_tile(self.tile, self.array.dims, context.memory.dealt)
        runs = list(lying.runs(slots, LOAD_BYTES if self.packed else MOST * self.tile.bits // 8))
        self.count = len(runs[0])
        adds = self.array.node.adds
        if adds or self.single or any(len(run) != self.count for run in runs):
            runs, self.count = [[slot] for slot in slots], 1
        if self.packed and self.count % self.tile.pack and self.count > 1:
            raise EmitError(
                f"{work.label} stores single elements of packed {self.dtype} registers",
                hint="choose a layout in which neighbours of a lane fill a register",
                field=work.label,
            )
        self.iterates = self.array.node.region is Region.LOOP and self.array.over in self.array.dims
        meaning = context.program.meaning
        past = context.memory.placing.past_ends(meaning)
        self.ends = past and not ends_with_block(meaning, self.array.node)
        """Whether what lies past the end of the loop's dimension is not behind the descriptor."""
        if self.iterates:
            context.clock.follow(self.array)
            if self.ends:
                context.clock.follow_elements()
                context.frame.scalar(LEFT)
        self.kinds: dict[tuple[LaneNumber, ...], tuple[_Lanes, list[_Run]]] = {}
        self._tables: list[tuple[_Run, list[Table]]] = []
        """Of each run, the lanes' places but for its rows."""
        corner = np.array([p for p, _ in box])
        starts = np.array([[p for p, _ in target] for target in targets])
        corner, starts = corner[None, None], starts[:, None, :]
        for run in runs:
            self._add(run[0], np.asarray(lying.coordinates[run[0]][None] - corner + starts))
        frame = context.frame
        self._by_row = self._plan_rows() if self._adds_rows else {}
        self._work = frame.scratch("store work", 2, 2)
        if not self._by_row:
            self._plan_scratch()

    def _plan_scratch(self) -> None:
        """The registers in which addresses and elements are made."""
        frame = self.context.frame
        rows = max(len({r.row for r in runs_}) for _, runs_ in self.kinds.values())
        self._rows = frame.scratch("store rows", rows)
        self._column = frame.scratch("store column")
        self._offset = frame.scratch("store offset", max(MOST, self.count))
        self._data = frame.scratch("store data", MOST * RINGS, 4)
        self._outside = frame.scratch("store outside")
        self._nan = frame.scratch("store nan")
        self._constants = rounding_constants(frame, self.dtype)
        self._span = frame.constant(SPAN_LIMIT) if self.array.is_scattered else ""

    @property
    def _adds_rows(self) -> bool:
        """Whether it adds rows of an iteration: what is past their end is behind the descriptor, so
        that where a lane's element lies in a row is the same in all of them."""
        array = self.array
        plain = self.count == 1 and not array.is_scattered and array.element == WORD
        plain = plain and isinstance(array.stride(0), str | int)
        return array.node.adds and plain and self.iterates and array.dims[0] == array.over

    def _plan_rows(self) -> dict[_Run, str]:
        """The register with the lanes' offsets of each run, but for its rows; those in scalars, if
        there are enough."""
        memory, members = self.context.memory, self.context.group.waves
        stride = self.array.stride(0)
        found = {}
        for run, (rows, *columns) in self._tables:
            near = run.row[0] % NEAR
            found[run] = memory.offset(self.array, [rows + run.row[0] - near, *columns], members)
            if near and isinstance(stride, str):
                self._rows_apart(near, stride)
        return found

    def _rows_apart(self, rows: int, stride: str) -> str:
        """A scalar with the bytes of so many rows."""
        frame, name = self.context.frame, f"{rows} x {stride}"
        if name not in frame.spared:
            frame.spare(name)

            def make(code: Code) -> None:
                if name in frame:
                    code("s_mul_i32", frame[name], frame[stride], rows)

            frame.common.append(make)
        return name

    def _add_rows(self, code: Code, soffset: Register | int) -> None:
        """Every run by its own instruction, row by row."""
        frame, stride = self.context.frame, self.array.stride(0)
        buffer, number = frame[f"buffer {self.array.name}"], 0
        for run, base in self._by_row.items():
            lanes, rows = frame[base], run.row[0] % NEAR
            if rows:
                apart: Register | int = rows * stride if isinstance(stride, int) else 0
                if isinstance(stride, str):
                    name = self._rows_apart(rows, stride)
                    apart = frame[name] if name in frame else frame["scratch"]
                    if name not in frame:
                        code("s_mul_i32", apart, frame[stride], rows)
                lanes = frame[self._work].part(number % 2)
                code("v_add_u32", lanes, apart, frame[base])
                number += 1
            words = self._words(code, run, 0)
            code(ATOMIC_ADD, words, lanes, buffer, soffset, modifiers=["offen"])

    @property
    def packed(self) -> bool:
        """Whether the registers hold elements as memory does, less than a register each."""
        return self.tile.pack > 1

    @property
    def single(self) -> bool:
        """Whether each element, as memory has it, is in a register of its own."""
        held = self.tile.resource.type.dtype
        return not self.packed and held.bits < 32 and held == self.array.node.type.dtype

    def _check_type(self) -> None:
        held = self.tile.resource.type.dtype
        if held == self.array.node.type.dtype and held.bits in (8, 16, 32):
            return
        if self.dtype not in STORED_BITS or held.code != "f32":
            raise EmitError(
                f"{self.work.label} stores {held} registers as {self.dtype}",
                hint=f"store f32 as one of {', '.join(STORED_BITS)}, or a type as itself",
                field=self.array.name,
            )

    def _add(self, slot: int, table: Table) -> None:
        """Split a run's place into the lanes' pattern and a constant, by dimension."""
        # One number lies as the only column of an array without rows.
        axes = np.moveaxis(table, -1, 0) if self.array.dims else [np.zeros(table.shape[:-1], int)]
        least = [int(axis.min()) for axis in axes]
        numbers = tuple(
            lane_number(axis - low, f"the place of a lane in {self.array.name}")
            for axis, low in zip(axes, least, strict=True)
        )
        if numbers not in self.kinds:
            members = self.context.group.waves
            lanes = tuple(PlannedNumber.of(self.context.frame, members, n) for n in numbers)
            self.kinds[numbers] = (lanes, [])
        run = _Run(slot, least[-1], tuple(least[:-1]))
        self.kinds[numbers][1].append(run)
        self._tables.append((run, [axes[0] - least[0], *axes[1:]]))

    # --- writing ----------------------------------------------------------------------------------

    def emit(self, code: Code) -> None:
        """All stores, wide and narrow, with the branch between them."""
        frame = self.context.frame
        if not self._by_row:
            code("v_mov_b32", frame[self._outside], OUT_OF_RANGE)
        if not (self.packed or self.single or self._by_row):
            prepare(code, self.context.target, self.dtype, self._conversion)
        offset: Register | int = 0
        if self.iterates and self.work.iteration is not None:
            clock = self.context.clock
            if self.ends:
                left = clock.elements_left(code, self.work.iteration)
                code("s_max_i32", frame[LEFT], left, 0)
            offset = clock.offset(code, self.array, self.work.iteration)
        if self._by_row:
            self._add_rows(code, offset)
            return
        for lanes, runs in self.kinds.values():
            rows = self._row_offsets(code, lanes, runs)
            lanes[-1].write(code, frame[self._column], frame[self._work].part(0))
            if self.count == 1:
                self._columns(code, runs, rows, offset, together=False)
                continue
            single, done = self.context.label("single"), self.context.label("stored")
            self._test_alignment(code)
            code("s_cbranch_scc1", single)
            self._columns(code, runs, rows, offset, together=True)
            code("s_branch", done)
            code.label(single)
            self._columns(code, runs, rows, offset, together=False)
            code.label(done)

    @property
    def _conversion(self) -> ConvertScratch:
        frame = self.context.frame
        constants = (frame[name] for name in self._constants)
        return ConvertScratch(frame[self._work], frame[self._nan], *constants)

    def _test_alignment(self, code: Code) -> None:
        """scc = rows are not whole runs, or do not start at one."""
        frame, array = self.context.frame, self.array
        scratch = frame["scratch"]
        size = frame[f"size {array.dims[-1]}"]
        if array.has_pitch:
            stride = frame[f"stride {array.name}.{len(array.dims) - 2}"]
            code("s_lshr_b32", scratch, stride, array.element.bit_length() - 1)
            code("s_or_b32", scratch, scratch, size)
            code("s_and_b32", scratch, scratch, self.count - 1)
        else:
            code("s_and_b32", scratch, size, self.count - 1)

    def _row_offsets(
        self, code: Code, lanes: _Lanes, runs: Sequence[_Run]
    ) -> dict[tuple[int, ...], Register]:
        """Bytes of all dimensions but the last, by the runs' constants."""
        context, array = self.context, self.array
        frame, memory = context.frame, context.memory
        result = frame[self._rows]
        coordinate, work = frame[self._offset].part(0), frame[self._offset].part(1)
        if array.is_scattered:
            return self._scattered(code, lanes, runs)
        places: dict[tuple[int, ...], Register] = {}
        for run in runs:
            if run.row in places:
                continue
            into = result.part(len(places))
            places[run.row] = into
            code("v_mov_b32", into, 0)
            for axis, low in enumerate(run.row):
                number, dim = lanes[axis].number, array.dims[axis]
                first = number.is_constant and not low and number.waves[0] == 0
                if first and (not axis or dim != array.over or not self.ends):
                    continue  # a block has a first element, an iteration past the end has none
                lanes[axis].write(code, coordinate, work)
                if low:
                    code("v_add_u32", coordinate, low, coordinate)
                memory.scale(code, work, coordinate, array.stride(axis))
                code("v_add_u32", into, work, into)
                if axis and self._guards(dim):
                    code("v_cmp_gt_u32", VCC, self._bound(dim), coordinate)
                    code("v_cndmask_b32", into, frame[self._outside], into, VCC)
            if any(self._guards(dim) for dim in array.dims[1:-1]):
                # A column past the end adds as much, and must not bring it back.
                code("v_min_u32", into, SPAN_LIMIT, into)
        return places

    def _guards(self, dim: str) -> bool:
        """Whether elements past a dimension's end are told by their coordinate."""
        return dim != self.array.over or self.ends

    def _bound(self, dim: str) -> Register:
        """How many of the tile's elements exist along a dimension."""
        context = self.context
        return context.frame[LEFT] if dim == self.array.over else context.memory.bound(dim)

    def _scattered(
        self, code: Code, lanes: _Lanes, runs: Sequence[_Run]
    ) -> dict[tuple[int, ...], Register]:
        """The same of rows that an index array names; out of range where it names none."""
        frame, array, place = self.context.frame, self.array, self.array.node.at
        assert place is not None
        entries = {entry.name: entry for entry in place.entries}
        (source,) = {entry.array for entry in place.entries}
        row, part, work = (frame[self._offset].part(n) for n in range(3))
        rows = list(dict.fromkeys(run.row for run in runs))
        places = {constant: frame[self._rows].part(n) for n, constant in enumerate(rows)}
        buffer, left = frame[f"buffer {source}"], frame[f"left {array.dims[0]}"]

        def own_row(low: int) -> None:
            lanes[0].write(code, row, work)
            if low:
                code("v_add_u32", row, low, row)

        for (low,), into in places.items():
            own_row(low)
            code("v_lshlrev_b32", into, 2, row)
            code("buffer_load_dword", into, into, buffer, 0, modifiers=["offen"])
        code.wait(vm=0)
        for (low,), into in places.items():
            code("v_mov_b32", part, place.indexed[0].index.constant & 0xFFFFFFFF)
            for name, factor in place.indexed[0].index.factors:
                take_entry(code, entries[name], work, into)
                if factor > 1:
                    code("v_mov_b32", row, factor)
                    code("v_mul_lo_u32", work, row, work)
                code("v_add_u32", part, work, part)
            code("v_mul_lo_u32", into, part, frame[f"stride {array.name}.0"])
            code("v_cmp_gt_u32", VCC, frame[f"size {place.dims[0]}"], part)
            code("v_cndmask_b32", into, frame[self._outside], into, VCC)
            own_row(low)
            code("v_cmp_gt_u32", VCC, left, row)
            code("v_cndmask_b32", into, frame[self._outside], into, VCC)
            # A column past the end adds as much, and must not bring it back.
            code("v_min_u32", into, frame[self._span], into)
        return places

    def _columns(
        self,
        code: Code,
        runs: Sequence[_Run],
        rows: dict[tuple[int, ...], Register],
        soffset: Register | int,
        together: bool,
    ) -> None:
        """As many columns at once as there are offsets for, row by row: rows fill their lines."""
        columns = list(dict.fromkeys(run.column for run in runs))
        count = 1 if together else self.count
        at_once = max(MOST, self.count) // count
        ring = 0
        for first in range(0, len(columns), at_once):
            chosen = columns[first : first + at_once]
            self._column_offsets(code, [c + e for c in chosen for e in range(count)])
            here = [run for run in runs if run.column in chosen]
            for run in sorted(here, key=lambda run: (run.row, run.column)):
                place = chosen.index(run.column) * count
                self._store(code, run, rows[run.row], soffset, together, ring, place)
                ring += 1

    def _column_offsets(self, code: Code, columns: Sequence[int]) -> None:
        frame, array = self.context.frame, self.array
        guarded = [dim for dim in array.dims[-1:] if self._guards(dim)]
        for place, column in enumerate(columns):
            offset = frame[self._offset].part(place)
            code("v_add_u32", offset, column, frame[self._column])
            for dim in guarded:
                code("v_cmp_gt_u32", VCC, self._bound(dim), offset)
            wide = array.element.bit_length() - array.node.type.dtype.covers.bit_length()
            code("v_lshlrev_b32" if wide >= 0 else "v_lshrrev_b32", offset, abs(wide), offset)
            if guarded:
                code("v_cndmask_b32", offset, frame[self._outside], offset, VCC)

    def _store(
        self,
        code: Code,
        run: _Run,
        row: Register,
        soffset: Register | int,
        together: bool,
        ring: int,
        place: int,
    ) -> None:
        frame = self.context.frame
        words = self._words(code, run, ring)
        first = run.slot % self.tile.pack
        work = frame[self._work].part(0)
        buffer = frame[f"buffer {self.array.name}"]
        for element in range(1 if together else self.count):
            code("v_add_u32", work, row, frame[self._offset].part(place + element))
            data, name = words, WORDS.get(words.count, "")
            size = self.array.element * (self.count if together else 1)
            if size < WORD:
                at = (first + element) * self.array.element
                data, name = self._piece(code, words, at, size, ring)
            elif not together:
                data = words.part(element)
                name = WORDS[1]
            verb = ATOMIC_ADD if self.array.node.adds else f"buffer_store_{name}"
            code(verb, data, work, buffer, soffset, modifiers=["offen"])

    def _piece(
        self, code: Code, words: Register, place: int, size: int, ring: int
    ) -> tuple[Register, str]:
        """``size`` bytes of a run from ``place`` on, where a store finds them, and its name."""
        name, data = {1: "byte", 2: "short"}[size], words.part(place // WORD)
        if place % WORD == 2:
            return data, f"{name}_d16_hi"
        if place % WORD:
            data = self.context.frame[self._data].part(MOST * (ring % RINGS) + place % WORD)
            code("v_lshrrev_b32", data, 8 * (place % WORD), words.part(place // WORD))
        return data, name

    def _words(self, code: Code, run: _Run, ring: int) -> Register:
        """The elements of a run as memory has them."""
        tile, frame = self.tile, self.context.frame
        registers = self.context.registers(self.work.reads[0])
        first = run.slot // tile.pack
        if self.packed or self.single or self.dtype == "f32" or self.array.element == 4:
            return registers.part(first, max(self.count // tile.pack, 1))
        data = frame[self._data].part(MOST * (ring % RINGS), MOST)
        sources = [registers.part(first + i) for i in range(self.count)]
        if sources[0].bank is Bank.ACCUMULATOR:
            for i, source in enumerate(sources):
                code("v_accvgpr_read_b32", data.part(i), source)
            sources = [data.part(i) for i in range(self.count)]
        return packed_words(code, self.context.target, self.dtype, sources, data, self._conversion)
