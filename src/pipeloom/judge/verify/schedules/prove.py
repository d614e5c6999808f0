"""``verify``: a verdict on a compiled schedule, for every trip count.

    verdict = verify(compile_schedule(DeclarativeSchedule()))
    print(verdict.summary())
    # PROVED: ping_pong; state repeats after 1 iteration with period 1; ...

Runs trip count after trip count, checking all obligations on each, until the state at the loop's
cut repeats (see ``induction``); then longer runs add nothing, provided that the kernel's walk is a
loop at all (``kernels.shape``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from pipeloom.checks import check_instance
from pipeloom.errors import ScheduleError
from pipeloom.judge.verify.schedules.counterexample import HazardStory
from pipeloom.judge.verify.schedules.findings import (
    Coverage,
    DeadWork,
    Finding,
    FindingKind,
    Place,
    Status,
    Verdict,
    describe_data_op,
)
from pipeloom.judge.verify.schedules.induction import cut_positions, state_at
from pipeloom.judge.verify.schedules.model import WAITS, Access
from pipeloom.judge.verify.schedules.obligations import Hazard, Outcome, check_run
from pipeloom.judge.verify.schedules.run import Run, build_run
from pipeloom.judge.verify.schedules.timing import NominalTiming, latencies_by_tag
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels import Kernel, Step, kernel_for
from pipeloom.reference.kernels.shape import check_loop
from pipeloom.reference.ops import Phase

MAX_TRIPS = 80
"""Trip counts examined at most beyond the least one."""

ENOUGH_TRIPS = 3
"""A schedule known to be wrong is left after so many trip counts that show nothing new."""


def verify(compiled: CompiledSchedule, kernel: Kernel | None = None) -> Verdict:
    """Prove ``compiled`` right for every trip count, or say what goes wrong and how.

    ``kernel`` is the model of the kernel that runs the schedule, by default the shipped one of
    that name.
    """
    check_instance("verify", "compiled", compiled, CompiledSchedule)
    if kernel is not None:
        check_instance("verify", "kernel", kernel, Kernel)
    model = kernel_for(compiled) if kernel is None else kernel
    ledger = _Ledger(latencies_by_tag(compiled))
    states: list[Hashable] = []
    repeat: tuple[int, int] | None = None
    trips = model.min_trips
    while True:
        run = build_run(model, compiled, trips)
        if any(not t.accesses for t in run.timelines):
            raise ScheduleError(
                f"schedule {compiled.schedule!r} has no data ops: there is nothing to verify",
                hint="verify a schedule that loads and multiplies",
            )
        hang = _check_barriers(run)
        if hang is not None:
            ledger.add_finding(hang)
            break
        outcome = check_run(run)
        ledger.add_run(run, outcome)
        repeat = _extend_states(run, outcome, states)
        if repeat is not None or trips >= model.min_trips + MAX_TRIPS:
            break
        if ledger.runs_without_news > ENOUGH_TRIPS:
            break
        trips += 1
    check_loop(model, compiled, trips)
    coverage = Coverage(
        tuple(range(model.min_trips, trips + 1)),
        None if repeat is None else repeat[0],
        None if repeat is None else repeat[1] - repeat[0],
    )
    findings = (*ledger.findings(), *_check_encoding(compiled))
    status = max((f.status for f in findings), key=lambda s: s.rank, default=Status.PROVED)
    if repeat is None and status is Status.PROVED:
        raise ScheduleError(
            f"cannot decide schedule {compiled.schedule!r}: no hazard in {trips} trips, but the "
            "state of the loop does not repeat",
            hint="the kernel model must repeat its loop with only K advancing",
        )
    return Verdict(status, compiled.schedule, model.name, findings, ledger.dead_work(), coverage)


def _extend_states(run: Run, outcome: Outcome, states: list[Hashable]) -> tuple[int, int] | None:
    """Record the cuts that this run reaches; the first pair of equal states, if any."""
    while (cut := cut_positions(run, len(states))) is not None:
        state = state_at(run, outcome, len(states), cut)
        if state in states:
            return states.index(state), len(states)
        states.append(state)
    return None


@dataclass(slots=True)
class _Case:
    """The worst instance of a hazard so far, and how many there are."""

    run: Run
    hazard: Hazard
    status: Status
    margin: int | None
    instances: int = 1


class _Ledger:
    """Collects hazards over trip counts, one case per kind and pair of entries."""

    def __init__(self, latencies: Mapping[int, int]) -> None:
        self._latencies = latencies
        self._cases: dict[Hashable, _Case] = {}
        self._extra: list[Finding] = []
        self._work: dict[tuple[Phase, int], tuple[str, str, int, int]] = {}
        self.runs_without_news = 0
        """Trip counts since the last new or worse hazard; 0 while none is known."""

    def add_finding(self, finding: Finding) -> None:
        """Record a finding that is complete as it is."""
        self._extra.append(finding)

    def add_run(self, run: Run, outcome: Outcome) -> None:
        """Record what one trip count shows."""
        self._add_work(run, outcome)
        if not outcome.hazards:
            return
        timing = NominalTiming(run, self._latencies)
        self.runs_without_news += 1
        for hazard in outcome.hazards:
            status, margin = _classify(hazard, timing)
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
        found = [_finding(case) for case in self._cases.values()] + self._extra
        return sorted(found, key=_order)

    def _add_work(self, run: Run, outcome: Outcome) -> None:
        for kind in run.classes:
            for read in kind.reads:
                what = "no op reads its registers"
                self._count(read.access.step, read.is_dead, what)
            stored = [w for writes in kind.writes.values() for w in writes]
            for write in stored:
                wasted = id(write.access) not in outcome.used_writes
                self._count(write.access.step, wasted, "no live fragment reads its data")

    def _count(self, step: Step, wasted: bool, reason: str) -> None:
        key = (step.phase, step.slot)
        op = describe_data_op(step).split(" of K tile")[0]
        _, _, dead, total = self._work.get(key, (op, reason, 0, 0))
        self._work[key] = (op, reason, dead + wasted, total + 1)

    def dead_work(self) -> tuple[DeadWork, ...]:
        """Entries whose result is wasted, in program order."""
        return tuple(
            DeadWork(phase, slot, op, reason, dead == total)
            for (phase, slot), (op, reason, dead, total) in sorted(self._work.items())
            if dead
        )


def _entry(access: Access | None) -> Hashable:
    return None if access is None else (access.step.phase, access.step.slot)


def _classify(hazard: Hazard, timing: NominalTiming) -> tuple[Status, int | None]:
    """RACE if the cost model's latencies let the two accesses meet, else TIMING and the margin."""
    first, second = hazard.first, hazard.second
    if first is None or hazard.kind is FindingKind.ACCOUNTING or not timing.is_known:
        return Status.RACE, None
    if hazard.is_output:
        margin = timing.write_after_write(first, second)
    elif hazard.kind is FindingKind.WAR:
        margin = timing.write_after_read(first, second)
    else:
        margin = timing.read_after_write(first, second)
    return (Status.TIMING, margin) if margin > 0 else (Status.RACE, None)


