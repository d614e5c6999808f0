"""What a verdict consists of: findings, each with a counterexample a person can follow.

    verdict = verify(program)
    print(verdict.summary())
    for finding in verdict.findings:
        print(finding.describe())

All types are plain values; ``Verdict.to_dict`` is what ``--json`` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeloom.judge.happens_before.nominal_clock import unordered
from pipeloom.judge.happens_before.same_defect import same_defect
from pipeloom.notebook import fragment, story
from pipeloom.plain import LEFT_OUT_WHILE_USUAL, to_plain
from pipeloom.program import Barrier, Fence, Priority, Step, Wait, Work
from pipeloom.program.idle import Inputs


class Status(Enum):
    """How bad it is. The worst finding decides the status of a verdict."""

    PROVED = "proved"
    """Ordered by waits and barriers alone, for every trip count."""
    TIMING = "timing"
    """Nothing orders the two accesses; in the model they do not meet, another timing lets them."""
    RACE = "race"
    """Nothing orders the two accesses and they meet in the model, or the result is always wrong."""

    @property
    def exit_code(self) -> int:
        """What the command line returns: 0, 3 or 4."""
        return {Status.PROVED: 0, Status.TIMING: 3, Status.RACE: 4}[self]

    @property
    def title(self) -> str:
        """What pages and commands print."""
        return self.name

    @property
    def rank(self) -> int:
        """0 for PROVED, 1 for TIMING, 2 for RACE."""
        return _RANKS[self._value_]


_RANKS = {status.value: rank for rank, status in enumerate(Status)}


class FindingKind(Enum):
    """Which obligation fails."""

    RAW = "raw"
    """A step may read LDS before what it needs has been written there."""
    WAR = "war"
    """A write of LDS may land before an earlier access is over: an old read, or a write."""
    REGISTER = "register"
    """A step reads registers whose load is in flight, that nothing has loaded yet, or that two
    loads fill in an unknown order."""
    UNWRITTEN = "unwritten"
    """A step reads a place that no step ever writes."""
    ACCOUNTING = "accounting"
    """A step always works on another value than it should, or a sum has a part never or twice."""
    STORE = "store"
    """Part of an output is not stored, or an iteration is stored that the output does not have."""
    BARRIER = "barrier"
    """Waves execute different numbers of barriers: the workgroup hangs."""
    ENCODING = "encoding"
    """A wait count that the instruction cannot hold, and that therefore waits for nothing."""


def describe_step(step: Step, iteration: int | None = None) -> str:
    """A step as a kernel author says it: ``load A of iteration 3``, ``wait vmcnt(4)``."""
    match step:
        case Work():
            served = "" if iteration is None else f" of iteration {iteration}"
            return f"{step.label or step.node}{served}"
        case Wait():
            return f"wait {step.counter}({step.count})"
        case Barrier():
            return f"barrier ({step.label})" if step.label else "barrier"
        case Priority():
            return f"priority {step.level}"
        case Fence():
            return step.label or "fence"


@dataclass(frozen=True, slots=True)
class StepPlace:
    """A step as one wave executes it."""

    wave: int
    """The wave's number."""
    section: str
    """The section it stands in."""
    slot: int
    """Its place in the section, from 0."""
    iteration: int | None
    """The trip of its section; None in a section that runs once."""
    step: int
    """Its number in all that the wave executes."""
    op: str
    """The step in words."""

    @property
    def entry(self) -> str:
        """``loop[12]``: the step, whatever wave and trip."""
        return f"{self.section}[{self.slot}]"

    def __str__(self) -> str:
        trip = "" if self.iteration is None else f", trip {self.iteration}"
        return f"wave {self.wave}, {self.entry}{trip}: {self.op}"


