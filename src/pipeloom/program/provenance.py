"""How a program came about, as data: for pages and people, never for a judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class SyncMethod(Enum):
    """Who placed the waits and barriers."""

    GIVEN = "given"  # they came with the steps
    REFERENCE = "reference"  # the specification's rules
    PROVEN = "proven"  # derived from data flow: the fewest barriers
    REPAIRED = "repaired"  # the barriers kept, waits derived, a few loads moved


@dataclass(frozen=True, slots=True)
class OrderedBy:
    """The strategy, and what it claims: cycles, a lower bound on them, whether none is better.

    ``interrupted`` says that Ctrl-C ended the search: this is the best so far.
    """

    strategy: str
    cycles: int | None = None
    bound: int | None = None
    proved: bool = False
    stages: int | None = None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A step that synchronisation moved: its label, and by how many places (negative: earlier)."""

    label: str
    by: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source, order, synchronisation; ``notes`` are for reading only."""

    source: str = ""
    ordered: OrderedBy | None = None
    synchronised: SyncMethod = SyncMethod.GIVEN
    moved: tuple[Move, ...] = ()
    barriers_added: int = 0
    """Besides ``moved``, what REPAIRED could not do without."""
    notes: tuple[str, ...] = ()

    @property
    def without_figures(self) -> Provenance:
        """What is left when waits or barriers change: who ordered it, but no claim how well."""
        if self.ordered is None:
            return self
        how = replace(self.ordered, cycles=None, bound=None, proved=False)
        return replace(self, ordered=how, notes=())


UNKNOWN = Provenance()
"""Of a program that somebody wrote down as it is."""
