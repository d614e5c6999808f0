"""``verify``: a verdict on a program, for every trip count.

    verdict = verify(program)
    print(verdict.summary())
    # PROVED: gemm; trips repeat from trip 3 with period 1; ...

Runs trip count after trip count, following every output back to the inputs on each, until the
proof of every loop can be stretched (see ``induction``); then longer runs add nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from pipeloom.checks import check_instance
from pipeloom.collecting import rarely_collected
from pipeloom.errors import ScheduleError
from pipeloom.judge.verify.blame import Blame, Hazard
from pipeloom.judge.verify.counterexample import Story, place_of
from pipeloom.judge.verify.dated_run import Moment
from pipeloom.judge.verify.deeds import all_deeds
from pipeloom.judge.verify.findings import (
    Coverage,
    DeadWork,
    Finding,
    FindingKind,
    Status,
    StepPlace,
    Verdict,
    describe_step,
)
from pipeloom.judge.verify.flight import reads_in_flight
from pipeloom.judge.verify.hang import barrier_count, check_barriers_known, hanging_trips
from pipeloom.judge.verify.induction import Cut, is_settled, loop_shape, repeats
from pipeloom.judge.verify.masks import masked_throughout
from pipeloom.judge.verify.obligations import Prover, RunOutcome
from pipeloom.judge.verify.run_tables import RunTables, build_run
from pipeloom.judge.verify.severity import NominalTiming
from pipeloom.judge.verify.supply import Plans
from pipeloom.program import Program, Wait, Work
from pipeloom.program.idle import Inputs
from pipeloom.program.past_end import needs_finite
from pipeloom.program.vocabulary import VOCABULARY, Vocabulary

MAX_TRIPS = 40
"""Trips of a loop examined at most beyond the least number."""

MAX_RUNS = 600
"""Combinations of trip counts examined at most."""

ENOUGH_TRIPS = 5
"""A program known to be wrong is left after so many trip counts that show nothing new."""


def verify(
    program: Program, *, counter_stall: bool | None = None, ops: Vocabulary = VOCABULARY
) -> Verdict:
    """Prove ``program`` right for every trip count, or say what goes wrong and how.

    ``counter_stall`` says whether the issue of a step waits while its counter is full; by default
    what the target's vendor states of each counter. ``ops`` are those that the program may use.
    Verdicts on the last programs are kept: a synchroniser, a gate and a page ask for the same one.
    """
    check_instance("verify", "program", program, Program)
    program.meaning.check_ops(ops)
    with rarely_collected():
        return _verdict(program, counter_stall)


def proves(
    program: Program, *, counter_stall: bool | None = None, ops: Vocabulary = VOCABULARY
) -> bool:
    """Whether ``verify`` says PROVED, settled by the first thing that is wrong.

    For whoever tries many programs and asks no more of them: most wrong ones are found out at the
    first trip counts.
    """
    check_instance("proves", "program", program, Program)
    program.meaning.check_ops(ops)
    plans = _plans(program)
    if hanging_trips(program) is not None:
        return False
    if _as_one_loop(program, counter_stall) is not None:
        return True
    try:
        coverage = _TripSearch(plans, counter_stall, to_first=True).explore()
    except _FoundWrongError:
        return False
    _check_decided(program, coverage)
    return True


def _plans(program: Program) -> Plans:
    """What its steps rest on; an error if there is nothing to decide, or too much."""
    check_barriers_known(program)
    deeds = all_deeds(program)
    if not deeds:
        raise ScheduleError(
            f"program {program.name!r} has no work: there is nothing to verify",
            hint="verify a program that loads and computes",
        )
    return Plans(program, deeds)


@lru_cache(maxsize=64)
def _verdict(program: Program, counter_stall: bool | None) -> Verdict:
    plans = _plans(program)
    hang = hanging_trips(program)
    if hang is not None:
        run = build_run(plans, hang, counter_stall)
        low = sum(hang.values())
        coverage = Coverage((low,), None, None, tuple(hang))
        finding = _hang(run)
        return Verdict(Status.RACE, program.name, program.meaning.name, (finding,), (), coverage)
    search = _TripSearch(plans, counter_stall)
    proved = _as_one_loop(program, counter_stall)
    if proved is not None:
        search.sample()
    coverage = search.explore() if proved is None or search.ledger.has_cases else proved
    findings = (*search.ledger.findings(), *_check_encoding(program))
    status = max((f.status for f in findings), key=lambda s: s.rank, default=Status.PROVED)
    if status is Status.PROVED:
        _check_decided(program, coverage)
    return Verdict(
        status,
        program.name,
        program.meaning.name,
        findings,
        search.ledger.dead_work(),
        coverage,
        Inputs.FINITE if needs_finite(program.meaning) else Inputs.ALL,
        tuple(node.name for node in program.meaning.outputs if node.adds),
    )


def _as_one_loop(program: Program, counter_stall: bool | None) -> Coverage | None:
    """The proof of a program by that of one that masks in every trip; None if that is none."""
    whole = masked_throughout(program)
    if whole is None:
        return None
    try:
        verdict = _verdict(whole, counter_stall)
    except ScheduleError:
        return None
    if not verdict.proved:
        return None
    (plain,) = (name for name, _ in program.plain.factors)
    return replace(verdict.coverage, plain=plain)


def _check_decided(program: Program, coverage: Coverage) -> None:
    if coverage.loops and coverage.repeats_from is None:
        raise ScheduleError(
            f"cannot decide program {program.name!r}: nothing is wrong with up to "
            f"{coverage.checked[-1]} trips, but its loops do not repeat",
            hint="a loop must do the same in every trip, in step in all groups, each trip count "
            "having one section per group and later sections following on",
        )


class _FoundWrongError(Exception):
    """Something is wrong, and that is all that was asked."""


class _TripSearch:
    """Runs trip counts until those examined stand for all."""

    def __init__(self, plans: Plans, counter_stall: bool | None, *, to_first: bool = False) -> None:
        program = plans.program
        self._to_first = to_first
        self._plans = plans
        self._counter_stall = counter_stall
        sections = [section for group in program.groups for section in group.sections]
        used = {section.trips for section in sections}
        used |= {
            name
            for s in (program.iterations, *(x.first for x in sections))
            for name, _ in s.factors
        }
        self._counts = [count for count in program.trips if count.name in used]
        self._names = [count.name for count in self._counts]
        self._shapes = [loop_shape(program, name) for name in self._names]
        self._cuts: dict[tuple[int, ...], list[Cut | None]] = {}
        stalls = [
            c.stalls_when_full if counter_stall is None else counter_stall
            for c in program.target.counters
        ]
        self.ledger = HazardCases((True,) if all(stalls) else (True, False))

    def sample(self) -> None:
        """Examine one run with a trip of every loop, for a program that is proved otherwise."""
        self._examine(tuple(count.least + 1 for count in self._counts))

    def explore(self) -> Coverage:
        """Raise the number of trips of each loop until its proof can be stretched there.

        With several loops, in all combinations: a longer run then is a shorter one with trips put
        in, loop after loop, because trips put into one loop leave the cuts of the others alone.
        """
        least = [count.least for count in self._counts]
        top = list(least)
        settled = False
        while True:
            for counts in product(*(range(a, b + 1) for a, b in zip(least, top, strict=True))):
                if counts not in self._cuts:
                    self._cuts[counts] = self._examine(counts)
            open_ = [j for j in range(len(top)) if not self._is_settled(j, top)]
            if not open_:
                settled = True
                break
            if self.ledger.runs_without_news > ENOUGH_TRIPS or (
                None in self._shapes and (sum(top) - sum(least) > ENOUGH_TRIPS * len(top))
            ):
                break
            grow = min(open_, key=lambda j: top[j] - least[j])
            top[grow] += 1
            if top[grow] - least[grow] > MAX_TRIPS or len(self._cuts) > MAX_RUNS:
                top[grow] -= 1
                break
        high = max(top, default=0)
        low = min(least, default=0)
        checked = tuple(range(low, high + 1))
        if not settled or not self._names:
            return Coverage(checked, None, None, tuple(self._names))
        cuts = [cut for cut in self._cuts[tuple(top)] if cut is not None]
        return Coverage(
            checked, min(c for c, _ in cuts), max(p for _, p in cuts), tuple(self._names)
        )

    def _is_settled(self, loop: int, top: list[int]) -> bool:
        return is_settled(
            top[loop],
            [
                (counts[loop], cuts[loop])
                for counts, cuts in self._cuts.items()
                if all(count <= high for count, high in zip(counts, top, strict=True))
            ],
        )

    def _examine(self, counts: tuple[int, ...]) -> list[Cut | None]:
        trips = {**self._plans.program.min_trips, **dict(zip(self._names, counts, strict=True))}
        run = build_run(self._plans, trips, self._counter_stall)
        prover = Prover(run, quick=not self.ledger.has_cases)
        outcome = prover.prove()
        if self._to_first and (outcome.wrong or outcome.missing or any(reads_in_flight(run))):
            raise _FoundWrongError
        if outcome.wrong and not self.ledger.has_cases:
            prover = Prover(run)
            outcome = prover.prove()
        self.ledger.add_run(run, outcome, Blame(run, prover))
        return [None if s is None else repeats(run, outcome, s) for s in self._shapes]


@dataclass(slots=True)
class _Case:
    """The worst instance of a hazard so far, and how many there are."""

    run: RunTables
    hazard: Hazard
    status: Status
    margin: int | None
    instances: int = 1


@dataclass(slots=True)
class _Tally:
    """How often a step was executed, and how often for nothing."""

    section: str
    op: str
    dead: int = 0
    total: int = 0


class HazardCases:
    """Collects hazards over trip counts, one case per kind and pair of steps."""

    def __init__(self, stalls: tuple[bool, ...]) -> None:
        self._stalls = stalls
        self._cases: dict[Hashable, _Case] = {}
        self._work: dict[tuple[int, int, int], _Tally] = {}
        self.runs_without_news = 0
        """Trip counts since the last new or worse hazard; 0 while none is known."""

    @property
    def has_cases(self) -> bool:
        """Whether anything is known to be wrong."""
        return bool(self._cases)

    def add_run(self, run: RunTables, outcome: RunOutcome, blame: Blame) -> None:
        """Record what one trip count shows."""
        self._add_work(run, outcome)
        hazards = list(blame.hazards()) or list(reads_in_flight(run))
        if not hazards:
            self.runs_without_news += bool(self._cases)
            return
        timings = [NominalTiming(run, stalls) for stalls in self._stalls]
        self.runs_without_news += 1
        for hazard in hazards:
            status, margin = _classify(hazard, timings)
            key = (hazard.kind, _entry(hazard.first), _entry(hazard.second), hazard.is_output)
            case = self._cases.get(key)
            if case is None:
                self._cases[key] = _Case(run, hazard, status, margin)
                self.runs_without_news = 0
                continue
            case.instances += 1
            if (-status.rank, margin or 0) < (-case.status.rank, case.margin or 0):
                case.run, case.hazard, case.status, case.margin = run, hazard, status, margin
                self.runs_without_news = 0

    def findings(self) -> list[Finding]:
        """One finding per case, worst first, then in program order."""
        order = sorted(self._cases.values(), key=_order)
        return [_finding(case) for case in order]

    def _add_work(self, run: RunTables, outcome: RunOutcome) -> None:
        for number, walk in enumerate(run.walks):
            waves = len(walk.group.waves)
            for moment in walk.moments:
                step = moment.step
                if not isinstance(step, Work):
                    continue
                used = len(outcome.used.get(moment, ()))
                if used and any(access.shared for access in step.writes):
                    used = waves
                key = number, moment.section, moment.slot
                work = self._work.get(key)
                if work is None:
                    name = walk.section(moment).name
                    work = self._work[key] = _Tally(name, describe_step(step))
                work.dead += waves - used
                work.total += waves

    def dead_work(self) -> tuple[DeadWork, ...]:
        """Steps whose result is wasted, in program order; once where groups share them."""
        found: dict[tuple[str, int], DeadWork] = {}
        for (_, _, slot), work in sorted(self._work.items(), key=lambda item: item[0]):
            if work.dead:
                always = work.dead == work.total
                dead = DeadWork(work.section, slot, work.op, "no output depends on it", always)
                found.setdefault((work.section, slot), dead)
        return tuple(found.values())


def _entry(moment: Moment | None) -> Hashable:
    return None if moment is None else (moment.section, moment.slot)


def _classify(hazard: Hazard, timings: list[NominalTiming]) -> tuple[Status, int | None]:
    """RACE if the nominal latencies let the two accesses meet, else TIMING and the margin."""
    first, second = hazard.first, hazard.second
    ordered = hazard.kind in (FindingKind.RAW, FindingKind.WAR, FindingKind.REGISTER)
    if first is None or not ordered:
        return Status.RACE, None
    writes = hazard.is_output or hazard.kind is FindingKind.WAR
    margin = min(timing.margin(first, second, second_writes=writes) for timing in timings)
    return (Status.TIMING, margin) if margin > 0 else (Status.RACE, None)


def _finding(case: _Case) -> Finding:
    story = Story(case.run, case.hazard)
    return Finding(
        case.hazard.kind,
        case.status,
        story.first(),
        story.second(),
        case.hazard.where,
        story.why(),
        case.margin,
        case.run.total,
        case.instances,
        story.counterexample(),
        tuple(case.run.trips.items()),
    )


def _order(case: _Case) -> tuple[int, ...]:
    kinds = list(FindingKind)
    second = case.hazard.second
    first = case.hazard.first or second
    return (
        -case.status.rank,
        kinds.index(case.hazard.kind),
        second.section,
        second.slot,
        first.section,
        first.slot,
    )


def _hang(run: RunTables) -> Finding:
    """Some waves wait at a barrier that others never reach."""
    program = run.program
    counts = [barrier_count(group).at(run.trips) for group in program.groups]
    most = counts.index(max(counts))
    walk = run.walks[most]
    moment = walk.moments[walk.barriers[min(counts)]]
    few = program.groups[counts.index(min(counts))].waves
    wave = walk.group.waves[0]
    why = (
        f"waves {few[0]} to {few[-1]} execute {min(counts)} barriers, wave {wave} executes "
        f"{max(counts)}: it waits forever"
    )
    hazard = Hazard(FindingKind.BARRIER, None, few[0], moment, wave, "the workgroup")
    return Finding(
        FindingKind.BARRIER,
        Status.RACE,
        None,
        place_of(run, moment, wave),
        "the workgroup",
        why,
        None,
        run.total,
        1,
        Story(run, hazard).counterexample(),
        tuple(run.trips.items()),
    )


def _check_encoding(program: Program) -> Iterator[Finding]:
    """Waits whose count the instruction cannot hold."""
    told: set[tuple[str, int]] = set()
    for group in program.groups:
        for section, slot, step in group.steps():
            if not isinstance(step, Wait) or (section.name, slot) in told:
                continue
            limit = program.target.counter(step.counter).limit.value
            if step.count <= limit:
                continue
            told.add((section.name, slot))
            yield Finding(
                FindingKind.ENCODING,
                Status.PROVED,
                None,
                StepPlace(group.waves[0], section.name, slot, None, -1, describe_step(step)),
                step.counter,
                f"{step.counter} holds at most {limit}: a wait for {step.count} is no wait",
                None,
                0,
                1,
                None,
            )
