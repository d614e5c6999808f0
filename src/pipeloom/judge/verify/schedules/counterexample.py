"""From a hazard to an interleaving that a person can follow and an executor can replay.

Two extreme schedules bring any hazard about. For a read that comes too early, the reading wave
runs ahead as far as barriers let it, loads land as late as possible and fragments read at once.
For a write that comes too early, the writing wave runs ahead, loads land at once and fragments
read as late as possible. Wave w "ahead" of v reaches epoch n as soon as v has arrived at its n-th
barrier, which is why the epochs of the memory model decide.
"""

from __future__ import annotations

from pipeloom.judge.verify.schedules.findings import (
    Counterexample,
    CounterexampleStep,
    FindingKind,
    Place,
    Replay,
    describe_data_op,
)
from pipeloom.judge.verify.schedules.model import Access
from pipeloom.judge.verify.schedules.obligations import Hazard
from pipeloom.judge.verify.schedules.run import Run, WaveClass


class HazardStory:
    """One hazard with its waves chosen: two different ones unless it is within one wave."""

    def __init__(self, run: Run, hazard: Hazard) -> None:
        self._run = run
        self._hazard = hazard
        self.first_wave = hazard.first_in.waves[0]
        self.second_wave = hazard.second_in.waves[0]
        if hazard.same_wave:
            self.first_wave = self.second_wave
        elif self.first_wave == self.second_wave:
            self.first_wave = hazard.first_in.waves[1]

    def first(self) -> Place | None:
        """What should have been over."""
        access = self._hazard.first
        return None if access is None else Place.of(access.step, self.first_wave)

    def second(self) -> Place:
        """What comes too early."""
        return Place.of(self._hazard.second.step, self.second_wave)

    def why(self) -> str:
        """What fails to order the two."""
        hazard = self._hazard
        first, second = hazard.first, hazard.second
        if hazard.kind is FindingKind.ACCOUNTING:
            return self._miscount()
        if first is None:
            return "nothing has loaded these registers"
        if hazard.kind is FindingKind.RAW and hazard.same_wave and first.issue > second.issue:
            return "the load is issued only after the read that needs it"
        if hazard.kind is FindingKind.WAR and hazard.same_wave and second.issue < first.issue:
            return "the wave itself issues the load before its last read of the old generation"
        verb = self._retired(first, hazard.first_in)
        if hazard.same_wave:
            return f"{verb}, and the wave does not wait for it before"
        if first.never_retires:
            return verb
        return (
            f"{verb}, after {first.retire_epoch} barriers; the other wave gets there after "
            f"{second.issue_epoch}"
        )

    def steps(self) -> tuple[CounterexampleStep, ...]:
        """The interleaving."""
        hazard = self._hazard
        if hazard.is_output:
            return (*self._late_write(), *self._consumed())
        if hazard.kind in (FindingKind.ACCOUNTING, FindingKind.REGISTER):
            return (*self._simple(), *self._consumed())
        if hazard.same_wave:
            return (*self._same_wave(), *self._consumed())
        ahead, behind = self._ahead()
        lines = list(self._pending(behind))
        barrier = hazard.second.issue_epoch
        if barrier:
            text = f"arrives at barrier {barrier}, and is slow from here"
            lines.append(CounterexampleStep(behind, text))
            lines.append(CounterexampleStep(ahead, f"passes barrier {barrier} and runs on"))
        lines.append(self._act())
        lines.extend(self._afterwards(behind))
        return (*lines, *self._consumed())

    def counterexample(self) -> Counterexample:
        """The steps, and how to replay them."""
        ahead, behind = self._ahead()
        others = [w for w in range(self._run.kernel.waves) if w not in (ahead, behind)]
        order = (ahead, *others, behind) if ahead != behind else (ahead, *others)
        hazard = self._hazard
        late_loads = hazard.kind is FindingKind.RAW
        exceptions: tuple[tuple[int, int], ...] = ()
        if hazard.is_output and hazard.first is not None:
            exceptions = ((self.first_wave, hazard.first.step.index),)
        if hazard.kind is FindingKind.REGISTER and hazard.read and not hazard.read.regions:
            late_loads = True
        replay = Replay(
            self._run.trips,
            order,
            "late" if late_loads else "early",
            "early" if hazard.kind is FindingKind.RAW else "late",
            exceptions,
        )
        return Counterexample(self._run.trips, self.steps(), replay)

    def _ahead(self) -> tuple[int, int]:
        """The wave that runs on, and the one that lags."""
        return self.second_wave, self.first_wave

    def _retired(self, access: Access, kind: WaveClass) -> str:
        if access.never_retires:
            return "no wait in its wave ever retires it"
        step = kind.timeline.steps[access.retire // 2]
        where = f"{step.phase.name.lower()}[{step.slot}]"
        trip = "" if step.iteration is None else f", iteration {step.iteration}"
        return f"its wave retires it only at {where}{trip} ({describe_data_op(step)})"

    def _miscount(self) -> str:
        hazard = self._hazard
        if hazard.seen is None and hazard.use is None:
            return f"no MMA ever sums K tile {hazard.expected} into {hazard.where}"
        if hazard.seen is None:
            return f"K tile {hazard.expected} is never summed into {hazard.where}"
        return f"always K tile {hazard.seen}, where it is the turn of K tile {hazard.expected}"

    def _pending(self, behind: int) -> list[CounterexampleStep]:
        """What the slow wave has in flight, if it has got that far."""
        access = self._hazard.first
        assert access is not None
        if access.issue_epoch >= self._hazard.second.issue_epoch:
            return []
        place = Place.of(access.step, behind)
        return [CounterexampleStep(behind, f"issues {place.op}: in flight", place)]

    def _act(self) -> CounterexampleStep:
        hazard, place = self._hazard, self.second()
        if hazard.kind is FindingKind.RAW:
            found = "nothing yet" if hazard.seen is None else f"still K tile {hazard.seen}"
            text = f"issues {place.op}, reads at once: the slice of wave {self.first_wave} holds "
            return CounterexampleStep(self.second_wave, text + found, place)
        text = f"issues {place.op}, lands at once in {hazard.where}"
        return CounterexampleStep(self.second_wave, text, place)

    def _afterwards(self, behind: int) -> list[CounterexampleStep]:
        hazard, first = self._hazard, self._hazard.first
        assert first is not None
        place = Place.of(first.step, behind)
        late = first.issue_epoch >= hazard.second.issue_epoch
        if hazard.kind is FindingKind.RAW:
            text = f"only now issues {place.op}" if late else f"{place.op} lands: too late"
            return [CounterexampleStep(behind, text, place)]
        start = f"only now issues {place.op}, which" if late else f"{place.op}"
        return [CounterexampleStep(behind, f"{start} reads K tile {hazard.seen}", place)]

    def _same_wave(self) -> list[CounterexampleStep]:
        hazard, wave = self._hazard, self.second_wave
        first, second = hazard.first, hazard.second
        assert first is not None
        earlier, later = Place.of(first.step, wave), Place.of(second.step, wave)
        if hazard.kind is FindingKind.RAW:
            found = "nothing yet" if hazard.seen is None else f"still K tile {hazard.seen}"
            if first.issue > second.issue:
                return [CounterexampleStep(wave, f"issues {later.op}, reads {found}", later)]
            return [
                CounterexampleStep(wave, f"issues {earlier.op}: in flight", earlier),
                CounterexampleStep(wave, f"issues {later.op}, reads at once: {found}", later),
            ]
        landed = CounterexampleStep(wave, f"issues {later.op}, lands at once", later)
        if second.issue < first.issue:
            text = f"issues {earlier.op}, reads K tile {hazard.seen}"
            return [landed, CounterexampleStep(wave, text, earlier)]
        return [
            CounterexampleStep(wave, f"issues {earlier.op}: in flight", earlier),
            landed,
            CounterexampleStep(wave, f"{earlier.op} reads K tile {hazard.seen}", earlier),
        ]

    def _late_write(self) -> list[CounterexampleStep]:
        hazard, wave = self._hazard, self.first_wave
        assert hazard.first is not None
        old, new = Place.of(hazard.first.step, wave), Place.of(hazard.second.step, wave)
        return [
            CounterexampleStep(wave, f"issues {old.op}: in flight", old),
            CounterexampleStep(wave, f"issues {new.op}, lands at once", new),
            CounterexampleStep(wave, f"{old.op} lands over it", old),
        ]

    def _simple(self) -> list[CounterexampleStep]:
        first = self.first()
        if first is None:
            return []
        flying = ": in flight" if self._hazard.kind is FindingKind.REGISTER else ""
        return [CounterexampleStep(self.first_wave, f"issues {first.op}{flying}", first)]

    def _consumed(self) -> list[CounterexampleStep]:
        hazard = self._hazard
        if hazard.use is None:
            return []
        in_wave = self.first_wave if hazard.kind is FindingKind.WAR else self.second_wave
        if hazard.is_output:
            in_wave = self.second_wave
        place = Place.of(hazard.use.access.step, in_wave)
        if hazard.kind is FindingKind.REGISTER and hazard.is_output:
            text = f"{place.op} reads {hazard.where}, which hold the older load"
        elif hazard.kind is FindingKind.REGISTER:
            text = f"{place.op} reads {hazard.where} before they are loaded"
        elif hazard.expected is None or hazard.seen == hazard.expected:
            text = f"{place.op} takes it"
        else:
            data = "undefined data" if hazard.seen is None else f"K tile {hazard.seen}"
            text = f"{place.op} sums {data} instead of K tile {hazard.expected}"
        return [CounterexampleStep(in_wave, text, place)]
