"""What a derived loop takes if all goes to plan, beside which what it takes is measured."""

from __future__ import annotations

from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import timed
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import TICKS


def planned_cycles(lowered: Lowered, pattern: Pattern) -> float:
    """The II of a pattern's timetable, in cycles."""
    return timed(lowered, pattern).timetable.ii / TICKS
