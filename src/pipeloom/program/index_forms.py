"""Indices as people write them: sums of digits and of entries, times whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.checks import check_int, plain_int
from pipeloom.errors import ConfigError
from pipeloom.plain import LEFT_OUT_WHILE_USUAL


class DigitSum:
    """What digits and forms have in common: sums, and products with whole numbers."""

    __slots__ = ()

    @property
    def form(self) -> IndexForm:
        """It as a form."""
        raise NotImplementedError

    def __add__(self, other: object) -> IndexForm:
        return self.form.plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> IndexForm:
        return self.form.plus(other, -1)

    def __mul__(self, factor: object) -> IndexForm:
        number = plain_int(factor)
        check_int("index", "factor", number, -(1 << 24), 1 << 24)
        one = self.form
        scaled = tuple((name, f * number) for name, f in one.factors if f * number)
        return IndexForm(one.constant * number, scaled)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class IndexForm(DigitSum):
    """A constant plus a factor for each digit."""

    constant: int = 0
    """What is added to every index."""
    factors: tuple[tuple[str, int], ...] = ()
    """A factor for each digit, by name."""

    @property
    def form(self) -> IndexForm:
        """Itself."""
        return self

    def plus(self, other: object, sign: int) -> IndexForm:
        """The sum with another form, a digit or a number; with ``sign`` -1 the difference.

        Args:
            other: What is added.
            sign: 1 or -1.
        """
        if isinstance(other, DigitSum):
            factors = dict(self.factors)
            for name, factor in other.form.factors:
                factors[name] = factors.get(name, 0) + sign * factor
            kept = tuple((name, factor) for name, factor in factors.items() if factor)
            return IndexForm(self.constant + sign * other.form.constant, kept)
        number = plain_int(other)
        check_int("index", "constant", number, -(1 << 24), 1 << 24)
        return IndexForm(self.constant + sign * number, self.factors)

    def __str__(self) -> str:
        terms = [name if factor == 1 else f"{factor} * {name}" for name, factor in self.factors]
        return " + ".join([*terms, *([str(self.constant)] if self.constant or not terms else [])])


@dataclass(frozen=True, slots=True)
class Digit(DigitSum):
    """One digit of a tile's index. Add digits up, times whole numbers, to say where to read."""

    name: str
    """What forms call it."""
    count: int = 0
    """How many values it has, where that is fixed."""
    along: str = field(default="", metadata=LEFT_OUT_WHILE_USUAL)
    """Else the dimension of the array whose size says it at launch."""
    more: int = field(default=0, metadata=LEFT_OUT_WHILE_USUAL)
    """Of a size at launch: what is added to it."""
    step: int = field(default=1, metadata=LEFT_OUT_WHILE_USUAL)
    """Of a size at launch: what that is divided by, rounding up."""

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise ConfigError(
                f"a digit is called {self.name!r}", hint="give it a name", field="digit"
            )
        if not self.along:
            check_int(f"digit {self.name}", "count", self.count, 1, (1 << 31) - 1)
        check_int(f"digit {self.name}", "more", self.more, -(1 << 24), 1 << 24)
        check_int(f"digit {self.name}", "step", self.step, 1, 1 << 24)

    @property
    def form(self) -> IndexForm:
        """The digit itself, as an index."""
        return IndexForm(0, ((self.name, 1),))

    @property
    def follows(self) -> str | None:
        """The dimension of the array whose size is its count, if that is all it is."""
        return self.along if self.along and not self.more and self.step == 1 else None

    @property
    def formula(self) -> str:
        """Its count in terms of sizes, as launch records write it."""
        if not self.along or self.follows:
            return self.along or str(self.count)
        return f"max(ceil(({self.along} + {self.more}) / {self.step}), 0)".replace("+ -", "- ")

    def number(self, sizes: Mapping[str, int]) -> int:
        """Its count for given sizes of the array.

        Args:
            sizes: The array's sizes by dimension.
        """
        if not self.along:
            return self.count
        return max(-(-(sizes[self.along] + self.more) // self.step), 0)


@dataclass(frozen=True, slots=True)
class IndexEntry(DigitSum):
    """A whole number of an index array, or some of its bits: rows that are gathered."""

    name: str
    """What forms call it."""
    array: str
    """The index array, of i32."""
    dim: str
    """The index array's dimension: the tile's whose index says which entry, unless a digit does."""
    low: int = 0
    """The first of its bits."""
    width: int = 32
    """How many bits; 32 are the number itself, with its sign."""
    digit: str = field(default="", metadata=LEFT_OUT_WHILE_USUAL)
    """The digit whose value says which entry: pages of which each has several elements."""
    per: str = field(default="", metadata=LEFT_OUT_WHILE_USUAL)
    """A dimension of the batch that the index array has before its own."""

    @property
    def form(self) -> IndexForm:
        """The entry itself, as an index."""
        return IndexForm(0, ((self.name, 1),))

    def part(self, low: int, width: int) -> IndexEntry:
        """Some of its bits, as a number from 0 on.

        Args:
            low: The first bit.
            width: How many.
        """
        check_int(self.name, "low", low, 0, 31)
        check_int(self.name, "width", width, 1, 31 - low if low else 31)
        return replace(self, name=f"{self.array}[{low}:{low + width}]", low=low, width=width)

    def value(self, numbers: Places) -> Places:
        """What it is of entries of its array.

        Args:
            numbers: The array's entries.
        """
        whole = np.asarray(numbers, np.int64)
        return whole if self.width == 32 else whole >> self.low & ((1 << self.width) - 1)


def digit(name: str, count: int | str, *, more: int = 0, step: int = 1) -> Digit:
    """A digit of a tile's index, for ``loop.place``: add digits up, times whole numbers.

    Args:
        name: What messages call it.
        count: How many values it has: a number, or the dimension of the array whose size says it.
        more: Added to that size.
        step: What the sum is divided by, rounding up.
    """
    along = count if isinstance(count, str) else ""
    return Digit(name, 0 if along else plain_int(count), along, plain_int(more), plain_int(step))
