"""Where a stream finds its tile: an array's index as affine forms of the digits of tile indices.

A convolution is a product whose rows are pixels and whose columns are taps of a window:

    row m    counts (b, p, q), q fastest       p of P, q of Q output pixels, known at launch
    column k counts (r, s, c), c fastest       r of R, s of S taps, c of C channels, fixed
    element  X[b, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c]

So a tile's dimension is a number of mixed radix, its digits have names, and each dimension of the
array is a constant plus a factor for each digit. An index outside of the array reads as zero, and
so does a tile's index past the last of its digits. Nothing here is an order: programs and judges
of orders never ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.checks import check_int, nearest, plain_int
from pipeloom.errors import ConfigError
from pipeloom.plain import LEFT_OUT_WHILE_USUAL

Places = NDArray[np.int64]


class LoadForm(Enum):
    """How the loads of a placed stream find their addresses."""

    POINTWISE = "pointwise"
    """Rows and columns lie as those of a matrix."""
    UNIFORM = "uniform"
    """All of an iteration's tile has one tap: what changes from iteration to iteration is the same
    in all lanes."""
    PER_LANE = "per lane"
    """A tile has several taps, and each lane divides its column."""


class _Arithmetic:
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
class IndexForm(_Arithmetic):
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
        if isinstance(other, _Arithmetic):
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
class Digit(_Arithmetic):
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
class CountedDim:
    """A dimension of the tile as a number of mixed radix."""

    dim: str
    """The tile's dimension."""
    digits: tuple[Digit, ...]
    """Its digits, the last one fastest."""

    def size(self, sizes: Mapping[str, int]) -> int:
        """How many indices have digits.

        Args:
            sizes: The array's sizes by dimension.
        """
        return prod(digit.number(sizes) for digit in self.digits)

    def split(self, index: Places, sizes: Mapping[str, int]) -> dict[str, Places]:
        """The digits of indices; past the end, the first digit has more than its count.

        Args:
            index: Indices along the tile's dimension.
            sizes: The array's sizes by dimension.
        """
        found = {}
        for digit in reversed(self.digits[1:]):
            index, found[digit.name] = np.divmod(index, max(digit.number(sizes), 1))
        found[self.digits[0].name] = index
        return found


