"""What a verdict consists of: findings, each with a counterexample a person can follow.

    verdict = verify(compiled)
    print(verdict.summary())
    for finding in verdict.findings:
        print(finding.describe())

All types are plain values; ``Verdict.to_dict`` is what ``--json`` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pipeloom.plain import to_plain
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.interface import Step
from pipeloom.reference.ops import OpRole, Phase


class Status(Enum):
    """How bad it is. The worst finding decides the status of a verdict."""

    PROVED = "proved"
    """Ordered by waits and barriers alone, for every trip count."""
    TIMING = "timing"
    """Nothing orders the two accesses, but under the cost model's latencies they do not meet."""
    RACE = "race"
    """The two accesses can meet under the cost model's latencies, or the result is always wrong."""

    @property
    def exit_code(self) -> int:
        """What the command line returns: 0, 3 or 4."""
        return {Status.PROVED: 0, Status.TIMING: 3, Status.RACE: 4}[self]

    @property
    def rank(self) -> int:
        """0 for PROVED, 1 for TIMING, 2 for RACE."""
        return list(Status).index(self)


class FindingKind(Enum):
    """Which obligation fails."""

    RAW = "raw"
    """A fragment load may read before a load of its generation has landed."""
    WAR = "war"
    """A load may land before an earlier access of its region is over: an old read, or a write."""
    REGISTER = "register"
    """An op reads registers whose load is in flight, that nothing has loaded, or that two loads
    on different counters fill in an unknown order."""
    ACCOUNTING = "accounting"
    """An accumulator does not sum every K tile exactly once, A and B of the same tile."""
    BARRIER = "barrier"
    """Waves execute different numbers of barriers: the workgroup hangs."""
    ENCODING = "encoding"
    """A wait count that the instruction cannot hold, and that therefore waits for nothing."""


def describe_data_op(step: Step) -> str:
    """An op as a kernel author says it: ``load A(stage 1, sub 0) of K tile 3``."""
    op = step.op
    if op.is_framework:
        return f"{describe_op(op)} ({step.origin})" if step.origin else describe_op(op)
    operand = _OPERANDS.get((op.role, op.tag), {0: " A", 1: " B"}.get(op.channel, ""))
    if op.role is OpRole.COMPUTE:
        return f"MMA({op.stage}, {op.subtile})"
    verb = _VERBS.get(op.role, f"op {op.tag}")
    tile = "" if step.tile is None else f" of K tile {step.tile}"
    return f"{verb}{operand}(stage {op.stage}, sub {op.subtile}){tile}"


_VERBS = {
    OpRole.GLOBAL_LOAD: "load",
    OpRole.SHARED_STORE: "store",
    OpRole.FRAGMENT_LOAD: "fragment",
}
_OPERANDS = {(OpRole.GLOBAL_LOAD, 0): " A", (OpRole.GLOBAL_LOAD, 1): " B"}


@dataclass(frozen=True, slots=True)
class Place:
    """An entry as one wave executes it. ``step`` is its number in the wave's walk."""

    wave: int
    phase: Phase
    slot: int
    iteration: int | None
    step: int
    op: str

    @classmethod
    def of(cls, step: Step, wave: int) -> Place:
        """The place of ``step`` in the walk of ``wave``."""
        return cls(wave, step.phase, step.slot, step.iteration, step.index, describe_data_op(step))

    @property
    def entry(self) -> str:
        """``kernel[12]``: the entry, whatever wave and iteration."""
        return f"{self.phase.name.lower()}[{self.slot}]"

    def __str__(self) -> str:
        trip = "" if self.iteration is None else f", iteration {self.iteration}"
        return f"wave {self.wave}, {self.entry}{trip}: {self.op}"


