"""Where values are kept: LDS, registers, scalars. Coordinates are storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from pipeloom.checks import check_int
from pipeloom.program.tiles import TileType, check_start
from pipeloom.program.vocabulary import Reduce


class Space(Enum):
    """Which memory, and so who sees it."""

    LDS = "lds"
    """One for the workgroup; all its waves see it."""
    REGISTER = "register"
    """One per wave."""
    SCALAR = "scalar"
    """One per wave, uniform over its lanes."""
    __hash__ = object.__hash__  # that of Enum hashes a name, in Python


PARTIAL: Mapping[Reduce, int] = MappingProxyType(
    {Reduce.ADD: 1, Reduce.MAX: 2, Reduce.MIN: 3, Reduce.ANY: 4}
)
"""A layout's number ``partial``: each lane holds a part of an element, and so they combine."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a resource lie in bytes or lanes: a named scheme with its numbers."""

    kind: str
    """The scheme. Writers know schemes by it and refuse others by name; judges of order need
    none."""
    numbers: tuple[tuple[str, int], ...] = ()
    """The scheme's numbers by name; ``layout["name"]`` reads one."""

    def __getitem__(self, name: str) -> int:
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A named piece of storage: LDS, registers or scalars."""

    name: str
    """What accesses call it."""
    space: Space
    """Which memory it is in, and so who sees it."""
    type: TileType
    """The dimensions, sizes and element type of one copy."""
    copies: int = 1
    """How many copies a schedule rotates through: 2 is double buffering."""
    start: float | None = None
    """What every element holds before the first step, where the kernel sets it up. Without it, a
    read before a write is a finding."""
    layout: Layout | None = None
    """How its elements lie; None leaves it to the writer."""

    def __post_init__(self) -> None:
        check_int(f"Resource {self.name}", "copies", self.copies, 1)
        check_start(self.name, self.start)

    @property
    def bytes(self) -> int:
        """Of all copies."""
        return self.copies * self.type.dtype.bytes(self.type.elements)
