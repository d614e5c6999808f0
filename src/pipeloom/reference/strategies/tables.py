"""One body under its limits, as the flat tables that the search reads millions of times.

Sets of ops are integers, bit i for op i. Units are small numbers; ``UNIT_FREE`` is for ops that
no queue can delay. Two ops are *twins* when nothing tells them apart (same kind, same neighbours,
same half): swapping them changes no cost, so the lower index goes first, which is also what the
first order in index order does.

Heads, tails and one-machine bounds: how long an unfinished order must still take.

The *head* of an op is the earliest it can start from here on; its *tail* the time that must pass
from its start to the end of the iteration. An op with head + tail > T rules out a makespan of T.
A serial unit rules out more: its ops hold it one after the other. Jackson's preemptive schedule,
always serving the released op with the longest remainder, gives the best such bound that lets
ops be split:

    head  held  rest         0  a a a b b b b b a a   10     a ends at 10, rest 4: at least 14
     0     5     4              |     ^ b is released, and more urgent
     3     5     9              b ends at 8, rest 9: at least 17  <- the bound

Worked out by J. Carlier, "The one-machine sequencing problem", EJOR 11 (1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final

from pipeloom.reference.graph import LoopBody
from pipeloom.reference.ops import OpRole, ResourceKind
from pipeloom.reference.schedule_config import UNLIMITED_VGPR
from pipeloom.reference.strategies.contract import OrderLimits
from pipeloom.reference.strategies.cost import PORT_RESOURCES

Job = tuple[int, int, int]
"""Head, how long the unit is held, and the time from then to the end of the iteration."""

_head = itemgetter(0)


BLOCK_FRAGMENTS: Final = 2
BLOCK_LOADS: Final = 2
NEVER: Final = 1 << 60
"""A makespan or register count beyond all others."""

UNIT_FREE, UNIT_MMA, UNIT_VALU, UNIT_PORT = range(4)
SERIAL_UNITS: Final = (UNIT_MMA, UNIT_VALU, UNIT_PORT)


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


class Tables:
    """What does not change during a search."""

    def __init__(self, body: LoopBody, limits: OrderLimits) -> None:
        ops = body.ops
        n = self.n = len(ops)
        self.halves = limits.halves
        self.half = n // 2 if limits.halves else n
        self.everything = (1 << n) - 1
        self.first_half = (1 << self.half) - 1
        self.second_half = self.everything & ~self.first_half
        self.max_fragments = BLOCK_FRAGMENTS if limits.halves else NEVER
        self.max_loads = BLOCK_LOADS if limits.halves else NEVER
        if limits.max_globals:
            self.max_loads = min(self.max_loads, limits.max_globals)
        self.counts_blocks = limits.halves or limits.max_globals > 0

        self.latency = [op.latency for op in ops]
        self.defines = [op.vgpr_def for op in ops]
        self.kills = [op.vgpr_kill for op in ops]
        self.is_compute = [self.counts_blocks and op.role is OpRole.COMPUTE for op in ops]
        self.is_load = [self.counts_blocks and op.role is OpRole.GLOBAL_LOAD for op in ops]
        self.is_fragment = [limits.halves and op.role is OpRole.FRAGMENT_LOAD for op in ops]
        self.compute_set = _bits(self.is_compute)
        self.load_set = _bits(self.is_load)
        self.fragment_set = _bits(self.is_fragment)

        penalty = limits.lds_contention_penalty
        units = {ResourceKind.VALU: UNIT_VALU}
        if limits.mma_serial:
            units[ResourceKind.MMA_UNIT] = UNIT_MMA
        if penalty:
            units.update(dict.fromkeys(PORT_RESOURCES, UNIT_PORT))
        self.unit = [units.get(op.resource, UNIT_FREE) for op in ops]
        self.held = [
            (0, op.latency, op.latency, penalty)[u] for op, u in zip(ops, self.unit, strict=True)
        ]
        self.successors = [
            [(c, self._apart(p, c)) for c in body.successors[p] if not self._implied(p, c)]
            for p in range(n)
        ]
        """For each op (consumer, least distance between the two starts)."""
        self.successor_set = [sum(1 << c for c, _ in pairs) for pairs in self.successors]
        kinds: dict[tuple[object, ...], int] = {}
        self.kind = [kinds.setdefault(self._kind(i), len(kinds)) for i in range(n)]
        """Ops of one kind differ only in their edges."""
        self.before = self._direct_predecessors(body)
        """For each op the set that must be placed before it: producers, and its lower twin."""
        self.sequence = self._sequence()
        """One order that respects edges, twins and halves."""
        self.followers = followers = self._followers()
        """For each op the set of ops that every order places after it."""
        self.enders = [
            sum(
                1 << i
                for i in range(n)
                if half >> i & 1 and self.is_compute[i] and not followers[i] & half
            )
            for half in (self.first_half, self.second_half)
        ]
        """For each half the COMPUTEs that can come last in it."""
        self.tail = strengthened_tails(
            self.latency, self.unit, self.held, self.successors, followers, self.sequence, 4
        )

    def _apart(self, producer: int, consumer: int) -> int:
        if self.unit[producer] == self.unit[consumer]:
            return max(self.latency[producer], self.held[producer])
        return self.latency[producer]

    def _implied(self, producer: int, consumer: int) -> bool:
        """Whether the queue on a unit, with the halves apart, already keeps this edge."""
        return (
            producer < self.half <= consumer
            and self.unit[producer] == self.unit[consumer] != UNIT_FREE
            and self.latency[producer] <= self.held[producer]
        )

    def _kind(self, i: int) -> tuple[object, ...]:
        return (
            i < self.half,
            self.unit[i],
            self.latency[i],
            self.held[i],
            self.defines[i],
            self.kills[i],
            self.is_compute[i],
            self.is_load[i],
            self.is_fragment[i],
        )

    def _direct_predecessors(self, body: LoopBody) -> list[int]:
        masks = [sum(1 << p for p in producers) for producers in body.predecessors]
        last: dict[tuple[object, ...], int] = {}
        for i in range(self.n):
            twin = (self.kind[i], body.predecessors[i], self.successor_set[i])
            if twin in last:
                masks[i] |= 1 << last[twin]
            last[twin] = i
        return masks

    def _sequence(self) -> list[int]:
        sequence: list[int] = []
        placed = 0
        for group in (range(self.half), range(self.half, self.n)):
            waiting = list(group)
            while waiting:
                ready = next(i for i in waiting if not self.before[i] & ~placed)
                waiting.remove(ready)
                placed |= 1 << ready
                sequence.append(ready)
        return sequence

    def _followers(self) -> list[int]:
        after = [0] * self.n
        for j in reversed(self.sequence):
            if j < self.half:
                after[j] |= self.second_half
            for i in range(self.n):
                if self.before[j] >> i & 1:
                    after[i] |= after[j] | 1 << j
        return after

    @cached_property
    def least_peak(self) -> int:
        """VGPRs that every order has live at some time, whatever its makespan and blocks.

        What an op needs where all that may free registers before it has done so, and nothing but
        what must has taken any. It is most often met; the search settles what lies between.
        """
        net = [d - k for d, k in zip(self.defines, self.kills, strict=True)]
        peak = max(0, sum(net))
        for i in range(self.n):
            live = sum(
                net[j] if self.followers[j] >> i & 1 else min(net[j], 0)
                for j in range(self.n)
                if j != i and not self.followers[i] >> j & 1
            )
            peak = max(peak, live + self.defines[i])
        return peak

    def peak(self, order: Sequence[int]) -> int:
        """The VGPR peak of an order."""
        live = peak = 0
        for i in order:
            live += self.defines[i]
            peak = max(peak, live)
            live -= self.kills[i]
        return peak


def _bits(flags: Sequence[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def preemptive_bound(jobs: list[Job]) -> tuple[int, int]:
    """When the unit is free again, and when the iteration ends, at the earliest."""
    jobs.sort(key=_head)
    waiting: list[tuple[int, int]] = []
    clock = jobs[0][0]
    end = 0
    at, count = 0, len(jobs)
    while at < count or waiting:
        if not waiting and jobs[at][0] > clock:
            clock = jobs[at][0]
        while at < count and jobs[at][0] <= clock:
            heappush(waiting, (-jobs[at][2], jobs[at][1]))
            at += 1
        rest, held = heappop(waiting)
        if at < count and clock + held > jobs[at][0]:
            held -= jobs[at][0] - clock
            clock = jobs[at][0]
            heappush(waiting, (rest, held))
        else:
            clock += held
            if clock - rest > end:
                end = clock - rest
    return clock, end


def strengthened_tails(
    latency: Sequence[int],
    unit: Sequence[int],
    held: Sequence[int],
    successors: Sequence[Sequence[tuple[int, int]]],
    follows: Sequence[int],
    sequence: Sequence[int],
    units: int,
) -> list[int]:
    """The tail of each op, with the queues on the units behind it taken into account.

    ``successors`` are (op, least distance between the two starts); ``follows[i]`` has a bit for
    each op that every order places after ``i``; ``sequence`` is an order that respects both.
    """
    n = len(latency)
    tail = [0] * n
    rank = [0] * n
    for position, op in enumerate(sequence):
        rank[op] = position
    for position in range(n - 1, -1, -1):
        i = sequence[position]
        best = latency[i]
        distance = [-1] * n
        distance[i] = 0
        jobs: list[list[Job]] = [[] for _ in range(units)]
        mine, after = unit[i], follows[i]
        for j in sequence[position:]:
            far = distance[j]
            if mine and unit[j] == mine and after >> j & 1 and far < held[i]:
                far = distance[j] = held[i]
            if far < 0:
                continue
            if j != i:
                if far + tail[j] > best:
                    best = far + tail[j]
                if unit[j]:
                    jobs[unit[j]].append((far, held[j], tail[j] - held[j]))
            for k, apart in successors[j]:
                if far + apart > distance[k]:
                    distance[k] = far + apart
        for queue in jobs:
            if queue:
                best = max(best, preemptive_bound(queue)[1])
        tail[i] = best
    return tail
