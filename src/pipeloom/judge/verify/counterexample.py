"""From a hazard to an interleaving that a person can follow and an executor can replay.

Two extreme schedules bring any hazard about. For a read that comes too early, the reading wave
runs ahead as far as barriers let it, writes land as late as possible and LDS is read at once. For a
write that comes too early, the writing wave runs ahead, writes land at once and LDS is read as late
as possible. Wave w "ahead" of v reaches epoch n as soon as v has arrived at its n-th barrier, which
is why the epochs of the memory model decide.
"""

from __future__ import annotations

from pipeloom.judge.verify.blame import Hazard
from pipeloom.judge.verify.dated_run import Moment
from pipeloom.judge.verify.findings import (
    Counterexample,
    CounterexampleStep,
    FindingKind,
    Replay,
    StepPlace,
    describe_step,
)
from pipeloom.judge.verify.run_tables import RunTables


def place_of(run: RunTables, moment: Moment, wave: int) -> StepPlace:
    """A step as a wave executes it."""
    return StepPlace(
        wave,
        run.walks[moment.group].section(moment).name,
        moment.slot,
        moment.trip,
        moment.index,
        describe_step(moment.step, moment.iteration),
    )


class Story:
    """One hazard, told."""

    def __init__(self, run: RunTables, hazard: Hazard) -> None:
        self._run = run
        self._hazard = hazard

    def first(self) -> StepPlace | None:
        """What should have been over."""
        first = self._hazard.first
        return None if first is None else place_of(self._run, first, self._hazard.first_wave)

    def second(self) -> StepPlace:
        """What comes too early."""
        return place_of(self._run, self._hazard.second, self._hazard.second_wave)

    def why(self) -> str:
        """What fails to order the two."""
        hazard = self._hazard
        first, second = hazard.first, hazard.second
        if hazard.note:
            return hazard.note
        match hazard.kind:
            case FindingKind.ACCOUNTING:
                return f"always {hazard.seen}, where it is the turn of {hazard.expected}"
            case FindingKind.UNWRITTEN:
                return f"no step writes this place; it should hold {hazard.expected}"
            case FindingKind.STORE:
                return self._not_stored()
        if first is None:
            return "nothing has loaded these registers"
        if hazard.kind is FindingKind.RAW and hazard.same_wave and first.issue > second.issue:
            return "the write is issued only after the read that needs it"
        if hazard.kind is FindingKind.WAR and hazard.same_wave and second.issue < first.issue:
            return "the wave itself issues the write before its last read of the old value"
        verb = self._retired(first)
        if hazard.same_wave:
            return f"{verb}, and the wave does not wait for it before"
        if first.never_retires:
            return verb
        return (
            f"{verb}, after {first.retire_epoch} barriers; the other wave gets there after "
            f"{second.issue_epoch}"
        )

    def counterexample(self) -> Counterexample:
        """The steps, and how to replay them."""
        hazard = self._hazard
        ahead, behind = hazard.second_wave, hazard.first_wave
        others = [w for w in range(self._run.program.waves) if w not in (ahead, behind)]
        order = (ahead, *others, behind) if ahead != behind else (ahead, *others)
        late = hazard.kind in (FindingKind.RAW, FindingKind.UNWRITTEN) or (
            hazard.kind is FindingKind.REGISTER and not hazard.is_output
        )
        exceptions: tuple[tuple[int, int], ...] = ()
        if hazard.is_output and hazard.first is not None:
            exceptions = ((hazard.first_wave, hazard.first.index),)
        replay = Replay(
            self._run.total,
            order,
            "late" if late else "early",
            "early" if hazard.kind is FindingKind.RAW else "late",
            exceptions,
        )
        return Counterexample(self._run.total, self._steps(), replay)

    def _steps(self) -> tuple[CounterexampleStep, ...]:
        hazard, first, second = self._hazard, self.first(), self.second()
        if hazard.kind is FindingKind.BARRIER:
            return (
                CounterexampleStep(hazard.first_wave, "ends without another barrier"),
                CounterexampleStep(hazard.second_wave, f"waits at {second.op} forever", second),
            )
        if hazard.kind is FindingKind.STORE:
            return (CounterexampleStep(hazard.second_wave, self._not_stored(), second),)
        if first is None or hazard.kind is FindingKind.ACCOUNTING:
            lines = [] if first is None else [self._say(first, "")]
            text = f"issues {second.op}, finds {hazard.seen} in {hazard.where}"
            lines.append(CounterexampleStep(hazard.second_wave, text, second))
            return (*lines, *self._consumed())
        if hazard.is_output:
            lines = [
                self._say(first, ": in flight"),
                self._say(second, ", lands at once"),
                CounterexampleStep(first.wave, f"{first.op} lands over it", first),
            ]
        elif hazard.same_wave:
            lines = self._in_one_wave(first, second)
        else:
            lines = self._across_waves(first, second)
        return (*lines, *self._consumed())

    def _in_one_wave(self, first: StepPlace, second: StepPlace) -> list[CounterexampleStep]:
        hazard = self._hazard
        if hazard.kind is not FindingKind.WAR:
            read = self._say(second, f", reads at once: {hazard.seen}")
            return [read] if first.step > second.step else [self._say(first, ": in flight"), read]
        landed = self._say(second, ", lands at once")
        read = CounterexampleStep(first.wave, f"{first.op} reads {hazard.seen}", first)
        if second.step < first.step:
            return [landed, read]
        return [self._say(first, ": in flight"), landed, read]

    def _across_waves(self, first: StepPlace, second: StepPlace) -> list[CounterexampleStep]:
        hazard = self._hazard
        assert hazard.first is not None
        late = hazard.first.issue_epoch >= hazard.second.issue_epoch
        lines = [] if late else [self._say(first, ": in flight")]
        barrier = hazard.second.issue_epoch
        if barrier:
            text = f"arrives at barrier {barrier}, and is slow from here"
            lines.append(CounterexampleStep(first.wave, text))
            lines.append(CounterexampleStep(second.wave, f"passes barrier {barrier} and runs on"))
        if hazard.kind is FindingKind.RAW:
            lines.append(self._say(second, f", reads at once: {hazard.seen}"))
            text = f"only now issues {first.op}" if late else f"{first.op} lands: too late"
        else:
            lines.append(self._say(second, f", lands at once in {hazard.where}"))
            start = f"only now issues {first.op}, which" if late else first.op
            text = f"{start} reads {hazard.seen}"
        return [*lines, CounterexampleStep(first.wave, text, first)]

    def _say(self, place: StepPlace, how: str) -> CounterexampleStep:
        return CounterexampleStep(place.wave, f"issues {place.op}{how}", place)

    def _consumed(self) -> list[CounterexampleStep]:
        """What becomes of it."""
        hazard = self._hazard
        if hazard.user is None:
            return []
        place = place_of(self._run, hazard.user, hazard.user_wave)
        text = f"{place.op} takes {hazard.seen} instead of {hazard.expected}"
        return [CounterexampleStep(hazard.user_wave, text, place)]

    def _retired(self, moment: Moment) -> str:
        if moment.never_retires:
            return "no wait in its wave ever retires it"
        at = self._run.walks[moment.group].moments[moment.retire // 2]
        trip = "" if at.trip is None else f", trip {at.trip}"
        what = describe_step(at.step, at.iteration)
        return f"its wave retires it only at {self._run.name(at)}{trip} ({what})"

    def _not_stored(self) -> str:
        if self._hazard.user is not None:
            return "stored, but the output has no such iteration"
        return f"no step that always runs stores {self._hazard.where}"
