"""The branch and bound behind CSP: is there an order within this makespan and this many VGPRs?

``Search.find`` answers that question exactly, by placing ops one after the other and turning
back where the bounds of ``bounds`` show that the rest cannot fit. When the answer is no, it also
says which makespan is the least that the argument does not rule out, so that the caller can
raise its target step by step:

    find(420) -> no, at least 436;  find(436) -> (0, 1, 4, 2, ...)

Three facts keep the tree small. Two ops that nothing tells apart are placed in index order.
A state that failed is remembered with the bound it failed by. And a state is no better than a
failed one with the same ops placed if every remaining op has a head as late, and as many loads
and fragments are pending: whatever completes it would have completed the failed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import le

from pipeloom.config import UNLIMITED_VGPR
from pipeloom.graph import LoopBody
from pipeloom.ops import OpRole, ResourceKind
from pipeloom.strategies.bounds import Job, preemptive_bound, strengthened_tails
from pipeloom.strategies.cost import PORT_RESOURCES
from pipeloom.strategies.interface import OrderLimits

BLOCK_FRAGMENTS = 2
BLOCK_LOADS = 2
NEVER = 1 << 60
"""A makespan no order has: the state cannot be completed at all."""

_FREE, _MMA, _VALU, _PORT = range(4)
_UNITS = 4
_KEPT_PER_SET = 24


def allowed_peak(limits: OrderLimits) -> int:
    """The most VGPRs an order may have live."""
    return NEVER if limits.max_vgpr >= UNLIMITED_VGPR else limits.max_vgpr


def can_become_blocks(body: LoopBody, order: Sequence[int]) -> bool:
    """Whether each COMPUTE closes a block of what came before it, and none is left open.

    The halves must already stand one after the other.
    """
    fragments = loads = 0
    for position, index in enumerate(order):
        role = body.ops[index].role
        if role is OpRole.COMPUTE:
            fragments = loads = 0
            continue
        if position + 1 in (len(order) // 2, len(order)):
            return False
        fragments += role is OpRole.FRAGMENT_LOAD
        loads += role is OpRole.GLOBAL_LOAD
        if fragments > BLOCK_FRAGMENTS or loads > BLOCK_LOADS:
            return False
    return True


class LimitReached(Exception):  # noqa: N818 - control flow, never seen by a user
    """The node or time limit ran out."""


@dataclass(slots=True)
class Budget:
    """Nodes explored so far, and when to stop. Nodes are reproducible; seconds are not."""

    node_limit: int | None = None
    deadline: float | None = None
    nodes: int = 0

    def spend(self) -> None:
        """Count one node; raises ``LimitReached``."""
        self.nodes += 1
        if self.node_limit is not None and self.nodes > self.node_limit:
            self.nodes = self.node_limit
            raise LimitReached
        if self.deadline is not None and self.nodes % 64 == 0 and time.monotonic() > self.deadline:
            raise LimitReached


class _State:
    """Some ops placed: all that the rest of the order can still notice about them."""

    __slots__ = ("fragments", "free", "live", "loads", "op", "placed", "ready", "rest")

    def __init__(
        self,
        op: int,
        placed: int,
        rest: list[int],
        ready: list[int],
        free: list[int],
        fragments: int,
        loads: int,
        live: int,
    ) -> None:
        self.op = op
        self.placed = placed
        self.rest = rest
        self.ready = ready
        self.free = free
        self.fragments = fragments
        self.loads = loads
        self.live = live


class Search:
    """The tables of one body under its limits, and the memory of what has failed."""

    def __init__(self, body: LoopBody, limits: OrderLimits, budget: Budget) -> None:
        n = len(body)
        ops = body.ops
        self.n = n
        self.budget = budget
        self.halves = limits.halves
        self.latency = [op.latency for op in ops]
        self.defines = [op.vgpr_def for op in ops]
        self.kills = [op.vgpr_kill for op in ops]
        self.is_compute = [op.role is OpRole.COMPUTE for op in ops]
        self.is_fragment = [op.role is OpRole.FRAGMENT_LOAD for op in ops]
        self.is_load = [op.role is OpRole.GLOBAL_LOAD for op in ops]
        penalty = limits.lds_contention_penalty
        units = {ResourceKind.VALU: _VALU}
        if limits.mma_serial:
            units[ResourceKind.MMA_UNIT] = _MMA
        if penalty:
            units.update(dict.fromkeys(PORT_RESOURCES, _PORT))
        self.unit = [units.get(op.resource, _FREE) for op in ops]
        self.held = [
            (0, op.latency, op.latency, penalty)[u] for op, u in zip(ops, self.unit, strict=True)
        ]
        self.successors = [
            [
                (c, max(self.latency[p], self.held[p] if self.unit[c] == self.unit[p] else 0))
                for c in body.successors[p]
            ]
            for p in range(n)
        ]
        self.half = n // 2 if limits.halves else n
        self.first_half = (1 << self.half) - 1
        self.max_fragments = BLOCK_FRAGMENTS if limits.halves else NEVER
        self.max_loads = BLOCK_LOADS if limits.halves else NEVER
        if limits.max_globals:
            self.max_loads = min(self.max_loads, limits.max_globals)
        before = self._direct_predecessors(body)
        self.before = before
        self.sequence = self._sequence(before)
        self.tail = strengthened_tails(
            self.latency,
            self.unit,
            self.held,
            self.successors,
            self._followers(before),
            self.sequence,
            _UNITS,
        )
        self.memo: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}

    def _direct_predecessors(self, body: LoopBody) -> list[int]:
        """A bit for each op that must come before: producers, and the lower of two twins."""
        masks = [sum(1 << p for p in producers) for producers in body.predecessors]
        last: dict[tuple[object, ...], int] = {}
        for i, op in enumerate(body.ops):
            twin = (
                i < self.half,
                op.resource,
                op.role,
                op.latency,
                op.vgpr_def,
                op.vgpr_kill,
                body.predecessors[i],
                body.successors[i],
            )
            if twin in last:
                masks[i] |= 1 << last[twin]
            last[twin] = i
        return masks

    def _sequence(self, before: list[int]) -> list[int]:
        """One order that respects edges, twins and halves."""
        sequence: list[int] = []
        placed = 0
        for group in (range(self.half), range(self.half, self.n)):
            waiting = list(group)
            while waiting:
                ready = next(i for i in waiting if not before[i] & ~placed)
                waiting.remove(ready)
                placed |= 1 << ready
                sequence.append(ready)
        return sequence

    def _followers(self, before: list[int]) -> list[int]:
        """For each op the set of ops that every order places after it."""
        after = [0] * self.n
        second = ((1 << self.n) - 1) & ~self.first_half
        for j in reversed(self.sequence):
            if j < self.half:
                after[j] |= second
            for i in range(self.n):
                if before[j] >> i & 1:
                    after[i] |= after[j] | 1 << j
        return after

    # -- the states ------------------------------------------------------------------------

    def root(self) -> _State:
        """Nothing placed."""
        return _State(-1, 0, self.sequence, [0] * self.n, [0] * _UNITS, 0, 0, 0)

    def candidates(self, state: _State, peak: int) -> list[int]:
        """What may come next, as far as can be seen from here."""
        placed = state.placed
        blocked = self.first_half if (self.first_half & ~placed) else -1
        room = peak - state.live
        before, defines = self.before, self.defines
        found = []
        for i in state.rest:
            if not blocked >> i & 1:
                break
            if before[i] & ~placed or defines[i] > room:
                continue
            if self.is_fragment[i] and state.fragments >= self.max_fragments:
                continue
            if self.is_load[i] and state.loads >= self.max_loads:
                continue
            found.append(i)
        return found

    def child(self, state: _State, i: int) -> _State:
        """The state after placing ``i`` next."""
        ready = state.ready[:]
        free = state.free[:]
        unit = self.unit[i]
        start = ready[i]
        if unit:
            if free[unit] > start:
                start = free[unit]
            free[unit] = start + self.held[i]
        finish = start + self.latency[i]
        for j, _ in self.successors[i]:
            if ready[j] < finish:
                ready[j] = finish
        fragments, loads = state.fragments, state.loads
        if self.is_compute[i]:
            fragments = loads = 0
        elif self.is_fragment[i]:
            fragments += 1
        elif self.is_load[i]:
            loads += 1
        return _State(
            i,
            state.placed | 1 << i,
            [j for j in state.rest if j != i],
            ready,
            free,
            fragments,
            loads,
            state.live + self.defines[i] - self.kills[i],
        )

    def fits_blocks(self, state: _State) -> bool:
        """Whether the COMPUTEs left in this half can hold the loads and fragments left in it."""
        computes = fragments = loads = others = 0
        first = bool(self.first_half & ~state.placed)
        for i in state.rest:
            if first and i >= self.half:
                break
            if self.is_compute[i]:
                computes += 1
            elif self.is_fragment[i]:
                fragments += 1
            elif self.is_load[i]:
                loads += 1
            else:
                others += 1
        if self.halves:
            if not computes and fragments + loads + others:
                return False
            if self.max_fragments * computes < state.fragments * (computes > 0) + fragments:
                return False
            return self.max_loads * computes >= state.loads * (computes > 0) + loads
        return self.max_loads * (computes + 1) >= state.loads + loads

    def bound(self, state: _State, target: int) -> tuple[int, tuple[int, ...]]:
        """A makespan no completion can beat, and the heads; exact only up to ``target``."""
        heads = state.ready[:]
        free = state.free
        unit, held, tail, successors = self.unit, self.held, self.tail, self.successors
        jobs: list[list[Job]] = [[], [], [], []]
        best = 0
        crossing = bool(self.first_half & ~state.placed)
        half = self.half
        for i in state.rest:
            if crossing and i >= half:
                crossing = False
                free = free[:]
                for u in (_MMA, _VALU, _PORT):
                    if jobs[u]:
                        free[u], end = preemptive_bound(jobs[u])
                        if end > best:
                            best = end
                if best > target:
                    return best, ()
                jobs = [[], [], [], []]
            head = heads[i]
            u = unit[i]
            if u:
                if free[u] > head:
                    heads[i] = head = free[u]
                jobs[u].append((head, held[i], tail[i] - held[i]))
            if head + tail[i] > best:
                best = head + tail[i]
                if best > target:
                    return best, ()
            for j, apart in successors[i]:
                if head + apart > heads[j]:
                    heads[j] = head + apart
        for u in (_MMA, _VALU, _PORT):
            if jobs[u]:
                end = preemptive_bound(jobs[u])[1]
                if end > best:
                    best = end
        return best, tuple([heads[i] for i in state.rest])

    def known_to_fail(self, state: _State, vector: tuple[int, ...], target: int, peak: int) -> int:
        """The bound of a failed state that is at least as good as this one, or 0."""
        for bound, room, failed in self.memo.get(state.placed, ()):
            if bound > target and room >= peak and all(map(le, failed, vector)):
                return bound
        return 0

    def remember(self, state: _State, vector: tuple[int, ...], bound: int, peak: int) -> None:
        """This state cannot be completed below ``bound`` with ``peak`` registers."""
        if bound >= NEVER:  # whatever the times
            vector = vector[:2] + (0,) * len(state.rest)
        entries = self.memo.setdefault(state.placed, [])
        entries[:] = [
            e
            for e in entries
            if not (e[0] <= bound and e[1] <= peak and all(map(le, vector, e[2])))
        ]
        entries.append((bound, peak, vector))
        if len(entries) > _KEPT_PER_SET:
            del entries[0]

    # -- the search ------------------------------------------------------------------------

    def find(
        self, target: int, peak: int, prefix: Sequence[int] = ()
    ) -> tuple[tuple[int, ...] | None, int]:
        """An order that starts with ``prefix`` within both limits; or None and the next target.

        The prefix is taken as it is. Raises ``LimitReached``.
        """
        state = self.root()
        trail = list(prefix)
        for i in trail:
            state = self.child(state, i)
        self.budget.spend()
        opened = self._open(state, target, peak)
        if isinstance(opened, int):
            return None, opened
        if not state.rest:
            return tuple(trail), target
        vectors, states, choices, least = (
            [opened],
            [state],
            [self._choices(state, target, peak)],
            [NEVER],
        )
        while states:
            if not choices[-1]:
                failed, vector, bound = states.pop(), vectors.pop(), least.pop()
                choices.pop()
                self.remember(failed, vector, bound, peak)
                if not states:
                    return None, bound
                trail.pop()
                least[-1] = min(least[-1], bound)
                continue
            i = choices[-1].pop()
            self.budget.spend()
            state = self.child(states[-1], i)
            opened = self._open(state, target, peak)
            if isinstance(opened, int):
                least[-1] = min(least[-1], opened)
                continue
            trail.append(i)
            if not state.rest:
                return tuple(trail), target
            states.append(state)
            vectors.append(opened)
            choices.append(self._choices(state, target, peak))
            least.append(NEVER)
        raise AssertionError("unreachable")

    def descend_to_first(
        self, order: tuple[int, ...], target: int, peak: int
    ) -> Iterator[tuple[int, ...]]:
        """From an order within both limits to the first such order in index order.

        Yields each order on the way, every one before the last; the last is the first there is.
        """
        state = self.root()
        for position in range(self.n):
            for i in sorted(self.candidates(state, peak)):
                if i == order[position]:
                    break
                found, _ = self.find(target, peak, (*order[:position], i))
                if found is not None:
                    order = found
                    yield order
                    break
            state = self.child(state, order[position])

    def peak(self, order: Sequence[int]) -> int:
        """The VGPR peak of an order."""
        live = peak = 0
        for i in order:
            live += self.defines[i]
            peak = max(peak, live)
            live -= self.kills[i]
        return peak

    def _open(self, state: _State, target: int, peak: int) -> int | tuple[int, ...]:
        """The state's dominance vector, or the bound by which it fails."""
        if not self.fits_blocks(state):
            return NEVER
        bound, heads = self.bound(state, target)
        if bound > target:
            return bound
        vector = (state.fragments, state.loads, *heads)
        return self.known_to_fail(state, vector, target, peak) or vector

    def _choices(self, state: _State, target: int, peak: int) -> list[int]:
        """Candidates, the most urgent last."""
        ready, free, unit, tail = state.ready, state.free, self.unit, self.tail
        return sorted(
            self.candidates(state, peak),
            key=lambda i: (tail[i] + max(ready[i], free[unit[i]]), -i),
        )
