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

from pipeloom.array_kinds import Array, Flags, Places
from pipeloom.checks import check_known, nearest
from pipeloom.errors import ConfigError
from pipeloom.plain import LEFT_OUT_WHILE_USUAL
from pipeloom.program.index_forms import Digit, DigitSum, IndexEntry, IndexForm


class LoadForm(Enum):
    """How the loads of a placed stream find their addresses."""

    POINTWISE = "pointwise"
    """Rows and columns lie as those of a matrix."""
    UNIFORM = "uniform"
    """All of an iteration's tile has one tap: what changes from iteration to iteration is the same
    in all lanes."""
    PER_LANE = "per lane"
    """A tile has several taps, and each lane divides its column."""


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
    entries: tuple[IndexEntry, ...] = field(default=(), metadata=LEFT_OUT_WHILE_USUAL)
    """Entries of index arrays that indices are made of, beside digits."""

    def __post_init__(self) -> None:
        digits = [digit for one in self.counted for digit in one.digits]
        names = [digit.name for digit in digits] + [entry.name for entry in self.entries]
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
                said = f"the index along {one.dim!r} is {one.index}, but {name!r} is no digit of "
                check_known(name, names, said + "the tile", one.dim)
        lengths = {entry.digit: entry.dim for entry in self.entries}
        for digit in digits:
            known = (*self.dims, lengths.get(digit.name))
            if digit.along and digit.along not in known:
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

    def located(
        self,
        index: Mapping[str, Places],
        sizes: Mapping[str, int],
        entries: Mapping[str, Places],
    ) -> tuple[list[Places], Flags]:
        """Indices along the array's dimensions, and which are inside: arrays that broadcast
        against each other, with an axis for each dimension of the tile.

        Args:
            index: The tile's indices along each of its dimensions.
            sizes: The array's sizes by dimension.
            entries: Whole index arrays by name.
        """
        dims = list(index)
        values: dict[str, Places] = {}
        inside: Any = np.ones((1,) * len(dims), np.bool_)
        for one in self.counted:
            places = index[one.dim].reshape([-1 if dim == one.dim else 1 for dim in dims])
            inside = inside & (places < one.size(sizes))
            values |= one.split(places, sizes)
        for entry in self.entries:
            shape = [-1 if dim == entry.dim else 1 for dim in dims]
            places = values[entry.digit] if entry.digit else index[entry.dim].reshape(shape)
            numbers = np.asarray(entries[entry.array], np.int64)
            inside = inside & (places < len(numbers))
            padded = np.append(numbers, 0)
            values[entry.name] = entry.value(padded[np.minimum(places, len(numbers))])
        at = []
        for dim in self.indexed:
            form = dim.index
            place = np.asarray(form.constant + sum(f * values[name] for name, f in form.factors))
            inside = inside & (place >= 0) & (place < sizes[dim.dim])
            at.append(place)
        return at, inside

    def gathered(
        self,
        array: Array,
        index: Mapping[str, Places],
        sizes: Mapping[str, int],
        entries: Mapping[str, Places],
    ) -> Array:
        """The elements at a tile's indices, by dimension in the order of ``index``; zero outside.

        Args:
            array: The array.
            index: The tile's indices along each of its dimensions.
            sizes: The array's sizes by dimension.
            entries: Whole index arrays by name.
        """
        whole = tuple(len(places) for places in index.values())
        if not array.size:
            return np.zeros(whole, array.dtype)
        at, inside = self.located(index, sizes, entries)
        clipped = [np.clip(p, 0, n - 1) for p, n in zip(at, array.shape, strict=True)]
        found = np.where(inside, array[tuple(clipped)], 0)
        return np.array(np.broadcast_to(found, whole))

    def span(self, over: str, tile: Mapping[str, int]) -> str:
        """Elements between the first and the last that a block may address, as a formula of sizes
        and of ``pitch``, the elements from one index along the last dimension but one to the next.

        Args:
            over: The dimension that the loop runs along.
            tile: What a workgroup takes along each dimension of the tile.
        """
        counted = [one for one in self.counted if one.dim == over]
        taps = {d.name: max(d.count - 1, 0) for one in counted for d in one.digits}
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
        if any(name not in digits for name, _ in one.index.factors):
            return None
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

    def ends_in_tile(self, over: str, tile: int) -> bool:
        """Whether the last iteration reaches past the last of the loop's digits.

        Args:
            over: The dimension that the loop runs along.
            tile: How far one iteration goes.
        """
        digits = self.digits(over)
        return not any(digit.along for digit in digits) and prod(d.count for d in digits) % tile > 0

    def is_matrix(self, over: str, tile: int) -> bool:
        """Whether rows and columns lie as those of a matrix do: nothing is skipped or outside.

        Args:
            over: The dimension that the loop runs along.
            tile: How far one iteration goes.
        """
        moving = [
            [digit for digit in one.digits if digit.along or digit.count > 1]
            for one in self.counted
        ]
        order = [(digit, 1) for digits in moving for digit in digits]
        return (
            len(self.counted) == 2
            and not self.ends_in_tile(over, tile)
            and self.counted[1].dim == over
            # Behind a digit of fixed count the array may go on: rows are then apart.
            and len(moving[1]) <= 1
            and all(digit.along for digit in moving[0])
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
        if self.is_matrix(over, tile):
            return LoadForm.POINTWISE
        *outer, last = self.digits(over)
        if not outer:
            return LoadForm.UNIFORM
        inner = last.number({})
        return LoadForm.UNIFORM if inner % tile == 0 else LoadForm.PER_LANE


Sum = Digit | IndexEntry | IndexForm
"""What is an index along a dimension of an array."""


def address_map(
    dims: Mapping[str, Sequence[Digit] | Sum], entries: Sequence[IndexEntry] = ()
) -> AddressMap:
    """A place as it is written: tuples of digits for the tile, sums of digits for the array.

    ``entries`` are those that sums may have beside digits.
    """
    counted, indexed = [], []
    for dim, value in dims.items():
        if isinstance(value, DigitSum):
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
    used = {name for one in indexed for name, _ in one.index.factors}
    taken = tuple(entry for entry in entries if entry.name in used)
    return AddressMap(tuple(counted), tuple(indexed), taken)
