"""A launch's arguments: arrays into global memory, pointers and values into the kernarg segment.

Nothing is cut to fit: a value that its argument cannot hold is refused, as a number that wraps
around is a kernel run on another problem than the one asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pipeloom.array_kinds import Array, Octets
from pipeloom.judge.emulate.global_memory import GlobalBuffer, GlobalMemory
from pipeloom.judge.emulate.loader import CodeKernel, KernelArgument
from pipeloom.judge.emulate.traps import LaunchError


@dataclass(frozen=True, slots=True)
class Pitched:
    """A matrix whose rows lie ``pitch`` bytes apart, with nothing between them.

    ``array`` holds the rows alone, so a leading dimension of gigabytes costs no memory, and an
    access between two rows is out of bounds.
    """

    array: Array
    pitch: int


@dataclass(frozen=True, slots=True)
class PointerInto:
    """The address ``byte`` bytes behind the start of an array."""

    target: Array | Linked
    byte: int = 0


@dataclass(frozen=True, slots=True)
class Linked:
    """An array that holds addresses: each of ``links`` stands at a byte of it, None for null.

    Tables of pointers, and structs with pointers in them. The array holds them after a run.
    """

    array: Array
    links: tuple[tuple[int, PointerInto | None], ...]


@dataclass(frozen=True, slots=True)
class PlacedArg:
    """An argument by its place in the kernarg segment, whatever the metadata lists there.

    An array, ``Pitched``, ``Linked``, ``PointerInto`` or None is passed as a pointer. What no
    argument covers is zero.
    """

    offset: int
    size: int
    value: Argument
    name: str = ""


Argument: TypeAlias = (
    "Array | Pitched | PointerInto | Linked | np.generic | int | float | bytes | None"
)
Arguments: TypeAlias = "Sequence[Argument | PlacedArg]"
"""All in the order of the metadata, or each with its place."""
Bound: TypeAlias = "list[tuple[Array, list[GlobalBuffer]]]"
"""The caller's arrays, and the buffers that hold their copies."""
Dim3: TypeAlias = tuple[int, int, int]
_POINTERS = (np.ndarray, Pitched, PointerInto, Linked)
_ADDRESS = 8
"""Bytes."""


def pack_arguments(
    kernel: CodeKernel, args: Arguments, memory: GlobalMemory, groups: Dim3, items: Dim3
) -> tuple[Octets, Bound]:
    """(the kernarg segment, which array lies where)."""
    placed = _placed(kernel, args)
    packed = bytearray(kernel.kernarg_size)
    bound: Bound = []
    for at, is_pointer in placed:
        name = at.name or f"the argument at byte {at.offset}"
        if is_pointer:
            data = _pointer(name, at.size, at.value, memory, bound)
        else:
            data = _value(name, at.size, at.value)
        packed[at.offset : at.offset + at.size] = data
    hidden = {
        "hidden_block_count_x": groups[0],
        "hidden_block_count_y": groups[1],
        "hidden_block_count_z": groups[2],
        "hidden_group_size_x": items[0],
        "hidden_group_size_y": items[1],
        "hidden_group_size_z": items[2],
        "hidden_grid_dims": 3,
    }
    for argument in kernel.arguments:
        if argument.value_kind in hidden:
            filled = hidden[argument.value_kind].to_bytes(argument.size, "little")
            packed[argument.offset : argument.offset + argument.size] = filled
    return np.frombuffer(bytes(packed), np.uint8), bound


def _placed(kernel: CodeKernel, args: Arguments) -> list[tuple[PlacedArg, bool]]:
    """The arguments with their places, and whether each is a pointer."""
    found = [argument for argument in args if isinstance(argument, PlacedArg)]
    if found:
        if len(found) != len(args):
            raise LaunchError(
                "some arguments have a place and some have not",
                hint="pass all as PlacedArg, or all in the order of the metadata",
                field="args",
            )
        _check_places(kernel, found)
        return [
            (argument, argument.value is None or isinstance(argument.value, _POINTERS))
            for argument in found
        ]
    wanted = kernel.explicit_arguments
    if len(args) != len(wanted):
        raise LaunchError(
            f"kernel {kernel.name} takes {len(wanted)} arguments, got {len(args)}",
            hint="in order: " + ", ".join(_describe(a) for a in wanted),
        )
    return [
        (PlacedArg(want.offset, want.size, value, want.name or f"arg {position}"), want.is_pointer)
        for position, (want, value) in enumerate(zip(wanted, args, strict=True))
        if not isinstance(value, PlacedArg)
    ]