def _finding(case: _Case) -> Finding:
    story = HazardStory(case.run, case.hazard)
    return Finding(
        case.hazard.kind,
        case.status,
        story.first(),
        story.second(),
        case.hazard.where,
        story.why(),
        case.margin,
        case.run.trips,
        case.instances,
        story.counterexample(),
    )


def _order(finding: Finding) -> tuple[int, ...]:
    kinds = list(FindingKind)
    first = finding.first or finding.second
    return (
        -finding.status.rank,
        kinds.index(finding.kind),
        int(finding.second.phase),
        finding.second.slot,
        int(first.phase),
        first.slot,
    )


def _check_barriers(run: Run) -> Finding | None:
    """Every wave executes the same number of barriers: the only way a wave can wait forever."""
    counts = [len(timeline.barriers) for timeline in run.timelines]
    if min(counts) == max(counts):
        return None
    most = counts.index(max(counts))
    timeline = run.timelines[most]
    step = timeline.steps[timeline.barriers[min(counts)] // 2]
    wave = run.kernel.groups[most][0]
    few = run.kernel.groups[counts.index(min(counts))]
    why = (
        f"waves {few[0]} to {few[-1]} execute {min(counts)} barriers, wave {wave} executes "
        f"{max(counts)}: it waits forever"
    )
    return Finding(
        FindingKind.BARRIER,
        Status.RACE,
        None,
        Place.of(step, wave),
        "the workgroup",
        why,
        None,
        run.trips,
        1,
        None,
    )


def _check_encoding(compiled: CompiledSchedule) -> Iterable[Finding]:
    """Waits whose count the instruction cannot hold."""
    for phase in Phase:
        for slot, entry in enumerate(compiled.phase(phase)):
            counter = WAITS.get(entry.op.tag)
            if counter is None or entry.op.wait_value <= counter.limit:
                continue
            yield Finding(
                FindingKind.ENCODING,
                Status.PROVED,
                None,
                Place(0, phase, slot, None, -1, describe_op(entry.op)),
                counter.label,
                f"{counter.label} holds at most {counter.limit}: a wait for "
                f"{entry.op.wait_value} is no wait",
                None,
                0,
                1,
                None,
            )
