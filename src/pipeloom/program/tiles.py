"""Tiles: named dimensions, sizes, an element type; and boxes, which are parts of them.

Dimensions have names, so that an op needs no index maps: what an operand has to do with a result
is in the names. ``A(m, k) @ B(n, k)`` computes ``C(m, n)``, and part ``m 0:64, n 0:64, k 0:32`` of
that work reads ``m 0:64, k 0:32`` of A.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import copysign, isinf, isnan, prod

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import F32, DType

Range = tuple[int, int]
Box = tuple[Range, ...]
"""One half-open range per dimension, in the order of the dimensions that go with it."""


@dataclass(frozen=True, slots=True)
class TileType:
    """What a value is: dimensions by name, their sizes, and the type of an element."""

    dims: tuple[str, ...]
    """The dimensions by name. Ops match operands by these names."""
    shape: tuple[int, ...]
    """The size of each dimension."""
    dtype: DType
    """The type of an element."""

    def __post_init__(self) -> None:
        if len(self.dims) != len(self.shape) or len(set(self.dims)) != len(self.dims):
            raise ConfigError(
                f"TileType has dimensions {self.dims} and shape {self.shape}",
                hint="give each dimension one name of its own and one size",
                field="TileType.dims",
            )
        for dim, size in zip(self.dims, self.shape, strict=True):
            check_int("TileType", dim, size, 1)

    @property
    def whole(self) -> Box:
        """The box of everything."""
        return tuple((0, size) for size in self.shape)

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def single(self) -> bool:
        """Whether it is one row of elements, or a column of codes that cover a row each."""
        return len(self.shape) == 1 or self.shape[1:] == (self.dtype.covers,)

    @property
    def sizes(self) -> dict[str, int]:
        """Size by dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def ordered(self, dims: tuple[str, ...]) -> TileType:
        """The same with its dimensions in another order.

        Args:
            dims: All of them.
        """
        return TileType(dims, tuple(self.sizes[dim] for dim in dims), self.dtype)

    def __str__(self) -> str:
        sizes = ", ".join(f"{d}={s}" for d, s in zip(self.dims, self.shape, strict=True))
        return f"{self.dtype}({sizes})"


def check_start(owner: str, start: float | None) -> None:
    """That a number to begin with is one number to everybody: in f32, and in comparisons."""
    if start is None:
        return
    too_large = abs(start) > F32.largest and not isinf(start)
    if isnan(start) or too_large or (start == 0 and copysign(1, start) < 0):
        raise ConfigError(
            f"{owner} starts at {start}",
            hint="give a number that f32 holds, an infinity, or 0 without a sign",
            field=f"{owner}.start",
        )


def project(box: Box, dims: Sequence[str], onto: Sequence[str]) -> Box:
    """The ranges of ``box`` (which has ``dims``) along the dimensions ``onto``."""
    at = dict(zip(dims, box, strict=True))
    return tuple(at[dim] for dim in onto)


def volume(box: Box) -> int:
    """Elements of a box."""
    return prod(stop - start for start, stop in box)


def overlap(a: Box, b: Box) -> Box | None:
    """The common part of two boxes, if any."""
    common = []
    for (p, q), (r, s) in zip(a, b, strict=True):
        start, stop = (p if p > r else r), (q if q < s else s)
        if start >= stop:
            return None
        common.append((start, stop))
    return tuple(common)


def contains(outer: Box, inner: Box) -> bool:
    """Whether ``inner`` lies wholly in ``outer``."""
    return all(p <= r and s <= q for (p, q), (r, s) in zip(outer, inner, strict=True))


def shifted(box: Box, by: Iterable[int]) -> Box:
    """``box`` moved."""
    return tuple((start + d, stop + d) for (start, stop), d in zip(box, by, strict=True))


def subtract(box: Box, hole: Box) -> Iterator[Box]:
    """``box`` without ``hole``, as disjoint boxes."""
    common = overlap(box, hole)
    if common is None:
        yield box
        return
    rest = list(box)
    for axis, (start, stop) in enumerate(common):
        low, high = rest[axis]
        if low < start:
            yield (*rest[:axis], (low, start), *rest[axis + 1 :])
        if stop < high:
            yield (*rest[:axis], (stop, high), *rest[axis + 1 :])
        rest[axis] = (start, stop)


def describe_box(box: Box, dims: Sequence[str]) -> str:
    """``m 0:64, k 0:32``."""
    return ", ".join(f"{d} {p}:{q}" for d, (p, q) in zip(dims, box, strict=True))


def merged_sizes(types: Iterable[TileType], what: str) -> Mapping[str, int]:
    """Size of every dimension that occurs; dimensions of one name must agree."""
    sizes: dict[str, int] = {}
    for tile in types:
        for dim, size in tile.sizes.items():
            if sizes.setdefault(dim, size) != size:
                raise ConfigError(
                    f"{what}: dimension {dim!r} is {sizes[dim]} in one operand and {size} in "
                    "another",
                    hint="operands that share a dimension must agree on its size; an array that "
                    f"has one element for 32 of {dim!r} is of a type like F32.per(32), and as long",
                    field=what,
                )
    return sizes
