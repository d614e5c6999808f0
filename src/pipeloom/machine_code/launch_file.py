"""Launch files: how a kernel that others wrote is started, as JSON that a person can fill in.

    launch = template(load_code_object("k.co"))     # arguments by name, offset and size
    save_launch(launch, "LAUNCH.json")              # fill in shapes and values
    launch = load_launch("LAUNCH.json")
    run_kernel(code, launch.kernel, grid=launch.grid, block=launch.block, args=launch.arguments())

An argument lies at its ``offset`` in the kernarg segment, whatever the metadata says there, so a
kernel whose metadata lists no arguments, or wrong sizes, can be launched too. Buffers are made from
a shape, a type and a fill; the same file always gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pipeloom.checks import check_int, nearest
from pipeloom.errors import ConfigError, SpecError
from pipeloom.files import read_text, write_file
from pipeloom.judge.emulate import CodeKernel, CodeObject, EmulateError, KernelArgument, PlacedArg
from pipeloom.judge.emulate.decode import decode_kernel
from pipeloom.judge.emulate.loader import MOST_KERNARG
from pipeloom.machine.dtypes import DTYPES
from pipeloom.plain import from_plain, to_plain

Number = TypeVar("Number", int, float)
Array: TypeAlias = npt.NDArray[Any]

NUMPY_TYPES = {
    **{f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)},
    "f32": "f4",
    "f64": "f8",
    "fp16": "f2",
    "f16": "f2",
}
"""Types that NumPy has; scalars are of these."""
CODED_TYPES = {
    dtype.name: dtype
    for dtype in DTYPES
    if dtype.name not in NUMPY_TYPES and dtype.exponent and dtype.scale is None
}
"""Types that NumPy lacks: a buffer holds their bit patterns, packed."""
_VALUE_GUESS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


MOST_ELEMENTS = 1 << 25
"""Of all buffers of a launch: they are filled as doubles, and copied for every run."""
MOST_DIMENSIONS = 8
_MOST_SIZE = (1 << 31) - 1
"""Along one dimension."""
MOST_WORKGROUPS = 1 << 10
"""Of a grid: each is emulated, in a hundredth of a second at best."""


class Fill(Enum):
    """What a buffer holds before the launch."""

    ZEROS = "zeros"
    ONES = "ones"
    ARANGE = "arange"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer to an array of its own, or to that of the buffer named by ``same_as``.

    Random numbers lie in [low, high): by default -1 to 1, for integers -4 to 4 (0 to 8 unsigned).
    Types of less than a byte are packed, low bits first.
    """

    TAG: ClassVar[str] = "buffer"

    name: str
    offset: int
    shape: tuple[int, ...] | None = None
    type: str = "f32"
    fill: Fill = Fill.RANDOM
    seed: int = 0
    low: float | None = None
    high: float | None = None
    same_as: str | None = None

    def __post_init__(self) -> None:
        _check_place(self)
        known = (*NUMPY_TYPES, *CODED_TYPES)
        if self.type not in known:
            raise ConfigError(
                f"{_label(self)} has the unknown type {self.type!r}",
                hint=nearest(self.type, known),
                field="type",
            )
        for extent in self.shape or ():
            check_int(_label(self), "shape", extent, 1, _MOST_SIZE)
        if self.shape is not None and len(self.shape) > MOST_DIMENSIONS:
            raise ConfigError(
                f"{_label(self)} has {len(self.shape)} dimensions",
                hint=f"give at most {MOST_DIMENSIONS}",
                field="shape",
            )
        check_int(_label(self), "seed", self.seed, 0, (1 << 64) - 1)
        _check_range(self)

    @property
    def size(self) -> int:
        """Bytes in the kernarg segment."""
        return 8

    def array(self) -> Array:
        """A new array with the content the file asks for."""
        if self.shape is None:
            raise _unset(self, "shape")
        _check_elements(math.prod(self.shape), f"{_label(self)} has")
        values = self._values(self.shape)
        if self.type in NUMPY_TYPES:
            return values.astype(NUMPY_TYPES[self.type])
        dtype = CODED_TYPES[self.type]
        codes = dtype.encode(values)
        if dtype.bits % 8 == 0:
            return codes.astype(f"u{dtype.bits // 8}")
        dtype.bytes(self.shape[-1] if self.shape else 1)
        bits = (codes[..., None] >> np.arange(dtype.bits) & 1).astype(np.uint8)
        return np.packbits(bits.reshape(*self.shape[:-1], -1), axis=-1, bitorder="little")

    def _values(self, shape: tuple[int, ...]) -> Array:
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
                f"{_label(self)} is random between {low} and {high}",
                hint="give low below high" + (", as whole numbers" if whole else ""),
                field="low",
            )
        generator = np.random.default_rng([self.seed, self.offset])
        if whole:
            return generator.integers(int(low), int(high), shape, dtype=kind)
        return generator.uniform(low, high, shape)


