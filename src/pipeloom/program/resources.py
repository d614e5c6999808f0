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

    LDS = "lds"  # one for the workgroup
    REGISTER = "register"  # one per wave
    SCALAR = "scalar"  # one per wave, uniform over its lanes


PARTIAL: Mapping[Reduce, int] = MappingProxyType(
    {Reduce.ADD: 1, Reduce.MAX: 2, Reduce.MIN: 3, Reduce.ANY: 4}
)
"""A layout's number ``partial``: each lane holds a part of an element, and so they combine."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of a resource lie in bytes or lanes: a named scheme with its numbers.

    Writers know schemes by ``kind`` and refuse others by name; judges of order need none.
    """

    kind: str
    numbers: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, name: str) -> int:
        return dict(self.numbers)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A named piece of storage with ``copies`` that a schedule rotates through.

    ``start`` is what every element holds before the first step, where the kernel sets it up;
    otherwise a read before a write is a finding.
    """

    name: str
    space: Space
    type: TileType
    copies: int = 1
    start: float | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        check_int(f"Resource {self.name}", "copies", self.copies, 1)
        check_start(self.name, self.start)

    @property
    def bytes(self) -> int:
        """Of all copies."""
        return self.copies * self.type.dtype.bytes(self.type.elements)
