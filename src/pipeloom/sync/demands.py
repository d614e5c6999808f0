"""What a run asks for: records that ``flow`` makes and everybody else reads."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.sync.walk import Run

Who = tuple[int, int]
"""An event: group, number in its walk."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """``first`` must have retired when ``second`` is issued, in the same wave or in others."""

    first: Who
    second: Who
    same_wave: bool


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """``early`` comes before ``late`` in the script, but has to come after it."""

    early: Who
    late: Who
    what: str


@dataclass(frozen=True, slots=True)
class Rivals:
    """A live read and a write of the same bytes of LDS, in one wave or in two (or both).

    ``newer`` says whether the write is of a later generation than the read means.
    """

    read: Who
    write: Who
    newer: bool
    same_wave: bool
    cross_wave: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """The demands of one run, and what every legal order must respect.

    ``kept`` are pairs of events of one wave that registers hold in their order.
    """

    run: Run
    orderings: tuple[Ordering, ...]
    conflicts: tuple[OrderConflict, ...]
    rivals: tuple[Rivals, ...]
    kept: tuple[tuple[Who, Who], ...]
