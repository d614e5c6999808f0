"""A number of a chip with where it comes from: its unit, its source and how the source knows it.

Example::

    >>> from pipeloom.machine.gfx950 import GFX950
    >>> GFX950.lds_bytes_per_clk.value
    256
    >>> GFX950.lds_bytes_per_clk.kind
    <FactKind.MEASURED: 'measured'>
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T", int, float)


class FactKind(Enum):
    """How the source of a number knows it."""

    VENDOR = "vendor"
    """A vendor document states it."""
    MEASURED = "measured"
    """The source measured it."""
    DERIVED = "derived"
    """It follows by arithmetic from other numbers."""
    EXPLAINED = "explained"
    """It is the source's explanation of a measurement."""
    ASSUMED = "assumed"
    """Our assumption: no source gives it, and the fact's text says why this value."""


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One number of the model with its unit and its source."""

    value: T
    """The number, in ``unit``."""
    unit: str
    """What it counts, in words: ``cycles``, ``bytes per cycle``, ``registers``."""
    kind: FactKind
    """How the source knows it; a result is only as good as the ``ASSUMED`` numbers it depends
    on."""
    source: str
    """The document, page or measurement it comes from."""
