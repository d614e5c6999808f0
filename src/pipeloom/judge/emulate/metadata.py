"""Read the MessagePack document of a code object's metadata note.

Only the types that the AMDGPU metadata uses are known: maps, arrays, strings, integers,
booleans and nil. Format: https://github.com/msgpack/msgpack/blob/master/spec.md, and the keys in
LLVM's AMDGPUUsage, "Code Object Metadata".
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from pipeloom.judge.emulate.traps import CodeObjectError

MetadataValue: TypeAlias = (
    "dict[str, MetadataValue] | list[MetadataValue] | str | int | float | bool | None"
)

MOST_METADATA = 8 << 20
"""Bytes: a parsed note takes some sixty times as many."""
_SIZED = {0xD9: "B", 0xDA: ">H", 0xDB: ">I", 0xC4: "B", 0xC5: ">H", 0xC6: ">I"}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: "B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: "b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_ARRAYS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}
_CONSTANTS: dict[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}


def parse_metadata(data: bytes) -> MetadataValue:
    """The document in ``data``; raises CodeObjectError where it is cut short or unknown."""
    if len(data) > MOST_METADATA:
        raise CodeObjectError(f"the metadata note has more than {MOST_METADATA} bytes")
    try:
        value, _ = _value(data, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CodeObjectError(f"the metadata note is malformed: {error}") from error
    except RecursionError as error:
        raise CodeObjectError("the metadata note is nested without end") from error
    return value


def _number(data: bytes, at: int, layout: str) -> tuple[int, int]:
    return struct.unpack_from(layout, data, at)[0], at + struct.calcsize(layout)


def _value(data: bytes, at: int) -> tuple[MetadataValue, int]:
    tag = data[at]
    at += 1
    if tag <= 0x7F:
        return tag, at
    if tag >= 0xE0:
        return tag - 0x100, at
    if tag <= 0x8F:
        return _map(data, at, tag & 0x0F)
    if tag <= 0x9F:
        return _array(data, at, tag & 0x0F)
    if tag <= 0xBF:
        return _text(data, at, tag & 0x1F)
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        return _number(data, at, _NUMBERS[tag])
    if tag in _SIZED:
        size, at = _number(data, at, _SIZED[tag])
        return _text(data, at, size)
    if tag in _ARRAYS:
        size, at = _number(data, at, _ARRAYS[tag])
        return _array(data, at, size)
    if tag in _MAPS:
        size, at = _number(data, at, _MAPS[tag])
        return _map(data, at, size)
    raise CodeObjectError(f"the metadata note holds an unknown MessagePack tag {tag:#x}")


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    if at + size > len(data):
        raise CodeObjectError(f"the metadata note is malformed: a string of {size} bytes is cut")
    return data[at : at + size].decode(), at + size


def _array(data: bytes, at: int, size: int) -> tuple[list[MetadataValue], int]:
    items: list[MetadataValue] = []
    for _ in range(size):
        item, at = _value(data, at)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, size: int) -> tuple[dict[str, MetadataValue], int]:
    items: dict[str, MetadataValue] = {}
    for _ in range(size):
        key, at = _value(data, at)
        items[str(key)], at = _value(data, at)
    return items, at
