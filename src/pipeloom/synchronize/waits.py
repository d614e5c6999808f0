"""The loosest waits for given barriers.

An op that must retire before an op of its own wave is due directly before that op; one that must
retire before an op of another wave, which that wave reaches after its n-th barrier, is due directly
before the n-th barrier of its own wave. A wait that stands where something is due allows exactly
the entries issued after it; in-order retirement covers everything older. The same wait runs in
every iteration, trip count and wave group, so its count is the least that any of them needs.

``Bench`` replays the counters over the runs that matter and is both the way to find the waits and
the test that each of them is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.kernels.interface import Counter, Effect, Step
from pipeloom.ops import Phase
from pipeloom.synchronize.dependences import Ordering
from pipeloom.synchronize.skeleton import Gap, Slot, Synchronisation
from pipeloom.verify.model import Access, CounterQueue


@dataclass(frozen=True, slots=True)
class GroupWalk:
    """The data ops of one wave group in one run, without synchronisation.

    ``places`` gives the phase and number of each op; ``own`` the number of the kernel's own
    barriers before each gap's barriers: entry n counts those before op n, the last those in all.
    """

    steps: tuple[Step, ...]
    effects: tuple[Effect, ...]
    places: tuple[Gap, ...]
    own: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunDemands:
    """One trip count: the groups' walks and what must be ordered."""

    trips: int
    walks: tuple[GroupWalk, ...]
    orderings: tuple[Ordering, ...]

    def between(self, first: Phase, second: Phase) -> Iterator[Ordering]:
        """The orderings from an op of one phase to an op of another."""
        places = self.walks[0].places
        for ordering in self.orderings:
            if places[ordering.first][0] is first and places[ordering.second][0] is second:
                yield ordering


@dataclass(frozen=True, slots=True)
class Unmet:
    """An op that has not retired where it is due; ``slot`` is ``None`` if no wait can help."""

    slot: Slot | None
    counter: Counter
    allowed: int


class Bench:
    """Replays counters under a synchronisation, over several trip counts."""

    def __init__(self, runs: list[RunDemands], prologue_end: int) -> None:
        self.runs = runs
        self._prologue_end = prologue_end

    def holds(self, sync: Synchronisation) -> bool:
        """Whether every ordering is met."""
        for run in self.runs:
            replays = self.replay(run, sync)
            if any(_check(ordering, replays) is not None for ordering in run.orderings):
                return False
        return True

    def replay(self, run: RunDemands, sync: Synchronisation) -> list[Replay]:
        """Every group's accesses under ``sync``."""
        return [Replay(walk, sync, self._prologue_end) for walk in run.walks]

    def tighten(self, sync: Synchronisation, first: Phase, second: Phase) -> None:
        """Add and tighten waits until what is due between two phases has retired.

        What leaves the prologue is due at its end at the latest, unless waits of the loop that
        are there anyway retire it in time: the loop is not made to wait for its first iteration.
        """
        while unmet := self._unmet(sync, first, second):
            for slot, counter, allowed in unmet:
                waits = sync.waits.setdefault(slot, {})
                waits[counter] = min(allowed, waits.get(counter, allowed))

    def _unmet(
        self, sync: Synchronisation, first: Phase, second: Phase
    ) -> list[tuple[Slot, Counter, int]]:
        unmet = []
        for run in self.runs:
            replays = self.replay(run, sync)
            for ordering in run.between(first, second):
                late = _check(ordering, replays)
                if late is None or late.slot is None:
                    continue
                slot, allowed = late.slot, late.allowed
                if first is Phase.PROLOGUE and slot[0] is Phase.KERNEL:
                    slot = (Phase.PROLOGUE, self._prologue_end, True)
                    walk = replays[ordering.first_group]
                    allowed = walk.issued_between(late.counter, ordering.first, walk.prologue_ops)
                unmet.append((slot, late.counter, allowed))
        return unmet


def _check(ordering: Ordering, replays: list[Replay]) -> Unmet | None:
    first, second = replays[ordering.first_group], replays[ordering.second_group]
    access, then = first.accesses[ordering.first], second.accesses[ordering.second]
    if ordering.same_wave:
        if access.retire <= then.issue:
            return None
        slot: Slot = (*first.walk.places[ordering.second], False)
        upto = ordering.second
    else:
        if access.retire_epoch < then.issue_epoch:
            return None
        barrier = first.barrier(then.issue_epoch)
        if barrier is None or barrier[1] <= ordering.first:
            return Unmet(None, Counter.VM, 0)
        slot, upto = barrier
    assert access.counter is not None
    return Unmet(slot, access.counter, first.issued_between(access.counter, ordering.first, upto))


class Replay:
    """One group's timeline, on data ops only: positions are four times the op number."""

    def __init__(self, walk: GroupWalk, sync: Synchronisation, prologue_end: int) -> None:
        self.walk = walk
        self.accesses: list[Access] = []
        self._issued: dict[Counter, list[int]] = {c: [0] for c in Counter}
        self._barriers: list[tuple[Slot, int]] = []
        self._queues = {counter: CounterQueue(counter) for counter in Counter}
        self._sync = sync
        own = 0
        in_prologue = False
        for number, (step, effect) in enumerate(zip(walk.steps, walk.effects, strict=True)):
            gap = walk.places[number]
            if gap[0] is not Phase.PROLOGUE and in_prologue:
                own = self._gap((Phase.PROLOGUE, prologue_end), number, own, walk.own[number])
            own = self._gap(gap, number, own, walk.own[number])
            self._issue(step, effect, number)
            in_prologue = gap[0] is Phase.PROLOGUE

    @property
    def epoch(self) -> int:
        """How many barriers the wave has executed so far."""
        return len(self._barriers)

    @property
    def prologue_ops(self) -> int:
        """How many data ops the prologue has."""
        return sum(place[0] is Phase.PROLOGUE for place in self.walk.places)

    def issued_between(self, counter: Counter, op: int, upto: int) -> int:
        """Counter entries issued after ``op`` and before op ``upto``."""
        return self._issued[counter][upto] - self._issued[counter][op + 1]

    def barrier(self, number: int) -> tuple[Slot, int] | None:
        """Where a wait must stand to be over before the ``number``-th barrier; the op after it."""
        return self._barriers[number - 1] if 1 <= number <= len(self._barriers) else None

    def _gap(self, gap: Gap, number: int, own: int, own_after: int) -> int:
        position = 4 * number - 2
        self._drain((*gap, True), position)
        for _ in range(own_after - own + self._sync.barriers.get(gap, 0)):
            self._barriers.append(((*gap, True), number))
        self._drain((*gap, False), position)
        return own_after

    def _drain(self, slot: Slot, position: int) -> None:
        for counter, allowed in self._sync.waits.get(slot, {}).items():
            self._queues[counter].drain(allowed, position, self.epoch)

    def _issue(self, step: Step, effect: Effect, number: int) -> None:
        access = Access(step, effect.entries, effect.counter, 4 * number, self.epoch)
        for counter, totals in self._issued.items():
            totals.append(totals[-1] + (effect.entries if counter is effect.counter else 0))
        if effect.counter is None:
            access.retire, access.retire_epoch = access.issue, access.issue_epoch
        else:
            self._queues[effect.counter].issue(access)
        self.accesses.append(access)
