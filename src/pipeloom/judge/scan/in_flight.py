"""What may, and what must, still be in flight at a place: abstract queues.

A counter is a queue whose entries retire in order. What decides whether ``vmcnt(n)`` has retired an
operation is how many were issued behind it. Over several paths that is an interval: ``may`` keeps
the least number (it may be in flight until a wait for no more than that), ``must`` the greatest (no
path has surely retired it, and no full counter has).

    buffer_load v4 ; buffer_load v5 ; s_waitcnt vmcnt(1)      may = [v5's]      must = [v5's]

Operations are bits; a queue is a list of sets by age. Scalar loads return in any order: a set that
only lgkmcnt(0) empties. ``open_`` are LDS accesses that no barrier has made known to other waves:
one ends that when the access has retired before it. ``late_`` are those that the last barrier made
known: waves that are one barrier ahead have not come to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeloom.judge.emulate.pending import COUNTER_LIMIT, WaitQueue

Left = tuple[tuple[WaitQueue, int], ...]
Ages = list[int]
"""Sets of operations by how many entries of their queue were issued behind them."""
_PLACES = {queue: at for at, queue in enumerate(COUNTER_LIMIT)}
_LIMITS = tuple(COUNTER_LIMIT.values())
"""Counters as indices: this is where a scan spends its time."""


@dataclass(slots=True)
class InFlight:
    """The state before an instruction."""

    may: list[Ages] = field(default_factory=lambda: [[] for _ in _LIMITS])
    must: list[Ages] = field(default_factory=lambda: [[] for _ in _LIMITS])
    scalar_may: int = 0
    scalar_must: int = 0
    open_may: int = 0
    open_must: int = 0
    late_may: int = 0
    late_must: int = 0
    masked: int = 0
    """Operations since whose issue EXEC may have lost lanes."""
    most: list[int] = field(default_factory=lambda: [0 for _ in _LIMITS])
    """The most entries that a counter can hold."""

    def copy(self) -> InFlight:
        """One that can be changed."""
        return InFlight(
            [list(ages) for ages in self.may],
            [list(ages) for ages in self.must],
            self.scalar_may,
            self.scalar_must,
            self.open_may,
            self.open_must,
            self.late_may,
            self.late_must,
            self.masked,
            list(self.most),
        )

    def issue(self, queues: tuple[WaitQueue, ...], bit: int, in_lds: bool) -> None:
        """An operation enters its queues; ``in_lds`` if other waves can meet it in LDS."""
        for queue in queues:
            if not queue.in_order:
                self.scalar_may |= bit
                self.scalar_must |= bit
                self._grow(_PLACES[queue.counter])
            else:
                index = _PLACES[queue]
                _push(self.may[index], bit, _LIMITS[index])
                _push(self.must[index], bit, _LIMITS[index], full=True)
                self._grow(index)
        self.masked &= ~bit
        if in_lds:
            self.open_may |= bit
            self.open_must |= bit

    def _grow(self, index: int) -> None:
        if self.most[index] <= _LIMITS[index]:
            self.most[index] += 1

    def wait(self, left: Left) -> None:
        """All but so many are over."""
        for queue, count in left:
            if not queue.in_order:
                self.scalar_may = self.scalar_must = 0
                continue
            place = _PLACES[queue]
            del self.may[place][count:]
            del self.must[place][count:]
            self.most[place] = min(self.most[place], count)

    def barrier(self, apart: bool) -> None:
        """What is over is known to all waves; ``apart`` if some waves are one barrier ahead."""
        may, must = self.all_may(), self.all_must()
        self.late_may = self.open_may & ~may if apart else 0
        self.late_must = self.open_must & ~must if apart else 0
        self.open_may &= may
        self.open_must &= must

    def mask(self) -> None:
        """EXEC may have lost lanes."""
        self.masked |= self.all_may()

    def all_may(self) -> int:
        """Every operation that may be in flight."""
        found = self.scalar_may
        for ages in self.may:
            for one in ages:
                found |= one
        return found

    def all_must(self) -> int:
        """Every operation that no path has retired."""
        found = self.scalar_must
        for ages in self.must:
            for one in ages:
                found |= one
        return found

    def counter(self, bit: int) -> str:
        """What has to be waited for, as assembly has it: at most how many may be left."""
        for queue, place in _PLACES.items():
            for age, ops in enumerate(self.may[place]):
                if ops & bit:
                    return f"{queue.value}({age})"
        return WaitQueue.SMEM.value

    def waits_for_nothing(self, left: Left) -> bool:
        """Whether a wait has nothing to wait for on any path."""
        counted = (one for one in left if one[0].in_order)
        return all(self.most[_PLACES[queue]] <= count for queue, count in counted)

    def join(self, other: InFlight) -> bool:
        """Let another path arrive here; whether that changed anything."""
        changed = False
        for queue in range(len(_LIMITS)):
            least = _youngest(self.may[queue], other.may[queue])
            greatest = _oldest(self.must[queue], other.must[queue])
            changed |= least != self.may[queue] or greatest != self.must[queue]
            self.may[queue], self.must[queue] = least, greatest
            if other.most[queue] > self.most[queue]:
                self.most[queue] = other.most[queue]
                changed = True
        before = self._sets()
        recent = (self.open_must | self.late_must) & (other.open_must | other.late_must)
        self.scalar_may |= other.scalar_may
        self.scalar_must &= other.scalar_must
        self.open_may |= other.open_may
        self.open_must &= other.open_must
        self.late_may |= other.late_may
        self.late_must = recent & ~self.open_must
        self.masked |= other.masked
        return changed or before != self._sets()

    def _sets(self) -> tuple[int, ...]:
        return (
            self.scalar_may,
            self.scalar_must,
            self.open_may,
            self.open_must,
            self.late_may,
            self.late_must,
            self.masked,
        )


def _push(ages: Ages, bit: int, limit: int, *, full: bool = False) -> None:
    """All grow older by one; ages that every count retires are one.

    ``full``: what has as many entries behind it as a counter holds is taken to be over, since issue
    stalls at a full counter (ROCm/rocm-systems #11202, #10926; not in the ISA documents). Nothing
    is called ordered for it, but nothing is called certain either.
    """
    if bit:
        for age, ops in enumerate(ages):
            if ops & bit:
                ages[age] = ops & ~bit
                break
    ages.insert(0, bit)
    if len(ages) > limit:
        oldest = ages.pop()
        ages[-1] |= 0 if full else oldest


def _youngest(a: Ages, b: Ages) -> Ages:
    seen, found = 0, []
    for age in range(max(len(a), len(b))):
        here = (a[age] if age < len(a) else 0) | (b[age] if age < len(b) else 0)
        found.append(here & ~seen)
        seen |= here
    return _trimmed(found)


def _oldest(a: Ages, b: Ages) -> Ages:
    both = 0
    for one in a:
        both |= one
    other = 0
    for one in b:
        other |= one
    both &= other
    length = max(len(a), len(b))
    seen, found = 0, [0] * length
    for age in range(length - 1, -1, -1):
        here = (a[age] if age < len(a) else 0) | (b[age] if age < len(b) else 0)
        found[age] = here & both & ~seen
        seen |= here & both
    return _trimmed(found)


def _trimmed(ages: Ages) -> Ages:
    while ages and not ages[-1]:
        ages.pop()
    return ages