@dataclass(frozen=True, slots=True)
class Scalar(Generic[Number]):
    """A number of ``type``; a whole number may be written for a float, not the other way round."""

    TAG: ClassVar[str] = "value"

    name: str
    offset: int
    type: str
    value: Number | None = None

    def __post_init__(self) -> None:
        _check_place(self)
        if self.type not in NUMPY_TYPES:
            raise ConfigError(
                f"{_label(self)} has the unknown type {self.type!r}",
                hint=nearest(self.type, NUMPY_TYPES),
                field="type",
            )
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
            raise _unset(self, "value")
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


LaunchArgument: TypeAlias = Buffer | Scalar[float] | Raw | Padding


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A kernel, its grid (in workgroups) and block (in work-items), and its arguments."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[LaunchArgument, ...]
    dynamic_lds: int | None = 0
    """Bytes of LDS beyond those that the kernel's metadata asks for."""

    def __post_init__(self) -> None:
        for name, sizes in (("grid", self.grid), ("block", self.block)):
            if not 1 <= len(sizes) <= 3:
                raise ConfigError(
                    f"{name} is {list(sizes)}", hint="give one to three sizes", field=name
                )
            for size in sizes:
                check_int("launch", name, size, 1, _MOST_SIZE)
        if math.prod(self.grid) > MOST_WORKGROUPS:
            raise ConfigError(
                f"grid is {list(self.grid)}: {math.prod(self.grid)} workgroups",
                hint=f"give at most {MOST_WORKGROUPS}: every one is emulated",
                field="grid",
            )
        if self.dynamic_lds is not None:
            check_int("launch", "dynamic_lds", self.dynamic_lds, 0, _MOST_SIZE)

    def more_lds(self) -> int:
        """``dynamic_lds``, which must be filled in."""
        if self.dynamic_lds is None:
            raise ConfigError(
                "the launch has no dynamic_lds, and the kernel uses LDS of which its metadata "
                "knows nothing",
                hint="fill in its bytes; of a kernel by Triton, metadata.shared of its compilation",
                field="dynamic_lds",
            )
        return self.dynamic_lds

    def arguments(self) -> tuple[PlacedArg, ...]:
        """What ``run_kernel`` takes, with new arrays; after the run these hold what it stored."""
        own = [a for a in self.args if isinstance(a, Buffer) and a.shape and a.same_as is None]
        _check_elements(
            sum(math.prod(a.shape or ()) for a in own), "the buffers of the launch have"
        )
        arrays: dict[str, Array] = {}
        placed = []
        for argument in self.args:
            match argument:
                case Buffer():
                    array = self._shared(argument, arrays)
                    arrays.setdefault(argument.name, array)
                    placed.append(PlacedArg(argument.offset, 8, array, argument.name))
                case Scalar():
                    number = argument.number()
                    placed.append(PlacedArg(argument.offset, argument.size, number, argument.name))
                case Raw():
                    data = bytes.fromhex(argument.hex)
                    placed.append(PlacedArg(argument.offset, len(data), data, argument.name))
        return tuple(placed)

    @staticmethod
    def _shared(argument: Buffer, arrays: dict[str, Array]) -> Array:
        if argument.same_as is None:
            return argument.array()
        if argument.same_as not in arrays:
            raise ConfigError(
                f"{_label(argument)} is the same as {argument.same_as!r}, which is no buffer "
                "before it",
                hint=nearest(argument.same_as, arrays),
                field="same_as",
            )
        return arrays[argument.same_as]

    def text(self) -> str:
        """The launch file: JSON with one argument per line."""
        plain = to_plain(self)
        rows = [
            json.dumps({key: value for key, value in row.items() if key not in _OMITTED or value})
            for row in plain.pop("args")
        ]
        head = "".join(f"  {json.dumps(key)}: {json.dumps(plain[key])},\n" for key in plain)
        return f'{{\n{head}  "args": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"


_OMITTED = frozenset({"low", "high", "same_as", "seed"})
"""Keys that are left out of a written file where they say nothing."""


def template(code: CodeObject | CodeKernel, kernel: str | None = None) -> LaunchSpec:
    """A launch of one workgroup, with shapes and values left open.

    Padding (arguments so called) is kept; a kernel whose metadata lists no arguments gets its whole
    kernarg segment as bytes. ``dynamic_lds`` is left open where the code uses LDS and its metadata
    has none.
    """
    found = code if isinstance(code, CodeKernel) else code.kernel(kernel)
    listed = sorted(found.explicit_arguments, key=lambda argument: argument.offset)
    args: list[LaunchArgument] = []
    for argument in listed:
        known = _known(argument)
        last = args[-1] if args else None
        joins = isinstance(last, Padding) and last.offset + last.size == argument.offset
        if isinstance(known, Padding) and isinstance(last, Padding) and joins:
            known = Padding(last.offset, last.size + known.size)
            args.pop()
        args.append(known)
    if not 0 <= found.kernarg_size <= MOST_KERNARG:
        raise ConfigError(
            f"kernel {found.name} has a kernarg segment of {found.kernarg_size} bytes",
            hint=f"the code object is damaged: the limit is {MOST_KERNARG}",
        )
    if not listed and found.kernarg_size:
        args = [Raw("kernarg", 0, bytes(found.kernarg_size).hex())]
    said = found.metadata
    block = said.required_block or (said.max_work_items or 64, 1, 1)
    open_lds = not found.group_segment_bytes and _uses_lds(found)
    return LaunchSpec(found.name, (1, 1, 1), block, tuple(args), None if open_lds else 0)


def _uses_lds(kernel: CodeKernel) -> bool:
    try:
        instructions = decode_kernel(kernel.code)
    except EmulateError:
        return False
    return any(
        one.name.startswith(("ds_read", "ds_write")) or one.fields.get("lds")
        for one in instructions
    )


def _known(argument: KernelArgument) -> LaunchArgument:
    name = argument.name or f"arg_{argument.offset}"
    if argument.is_pointer:
        return Buffer(name, argument.offset)
    if argument.is_padding:
        return Padding(argument.offset, argument.size)
    if argument.size in _VALUE_GUESS:
        return Scalar(name, argument.offset, _VALUE_GUESS[argument.size])
    return Raw(name, argument.offset, bytes(argument.size).hex())


def load_launch(path: str | os.PathLike[str]) -> LaunchSpec:
    """Read a launch file."""
    try:
        data = json.loads(read_text(path))
    except OSError as error:
        raise SpecError(
            f"cannot read the launch file {path}: {error.strerror}",
            hint="write one with --template and fill it in",
        ) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"the launch file {path} is not JSON: {error}", hint="write it with --template"
        ) from error
    return from_plain(LaunchSpec, data, name=f"the launch file {path}")


def save_launch(launch: LaunchSpec, path: str | os.PathLike[str]) -> None:
    """Write a launch file; the same launch gives the same bytes."""
    write_file(path, launch.text())


def _label(argument: Buffer | Scalar[Any] | Raw) -> str:
    return f"argument {argument.name or argument.offset}"


def _check_place(argument: Buffer | Scalar[Any] | Raw) -> None:
    check_int(_label(argument), "offset", argument.offset, 0, MOST_KERNARG)


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
                f"{_label(buffer)}: {name} is {value}, which {buffer.type} does not hold",
                hint=f"give a number from {known.min} to {known.max}",
                field=name,
            )


def _check_elements(count: int, what: str) -> None:
    if count > MOST_ELEMENTS:
        raise ConfigError(
            f"{what} {count} elements",
            hint=f"give shapes of at most {MOST_ELEMENTS} elements together",
            field="shape",
        )


def _unset(argument: Buffer | Scalar[Any], key: str) -> ConfigError:
    return ConfigError(
        f"{_label(argument)} (at byte {argument.offset}) has no {key}",
        hint=f"fill in its {key} in the launch file",
        field=key,
    )