@dataclass(frozen=True, slots=True)
class IndexedDim:
    """A dimension of the array, and where along it a tile's element lies."""

    dim: str
    """The array's dimension."""
    index: IndexForm
    """The index along it."""


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Where a tile's elements lie in an array with dimensions of its own: ``loop.place``."""

    counted: tuple[CountedDim, ...]
    """The tile's dimensions, as digits."""
    indexed: tuple[IndexedDim, ...]
    """The array's dimensions, outermost first; along the last one neighbours are contiguous."""

    def __post_init__(self) -> None:
        digits = [digit for one in self.counted for digit in one.digits]
        names = [digit.name for digit in digits]
        twice = [name for name in names if names.count(name) > 1]
        if twice or not all(one.digits for one in self.counted) or not self.indexed:
            raise ConfigError(
                f"a place counts {', '.join(names) or 'nothing'}"
                + (f": {twice[0]!r} twice" if twice else ""),
                hint="give every dimension of the tile digits of their own, and the array's an "
                "index: loop.place('X', m=(b, p), k=(c,), images=b, h=p, ch=c)",
                field="place",
            )
        for one in self.indexed:
            for name, _ in one.index.factors:
                if name not in names:
                    raise ConfigError(
                        f"the index along {one.dim!r} is {one.index}, but {name!r} is no digit of "
                        "the tile",
                        hint=nearest(name, names),
                        field=one.dim,
                    )
        for digit in digits:
            if digit.along and digit.along not in self.dims:
                raise ConfigError(
                    f"digit {digit.name!r} has as many values as {digit.along!r} says, which is no "
                    "dimension of the array",
                    hint=nearest(digit.along, self.dims),
                    field=digit.name,
                )

    @property
    def dims(self) -> tuple[str, ...]:
        """The array's dimensions."""
        return tuple(one.dim for one in self.indexed)

    def digits(self, dim: str) -> tuple[Digit, ...]:
        """The digits of a tile's dimension.

        Args:
            dim: The tile's dimension.
        """
        return next(one.digits for one in self.counted if one.dim == dim)

    def derived(self) -> dict[str, str]:
        """The sizes along the tile's dimensions, as formulas of the array's."""
        return {one.dim: " * ".join(digit.formula for digit in one.digits) for one in self.counted}

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes along the tile's dimensions that follow from those of the array.

        Args:
            sizes: The array's sizes by dimension.
        """
        known = {*sizes, ""}
        return {
            one.dim: one.size(sizes)
            for one in self.counted
            if all(digit.along in known for digit in one.digits)
        }

    def least_sizes(self, tile: Mapping[str, int]) -> dict[str, int]:
        """Sizes of an array that has one tile along every dimension that is counted at launch.

        Args:
            tile: What a workgroup takes along each dimension of the tile.
        """
        found = dict.fromkeys(self.dims, 1) | self.fixed()
        for one in self.counted:
            for digit in one.digits:
                if digit.along:
                    count = tile[one.dim] if digit is one.digits[0] else 1
                    found[digit.along] = max((count - 1) * digit.step + 1 - digit.more, 1)
        return found

    def gathered(
        self, array: NDArray[Any], index: Mapping[str, Places], sizes: Mapping[str, int]
    ) -> NDArray[Any]:
        """The elements at a tile's indices, by dimension in the order of ``index``; zero outside.

        Args:
            array: The array.
            index: The tile's indices along each of its dimensions.
            sizes: The array's sizes by dimension.
        """
        dims = list(index)
        digits: dict[str, Places] = {}
        inside: Any = True
        for one in self.counted:
            shape = [-1 if dim == one.dim else 1 for dim in dims]
            places = index[one.dim].reshape(shape)
            inside = inside & (places < one.size(sizes))
            digits |= one.split(places, sizes)
        at = []
        for axis, form in enumerate(one.index for one in self.indexed):
            place = np.asarray(form.constant + sum(f * digits[name] for name, f in form.factors))
            inside = inside & (place >= 0) & (place < array.shape[axis])
            at.append(place)
        whole = tuple(len(index[dim]) for dim in dims)
        if not array.size:
            return np.zeros(whole, np.float32)
        clipped = [np.clip(p, 0, n - 1) for p, n in zip(at, array.shape, strict=True)]
        found = np.where(inside, array[tuple(clipped)], 0)
        return np.broadcast_to(found, whole).astype(np.float32)

    def span(self, over: str, tile: Mapping[str, int]) -> str:
        """Elements between the first and the last that a block may address, as a formula of sizes
        and of ``pitch``, the elements from one index along the last dimension but one to the next.

        Args:
            over: The dimension that the loop runs along.
            tile: What a workgroup takes along each dimension of the tile.
        """
        taps = {digit.name: digit.count - 1 for digit in self.digits(over)}
        terms = []
        for axis, one in enumerate(self.indexed[:-1]):
            reach = sum(f * taps.get(name, 0) for name, f in one.index.factors)
            behind = [f"max({dim}, 1)" for dim in self.dims[axis + 1 : -1]] + ["pitch"]
            count = f"{one.dim} + {reach + abs(one.index.constant)}"
            for rows in self.counted:
                if axis == 0 and one.index == rows.digits[0].form and rows.dim != over:
                    inner = " * ".join(["1", *(digit.formula for digit in rows.digits[1:])])
                    count = f"ceil({tile[rows.dim]} / max({inner}, 1)) + 1"
            terms.append(f"({count}) * " + " * ".join(behind))
        return " + ".join(terms)

    # --- what a kernel needs ----------------------------------------------------------------------

    def _alone(self, one: IndexedDim) -> tuple[Digit, int] | None:
        """The digit that alone is an index, and its factor; those that are always 0 aside."""
        digits = {digit.name: digit for counted in self.counted for digit in counted.digits}
        moving = [(digits[name], factor) for name, factor in one.index.factors]
        moving = [(digit, factor) for digit, factor in moving if digit.along or digit.count > 1]
        return moving[0] if len(moving) == 1 and not one.index.constant else None

    def checked(self) -> Iterator[IndexedDim]:
        """The array's dimensions along which an index may lie outside.

        A fixed digit is inside by what ``fixed`` asks of sizes, and one whose count follows from
        the size by that count.
        """
        for one in self.indexed:
            digit, factor = self._alone(one) or (None, 0)
            fixed = digit is not None and not digit.along and factor == 1
            follows = digit is not None and digit.along == one.dim and digit.more <= 0
            if not fixed and not (follows and digit is not None and factor <= digit.step):
                yield one

    def fixed(self) -> dict[str, int]:
        """The least sizes of dimensions along which a fixed digit is the index."""
        found = {}
        for one in self.indexed:
            digit, factor = self._alone(one) or (None, 0)
            if digit is not None and not digit.along and factor == 1:
                found[one.dim] = digit.count
        return found

    def is_matrix(self, over: str) -> bool:
        """Whether rows and columns lie as those of a matrix do: nothing is skipped or outside.

        Args:
            over: The dimension that the loop runs along.
        """
        order = [
            (digit, 1)
            for one in self.counted
            for digit in one.digits
            if digit.along or digit.count > 1
        ]
        return (
            len(self.counted) == 2
            and self.counted[1].dim == over
            and [self._alone(one) for one in self.indexed] == order
            and all(digit.along == "" or digit.follows for digit, _ in order)
            and not any(True for _ in self.checked())
        )

    def form(self, over: str, tile: int) -> LoadForm:
        """How loads find their places.

        Args:
            over: The dimension that the loop runs along.
            tile: How far one iteration goes.
        """
        if self.is_matrix(over):
            return LoadForm.POINTWISE
        inner = self.digits(over)[-1].number({})
        return LoadForm.UNIFORM if inner % tile == 0 else LoadForm.PER_LANE


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


def address_map(dims: Mapping[str, Sequence[Digit] | Digit | IndexForm]) -> AddressMap:
    """A place as it is written: tuples of digits for the tile, sums of digits for the array."""
    counted, indexed = [], []
    for dim, value in dims.items():
        if isinstance(value, _Arithmetic):
            indexed.append(IndexedDim(dim, value.form))
        elif isinstance(value, tuple | list) and all(isinstance(d, Digit) for d in value):
            counted.append(CountedDim(dim, tuple(value)))
        else:
            raise ConfigError(
                f"place has {value!r} for {dim!r}",
                hint="give a tuple of digits for a dimension of the tile, and a sum of digits for "
                "one of the array: pl.digit('r', 3)",
                field=dim,
            )
    return AddressMap(tuple(counted), tuple(indexed))
