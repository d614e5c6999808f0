"""The memory of a workgroup in numbers: NaN is what nobody may rely on.

``GroupMemory`` runs events as they come: a write is there when it happens, and until then the old
content is. ``WorstMemory`` looks at every moment of a flight at once:

- From the issue of a write to its retirement, an element of LDS that it would change is undefined,
  and every register that it writes.
- A ``shared`` write of LDS is in flight from the issue of the first wave of the group (or groups,
  where several make the same one) until the last has retired: any element may be any wave's.
- Two writes in flight together leave an element undefined unless they agree on it.
- What a counted step reads of LDS is undefined if it changed between issue and retirement.

Elements are compared for all sets of inputs at once, so that a write that changes nothing harms
nothing.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pipeloom.array_kinds import Array, Flags, Indices
from pipeloom.judge.execute.actions import Elements, Side, Storage
from pipeloom.judge.execute.outcome import Fault, Wrong
from pipeloom.judge.execute.truth import Truth
from pipeloom.judge.execute.unrolled import Line
from pipeloom.judge.execute.watch import Watch


class GroupMemory:
    """LDS, registers, inputs and outputs of one workgroup; writes are there when they happen."""

    def __init__(
        self, storage: Storage, truth: Truth, rng: np.random.Generator, watch: Watch | None
    ) -> None:
        self._storage = storage
        self._truth = truth
        self._rng = rng
        self.watch = watch
        self.sets = len(truth.sets)
        self.content: Array = np.full((storage.size, self.sets), np.nan)
        for start, stop, number in storage.starts:
            self.content[start:stop] = number
        self._inputs: dict[str, Array] = {}
        self._stored = {n: np.zeros(e.shape[:-1], bool).reshape(-1) for n, e in self._expected()}
        self.outputs = {n: np.full(e.shape[:-1], np.nan).reshape(-1) for n, e in self._expected()}
        self._wrong: list[Wrong] = []
        self._held: dict[Line, list[Array | None]] = {}
        self._owners: dict[Hashable, Indices] = {}

    def _expected(self) -> list[tuple[str, Array]]:
        return list(self._truth.outputs.items())

    # --- events -----------------------------------------------------------------------------------

    def issue(self, line: Line) -> None:
        """The step issues: registers are read, and all is done if nothing counts it."""
        action = line.action
        if self.watch is not None:
            self.watch.issued(line)
        if not line.counted:
            self._write(line, [self._take(line, n) for n in range(len(action.reads))])
        else:
            self._held[line] = [
                None if place.side is Side.LDS else self._take(line, n)
                for n, place in enumerate(action.reads)
            ]

    def read(self, line: Line) -> None:
        """A counted step reads LDS."""
        held = self._held[line]
        for number, value in enumerate(held):
            if value is None:
                held[number] = self._take(line, number)

    def write(self, line: Line) -> None:
        """A counted step writes."""
        if self.watch is not None:
            self.watch.wrote(line)
        self._write(line, [value for value in self._held.pop(line) if value is not None])

    def _write(self, line: Line, values: list[Array]) -> None:
        action = line.action
        where = action.write
        index = where.index
        old = self._old(line)
        value = action.result(values, old)
        if where.side is Side.OUTPUT:
            self.store(line, value, action.taken(values))
        elif where.shared and line.members > 1:
            mine = self._owner(line) == line.local
            index = index[mine]
            self.content[index] = value[mine]
        else:
            self.content[index] = value

    def _owner(self, line: Line) -> Indices:
        """Per element of a shared write the wave, as numbered in its group, that writes it.

        Each step slices its box as it likes: element by element, or all to one wave.
        """
        action = line.action
        work, joint = action.work, line.event[0] < 0
        key = (work.node, work.label, work.writes, line.place.section) if joint else id(work)
        found = self._owners.get(key)
        if found is None:
            count = len(action.write.index)
            if self._rng.random() < 1 / 2:
                found = np.full(count, self._rng.integers(line.members), np.intp)
            else:
                found = self._rng.integers(line.members, size=count).astype(np.intp)
            self._owners[key] = found
        return found

    # --- accesses ---------------------------------------------------------------------------------

    def _take(self, line: Line, number: int) -> Array:
        """An operand as it is now, [*shape, set]."""
        action = line.action
        place = action.reads[number]
        if place.side is Side.INPUT:
            value = self._input(place, line.iteration)
        else:
            value = self.content[place.index]
        if self.watch is not None:
            self.watch.read(line, number, value)
        return value.reshape(*place.shape, self.sets)

    def _input(self, place: Elements, iteration: int) -> Array:
        source = self._inputs.get(place.name)
        if source is None:
            node = self._truth.meaning[place.name]
            source = self._inputs[place.name] = self._truth.input(node).reshape(-1, self.sets)
        first = place.stride * iteration if place.tiles else 0
        if place.tiles and not 0 <= iteration < self._truth.iterations:
            return np.full((len(place.index), self.sets), np.nan)
        return source[place.index + first]

    def _old(self, line: Line) -> Array | None:
        action = line.action
        if not (action.accumulates or action.skips) or action.write.side is Side.OUTPUT:
            return None
        return self.content[action.write.index]

    # --- outputs ----------------------------------------------------------------------------------

    def store(self, line: Line, value: Array, taken: Array | None = None) -> None:
        """Compare what is stored with what should be; a condition may keep it from some elements.

        An element counts as stored if it is for every set of inputs.
        """
        action = line.action
        place = action.write
        name = place.name
        expected, low, high = (
            of[name].reshape(-1, self.sets)
            for of in (self._truth.outputs, self._truth.low, self._truth.high)
        )
        if place.tiles and not 0 <= line.iteration < self._truth.iterations:
            self._wrong.append(Wrong(Fault.OUTSIDE, name, len(place.index), line.place))
            return
        index = place.index + (place.stride * line.iteration if place.tiles else 0)
        dtype = self._truth.meaning[name].type.dtype
        found = np.where(np.isnan(value), np.nan, dtype.round(value))
        wanted = expected[index]
        stored = np.ones(len(index), bool) if taken is None else taken.all(axis=-1)
        self._stored[name][index] |= stored
        first = slice(None) if taken is None else taken[:, 0]
        self.outputs[name][index[first]] = found[first, 0]
        right = (found >= low[index]) & (found <= high[index])
        bad = ~(right | np.isnan(wanted))
        if taken is not None:
            bad &= taken
        if np.count_nonzero(bad):
            row, column = np.argwhere(bad)[0]
            poison = bool(np.isnan(found[bad]).all())
            self._wrong.append(
                Wrong(
                    Fault.POISON if poison else Fault.WRONG,
                    name,
                    int(bad.any(axis=-1).sum()),
                    line.place,
                    float(found[row, column]),
                    float(wanted[row, column]),
                )
            )

    def wrong(self) -> tuple[Wrong, ...]:
        """Every wrong store, and what was never stored."""
        missing = [
            Wrong(Fault.MISSING, name, int((~stored).sum()))
            for name, stored in self._stored.items()
            if not stored.all()
        ]
        return (*self._wrong, *missing)


class WorstMemory(GroupMemory):
    """What could differ at any moment of a flight is undefined."""

    def __init__(
        self, storage: Storage, truth: Truth, rng: np.random.Generator, watch: Watch | None
    ) -> None:
        super().__init__(storage, truth, rng, watch)
        self._now = 0
        self._pending = np.zeros(storage.size, np.int32)
        self._tangled = np.zeros(storage.size, bool)
        self._coming: Array = np.full((storage.size, self.sets), np.nan)
        self._changed = np.zeros(storage.size, np.int64)
        self._flight: dict[Line, tuple[int, list[Array], Array]] = {}
        self._together: dict[tuple[int, int], int] = {}

    def issue(self, line: Line) -> None:
        """The step issues: from now on its results may come."""
        action = line.action
        self._now += 1
        if self.watch is not None:
            self.watch.issued(line)
        values = [self._take(line, n) for n in range(len(action.reads))]
        value = action.result(values, self._old(line))
        where = action.write
        if line.counted:
            self._flight[line] = (self._now, values, value)
        if where.side is Side.OUTPUT:
            if not line.counted:
                self.store(line, value, action.taken(values))
        elif line.counted or where.shared:
            self._begin(line, value)
            if not line.counted:
                self._end(line, value)
        else:
            self._put(where, value)

    def write(self, line: Line) -> None:
        """The step has retired."""
        action = line.action
        self._now += 1
        if self.watch is not None:
            self.watch.wrote(line)
        began, values, value = self._flight.pop(line)
        if action.reads_lds:
            spoilt = False
            for number, place in enumerate(action.reads):
                if place.side is Side.LDS:
                    changed = self._changed[place.index] > began
                    if np.count_nonzero(changed):
                        spoilt = True
                        lost = changed.reshape(*place.shape, 1)
                        values[number] = np.where(lost, np.nan, values[number])
                        if self.watch is not None:
                            flat = values[number].reshape(-1, self.sets)
                            self.watch.read(line, number, flat)
            if spoilt:
                value = action.result(values, self._old(line))
        if action.write.side is Side.OUTPUT:
            self.store(line, value, action.taken(values))
        else:
            self._end(line, value)

    def _put(self, where: Elements, value: Array) -> None:
        """A write at issue."""
        index = where.index
        busy = self._pending[index] > 0
        if np.count_nonzero(busy):
            clash = busy & _differ(self._coming[index], value)
            self._tangled[index] |= clash
            value = np.where(clash[:, None], np.nan, value)
        if where.side is Side.LDS:
            self._changed[index[_differ(self.content[index], value)]] = self._now
        self.content[index] = value

    def _begin(self, line: Line, value: Array) -> None:
        """A write in flight: registers are undefined, and of LDS what it would change."""
        where = line.action.write
        index = where.index
        busy = self._pending[index] > 0
        if np.count_nonzero(busy):
            self._tangled[index] |= busy & _differ(self._coming[index], value)
        self._coming[index] = value
        members = 1
        if where.shared:
            members = line.members if line.event not in self._together else 0
            left = self._together.setdefault(line.event, line.members)
            assert left > 0
        self._pending[index] += members
        differs = index
        if where.side is Side.LDS:
            differs = index[_differ(self.content[index], value)]
            self._changed[differs] = self._now
        self.content[differs] = np.nan

    def _end(self, line: Line, value: Array) -> None:
        where = line.action.write
        index = where.index
        if where.shared:
            self._together[line.event] -= 1
        # A value that was spoilt in flight disagrees with what it was to be.
        self._tangled[index] |= _differ(self._coming[index], value) & (self._pending[index] > 1)
        self._pending[index] -= 1
        done = self._pending[index] == 0
        finished = index[done]
        lost = self._tangled[finished]
        self.content[finished] = np.where(lost[:, None], np.nan, value[done])
        self._tangled[finished] = False


def _differ(a: Array, b: Array) -> Flags:
    """Per element, whether the two differ for some set; undefined equals nothing but itself."""
    # Only NaN is not equal to itself. The ufunc's own reduction: these arrays are small and many.
    result: Flags = np.logical_or.reduce((a != b) & ((a == a) | (b == b)), axis=-1)
    return result
