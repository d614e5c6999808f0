"""What a kernel's record says, applied to a call: which kernel, what it refuses, grid, arguments.

A record is the JSON beside a code object. What it does not allow is refused before anything is
launched; the C launcher refuses, chooses and packs in the same way.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Mapping
from typing import Any

from .arrays import LibraryError, MatrixView

FORMAT = "pipeloom-library-1"
LARGEST = 1 << 31
"""Sizes, and the bytes that a workgroup reaches of an array, stay below."""
MOST_ALONG = 65535
"""Workgroups along z (HIP, maxGridSize)."""


def chosen(entries: list[dict[str, Any]], m: int, n: int, k: int) -> dict[str, Any]:
    """The entry of a shape: its own, else the nearest; the C launcher chooses in the same way.

    Nearest is the least product of ratios of the sizes, and of equals the first.
    """
    best, least = entries[0], float("inf")
    for entry in entries:
        far = 1.0
        for size, other in ((m, entry["m"]), (n, entry["n"]), (k, entry["k"])):
            size = max(size, 1)
            far *= size / other if size > other else other / size
        if far < least:
            best, least = entry, far
    return best


def check(
    record: Mapping[str, Any], m: int, n: int, k: int | None, arrays: Mapping[str, MatrixView]
) -> None:
    """Refuse what the kernel's contract does not allow; ``k`` is None where it sums up slices."""
    for name, size in (("m", m), ("n", n), ("k", k)):
        if size is None:
            continue
        multiple = record["multiples"].get(name, 1)
        if size >= LARGEST or size % multiple:
            raise LibraryError(
                f"{name} is {size}, and {record['kernel']} takes multiples of {multiple} below 2^31"
            )
    for name, matrix in arrays.items():
        aligned = record["pitch_bytes"].get(name, 1)
        if not matrix.aligned(aligned):
            raise LibraryError(
                f"the rows of {name} must begin at multiples of {aligned} bytes for "
                f"{record['kernel']}"
            )
        layout = record.get("layout", "NT")
        transposed = {"A": layout[0] == "T", "B": layout[1] == "N"}
        tile = record["tile"]["n" if name.endswith("B") else "m"]
        whole = transposed.get(name, False)
        within(matrix, name, reached(record, matrix.rows) if whole else tile, whole)


def within(matrix: MatrixView, name: str, rows: int, whole: bool = False) -> None:
    """Refuse a matrix of which so many rows are further apart than offsets reach.

    All of them lie below 2 GiB, whether they exist or not, and so does the end of those that exist,
    or are taken to (``whole``).
    """
    exist = rows if whole else min(rows, matrix.rows)
    far = max(exist, rows - 1) * matrix.pitch + matrix.columns
    if matrix.pitch >= LARGEST or far * matrix.bits // 8 >= LARGEST:
        raise LibraryError(f"a workgroup would reach over 2 GiB of {name}, rows past its end too")


def reached(record: Mapping[str, Any], size: int) -> int:
    """How far a kernel goes along K."""
    least, step = record["reach"]["least"], max(record["reach"]["step"], 1)
    return int(least + -(-max(size - least, 0) // step) * step)


def packed_place(record: Mapping[str, Any], matrix: MatrixView, k: int) -> tuple[MatrixView, int]:
    """Where a copy lies in aligned rows, and its elements before those of ``k`` along K.

    It begins with zeros, so many that the copying kernel has whole trips; ``k`` are the last ones.
    """
    shared = 8 // min(matrix.bits, 8)
    if not matrix.aligned(max(matrix.bits // 8, 1)):
        raise LibraryError(f"rows of {matrix.dtype} must begin at whole elements and bytes")
    reach = reached(record, matrix.columns // shared if record["along"] else matrix.rows)
    place = copy.copy(matrix)
    if record["along"]:
        place.columns = place.pitch = reach * shared
        skipped = place.columns - k
    else:
        place.rows, place.pitch = reach, -(-matrix.columns // record["line"]) * record["line"]
        skipped = (reach - k) * place.pitch
    place.stride, place.address = place.rows * place.pitch, 0
    for one in (matrix, place):
        within(one, "a matrix to be copied", record["tile"]["r"] if record["along"] else one.rows)
    return place, skipped


def grid(record: Mapping[str, Any], m: int, n: int, z: int) -> tuple[int, int, int]:
    """Workgroups along x, y and z."""
    return -(-n // record["tile"]["n"]), -(-m // record["tile"]["m"]), z


def argument_bytes(record: Mapping[str, Any]) -> int:
    """Of the argument buffer: whole pointers."""
    end = max(int(argument["offset"] + argument["size"]) for argument in record["arguments"])
    return -(-end // 8) * 8


def packed(record: Mapping[str, Any], values: Mapping[str, float]) -> bytes:
    """The argument buffer, as the kernel reads it."""
    arguments = record["arguments"]
    data = bytearray(argument_bytes(record))
    for argument in arguments:
        value = values[argument["name"]]
        layout = "<Q" if argument["kind"] == "pointer" else {4: "<i", 8: "<q"}[argument["size"]]
        layout = "<f" if isinstance(value, float) else layout
        struct.pack_into(layout, data, argument["offset"], value)
    return bytes(data)
