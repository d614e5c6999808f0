"""What a launch file's arguments are beside buffers: numbers, bytes, and what nobody looks at.

Each lies at its ``offset`` in the kernarg segment, whatever the metadata says there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from pipeloom.checks import check_int, check_known
from pipeloom.errors import ConfigError
from pipeloom.judge.emulate.loader import MOST_KERNARG
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_elements import NUMPY_TYPES


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number of ``type``; a whole number may be written for a float, not the other way round."""

    TAG: ClassVar[str] = "value"

    name: str
    offset: int
    type: str
    value: int | float | None = None

    def __post_init__(self) -> None:
        _check_place(self)
        said = f"{_label(self)} has the unknown type {self.type!r}"
        check_known(self.type, NUMPY_TYPES, said, "type")
        if isinstance(self.value, float) and self.type[0] != "f":
            raise ConfigError(
                f"{_label(self)} is {self.value}, but its type is {self.type}",
                hint="say type f32 (or f64, fp16) for a float, or write a whole number",
                field="value",
            )

    @property
    def size(self) -> int:
        """Bytes in the kernarg segment."""
        return np.dtype(NUMPY_TYPES[self.type]).itemsize

    def number(self) -> np.generic:
        """The value in its type; one that the type cannot hold is an error."""
        if self.value is None:
            raise ConfigError(
                f"{_label(self)} (at byte {self.offset}) has no value",
                hint="fill in its value in the launch file",
                field="value",
            )
        kind = np.dtype(NUMPY_TYPES[self.type])
        try:
            with np.errstate(over="raise"):
                result: np.generic = kind.type(self.value)
        except (OverflowError, FloatingPointError) as error:
            raise ConfigError(
                f"{_label(self)} is {self.value}, which {self.type} does not hold",
                hint="choose another type or value",
                field="value",
            ) from error
        return result


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are, in hexadecimal: a struct, or a whole kernarg segment."""

    TAG: ClassVar[str] = "bytes"

    name: str
    offset: int
    hex: str

    def __post_init__(self) -> None:
        _check_place(self)
        try:
            bytes.fromhex(self.hex)
        except ValueError as error:
            raise ConfigError(
                f"{_label(self)} is not hexadecimal: {error}",
                hint="write two digits per byte",
                field="hex",
            ) from error

    @property
    def size(self) -> int:
        """Bytes in the kernarg segment."""
        return len(bytes.fromhex(self.hex))


@dataclass(frozen=True, slots=True)
class Padding:
    """Bytes that the kernel does not look at; they are zero."""

    TAG: ClassVar[str] = "padding"

    offset: int
    size: int

    def __post_init__(self) -> None:
        check_int("padding", "offset", self.offset, 0, MOST_KERNARG)
        check_int("padding", "size", self.size, 1, MOST_KERNARG)


LaunchArgument: TypeAlias = Buffer | Scalar | Raw | Padding


def _label(argument: Scalar | Raw) -> str:
    return f"argument {argument.name or argument.offset}"


def _check_place(argument: Scalar | Raw) -> None:
    check_int(_label(argument), "offset", argument.offset, 0, MOST_KERNARG)