@dataclass(frozen=True, slots=True)
class CounterexampleStep:
    """One line of an interleaving."""

    wave: int
    """The wave that acts."""
    text: str
    """What it does."""
    place: StepPlace | None = None
    """The step it executes; None where it only waits."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How to bring a counterexample about in an executor with free latencies."""

    trips: int
    """All trips of the run."""
    wave_order: tuple[int, ...]
    """Whenever several waves can go on, the first of these does."""
    loads: str
    """When loads to LDS write: ``early`` is at issue, ``late`` when their wave retires them."""
    fragments: str
    """When LDS reads read, likewise."""
    exceptions: tuple[tuple[int, int], ...] = ()
    """Steps that do the opposite, as (wave, step)."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An interleaving that gives a wrong number, shortest form: only the steps that matter."""

    trips: int
    """All trips of the run that shows it."""
    steps: tuple[CounterexampleStep, ...]
    """What the waves do, in order."""
    replay: Replay
    """How to bring it about in the executor."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated obligation.

    An ENCODING finding has status PROVED: it is harmful only through the hazards that it causes,
    which are findings of their own.
    """

    kind: FindingKind
    """Which obligation fails."""
    status: Status
    """How bad it is."""
    first: StepPlace | None
    """The step that should have been over before; None where one step is wrong by itself."""
    second: StepPlace
    """The step that comes too early."""
    where: str
    """The resource and part in question."""
    why: str
    """What fails to order the two."""
    margin: int | None
    """By how many cycles the nominal latencies keep them apart; TIMING only."""
    trips: int
    """All trips of the run that shows it."""
    instances: int
    """Waves, iterations and trip counts that show the same two steps."""
    counterexample: Counterexample | None
    """An interleaving that shows it, where there is one."""
    counts: tuple[tuple[str, int], ...] = ()
    """The trips of each loop."""
    simulated: int | None = None
    """Cycles between the two in simulation, the least of runs with jitter; 0 or less where they
    meet. None where nobody simulated them."""

    @property
    def story(self) -> tuple[CounterexampleStep, ...]:
        """The counterexample step by step; empty where there is none."""
        return () if self.counterexample is None else self.counterexample.steps

    @property
    def cycles(self) -> int | None:
        """The margin that ranks it: in simulation, or by nominal latencies where nobody simulated
        it; None of what is wrong by itself."""
        return self.margin if self.simulated is None else self.simulated

    @property
    def apart(self) -> str | None:
        """``unordered, margin 18 cycles in simulation``; None of what is wrong by itself."""
        return unordered(self.simulated, self.margin)

    def describe(self) -> str:
        """The finding as text of a few lines."""
        margin = "" if self.apart is None else f", {self.apart}"
        trips = str(self.trips)
        if len(self.counts) > 1:
            trips = ", ".join(f"{name} {count}" for name, count in self.counts)
        head = f"{self.status.name} {self.kind.value}: {self.where}{margin} (trips {trips})"
        lines = [head]
        if self.first is not None:
            lines.append(f"  first   {self.first}")
        lines.append(f"  second  {self.second}")
        lines.append(f"  why     {self.why}")
        return "\n".join(lines)


def _rank(finding: Finding) -> tuple[int, int]:
    """The worst first, then the least margin; what is wrong by itself has none."""
    return -finding.status.rank, -(1 << 60) if finding.cycles is None else finding.cycles


def _ends(finding: Finding) -> tuple[tuple[object, ...], ...]:
    """What makes two findings one defect: either step."""
    kind, second = finding.kind, finding.second.entry
    if finding.first is None:
        return ((kind, second, finding.where, finding.why),)
    return (kind, "first", finding.first.entry), (kind, "second", second)


