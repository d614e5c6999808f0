"""The branch and bound behind CSP: is there an order within this makespan and this many VGPRs?

``BodySearch.find`` answers that question exactly, by placing ops one after the other and turning
back where the bounds of ``one_machine`` show that the rest cannot fit. When the answer is no, it
also says which makespan is the least that the argument does not rule out, so that the caller can
raise its target step by step:

    find(420) -> no, at least 428;  find(428) -> no, at least 436;  find(436) -> (0, 1, 4, 2, ...)

What keeps the tree small, besides the bounds:

- *Failed states.* A state is no better than a failed one with the same ops placed if every
  remaining op has a head as late and as many fragments and loads are pending: whatever completes
  it would have completed the failed one. Where the second half failed, a state of the first half
  is held against it too, with the earliest heads it can still hope for.
- *Dominated choices.* Of two ops of one kind, the one that can start as early and whose
  successors include the other's goes first: the two could change places in any order.
- *Commuting neighbours.* If y then x failed, x then y fails, where the two do not touch each
  other's unit, block or dependences.

The last two ask only whether an order exists. For the first order in index order, ``find`` is
asked about one prefix after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import le

from pipeloom.reference.strategies.contract import GaveUp, NodeBudget
from pipeloom.reference.strategies.tables import NEVER, SERIAL_UNITS, Job, Tables, preemptive_bound

_KEPT_PER_SET = 24


@dataclass(slots=True, eq=False)
class _State:
    """Some ops placed: all that the rest of the order can still notice about them."""

    op: int
    """The op placed last."""
    placed: int
    rest: list[int]
    """The ops still to place, in the tables' sequence."""
    ready: list[int]
    """For each op when its placed producers have all finished."""
    free: list[int]
    """For each unit when it is free."""
    fragments: int
    loads: int
    """Since the last COMPUTE."""
    live: int


@dataclass(slots=True, eq=False)
class _Frame:
    """A state on the current path, and how far its choices have been tried."""

    state: _State
    vector: tuple[int, ...]
    choices: list[int]
    least: int
    """No completion tried so far is shorter."""
    tried: int = 0


