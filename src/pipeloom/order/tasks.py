"""One iteration before it has an order: tasks that touch places, and nothing about when.

A ``Place`` is a resource whose number of copies is not known yet. A ``Touch`` says which value a
task finds or leaves there and how many iterations old it is; dependences follow from that alone.

    load A0     writes  lds A0      A           this iteration's
    read A0     reads   lds A0      A
                writes  A0          A
    mma 00      reads   A0, B0      A, B
                adds to C00         C.next      onto C.next of one iteration ago
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pipeloom.machine.target import Target
from pipeloom.order.roles import WaveGroup
from pipeloom.order.shares import Piece, Shares
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Region
from pipeloom.program.resources import Layout, Space
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tiles import Box, TileType
from pipeloom.program.vocabulary import Vocabulary

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Storage. ``members`` are the values that take turns in it within an iteration.

    ``rotates``: every iteration uses the next copy. Otherwise there is one copy, kept all the time
    (BEFORE), or handed on from iteration to iteration (``members`` are a whole carry's chain).
    """

    name: str
    space: Space
    type: TileType
    members: tuple[str, ...]
    layout: Layout | None = None
    start: float | None = None
    registers: int = 0
    rotates: bool = False
    carried: bool = False
    storage: str = field(default="", repr=False)
    """Of places that take turns in one storage within an iteration, its name."""


@dataclass(frozen=True, slots=True)
class Touch:
    """``value`` of ``distance`` iterations ago, in ``place``.

    ``ahead`` is which copy: that of iteration ``i + ahead``. The value a carry starts with has no
    writer, so a carry's copies are one ahead. A place that is no ``Place`` is memory, by the name
    of its node.
    """

    place: str
    value: str
    boxes: tuple[Box, ...] = ()
    distance: int = 0
    ahead: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A step of one iteration (LOOP), or one outside. ``onto`` is what it adds to, as a read."""

    label: str
    node: str
    region: Region
    group: str
    piece: Piece
    parts: tuple[Box, ...]
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    accumulates: tuple[Touch, ...] = ()
    onto: tuple[Touch, ...] = ()
    is_copy: bool = False
    counter: str | None = None
    entries: int = 0
    issues: tuple[Issue, ...] = ()
    when: str | None = None

    @property
    def unit(self) -> Unit:
        """What kind of task it is: the unit of its first instruction, which every task has."""
        return self.issues[0].unit

    @property
    def found(self) -> tuple[Touch, ...]:
        """What it needs to be there."""
        return self.reads + self.onto

    @property
    def left(self) -> tuple[Touch, ...]:
        """What it leaves behind."""
        return self.writes + self.accumulates


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A declaration as tasks on a machine."""

    meaning: Meaning
    target: Target
    ops: Vocabulary
    groups: tuple[WaveGroup, ...]
    shares: Shares
    places: tuple[Place, ...]
    tasks: tuple[Task, ...]
    known: dict[object, Any] = field(init=False, default_factory=dict, compare=False, repr=False)
    """What was found out about it (``once``): candidates of a search share that."""

    def once(self, key: object, make: Callable[[], T]) -> T:
        """What ``make`` gives, made at the first call with this ``key``."""
        if key not in self.known:
            self.known[key] = make()
        found: T = self.known[key]
        return found

    def place(self, name: str) -> Place | None:
        """The storage of that name; None for memory."""
        return self.once("places", lambda: {p.name: p for p in self.places}).get(name)

    def of(self, region: Region) -> tuple[Task, ...]:
        """The tasks of a region, in order of declaration."""
        return self.once(region, lambda: tuple(t for t in self.tasks if t.region is region))

    def group(self, name: str) -> WaveGroup:
        """The group of that name."""
        return next(g for g in self.groups if g.name == name)
