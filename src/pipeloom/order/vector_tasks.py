"""Which tasks of a loop compute on vectors, and what they make."""

from __future__ import annotations

from collections.abc import Sequence, Set

from pipeloom.order.grains import is_operand
from pipeloom.order.tasks import Lowered, Task
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Unit


def has_vectors(lowered: Lowered) -> bool:
    """Whether its loop computes on vectors too."""
    return any(is_vector(task) for task in lowered.of(Region.LOOP))


def is_vector(task: Task) -> bool:
    """Whether it is a vector op, or the branch around one."""
    return task.unit in (Unit.VECTOR, Unit.TRANS, Unit.SCALAR)


def made_operands(lowered: Lowered) -> set[str]:
    """The places of operands that vector ops of the loop make."""
    found = (
        lowered.place(x.place) for t in lowered.of(Region.LOOP) if is_vector(t) for x in t.left
    )
    return {p.name for p in found if p is not None and is_operand(p)}


def operand_sources(tasks: Sequence[Task], made: Set[str]) -> set[str]:
    """The places of what vector ops make these operands of."""
    found: set[str] = set()
    more = [t for t in tasks if is_vector(t) and any(x.place in made for x in t.left)]
    while more:
        for place in {x.place for x in more.pop().reads} - found:
            found.add(place)
            more += [t for t in tasks if is_vector(t) and any(x.place == place for x in t.left)]
    return found


def is_skipped(task: Task) -> bool:
    """Whether it is jumped over as a rule, so that it stays whole."""
    return task.when is not None or task.unit is Unit.SCALAR


def is_slow(task: Task) -> bool:
    """Whether its results come late, and are not jumped over."""
    return task.unit is Unit.TRANS and task.when is None
