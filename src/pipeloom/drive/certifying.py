"""How good a derived program is, and how that is known: bound, certificate, what was searched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from pipeloom.notebook import fragment
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import bound_of, certificate, choices, unit_times
from pipeloom.order.tasks import Lowered
from pipeloom.program.program import Program

CLOSE = 1.003
"""A program this near to its bound ends the search."""
MOST_SHOWN = 9
"""Values of one choice that a note of what was searched lists."""


class Ended(Enum):
    """What ended a search."""

    ALL_TRIED = "all_tried"
    """Nothing was left to try, or what was left could not be better."""
    LIMIT = "limit"
    """As many orders as allowed were tried."""
    INTERRUPT = "interrupt"
    """Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The best so far: cycles per iteration, and the bound."""

    tried: int
    """Orders simulated so far."""
    seconds: float
    """Time since the search began."""
    cycles: float
    """Cycles per iteration of the best so far."""
    bound: int
    """Cycles per iteration that no order beats."""
    unit: str
    """The unit that sets the bound."""
    pattern: Pattern
    """The best so far."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived program, how fast it is, and how near to the bound."""

    program: Program
    """The proved program."""
    cycles: float
    """Simulated cycles per iteration of the steady loop."""
    bound: int
    """Cycles per iteration that no order of the loop's instructions beats."""
    unit: str
    """The unit that sets the bound, such as ``matrix unit`` or ``memory``."""
    matrix: int
    """Cycles per iteration that the matrix unit works."""
    pattern: Pattern
    """The choices that made it: groups, barriers, distances."""
    tried: int
    """Orders that were simulated."""
    ended: Ended = Ended.ALL_TRIED
    """What ended the search."""
    why: str = ""
    """The certificate of ``bound``, in words."""

    def _repr_html_(self) -> str:
        """For notebooks: how fast it is, and its program."""
        text = f"{self.cycles:.0f} cycles per iteration, {self.unit} bound {self.bound}"
        return fragment(self.program.name, text) + self.program._repr_html_()

    @property
    def complete(self) -> bool:
        """Whether nothing stopped the search."""
        return self.ended is Ended.ALL_TRIED

    @property
    def gap(self) -> float:
        """How much of the bound it takes more, at the most that could be gained."""
        return self.cycles / self.bound - 1

    @property
    def busy(self) -> float:
        """The share of time in which the matrix unit works."""
        return self.matrix / self.cycles


@dataclass(frozen=True, slots=True)
class Least:
    """The bound, the unit that sets it, and the certificate."""

    cycles: int
    """Cycles per iteration that no order beats."""
    unit: str
    """The unit that sets them."""
    why: str
    """The certificate, in words."""


def least_of(lowered: Lowered) -> Least:
    """What no order of the loop beats."""

    def find() -> Least:
        bound, unit = bound_of(lowered)
        least, why = certificate(lowered)
        return Least(least, "recurrence", why) if least > bound else Least(bound, unit, why)

    return lowered.once("least", find)


def described(
    lowered: Lowered,
    program: Program,
    cycles: float,
    least: Least,
    pattern: Pattern,
    tried: int,
    ended: Ended,
    workgroups: int,
) -> Program:
    """``program``, checked, with what is known of it in its provenance; ``cycles`` are those of
    each of so many workgroups beside each other."""
    ordered = program.provenance.ordered
    assert ordered is not None
    copies = ", ".join(f"{r.copies} x {r.name}" for r in program.resources if r.copies > 1)
    grid = ", ".join(f"{c.waves} along {c.dim}" for c in lowered.shares.cuts if c.waves > 1)
    gap = 100 * (cycles / least.cycles - 1)
    at_bound = cycles <= CLOSE * least.cycles
    stopped = {
        Ended.ALL_TRIED: f"at the bound of the {least.unit}" if at_bound else "no change helps",
        Ended.LIMIT: "there are more",
        Ended.INTERRUPT: "interrupted, there are more",
    }
    busy = ", ".join(f"{time.unit} {time.cycles}" for time in unit_times(lowered))
    each = f", each of {workgroups} workgroups of a compute unit" if workgroups > 1 else ""
    notes = (
        f"{cycles:.6g} cycles per iteration simulated{each}; {least.cycles} are the least, by the "
        f"{least.unit}; no order is more than {gap:.2g} % faster",
        f"certificate: {least.why}",
        f"cycles per iteration by unit: {busy}",
        f"{ordered.stages} stages; copies: {copies or 'one of everything'}",
        f"{program.iterations} iterations",
        f"waves: {grid or 'one'}; {_roles(pattern)}",
        f"searched: {_searched(lowered)}; {tried} orders simulated; {stopped[ended]}",
    )
    bound = least.cycles
    how = replace(
        ordered,
        cycles=round(cycles),
        bound=bound,
        proved=round(cycles) <= bound,
        interrupted=ended is Ended.INTERRUPT,
    )
    provenance = replace(program.provenance, ordered=how, notes=notes)
    return replace(program, provenance=provenance)


def _roles(pattern: Pattern) -> str:
    """Who does what, when."""
    loading = pattern.loading.name.lower().replace("_", " ")
    parts = {
        f"{pattern.groups} group(s)": True,
        f"in turns of {pattern.cluster} products": pattern.cluster > 0,
        "a barrier apart": pattern.cluster > 0 or pattern.stagger,
        f"loads {loading}": pattern.groups > 1,
        "priorities": pattern.priority,
    }
    return ", ".join(part for part, told in parts.items() if told)


def _searched(lowered: Lowered) -> str:
    """The values of every choice; of many, how many."""
    found = []
    for name, values in choices(lowered).items():
        few = len(values) <= MOST_SHOWN and all(type(value) is int for value in values)
        found.append(f"{name} {' '.join(map(str, values)) if few else f'in {len(values)} ways'}")
    return ", ".join(found)