@dataclass(frozen=True, slots=True)
class DeadWork:
    """A step whose result no output depends on."""

    section: str
    """The section it stands in."""
    slot: int
    """Its place in the section, from 0."""
    op: str
    """The step in words."""
    reason: str
    """Why nothing depends on it."""
    always: bool
    """False where some trips need it."""

    def __str__(self) -> str:
        when = "always" if self.always else "in some iterations"
        return f"{self.section}[{self.slot}] {self.op}: {self.reason} ({when})"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which trip counts the verdict speaks about, and why.

    Cycles are no part of that. Margins, and with them which hazards are TIMING and which RACE, come
    from the nominal runs of the trip counts in ``checked`` alone.
    """

    checked: tuple[int, ...]
    """The trip counts that were examined one by one; with several loops, those of each, in all
    combinations."""
    repeats_from: int | None
    """From this trip on, what the outputs demand of a trip and of the ``period``-th after it is the
    same up to a shift of the iteration, so a longer run has the proof of a run of ``checked`` with
    those trips repeated. None, where only ``checked`` was examined, happens only for programs that
    are wrong."""
    period: int | None
    """After how many trips demands repeat."""
    loops: tuple[str, ...] = ()
    """The trip counts by name."""
    plain: str = ""
    """The loop whose trips are those of the next without masks (``Meaning.masks``): counts are of
    both together."""

    def describe(self) -> str:
        """The argument in one sentence."""
        low, high = self.checked[0], self.checked[-1]
        each = f" of each of {len(self.loops)} loops" if len(self.loops) > 1 else ""
        if self.plain:
            each += f" (those of {self.plain} leave out masks that change nothing)"
        if not self.loops:
            return "no loop: one run is all there is"
        if self.repeats_from is None or self.period is None:
            return f"trip counts {low} to {high}{each} examined, no more"
        return (
            f"trips repeat from trip {self.repeats_from} with period {self.period}; "
            f"hazards of trip counts {low} to {high}{each} checked one by one, more by induction"
        )

    def describe_margins(self) -> str:
        """What the margins are about."""
        return f"margins from trip counts {self.checked[0]} to {self.checked[-1]}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one program. Findings come worst first."""

    status: Status
    """The worst finding decides."""
    schedule: str
    """The program's name."""
    kernel: str
    """What it computes, by name."""
    findings: tuple[Finding, ...]
    """What is wrong, worst first."""
    dead_work: tuple[DeadWork, ...]
    """Steps whose results no output depends on."""
    coverage: Coverage
    """Which trip counts it speaks about."""
    inputs: Inputs = Inputs.ALL
    """Which arrays and scalars it speaks about: past an end, zero times infinity is no zero."""
    any_order: tuple[str, ...] = field(default=(), metadata=LEFT_OUT_WHILE_USUAL)
    """Outputs that workgroups add to in any order: sums that round may differ between launches."""

    @property
    def claim(self) -> str:
        """What PROVED says, in one sentence; nothing of a program that is not."""
        if not self.proved:
            return ""
        trips = "every trip count and " if self.coverage.loops else ""
        which = "all values" if self.inputs is Inputs.ALL else "finite values"
        return (
            f"ordered and computing its declaration, for {trips}every size that the launch "
            f"accepts, for {which}"
            + (f", but for the order of sums in {', '.join(self.any_order)}" * bool(self.any_order))
        )

    def __repr__(self) -> str:
        return f"<Verdict {self.status.name} on {self.schedule}: {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """For notebooks: the status, how far it reaches, the findings, and the shortest story."""
        rows = [(f.status.name, f.kind.value, f.where, f.why, f.apart or "") for f in self.findings]
        columns = ("status", "finding", "where", "why", "margin")
        claim = f"{self.claim}; " if self.proved else ""
        text = f"{self.schedule}; {claim}{self.coverage.describe()}"
        html = fragment(self.status.name, text, columns, rows)
        shortest = self.shortest()
        return html if shortest is None else html + story(shortest.where, shortest.story)

    @property
    def proved(self) -> bool:
        """Whether the program is right for every trip count, latency and wave order."""
        return self.status is Status.PROVED

    def of_kind(self, kind: FindingKind) -> tuple[Finding, ...]:
        """The findings of one kind.

        Args:
            kind: The obligation.
        """
        return tuple(f for f in self.findings if f.kind is kind)

    def defects(self) -> tuple[tuple[Finding, ...], ...]:
        """The findings of each defect, the one with the least margin first, the worst defect first.

        Pairs of one kind that share a step are one defect: without one barrier, every read before
        it is unordered with every write behind it. What is wrong by itself stands alone.
        """
        ranked = sorted(self.findings, key=_rank)
        groups = (tuple(sorted(group, key=_rank)) for group in same_defect(ranked, _ends))
        return tuple(sorted(groups, key=lambda group: _rank(group[0])))

    def shortest(self) -> Finding | None:
        """Of the worst findings, the one with the fewest trips and steps to show it."""
        shown = [f for f in self.findings if f.counterexample is not None]
        return min(
            shown,
            key=lambda f: (
                -f.status.rank,
                f.trips,
                len(f.counterexample.steps) if f.counterexample else 0,
            ),
            default=None,
        )

    def summary(self) -> str:
        """The verdict in one line."""
        leads = [group[0].status for group in self.defects()]
        counts = [
            f"{n} {status.name}"
            for status in (Status.RACE, Status.TIMING)
            if (n := leads.count(status))
        ]
        pairs = sum(f.status is not Status.PROVED for f in self.findings)
        if pairs > len(leads) - leads.count(Status.PROVED):
            counts.append(f"{pairs} pairs")
        if n := len(self.of_kind(FindingKind.ENCODING)):
            counts.append(f"{n} wait{'s' if n > 1 else ''} that no counter can hold")
        findings = f" ({', '.join(counts)})" if counts else ""
        claim = f"{self.claim}; " if self.proved else ""
        coverage = claim + self.coverage.describe()
        if any(f.margin is not None for f in self.findings):
            coverage += f"; {self.coverage.describe_margins()}"
        return f"{self.status.name}{findings}: {self.schedule}; {coverage}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the field names, and the ``claim``."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return {**plain, "claim": self.claim}
