"""What a pointer of a launch points to: an array made from a few words, numbers, or a file.

    Buffer("A", 0, (4, 8), "bf16", Fill.RANDOM)
    Buffer("indptr", 8, type="i32", cumulative=(128, 64))         # 0, 128, 192
    Buffer("table", 16, pointers=(Link("A"), Link("A", byte=32)))
    Buffer("q", 24, type="bf16", file="q.npy")

The same words always give the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.checks import check_int, check_known
from pipeloom.errors import ConfigError
from pipeloom.judge.emulate.loader import MOST_KERNARG
from pipeloom.machine_code import launch_elements
from pipeloom.machine_code.launch_elements import (
    CODED_TYPES,
    NUMPY_TYPES,
    file_shape,
    packed_shape,
    read_array,
    stored,
)
from pipeloom.plain import LEFT_OUT_WHILE_USUAL as USUAL

MOST_DIMENSIONS = 8
MOST_SIZE = (1 << 31) - 1
"""Along one dimension."""
ADDRESS = 8
"""Bytes of a pointer."""


class Fill(Enum):
    """What a buffer holds before the launch."""

    ZEROS = "zeros"
    ONES = "ones"
    ARANGE = "arange"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Link:
    """An address inside a buffer: of the buffer ``to``, ``byte`` bytes into it; null without."""

    to: str | None
    byte: int = field(default=0, metadata=USUAL)
    at: int | None = field(default=None, metadata=USUAL)
    """The byte of the table where it stands; behind the one before it unless given."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer to an array of its own, or into that of the buffer named by ``same_as``.

    Random numbers lie in [low, high): by default -1 to 1, for integers -4 to 4 (0 to 8 unsigned).
    Types of less than a byte are packed, low bits first. A buffer without an offset is no argument:
    pointers of others lead to it.
    """

    TAG: ClassVar[str] = "buffer"

    name: str
    offset: int | None = None
    shape: tuple[int, ...] | None = None
    type: str = "f32"
    fill: Fill = Fill.RANDOM
    seed: int = field(default=0, metadata=USUAL)
    low: float | None = field(default=None, metadata=USUAL)
    high: float | None = field(default=None, metadata=USUAL)
    same_as: str | None = field(default=None, metadata=USUAL)
    byte: int = field(default=0, metadata=USUAL)
    values: tuple[int | float, ...] | None = field(default=None, metadata=USUAL)
    file: str | None = field(default=None, metadata=USUAL)
    cumulative: tuple[int, ...] | None = field(default=None, metadata=USUAL)
    pointers: tuple[Link, ...] | None = field(default=None, metadata=USUAL)

    def __post_init__(self) -> None:
        if self.offset is not None:
            check_int(self.label, "offset", self.offset, 0, MOST_KERNARG)
        known = (*NUMPY_TYPES, *CODED_TYPES)
        said = f"{self.label} has the unknown type {self.type!r}"
        check_known(self.type, known, said, "type")
        for extent in self.shape or ():
            check_int(self.label, "shape", extent, 1, MOST_SIZE)
        if self.shape is not None and len(self.shape) > MOST_DIMENSIONS:
            raise ConfigError(
                f"{self.label} has {len(self.shape)} dimensions",
                hint=f"give at most {MOST_DIMENSIONS}",
                field="shape",
            )
        check_int(self.label, "seed", self.seed, 0, (1 << 64) - 1)
        check_int(self.label, "byte", self.byte, 0, 1 << 40)
        given = [name for name in ("values", "file", "cumulative") if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(
                f"{self.label} has both {given[0]} and {given[1]}",
                hint="give one of them",
                field=given[1],
            )
        if self.byte and self.same_as is None:
            raise ConfigError(
                f"{self.label} begins at byte {self.byte} of nothing",
                hint="name the buffer that it points into by same_as",
                field="byte",
            )
        for number in self.cumulative or ():
            check_int(self.label, "cumulative", number, 0, MOST_SIZE)
        _check_range(self)

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"argument {self.name or self.offset}"

    @property
    def size(self) -> int:
        """Bytes in the kernarg segment."""
        return ADDRESS

    @property
    def element(self) -> str:
        """The type; addresses where nothing but pointers is given."""
        return "u64" if self.pointers and self.shape is None and not self.values else self.type

    def whole_shape(self) -> tuple[int, ...]:
        """How many elements, along which dimensions: the shape, or what the content says."""
        if self.shape is not None:
            return self.shape
        if self.values:
            return (len(self.values),)
        if self.cumulative:
            return (len(self.cumulative) + 1,)
        if self.file is not None:
            return file_shape(self.file, self.type)
        if self.pointers:
            return (-(-max(at + ADDRESS for at, _ in self.links()) // ADDRESS),)
        raise ConfigError(
            f"{self.label}{self._place()} has no shape",
            hint="fill in its shape in the launch file, or give values or a file",
            field="shape",
        )

    def links(self) -> tuple[tuple[int, Link], ...]:
        """Its pointers, each with the byte at which it stands."""
        found, at = [], 0
        for link in self.pointers or ():
            at = at if link.at is None else link.at
            found.append((at, link))
            at += ADDRESS
        return tuple(found)

    def array(self) -> Array:
        """A new array with the content the file asks for; addresses in it are zero."""
        shape = self.whole_shape()
        check_elements(math.prod(shape), f"{self.label} has")
        if self.file is not None:
            return self._from_file(self.file, shape)
        if self.values or self.cumulative:
            return self._listed(shape)
        if self.element == "u64" and self.pointers and self.shape is None:
            return np.zeros(shape, np.uint64)
        return stored(self._filled(shape), self.type, shape)

    def _place(self) -> str:
        return "" if self.offset is None else f" (at byte {self.offset})"

    def _from_file(self, path: str, shape: tuple[int, ...]) -> Array:
        array = read_array(path, self.type, self.shape)
        wanted = packed_shape(self.type, shape)
        if array.size != math.prod(wanted):
            raise ConfigError(
                f"{self.label} has the shape {list(shape)}, and {path} is {list(array.shape)}",
                hint="leave out the shape, or give the file's",
                field="shape",
            )
        return array.reshape(wanted)

    def _listed(self, shape: tuple[int, ...]) -> Array:
        listed = [0, *np.cumsum(self.cumulative).tolist()] if self.cumulative else self.values or ()
        if len(listed) != math.prod(shape):
            raise ConfigError(
                f"{self.label} has the shape {list(shape)} and {len(listed)} numbers",
                hint="leave out the shape, or give as many numbers",
                field="shape",
            )
        kind = np.dtype(NUMPY_TYPES.get(self.type, "f8"))
        for number in listed:
            whole = kind.kind in "iu"
            known = np.iinfo(kind) if whole else np.finfo(kind)
            held = float(known.min) <= number <= float(known.max) or not math.isfinite(number)
            if (whole and number != int(number)) or not held:
                raise ConfigError(
                    f"{self.label} is to hold {number}, which {self.type} does not",
                    hint="choose another type or value",
                    field="values",
                )
        return stored(np.array(listed, kind).reshape(shape), self.type, shape)

    def _filled(self, shape: tuple[int, ...]) -> Array:
        kind = NUMPY_TYPES.get(self.type, "f4")
        if self.fill is not Fill.RANDOM:
            if self.fill is Fill.ARANGE:
                return np.arange(math.prod(shape)).reshape(shape)
            return np.full(shape, int(self.fill is Fill.ONES), kind)
        usual = {"i": (-4.0, 4.0), "u": (0.0, 8.0)}.get(kind[0], (-1.0, 1.0))
        low = usual[0] if self.low is None else self.low
        high = usual[1] if self.high is None else self.high
        whole = kind[0] in "iu"
        if not (int(low) < int(high) if whole else low < high and math.isfinite(high - low)):
            raise ConfigError(
                f"{self.label} is random between {low} and {high}",
                hint="give low below high" + (", as whole numbers" if whole else ""),
                field="low",
            )
        own = sum(self.name.encode()) if self.offset is None else self.offset
        generator = np.random.default_rng([self.seed, own])
        if whole:
            return generator.integers(int(low), int(high), shape, dtype=kind)
        return generator.uniform(low, high, shape)


def check_elements(count: int, what: str) -> None:
    """Refuse more than a launch may hold."""
    if count > launch_elements.MOST_ELEMENTS:
        raise ConfigError(
            f"{what} {count} elements",
            hint=f"give shapes of at most {launch_elements.MOST_ELEMENTS} elements together",
            field="shape",
        )


def _check_range(buffer: Buffer) -> None:
    """Refuse random numbers that the buffer's type cannot hold."""
    kind = NUMPY_TYPES.get(buffer.type, "f4")
    known = np.iinfo(kind) if kind[0] in "iu" else np.finfo(kind)
    least, most = int(known.min), int(known.max)
    for name, value in (("low", buffer.low), ("high", buffer.high)):
        # High is left out of the range, so an integer's may be one more than its largest.
        above = 1 if name == "high" and kind[0] in "iu" else 0
        if value is not None and not least <= value <= most + above:
            raise ConfigError(
                f"{buffer.label}: {name} is {value}, which {buffer.type} does not hold",
                hint=f"give a number from {known.min} to {known.max}",
                field=name,
            )
