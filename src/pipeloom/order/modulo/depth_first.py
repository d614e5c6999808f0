"""Placing the core at one II by depth-first search: finds most schedules, refutes easy IIs.

Each op has a window ``[earliest, latest]`` relative to its group and a set of table slots that
are free for it. Placing an op tightens the windows of its group by the longest paths, and the
table takes slots from everyone; windows shrink to their first and last free slot until nothing
changes. The next op is the one with the smallest domain for the trouble it has caused so far
(dom/wdeg), so that restarts attack the conflict first. A search that ends without running out of
failures has seen every placement: the II is impossible.
"""

from __future__ import annotations

from enum import Enum

from pipeloom.order.modulo.core import Core
from pipeloom.order.modulo.effort import Effort
from pipeloom.order.modulo.reservations import ReservationTable

# Wider than any schedule, yet small enough that sums of a few stay exact and cheap.
FAR = 1 << 50

TIMES_PER_STEP = 8


class Verdict(Enum):
    """What a search at one II established."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


class CoreSearch:
    """Search over one core; keeps conflict weights from one run to the next."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.ii = core.ii
        self.ops = core.ops
        self.count = len(self.ops)
        self.group: list[int] = []
        self.place: list[int] = []
        self.members: list[list[int]] = []
        for number, group in enumerate(core.groups):
            base = len(self.group)
            self.members.append(list(range(base, base + len(group))))
            for position in range(len(group)):
                self.group.append(number)
                self.place.append(position)
        self.holds = [core.holds[op] for op in self.ops]
        self.weight = [1.0] * self.count
        self.failures = 0
        self.users: list[list[int]] = [[] for _ in core.capacity]
        for item, holds in enumerate(self.holds):
            for unit in sorted({hold.unit for hold in holds}):
                self.users[unit].append(item)

    def run(self, fail_limit: int, effort: Effort) -> tuple[Verdict, dict[int, int]]:
        """Place every op, or show that none can be; UNKNOWN after ``fail_limit`` dead ends."""
        self.effort = effort
        self.table = ReservationTable(self.ii, self.core.capacity, self.core.base, effort)
        if self.table.overfull():
            return Verdict.IMPOSSIBLE, {}
        self.low = [-FAR] * self.count
        self.high = [FAR] * self.count
        self.time: list[int | None] = [None] * self.count
        self.opened = [False] * len(self.members)
        self.allowed = [self.table.starts(holds) for holds in self.holds]
        budget = self.failures + fail_limit
        verdict = self._descend(budget)
        if verdict is not Verdict.FOUND:
            return verdict, {}
        return verdict, {op: self._at(item) for item, op in enumerate(self.ops)}

    def _at(self, item: int) -> int:
        at = self.time[item]
        assert at is not None
        return at

    def _slots(self, item: int) -> int:
        """The op's possible start times as a mask from ``low`` on (capped at one II)."""
        allowed = self.allowed[item]
        if not self.opened[self.group[item]]:
            return allowed
        width = self.high[item] - self.low[item] + 1
        if width <= 0:
            return 0
        turn = self.low[item] % self.ii
        rotated = (allowed >> turn | allowed << (self.ii - turn)) & self.table.every
        return rotated if width >= self.ii else rotated & ((1 << width) - 1)

    def _descend(self, budget: int) -> Verdict:
        """Iterative depth-first search; each frame is (op, untried times, undo record)."""
        frames: list[tuple[int, list[int], list[tuple[str, int, int]]]] = []
        choice = self._choose()
        if choice is None:
            return Verdict.FOUND
        frames.append((choice, self._times(choice, first=True), []))
        while frames:
            item, times, undo = frames[-1]
            self._undo(undo)
            if not times:
                frames.pop()
                continue
            at = times.pop()
            if self._assign(item, at, undo):
                choice = self._choose()
                if choice is None:
                    return Verdict.FOUND
                frames.append((choice, self._times(choice, first=False), []))
            else:
                self.failures += 1
                if self.failures >= budget or self.effort.spent():
                    return Verdict.UNKNOWN
        return Verdict.IMPOSSIBLE

    def _choose(self) -> int | None:
        best: int | None = None
        best_score = 0.0
        for item in range(self.count):
            if self.time[item] is not None:
                continue
            size = self._slots(item).bit_count()
            if self.opened[self.group[item]]:
                laps = (self.high[item] - self.low[item]) // self.ii
                size *= 1 + max(0, laps)
            score = size / self.weight[item]
            if best is None or score < best_score:
                best, best_score = item, score
        return best

    def _times(self, item: int, *, first: bool) -> list[int]:
        """Candidate times, last one tried first: the earliest window slots come first."""
        slots = self._slots(item)
        if not self.opened[self.group[item]]:
            found = [slot for slot in range(self.ii) if slots >> slot & 1]
            if first:
                # Turning the whole table is a symmetry: the first op may stay at one slot.
                found = found[:1]
        else:
            low, high = self.low[item], self.high[item]
            self.effort.step((high - low) // TIMES_PER_STEP)
            found = [at for at in range(low, high + 1) if slots >> ((at - low) % self.ii) & 1]
        found.reverse()
        return found

    def _assign(self, item: int, at: int, undo: list[tuple[str, int, int]]) -> bool:
        holds = self.holds[item]
        if not self.table.add(holds, at % self.ii):
            return False
        self.time[item] = at
        undo.append(("time", item, at))
        number = self.group[item]
        if not self.opened[number]:
            self.opened[number] = True
            undo.append(("open", number, 0))
        touched: set[int] = set()
        for unit in {hold.unit for hold in holds}:
            for other in self.users[unit]:
                if self.time[other] is None:
                    touched.add(other)
        for other in sorted(touched):
            allowed = self.table.starts(self.holds[other])
            if allowed != self.allowed[other]:
                undo.append(("allowed", other, self.allowed[other]))
                self.allowed[other] = allowed
                if not allowed:
                    self._blame(other)
                    return False
        self._bound(item, at, at, undo)
        pending = {item} | touched
        return self._propagate(pending, undo)

    def _bound(self, item: int, low: int, high: int, undo: list[tuple[str, int, int]]) -> None:
        if low > self.low[item]:
            undo.append(("low", item, self.low[item]))
            self.low[item] = low
        if high < self.high[item]:
            undo.append(("high", item, self.high[item]))
            self.high[item] = high

    def _propagate(self, pending: set[int], undo: list[tuple[str, int, int]]) -> bool:
        """Shrink windows to free slots and along longest paths until nothing changes."""
        while pending:
            item = min(pending)
            pending.discard(item)
            number = self.group[item]
            if not self.opened[number]:
                continue
            if self.time[item] is None and not self._trim(item, undo):
                self._blame(item)
                return False
            far = self.core.far[number]
            row = far[self.place[item]]
            low, high = self.low[item], self.high[item]
            for other in self.members[number]:
                if other == item:
                    continue
                place = self.place[other]
                earliest = low + row[place]
                latest = high - far[place][self.place[item]]
                moved = False
                if earliest > self.low[other]:
                    undo.append(("low", other, self.low[other]))
                    self.low[other] = earliest
                    moved = True
                if latest < self.high[other]:
                    undo.append(("high", other, self.high[other]))
                    self.high[other] = latest
                    moved = True
                if moved:
                    if self.low[other] > self.high[other]:
                        self._blame(other)
                        return False
                    if self.time[other] is None:
                        pending.add(other)
        return True

    def _trim(self, item: int, undo: list[tuple[str, int, int]]) -> bool:
        """Move the window's ends to free slots; False if none is left."""
        slots = self._slots(item)
        if not slots:
            return False
        low, high = self.low[item], self.high[item]
        first = low + (slots & -slots).bit_length() - 1
        if high - low < self.ii:
            last = low + slots.bit_length() - 1
        else:
            turn = (high + 1) % self.ii
            allowed = self.allowed[item]
            rotated = (allowed >> turn | allowed << (self.ii - turn)) & self.table.every
            last = high - (self.ii - rotated.bit_length())
        if first > last:
            return False
        self._bound(item, first, last, undo)
        return True

    def _blame(self, item: int) -> None:
        self.weight[item] += 1.0

    def _undo(self, undo: list[tuple[str, int, int]]) -> None:
        while undo:
            what, item, old = undo.pop()
            if what == "low":
                self.low[item] = old
            elif what == "high":
                self.high[item] = old
            elif what == "allowed":
                self.allowed[item] = old
            elif what == "open":
                self.opened[item] = False
            else:
                self.table.remove(self.holds[item], old % self.ii)
                self.time[item] = None
