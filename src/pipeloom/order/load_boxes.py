"""Which box of a tile each load to LDS brings, the lanes of a group of waves together.

rows of 128 bytes, 256 lanes of 16 bytes     32 rows a load
rows of 416 bytes, 256 lanes of 16 bytes     panels of 32 bytes, 128 rows each
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from pipeloom.machine.dtypes import DType
from pipeloom.machine.target import REGISTER_BYTES
from pipeloom.program.tiles import Box


class LoadBox(NamedTuple):
    """One load: what of the tile, in how many instructions of a wave, bytes per lane."""

    box: Box
    entries: int
    width: int


def load_boxes(shape: tuple[int, ...], dtype: DType, lanes: int, widest: int) -> list[LoadBox]:
    """The loads of a tile, each one instruction; none where they do not come out even.

    What wide loads leave comes in narrow ones. Rows are whole where a load brings some of them;
    else, where a row is no power of two long, each load takes panels of columns, as wide as the
    largest power of two that divides a row, or some rows of one: where a lane's data comes from
    then follows from the bits of its number.
    """
    rows, row = shape[0], dtype.bytes(prod(shape[1:]))
    if fills_no_load(shape, dtype, lanes):
        return [LoadBox(tuple((0, size) for size in shape), 1, REGISTER_BYTES)]
    full, narrow = lanes * widest // row, lanes * REGISTER_BYTES // row
    left = rows % full if full else rows
    if narrow and lanes * REGISTER_BYTES % row == 0 and left % narrow == 0:
        heights = [full] * (rows // full) + [narrow] * (left // narrow)
        widths = [widest] * (rows // full) + [REGISTER_BYTES] * (left // narrow)
        firsts = [sum(heights[:number]) for number in range(len(heights))]
        across = tuple((0, size) for size in shape[1:])
        return [
            LoadBox(((first, first + high), *across), 1, width)
            for first, high, width in zip(firsts, heights, widths, strict=True)
        ]
    return _panels(shape, row, lanes, widest) if len(shape) == 2 else []


def fills_no_load(shape: tuple[int, ...], dtype: DType, lanes: int) -> bool:
    """Whether it is a row or a column of numbers (one for each row of another tile) that is less
    than the narrowest load of all lanes: one load brings it several times, side by side."""
    size = dtype.bytes(prod(shape))
    single = len(shape) == 1 or shape[1:] == (dtype.covers,)
    return single and size >= REGISTER_BYTES and lanes * REGISTER_BYTES % size == 0


def _panels(shape: tuple[int, ...], row: int, lanes: int, widest: int) -> list[LoadBox]:
    rows, panel, start = shape[0], row & -row, 0
    found = []
    for width in dict.fromkeys((widest, REGISTER_BYTES)):
        size = lanes * width
        wide, high = max(panel, size // rows), min(rows, size // panel)
        if wide % panel or wide * high != size or rows % high:
            continue
        while start + wide <= row:
            columns = (start * shape[1] // row, (start + wide) * shape[1] // row)
            for first in range(0, rows, high):
                found.append(LoadBox(((first, first + high), columns), 1, width))
            start += wide
    return found if start == row and panel != row else []


def even_rows(whole: LoadBox, groups: int) -> list[LoadBox]:
    """A tile in as many loads as it takes instructions, or one of each group, or in one."""
    rows, count = whole.box[0][1], whole.entries
    if rows % count:
        count = groups if rows % groups == 0 else 1
    high, entries = rows // count, -(-whole.entries // count)
    return [
        LoadBox(((n * high, (n + 1) * high), *whole.box[1:]), entries, whole.width)
        for n in range(count)
    ]
