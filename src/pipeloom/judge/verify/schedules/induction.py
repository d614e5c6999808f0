"""Every trip count from a few: the state of the machine repeats up to a shift of K.

Cut all waves at the same barrier, the first one of loop iteration i. Whatever retired before it in
any wave happens before whatever is issued after it in any wave, so the past can act on the future
only through

    where each wave group stands in its program,
    what is in flight on each counter, and what those accesses may have seen so far,
    what each slice of LDS may hold, each register holds and each accumulator has summed.

That is the state. It is written relative to the iteration and to its K tile. If the states at cuts
i and j > i are equal, the rest of a run with T trips from cut j is, shifted, the rest of a run with
T - (j - i) trips from cut i: the same hazards between the same entries. So it is enough to check
the trip counts up to the first run that contains cut j.

A loop without any barrier is cut at its head instead: then no access of the loop is ordered across
waves, and whatever another wave could see of it is a hazard within the first two trips.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Hashable

from pipeloom.judge.verify.schedules.obligations import Outcome
from pipeloom.judge.verify.schedules.run import Read, Run, WaveClass, Write
from pipeloom.judge.verify.schedules.visibility import visible_writes
from pipeloom.reference.kernels.interface import Region, Register, Step
from pipeloom.reference.ops import Phase

FORGET_AFTER = 8
"""Iterations after which a miscounted tile is only remembered as a miscount."""


def cut_positions(run: Run, iteration: int) -> list[int] | None:
    """Where each group stands at the cut of ``iteration``; ``None`` if one is past its loop."""
    leader = run.timelines[0]
    head = next((s.index for s in leader.steps if s.iteration == iteration), None)
    if head is None:
        return None
    number = next((n for n, at in enumerate(leader.barriers) if at >= 2 * head), None)
    if number is None or leader.steps[leader.barriers[number] // 2].iteration != iteration:
        heads = [
            next((2 * s.index for s in t.steps if s.iteration == iteration), None)
            for t in run.timelines
        ]
        return None if None in heads else [at for at in heads if at is not None]
    cut = []
    for timeline in run.timelines:
        if number >= len(timeline.barriers):
            return None
        at = timeline.barriers[number]
        if timeline.steps[at // 2].phase is Phase.EPILOGUE:
            return None
        cut.append(at)
    return cut


def state_at(run: Run, outcome: Outcome, iteration: int, cut: list[int]) -> Hashable:
    """The state of all waves at a cut, relative to ``iteration``."""
    frame = _Frame(run, outcome, iteration, cut)
    return tuple(frame.group(g) for g in range(len(cut))) + tuple(
        frame.wave(kind) for kind in run.classes
    )


class _Frame:
    """Renames iterations and K tiles relative to one cut."""

    def __init__(self, run: Run, outcome: Outcome, iteration: int, cut: list[int]) -> None:
        self._run = run
        self._outcome = outcome
        self._iteration = iteration
        self._shift = iteration * run.kernel.tiles_per_iteration
        self._cut = cut
        self._live = {
            region
            for kind in run.classes
            for read in kind.reads
            if not read.is_dead
            for region in read.regions
        }

    def group(self, group: int) -> Hashable:
        """Program point and counters in flight."""
        timeline, at = self._run.timelines[group], self._cut[group]
        flying = [a for a in timeline.accesses if a.issue < at <= a.retire]
        left = timeline.outstanding[at // 2]
        return self._name(timeline.steps[at // 2]), tuple(self._name(a.step) for a in flying), left

    def wave(self, kind: WaveClass) -> Hashable:
        """Memory, registers and sums of one kind of wave."""
        at = self._cut[kind.group]
        slices = [
            (r, self._slice(w, at)) for r, w in sorted(kind.writes.items()) if r in self._live
        ]
        held: dict[Register, Read] = {}
        flying = []
        for read in kind.reads:
            if read.access.issue < at:
                for register in read.registers:
                    held[register] = read
                if read.access.retire >= at and not read.is_dead:
                    flying.append(self._read(kind, read))
        registers = [(r, self._read(kind, read)) for r, read in sorted(held.items())]
        return tuple(slices), tuple(flying), tuple(registers), self._sums(kind, at)

    def _name(self, step: Step) -> Hashable:
        if step.iteration is None:
            return int(step.phase), step.slot, step.origin
        return int(step.phase), step.slot, step.iteration - self._iteration

    def _tile(self, tile: int | None) -> int | None:
        return None if tile is None else tile - self._shift

    def _slice(self, writes: list[Write], at: int) -> Hashable:
        """The writes that a later read may still see, and which of them cover which."""
        past = [w for w in writes if w.access.issue < at]
        done = [w for w in past if w.access.retire < at]
        open_ = [w for w in past if not any(_covers(d, w) for d in done)]
        return tuple(
            (
                self._name(w.access.step),
                self._tile(w.tile),
                w.access.retire < at,
                tuple(_covers(other, w) for other in open_),
            )
            for w in open_
        )

    def _read(self, kind: WaveClass, read: Read) -> Hashable:
        seen: set[int | None] = {read.tile} if not read.regions else set()
        for region in read.regions:
            for owner in self._run.classes:
                past = self._past_writes(owner, region)
                for same_wave in (True, False):
                    if same_wave and owner is not kind:
                        continue
                    if not same_wave and owner is kind and len(kind.waves) == 1:
                        continue
                    visible = visible_writes(read, past, same_wave)
                    seen |= {None if w is None else w.tile for w in visible}
        tiles = sorted((self._tile(t) is not None, self._tile(t) or 0) for t in seen)
        return (
            self._name(read.access.step),
            tuple(tiles),
            read.access.retire >= self._cut[kind.group],
            tuple((register, self._name(older.access.step)) for register, older in read.rivals),
        )

    def _past_writes(self, owner: WaveClass, region: Region) -> list[Write]:
        at = self._cut[owner.group]
        return [w for w in owner.writes.get(region, ()) if w.access.issue < at]

    def _sums(self, kind: WaveClass, at: int) -> Hashable:
        """Per accumulator: MMAs so far, and the tiles summed too often or not at all."""
        counts: dict[Hashable, int] = {}
        odd: dict[Hashable, Tally[int]] = {}
        for use in kind.uses:
            if use.accumulator is None or use.access.issue >= at:
                continue
            counts[use.accumulator] = use.ordinal + 1
            tally = odd.setdefault(use.accumulator, Tally())
            for _, read in use.operands:
                tile = use.ordinal if read is None else self._outcome.settled.get(id(read))
                tally[use.ordinal] -= 1
                tally[use.ordinal if tile is None else tile] += 1
        oldest = -FORGET_AFTER * self._run.kernel.tiles_per_iteration
        rows = []
        for accumulator in sorted(counts, key=str):
            wrong = {t - self._shift: n for t, n in odd[accumulator].items() if n}
            recent = tuple(sorted((t, n) for t, n in wrong.items() if t >= oldest))
            rows.append((str(accumulator), counts[accumulator] - self._shift, recent))
        return tuple(rows)


def _covers(later: Write, earlier: Write) -> bool:
    return later is not earlier and earlier.access.retire <= later.access.issue
