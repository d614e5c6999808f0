"""What an execution shows: the outputs, and each thing that went wrong on the way.

An ``Outcome`` is *correct* if every wave reached its end and every element of every output was
stored, only with its right value. Otherwise it says what a person would look for:

    hang          where each wave stands
    wrong         stores of a wrong or undefined number, elements that nobody stored
    suspects      reads that found nothing, something in flight, or another value than they should

A suspect whose value reaches no output harms nothing: it is listed, not counted as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pipeloom.array_kinds import Array
from pipeloom.notebook import fragment


class StepAt(NamedTuple):
    """A step as one wave executes it."""

    wave: int
    """The wave's number."""
    section: str
    """The section it stands in."""
    slot: int
    """Its place in the section, from 0."""
    trip: int | None = None
    """The trip of its section; None in a section that runs once."""

    def __str__(self) -> str:
        at = "" if self.trip is None else f", trip {self.trip}"
        return f"wave {self.wave}, {self.section}[{self.slot}]{at}"


class Fault(Enum):
    """What is wrong with a read, or with a store."""

    UNWRITTEN = "read what nothing has written"
    """A read of a place that nothing has written."""
    IN_FLIGHT = "read what was in flight"
    """A read of a place that an access in flight is writing."""
    UNDEFINED = "read a number made of undefined ones"
    """A read of a number that was made of undefined ones."""
    OTHER = "read another value than the one it names"
    """A read of another value than the one it names."""
    WRONG = "stored a wrong number"
    """A store of a wrong number."""
    POISON = "stored an undefined number"
    """A store of an undefined number."""
    OUTSIDE = "stored outside the output"
    """A store outside the output."""
    MISSING = "never stored"
    """An element that nobody stored."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A step that read what it should not have."""

    fault: Fault
    """What is wrong with the read."""
    at: StepAt
    """The step."""
    label: str
    """The step in words."""
    resource: str
    """What it read."""
    causes: tuple[StepAt, ...] = ()
    """The accesses in flight there."""

    def __str__(self) -> str:
        why = f" ({'; '.join(map(str, self.causes))})" if self.causes else ""
        return f"{self.at}: {self.label}: {self.fault.value}, in {self.resource}{why}"


@dataclass(frozen=True, slots=True)
class Wrong:
    """Elements of an output that are not what they should be."""

    fault: Fault
    """What is wrong with them."""
    output: str
    """The output's name."""
    elements: int
    """How many they are."""
    at: StepAt | None = None
    """The store; None for those that nobody stored."""
    found: float | None = None
    """The first element as it is."""
    expected: float | None = None
    """The first element as it should be."""

    def __str__(self) -> str:
        where = f"{self.elements} element(s) of {self.output}"
        if self.at is None:
            return f"{where} {self.fault.value}"
        numbers = ""
        if self.fault is Fault.WRONG:
            numbers = f": {self.found:g} in place of {self.expected:g}"
        return f"{self.at} {self.fault.value} in {where}{numbers}"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a wave stood at a hang: at a barrier, or at its end."""

    wave: int
    """The wave's number."""
    at: StepAt | None
    """The barrier it waits at; None at its end."""
    barriers_passed: int
    """How many barriers it has passed."""

    def __str__(self) -> str:
        if self.at is None:
            return f"wave {self.wave} has ended after {self.barriers_passed} barriers"
        return f"{self.at}: waits, at its barrier {self.barriers_passed + 1}"


class Meeting(Enum):
    """How far the first access of a pair was when the second issued."""

    NOT_ISSUED = "not issued"
    """It had not been issued."""
    IN_FLIGHT = "in flight"
    """It was in flight."""
    RETIRED = "retired"
    """It was over."""
    UNREACHED = "the second access is never reached"
    """The second access is never reached."""

    @property
    def unordered(self) -> bool:
        """Whether nothing keeps the second from coming first."""
        return self in (Meeting.NOT_ISSUED, Meeting.IN_FLIGHT)


class TraceEvent(NamedTuple):
    """One event in the order in which the whole workgroup executed them."""

    at: StepAt
    """The step."""
    what: str
    """What happened, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one run of the executor showed."""

    trips: Mapping[str, int]
    """The trip counts by name."""
    hang: tuple[Standing, ...] = ()
    """Where each wave stood when the workgroup hung; empty where it ended."""
    wrong: tuple[Wrong, ...] = ()
    """Elements of outputs that are not what they should be."""
    suspects: tuple[Suspect, ...] = ()
    """Steps that read what they should not have, whether or not it matters."""
    trace: tuple[TraceEvent, ...] = ()
    """What happened, in order, where that was asked for."""
    outputs: Mapping[str, Array] = field(default_factory=dict)
    """What the first set of inputs gave: NaN where undefined or never stored; one more axis in
    front, the iteration, for an output of the loop."""
    meeting: Meeting | None = None
    """How far the first access of a pair was when the second issued, where a pair was asked
    about."""

    @property
    def correct(self) -> bool:
        """Whether it ended, with every output right and complete."""
        return not self.hang and not self.wrong

    @property
    def clean(self) -> bool:
        """Whether, besides, no step read anything but what it says it reads.

        Of a PROVED program, what is not clean is work that no output depends on, which a verdict
        names (``dead_work``).
        """
        return self.correct and not self.suspects

    @property
    def summary(self) -> str:
        """``T=2: correct, 0 suspect reads``; or how many are wrong, or hang."""
        trips = " ".join(f"{name}={count}" for name, count in self.trips.items())
        found = f"{len(self.hang)} waves hang" if self.hang else "correct"
        found = f"{len(self.wrong)} wrong" if self.wrong else found
        return f"{trips}: {found}, {len(self.suspects)} suspect reads"

    def __repr__(self) -> str:
        return f"<Outcome of {self.summary}>"

    def _repr_html_(self) -> str:
        items = (*self.hang, *self.wrong, *self.suspects)
        return fragment("Outcome", self.summary, ("what went wrong",), ([str(i)] for i in items))

    def describe(self, limit: int = 5) -> str:
        """The outcome in words, at most ``limit`` lines of each sort.

        Args:
            limit: The most lines of each sort.
        """
        lines = ["correct: every output has its value"] if self.correct else []
        for title, items in (
            ("hang", self.hang),
            ("wrong", self.wrong),
            ("suspect reads", self.suspects),
        ):
            if items:
                more = f", of which {limit}" if len(items) > limit else ""
                lines.append(f"{title}: {len(items)}{more}")
                lines += [f"  {item}" for item in items[: limit if title != "hang" else None]]
        return "\n".join(lines)
