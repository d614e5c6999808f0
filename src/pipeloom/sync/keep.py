"""Waits for barriers that stay.

In the ping-pong the barriers do two things: they order accesses, and they make the two wave groups
take turns at memory and MMA. ``synchronize`` on its own derives the fewest barriers and loses the
turns. Here the barriers are given, and each demand (X in wave v is over before Y in wave w) is met
by a wait in v directly before the last barrier of v that Y comes after:

    v    X   ...   wait   barrier n                   the wait as late, and as loose, as possible
    w                     barrier n   ...   Y

That needs a barrier between the two. Where there is none, X is issued too late or Y too early, and
no wait can help: that is an ``OrderError``. With ``reorder`` the fewest loads move (``resettle``),
and where prologue or epilogue, which run once, lack a barrier, they get one, also if else a wait
of the loop would have to be tightened for the epilogue's sake. The loop's barriers never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.errors import OrderError
from pipeloom.judge.verify.schedules.findings import describe_data_op
from pipeloom.judge.verify.schedules.model import Access
from pipeloom.judge.verify.schedules.run import Run
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.ops import Phase
from pipeloom.sync.dependences import Demands, demands
from pipeloom.sync.frame import Frame, assemble_frame
from pipeloom.sync.place import epilogue_burdens, place_waits
from pipeloom.sync.resettle import Places
from pipeloom.sync.samples import sample_runs
from pipeloom.sync.skeleton import Gap, Synchronisation
from pipeloom.sync.stations import Stations, stations
from pipeloom.sync.waits import Bench, GroupWalk, RunDemands


def derive_waits(
    model: Kernel, compiled: CompiledSchedule, reorder: bool
) -> tuple[CompiledSchedule, list[str]]:
    """``compiled`` with its barriers and new waits, and notes on what was done."""
    study = _Study.of(model, Frame.of(compiled))
    notes: list[str] = []
    trouble = study.trouble()
    if reorder or trouble is not None:
        study, changes = _mend(model, study, trouble)
        told = "; ".join(changes)
        if trouble is not None and not reorder:
            raise _unsavable(trouble, f"nearest legal order: {told}. reorder=True applies it")
        notes.extend([f"reordered: {told}"] if changes else [])
    sync = place_waits(study.bench(model))
    notes.append("waits derived from dependences, barriers kept")
    return assemble_frame(study.frame, sync).compiled, notes


WITHOUT = "Let the barriers be derived too (keep_barriers=False, sync='proven')"


@dataclass(frozen=True, slots=True)
class _Study:
    """A frame and what its runs demand."""

    frame: Frame
    runs: list[Run]
    stations: list[list[Stations]]
    demanded: list[Demands]

    @classmethod
    def of(cls, model: Kernel, frame: Frame) -> _Study:
        bare = assemble_frame(frame, Synchronisation())
        runs = sample_runs(model, bare.compiled)
        walks = [[stations(frame, bare, t.steps) for t in run.timelines] for run in runs]
        return cls(frame, runs, walks, [demands(run) for run in runs])

    def trouble(self, about: Gap | None = None) -> str | None:
        """Two ops that no wait can order, and why; ``None`` if all is well.

        With ``about``, one of them is the op at that stop.
        """
        for run, walks, found in self._tables():
            for conflict in found.conflicts:
                pair = {self._place(run, walks, a) for a in (conflict.early, conflict.late)}
                if about is not None and about not in pair:
                    continue
                early = self._words(run, walks, conflict.early)
                late = self._words(run, walks, conflict.late)
                return f"{early} comes before {late}: {conflict.what}"
        for run, walks, found in self._tables():
            for ordering in found.orderings:
                places = (
                    walks[ordering.first_group].places[ordering.first],
                    walks[ordering.second_group].places[ordering.second],
                )
                if ordering.apart > 0 and (about is None or about in places):
                    first = run.timelines[ordering.first_group].accesses[ordering.first]
                    second = run.timelines[ordering.second_group].accesses[ordering.second]
                    return (
                        f"{self._words(run, walks, first)} of a wave of group "
                        f"{ordering.first_group} must be over before "
                        f"{self._words(run, walks, second)} of another, of group "
                        f"{ordering.second_group}, but no barrier comes between the two"
                    )
        return None

    def missing_barrier(self, model: Kernel) -> Gap | None:
        """Where prologue or epilogue lack a barrier: the first such place, as late as possible."""
        lacking: set[Gap] = set()
        for _, walks, found in self._tables():
            for ordering in found.orderings:
                if ordering.apart > 0:
                    first = walks[ordering.first_group].places[ordering.first]
                    second = walks[ordering.second_group].places[ordering.second]
                    if second[0] is not Phase.KERNEL:
                        lacking.add(second)
                    elif first[0] is Phase.PROLOGUE:
                        lacking.add((Phase.PROLOGUE, self.frame.end(Phase.PROLOGUE)))
        return min(lacking or epilogue_burdens(self.bench(model)), default=None)

    def _tables(self) -> Iterator[tuple[Run, list[Stations], Demands]]:
        yield from zip(self.runs, self.stations, self.demanded, strict=True)

    def _words(self, run: Run, walks: list[Stations], access: Access) -> str:
        """An op by its place in the schedule that was given, and in words."""
        phase, stop = self._place(run, walks, access)
        entry = self.frame.stops[phase][stop].entry
        assert entry is not None
        return f"{phase.name.lower()}[{entry.time_slot}] {describe_data_op(access.step)}"

    @staticmethod
    def _place(run: Run, walks: list[Stations], access: Access) -> Gap:
        group, number = next(
            (group, number)
            for group, timeline in enumerate(run.timelines)
            for number, other in enumerate(timeline.accesses)
            if other is access
        )
        return walks[group].places[number]

    def bench(self, model: Kernel) -> Bench:
        """The replay of these runs' counters, for finding waits."""
        table = []
        for run, walks, found in self._tables():
            groups = zip(run.timelines, walks, model.groups, strict=True)
            table.append(
                RunDemands(
                    run.trips,
                    tuple(
                        GroupWalk(
                            [a.step for a in timeline.accesses],
                            [model.effect(a.step, members[0]) for a in timeline.accesses],
                            walk.places,
                            walk.passages,
                        )
                        for timeline, walk, members in groups
                    ),
                    found.orderings,
                )
            )
        return Bench(table, self.frame.end(Phase.PROLOGUE))