@dataclass(frozen=True, slots=True)
class CounterexampleStep:
    """One line of an interleaving; ``place`` is ``None`` where the wave only waits."""

    wave: int
    text: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """How to bring a counterexample about in an executor with free latencies.

    Run with ``trips``. Whenever several waves can go on, take the one that comes first in
    ``wave_order``. Loads land when they are issued ("early") or when their wave retires them
    ("late"), and likewise fragment loads take their data; ``exceptions`` lists accesses, as
    (wave, step), that do the opposite.
    """

    trips: int
    wave_order: tuple[int, ...]
    loads: str
    fragments: str
    exceptions: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An interleaving that gives a wrong number, shortest form: only the steps that matter."""

    trips: int
    steps: tuple[CounterexampleStep, ...]
    replay: Replay


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated obligation.

    ``first`` should have been over before ``second`` began; ``why`` says what fails to order them.
    ``margin`` (TIMING only) is by how many cycles the cost model's latencies keep them apart.
    ``instances`` counts the wave pairs, iterations and trip counts that show the same two entries.
    An ENCODING finding has status PROVED: it is harmful only through the hazards that it causes,
    which are findings of their own.
    """

    kind: FindingKind
    status: Status
    first: Place | None
    second: Place
    where: str
    why: str
    margin: int | None
    trips: int
    instances: int
    counterexample: Counterexample | None

    def describe(self) -> str:
        """The finding as text of a few lines."""
        margin = f", margin {self.margin} cycles" if self.margin is not None else ""
        head = f"{self.status.name} {self.kind.value}: {self.where}{margin} (trips {self.trips})"
        lines = [head]
        if self.first is not None:
            lines.append(f"  first   {self.first}")
        lines.append(f"  second  {self.second}")
        lines.append(f"  why     {self.why}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DeadWork:
    """An entry whose result nothing reads. ``always`` is False where only some trips waste it."""

    phase: Phase
    slot: int
    op: str
    reason: str
    always: bool

    def __str__(self) -> str:
        when = "always" if self.always else "in some iterations"
        return f"{self.phase.name.lower()}[{self.slot}] {self.op}: {self.reason} ({when})"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which trip counts the verdict speaks about, and why.

    If ``repeats_from`` is set, the state of the machine at loop head ``repeats_from + period``
    equals that at ``repeats_from`` up to a shift of K, so longer runs add nothing to the trip
    counts in ``checked``: the same pairs of entries, and no others, are hazards at every trip
    count. Otherwise only those in ``checked`` were examined, which happens only for schedules that
    are wrong.

    Cycles are not part of that state. Margins, and with them which hazards are TIMING and which
    RACE, come from the nominal runs of the trip counts in ``checked`` alone.
    """

    checked: tuple[int, ...]
    repeats_from: int | None
    period: int | None

    def describe(self) -> str:
        """The argument in one sentence."""
        low, high = self.checked[0], self.checked[-1]
        if self.repeats_from is None or self.period is None:
            return f"the state does not repeat; trip counts {low} to {high} examined"
        plural = "" if self.repeats_from == 1 else "s"
        return (
            f"state repeats after {self.repeats_from} iteration{plural} with period {self.period}; "
            f"hazards of trip counts {low} to {high - 1} checked one by one, {high}+ by induction"
        )

    def describe_margins(self) -> str:
        """What the margins are about."""
        return f"margins from trip counts {self.checked[0]} to {self.checked[-1]}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one schedule. Findings come worst first."""

    status: Status
    schedule: str
    kernel: str
    findings: tuple[Finding, ...]
    dead_work: tuple[DeadWork, ...]
    coverage: Coverage

    @property
    def proved(self) -> bool:
        """Whether the schedule is right for every trip count, latency and wave order."""
        return self.status is Status.PROVED

    def of_kind(self, kind: FindingKind) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(f for f in self.findings if f.kind is kind)

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
        counts = [
            f"{n} {status.name}"
            for status in (Status.RACE, Status.TIMING)
            if (n := sum(f.status is status for f in self.findings))
        ]
        if n := len(self.of_kind(FindingKind.ENCODING)):
            counts.append(f"{n} wait{'s' if n > 1 else ''} that no counter can hold")
        findings = f" ({', '.join(counts)})" if counts else ""
        coverage = self.coverage.describe()
        if any(f.margin is not None for f in self.findings):
            coverage += f"; {self.coverage.describe_margins()}"
        return f"{self.status.name}{findings}: {self.schedule}; {coverage}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the field names."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain
