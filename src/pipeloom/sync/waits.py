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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeloom.judge.verify.schedules.model import Access, CounterQueue
from pipeloom.reference.kernels.interface import Counter, Effect, Step
from pipeloom.reference.ops import Phase
from pipeloom.sync.dependences import Ordering
from pipeloom.sync.skeleton import Gap, Slot, Synchronisation

NO_WAITS: Mapping[Counter, int] = {}


@dataclass(frozen=True, slots=True)
class Passage:
    """A gap as a wave passes it: its wait slots, and the kernel's own barriers in it."""

    gap: Gap
    before: Slot
    after: Slot
    own_barriers: int


def free_passages(
    places: Sequence[Gap], own: Sequence[int], prologue_end: int
) -> list[list[Passage]]:
    """The gaps before each op of a walk whose barriers are still to be placed.

    ``own`` counts the kernel's own barriers before each op. The last gap of the prologue is passed
    on the way to the first op behind it.
    """
    passages = []
    prologue_ops = sum(place[0] is Phase.PROLOGUE for place in places)
    for number, gap in enumerate(places):
        gaps = [gap]
        if number and number == prologue_ops:
            gaps = [(Phase.PROLOGUE, prologue_end), gap]
        barriers = own[number] - (own[number - 1] if number else 0)
        passages.append(
            [Passage(g, (*g, True), (*g, False), 0 if n else barriers) for n, g in enumerate(gaps)]
        )
    return passages


class GroupWalk:
    """The data ops of one wave group in one run, without waits.

    ``places`` gives the phase of each op and its number there, ``passages`` the gaps before it.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        effects: Sequence[Effect],
        places: Sequence[Gap],
        passages: list[list[Passage]],
    ) -> None:
        self.steps = tuple(steps)
        self.effects = tuple(effects)
        self.places = tuple(places)
        self.passages = passages
        self.prologue_ops = sum(place[0] is Phase.PROLOGUE for place in places)
        self._issued: dict[Counter, list[int]] = {counter: [0] for counter in Counter}
        for effect in effects:
            for counter, totals in self._issued.items():
                totals.append(totals[-1] + (effect.entries if counter is effect.counter else 0))

    def issued_between(self, counter: Counter, op: int, upto: int) -> int:
        """Counter entries issued after ``op`` and before op ``upto``."""
        return self._issued[counter][upto] - self._issued[counter][op + 1]


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
        for run in reversed(self.runs):  # the longest run is the likeliest to object
            replays = self.replay(run, sync)
            if any(_check(ordering, replays) is not None for ordering in run.orderings):
                return False
        return True

    def replay(self, run: RunDemands, sync: Synchronisation) -> list[Replay]:
        """Every group's accesses under ``sync``."""
        return [Replay(walk, sync) for walk in run.walks]

    def late(
        self, run: RunDemands, sync: Synchronisation, first: Phase, second: Phase
    ) -> Iterator[tuple[Ordering, Slot]]:
        """The orderings between two phases that ``sync`` misses, and where a wait would help."""
        replays = self.replay(run, sync)
        for ordering in run.between(first, second):
            missed = _check(ordering, replays)
            if missed is not None and missed.slot is not None:
                yield ordering, missed.slot

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
                    walk = run.walks[ordering.first_group]
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
    return Unmet(
        slot, access.counter, first.walk.issued_between(access.counter, ordering.first, upto)
    )


class Replay:
    """One group's timeline under a synchronisation; positions are four times the op number."""

    def __init__(self, walk: GroupWalk, sync: Synchronisation) -> None:
        self.walk = walk
        self.accesses: list[Access] = []
        self._barriers: list[tuple[Slot, int]] = []
        queues = {counter: CounterQueue(counter) for counter in Counter}
        waits, barriers, passed = sync.waits, sync.barriers, self._barriers
        for number, effect in enumerate(walk.effects):
            for passage in walk.passages[number]:
                for counter, allowed in waits.get(passage.before, NO_WAITS).items():
                    queues[counter].drain(allowed, 4 * number - 2, len(passed))
                here = passage.own_barriers + barriers.get(passage.gap, 0)
                if here:
                    passed.extend([(passage.before, number)] * here)
                for counter, allowed in waits.get(passage.after, NO_WAITS).items():
                    queues[counter].drain(allowed, 4 * number - 2, len(passed))
            position, epoch = 4 * number, len(passed)
            access = Access(walk.steps[number], effect.entries, effect.counter, position, epoch)
            if effect.counter is None:
                access.retire, access.retire_epoch = position, epoch
            else:
                queues[effect.counter].issue(access)
            self.accesses.append(access)

    def barrier(self, number: int) -> tuple[Slot, int] | None:
        """Where a wait must stand to be over before the ``number``-th barrier; the op after it."""
        return self._barriers[number - 1] if 1 <= number <= len(self._barriers) else None