class BodySearch:
    """One body's tables, and the memory of what has failed."""

    def __init__(self, tables: Tables, budget: NodeBudget) -> None:
        self.tables = tables
        self.budget = budget
        self._failed: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
        self._peak_of_all = sum(tables.defines)

    # -- the search ------------------------------------------------------------------------

    def find(
        self, target: int, peak: int, prefix: Sequence[int] = (), *, effort: int = NEVER
    ) -> tuple[tuple[int, ...] | None, int]:
        """An order that starts with ``prefix`` within both limits; or None and the next target.

        The prefix must be legal. Raises ``GaveUp`` after ``effort`` nodes, and ``LimitReached``
        when the whole budget is spent.
        """
        give_up_at = self.budget.nodes + effort
        self.budget.spend()
        if peak < self._peak_of_all and peak < self.tables.least_peak:
            return None, NEVER
        state = self._root()
        for i in prefix:
            state = self._child(state, i)
        vector = self._open(state, target, peak)
        if isinstance(vector, int):
            return None, vector
        if not state.rest:
            return tuple(prefix), target
        path = [_Frame(state, vector, self._choices(state, peak), NEVER)]
        while True:
            frame = path[-1]
            if frame.choices:
                if self.budget.nodes >= give_up_at:
                    raise GaveUp
                i = frame.choices.pop()
                self.budget.spend()
                state = self._child(frame.state, i)
                vector = self._open(state, target, peak)
                if isinstance(vector, int):
                    frame.least = min(frame.least, vector)
                    frame.tried |= 1 << i
                elif not state.rest:
                    return (*prefix, *(f.state.op for f in path[1:]), i), target
                else:
                    path.append(self._frame(frame, state, vector, peak))
                continue
            self._remember(frame.state, frame.vector, frame.least, peak)
            path.pop()
            if not path:
                return None, frame.least
            path[-1].least = min(path[-1].least, frame.least)
            path[-1].tried |= 1 << frame.state.op

    def descend_to_first(
        self, order: tuple[int, ...], target: int, peak: int
    ) -> Iterator[tuple[int, ...]]:
        """From an order within both limits to the first such order in index order.

        Yields each order met on the way; the last one is the first there is.
        """
        state = self._root()
        for position in range(self.tables.n):
            for i in sorted(self._candidates(state, peak)):
                if i == order[position]:
                    break
                found, _ = self.find(target, peak, (*order[:position], i))
                if found is not None:
                    order = found
                    yield order
                    break
            state = self._child(state, order[position])

    def _frame(self, parent: _Frame, state: _State, vector: tuple[int, ...], peak: int) -> _Frame:
        """Open a state, leaving out what has failed the other way round."""
        choices = self._choices(state, peak)
        kept = [y for y in choices if not self._failed_swapped(parent, state.op, y, peak)]
        return _Frame(state, vector, kept, NEVER if len(kept) == len(choices) else parent.least)

    def _failed_swapped(self, parent: _Frame, x: int, y: int, peak: int) -> bool:
        """Whether ``y`` then ``x`` failed at ``parent`` and is at least as good as x then y."""
        tables = self.tables
        if not parent.tried >> y & 1:
            return False
        if tables.unit[x] and tables.unit[x] == tables.unit[y]:
            return False
        if tables.is_compute[y] and not tables.is_compute[x]:
            return False
        live = parent.state.live + tables.defines[y] - tables.kills[y]
        return live + tables.defines[x] <= peak

    # -- the states ------------------------------------------------------------------------

    def _root(self) -> _State:
        n = self.tables.n
        return _State(-1, 0, self.tables.sequence, [0] * n, [0, 0, 0, 0], 0, 0, 0)

    def _child(self, state: _State, i: int) -> _State:
        """The state after placing ``i`` next; the cost model's rules, one op at a time."""
        tables = self.tables
        ready = state.ready[:]
        free = state.free[:]
        unit = tables.unit[i]
        start = ready[i]
        if unit:
            if free[unit] > start:
                start = free[unit]
            free[unit] = start + tables.held[i]
        finish = start + tables.latency[i]
        for j, _ in tables.successors[i]:
            if ready[j] < finish:
                ready[j] = finish
        fragments, loads = state.fragments, state.loads
        if tables.is_compute[i]:
            fragments = loads = 0
        elif tables.is_fragment[i]:
            fragments += 1
        elif tables.is_load[i]:
            loads += 1
        return _State(
            i,
            state.placed | 1 << i,
            [j for j in state.rest if j != i],
            ready,
            free,
            fragments,
            loads,
            state.live + tables.defines[i] - tables.kills[i],
        )

    def _candidates(self, state: _State, peak: int) -> list[int]:
        """What may legally come next."""
        tables = self.tables
        placed = state.placed
        half = tables.half if tables.first_half & ~placed else tables.n
        room = peak - state.live
        before, defines = tables.before, tables.defines
        full_fragments = state.fragments >= tables.max_fragments
        full_loads = state.loads >= tables.max_loads
        found = []
        for i in state.rest:
            if i >= half:
                break
            if before[i] & ~placed or defines[i] > room:
                continue
            if full_fragments and tables.is_fragment[i]:
                continue
            if full_loads and tables.is_load[i]:
                continue
            found.append(i)
        return found

    def _choices(self, state: _State, peak: int) -> list[int]:
        """The candidates that no other makes superfluous, the most urgent last."""
        tables = self.tables
        ready, free, unit = state.ready, state.free, tables.unit
        kind, successors = tables.kind, tables.successor_set
        starts = sorted(
            (max(ready[i], free[unit[i]]), -successors[i].bit_count(), i)
            for i in self._candidates(state, peak)
        )
        kept: list[tuple[int, int, int]] = []
        for start, _, i in starts:
            reach = successors[i]
            if not any(kind[i] == kind[j] and not reach & ~successors[j] for _, _, j in kept):
                kept.append((tables.tail[i] - start, -i, i))
        kept.sort()
        return [i for _, _, i in kept]

    def _open(self, state: _State, target: int, peak: int) -> int | tuple[int, ...]:
        """The state's heads and pending counts, or the bound by which it fails."""
        if not self._fits_blocks(state):
            return NEVER
        bound, heads = self._bound(state, target)
        if bound > target:
            return bound
        tables = self.tables
        vector = (state.fragments, state.loads, *heads)
        known = self._known_to_fail(state.placed, vector, target, peak)
        if not known and tables.first_half & ~state.placed and tables.second_half:
            ahead = (0, 0, *heads[-(tables.n - tables.half) :])
            known = self._known_to_fail(tables.first_half, ahead, target, peak)
        if known:
            return known
        return vector

    def _fits_blocks(self, state: _State) -> bool:
        """Whether the COMPUTEs left in this half can hold the fragments and loads left in it."""
        tables = self.tables
        if not tables.counts_blocks:
            return True
        second = not tables.first_half & ~state.placed
        rest = (tables.second_half if second else tables.first_half) & ~state.placed
        if not rest:
            return True
        computes = (rest & tables.compute_set).bit_count()
        loads = (rest & tables.load_set).bit_count()
        if not tables.halves:
            return state.loads + loads <= tables.max_loads * (computes + 1)
        fragments = (rest & tables.fragment_set).bit_count()
        return (
            bool(rest & tables.enders[second])
            and state.fragments + fragments <= tables.max_fragments * computes
            and state.loads + loads <= tables.max_loads * computes
        )

    def _bound(self, state: _State, target: int) -> tuple[int, list[int]]:
        """A makespan that no completion beats, and the heads of the ops left.

        Ops of the second half queue behind all of the first. Above ``target`` the bound need
        not be the best, nor the heads complete.
        """
        tables = self.tables
        heads = state.ready[:]
        free = state.free
        unit, held, tail, successors = tables.unit, tables.held, tables.tail, tables.successors
        queues: list[list[Job]] = [[], [], [], []]
        best = 0
        crossing = bool(tables.first_half & ~state.placed)
        half = tables.half
        for i in state.rest:
            if crossing and i >= half:
                crossing = False
                free = free[:]
                for u in SERIAL_UNITS:
                    if queues[u]:
                        free[u], end = preemptive_bound(queues[u])
                        best = max(best, end)
                if best > target:
                    return best, heads
                queues = [[], [], [], []]
            head = heads[i]
            u = unit[i]
            if u:
                if free[u] > head:
                    heads[i] = head = free[u]
                queues[u].append((head, held[i], tail[i] - held[i]))
            if head + tail[i] > best:
                best = head + tail[i]
                if best > target:
                    return best, heads
            for j, apart in successors[i]:
                if head + apart > heads[j]:
                    heads[j] = head + apart
        for u in SERIAL_UNITS:
            if queues[u]:
                best = max(best, preemptive_bound(queues[u])[1])
        return best, [heads[i] for i in state.rest]

    # -- the memory of failures ------------------------------------------------------------

    def _known_to_fail(self, placed: int, vector: tuple[int, ...], target: int, peak: int) -> int:
        """The bound of a failed state at least as good as one with this vector, or 0."""
        for bound, room, failed in self._failed.get(placed, ()):
            if bound > target and room >= peak and all(map(le, failed, vector)):
                return bound
        return 0

    def _remember(self, state: _State, vector: tuple[int, ...], bound: int, peak: int) -> None:
        """This state cannot be completed below ``bound`` with ``peak`` registers."""
        if bound >= NEVER:  # whatever the times
            vector = vector[:2] + (0,) * len(state.rest)
        entries = self._failed.setdefault(state.placed, [])
        entries[:] = [
            e
            for e in entries
            if not (e[0] <= bound and e[1] <= peak and all(map(le, vector, e[2])))
        ]
        entries.append((bound, peak, vector))
        if len(entries) > _KEPT_PER_SET:
            del entries[0]