def _check_places(kernel: CodeKernel, args: Sequence[PlacedArg]) -> None:
    """Arguments must lie in the kernarg segment and not overlap."""
    end = 0
    for argument in sorted(args, key=lambda argument: argument.offset):
        if argument.offset < end:
            raise LaunchError(
                f"argument {argument.name or argument.offset} starts at byte {argument.offset}, "
                f"inside the one before it, which ends at {end}",
                hint="give arguments that do not overlap",
                field="args",
            )
        end = argument.offset + argument.size
    if end > kernel.kernarg_size:
        raise LaunchError(
            f"the arguments end at byte {end}; the kernarg segment of kernel {kernel.name} has "
            f"{kernel.kernarg_size} bytes",
            hint="leave out what the kernel does not take",
            field="args",
        )


def copy_back(bound: Bound) -> None:
    """Give the caller's arrays what the kernel stored."""
    for array, buffers in bound:
        if array.flags.writeable and array.size:
            octets = array.reshape(len(buffers), -1).view(np.uint8)
            for row, buffer in zip(octets, buffers, strict=True):
                row[:] = buffer.octets[: buffer.size]


def _describe(argument: KernelArgument) -> str:
    name = f"{argument.name}: " if argument.name else ""
    kind = "array" if argument.is_pointer else "value"
    return f"{name}{kind} of {argument.size} bytes"


def _pointer(name: str, size: int, value: Argument, memory: GlobalMemory, bound: Bound) -> bytes:
    if value is None:
        return bytes(size)
    if isinstance(value, PointerInto):
        base = int.from_bytes(_pointer(name, _ADDRESS, value.target, memory, bound), "little")
        return (base + value.byte).to_bytes(size, "little")
    array = value.array if isinstance(value, Pitched | Linked) else value
    if not isinstance(array, np.ndarray):
        raise LaunchError(
            f"{name} is a pointer and needs a NumPy array, got {type(array).__name__}"
        )
    if not array.flags.c_contiguous:
        raise LaunchError(f"{name} must be C-contiguous", hint="pass np.ascontiguousarray(x)")
    for known, buffers in bound:
        if known is array:
            return buffers[0].base.to_bytes(size, "little")
    if isinstance(value, Pitched):
        rows = array.reshape(len(array), -1).view(np.uint8)
        if value.pitch < rows.shape[1]:
            raise LaunchError(
                f"{name} has rows of {rows.shape[1]} bytes, {value.pitch} bytes apart",
                hint="the pitch is in bytes, and no shorter than a row",
            )
        buffers = memory.allocate_rows(name, rows, value.pitch)
    else:
        buffers = [memory.allocate(name, array.reshape(-1).view(np.uint8))]
    bound.append((array, buffers))
    for at, link in value.links if isinstance(value, Linked) else ():
        inner = f"a pointer in {name}" if link is None else f"what {name} points to"
        if not 0 <= at <= buffers[0].size - _ADDRESS:
            raise LaunchError(
                f"{name} has {buffers[0].size} bytes, and a pointer at byte {at}",
                hint="an address has 8 bytes",
            )
        address = np.frombuffer(_pointer(inner, _ADDRESS, link, memory, bound), np.uint8)
        buffers[0].octets[at : at + _ADDRESS] = address
    return buffers[0].base.to_bytes(size, "little")


def _value(name: str, size: int, value: Argument) -> bytes:
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, np.generic):
        data = value.tobytes()
    elif isinstance(value, float):
        data = _float_bytes(name, size, value)
    elif isinstance(value, int):
        data = _integer_bytes(name, size, value)
    else:
        raise LaunchError(f"{name} is a value and needs a number, got {type(value).__name__}")
    if len(data) != size:
        raise LaunchError(f"{name} takes {size} bytes, got {len(data)}")
    return data


def _integer_bytes(name: str, size: int, value: int) -> bytes:
    """Signed or unsigned, whichever holds it: the metadata does not say which it is."""
    low, high = -(1 << 8 * size - 1), (1 << 8 * size) - 1
    if not low <= value <= high:
        raise LaunchError(
            f"{name} is {value}, which its {size} bytes do not hold",
            hint=f"pass a number from {low} to {high}",
        )
    return value.to_bytes(size, "little", signed=value < 0)


def _float_bytes(name: str, size: int, value: float) -> bytes:
    try:
        return struct.pack("<f" if size == 4 else "<d", value)
    except OverflowError as error:
        raise LaunchError(
            f"{name} is {value}, which a float of {size} bytes does not hold"
        ) from error
