"""How a program came about, as data: for pages and people, never for a judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class SyncMethod(Enum):
    """Who placed the waits and barriers."""

    GIVEN = "given"
    """They came with the steps."""
    REFERENCE = "reference"
    """The specification's rules placed them."""
    PROVEN = "proven"
    """Derived from data flow, with the fewest barriers."""
    REPAIRED = "repaired"
    """The barriers were kept, waits derived, and a few loads moved."""


@dataclass(frozen=True, slots=True)
class OrderedBy:
    """The strategy that chose the order, and what it claims of it."""

    strategy: str
    """The strategy's name."""
    cycles: int | None = None
    """Cycles per iteration, or of one iteration, by the strategy's own count; None where it counts
    none."""
    bound: int | None = None
    """A lower bound on them; None where there is none."""
    proved: bool = False
    """Whether no order is better, by the strategy's count."""
    stages: int | None = None
    """Iterations that are in flight at once; None where the strategy does not pipeline."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search: this is the best so far."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step that synchronisation moved."""

    label: str
    """The step's label."""
    by: int
    """By how many places; negative is earlier."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a program came about: source, order, synchronisation."""

    source: str = ""
    """What it was made from: a schedule's name, a loop, a file."""
    ordered: OrderedBy | None = None
    """Who chose the order, and what was claimed of it; None where nobody did."""
    synchronised: SyncMethod = SyncMethod.GIVEN
    """Who placed the waits and barriers."""
    moved: tuple[Move, ...] = ()
    """The steps that synchronisation moved."""
    barriers_added: int = 0
    """Besides ``moved``, what REPAIRED could not do without."""
    notes: tuple[str, ...] = ()
    """Sentences for people: what was found, what had no effect."""

    @property
    def without_figures(self) -> Provenance:
        """What is left when waits or barriers change: who ordered it, but no claim how well."""
        if self.ordered is None:
            return self
        how = replace(self.ordered, cycles=None, bound=None, proved=False)
        return replace(self, ordered=how, notes=())


UNKNOWN = Provenance()
"""Of a program that somebody wrote down as it is."""