def _mend(model: Kernel, study: _Study, trouble: str | None) -> tuple[_Study, list[str]]:
    """The nearest schedule whose barriers can order everything, and what was changed."""
    changes: list[str] = []
    if trouble is not None:
        moves = _moves(study, trouble)
        changes = [_describe_move(study.frame, load, to) for load, to in moves.items()]
        study = _Study.of(model, study.frame.with_moves(moves))
    while (gap := study.missing_barrier(model)) is not None:
        changes.append(f"{gap[0].name.lower()}: a barrier is added {_before(study.frame, gap)}")
        study = _Study.of(model, study.frame.with_barrier(gap))
    still = study.trouble()
    if still is not None:
        raise _unsavable(still, f"even with {'; '.join(changes) or 'its loads moved'}. {WITHOUT}")
    return study, changes


def _moves(study: _Study, trouble: str) -> dict[Gap, int]:
    """Where the loads that cannot stay should go."""
    tables = list(zip(study.runs, study.stations, strict=True))
    everywhere = Places(study.frame, tables)
    moves: dict[Gap, int] = {}
    for load in everywhere.misplaced():
        to = everywhere.settle(load)
        if to is None:
            in_loop = Places(study.frame, tables, loop_only=True)
            if load not in in_loop.misplaced():
                continue
            to = in_loop.settle(load)
        if to is None:
            where = f"no place in the {load[0].name.lower()} suits {_tell(study.frame, load)}"
            raise _unsavable(study.trouble(load) or trouble, f"{where}. {WITHOUT}")
        moves[load] = to
    return moves


def _describe_move(frame: Frame, load: Gap, to: int) -> str:
    phase = load[0]
    before = next((n for n in reversed(range(to)) if frame.stops[phase][n].entry is not None), None)
    where = "to the front" if before is None else f"after {_tell(frame, (phase, before))}"
    return f"{phase.name.lower()}: {_tell(frame, load)} moves {where}"


def _before(frame: Frame, gap: Gap) -> str:
    stop = frame.stops[gap[0]][gap[1]]
    return "at the end" if stop.entry is None else f"before {_tell(frame, gap)}"


def _tell(frame: Frame, gap: Gap) -> str:
    entry = frame.stops[gap[0]][gap[1]].entry
    assert entry is not None
    return f"[{entry.time_slot}] {describe_op(entry.op)}"


def _unsavable(trouble: str, offer: str) -> OrderError:
    return OrderError(
        f"waits alone cannot save this order with its barriers: {trouble}",
        hint=offer,
        field="order",
    )
