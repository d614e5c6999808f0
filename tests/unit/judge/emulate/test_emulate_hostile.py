"""Small files that would take gigabytes or minutes: a limit and an error for each."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pipeloom.judge.emulate import CodeObjectError, load_code_object, loader, metadata
from pipeloom.judge.emulate.metadata import parse_metadata
from pipeloom.machine import elf
from pipeloom.machine.elf import read_sections

BODY = "s_nop 0\n s_endpgm"


@pytest.fixture
def good(bench: Any) -> bytearray:
    return bytearray(bench.binary(BODY))


def _headers(data: bytearray) -> tuple[int, int, int]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    step, count = struct.unpack_from("<HH", data, 0x3A)
    return table, step, count


@pytest.mark.parametrize("step", [0, 1, 63])
def test_headers_that_overlap(good: bytearray, step: int) -> None:
    """65,535 of them in no space at all were read."""
    struct.pack_into("<HH", good, 0x3A, step, 0xFFFF if step == 0 else 3)
    with pytest.raises(CodeObjectError, match=rf"section headers of {step} bytes"):
        load_code_object(bytes(good))


def test_too_many_sections(good: bytearray) -> None:
    table, step, _ = _headers(good)
    more = bytes(good) + bytes(step * 2000)
    data = bytearray(more)
    struct.pack_into("<H", data, 0x3C, 2000)
    with pytest.raises(CodeObjectError, match="2000 sections"):
        load_code_object(bytes(data))
    assert table < len(good)


def test_sections_that_overlap(good: bytearray) -> None:
    """Each a copy of the whole file: 65,535 of a megabyte and a half were 98 GB."""
    table, step, count = _headers(good)
    for index in range(1, count):
        struct.pack_into("<QQ", good, table + step * index + 24, 0, len(good))
    with pytest.raises(CodeObjectError, match="overlap"):
        load_code_object(bytes(good))


def test_names_without_end(good: bytearray, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [s.name for s in read_sections(bytes(good))]
    monkeypatch.setattr(elf, "MOST_NAME", 3)
    with pytest.raises(CodeObjectError, match="malformed"):
        load_code_object(bytes(good))


@pytest.mark.parametrize(
    ("limit", "message"),
    [("MOST_NAMES", "names of its symbols"), ("MOST_CODE", "kernels"), ("MOST_KERNELS", "kernels")],
)
def test_symbols_and_kernels_are_limited(
    good: bytearray, monkeypatch: pytest.MonkeyPatch, limit: str, message: str
) -> None:
    load_code_object(bytes(good))
    monkeypatch.setattr(loader, limit, 0)
    with pytest.raises(CodeObjectError, match=message):
        load_code_object(bytes(good))


def test_a_note_of_millions_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MOST_METADATA", 100)
    assert parse_metadata(b"\xdc\x00\x60" + b"\x90" * 96) == [[]] * 96
    with pytest.raises(CodeObjectError, match="more than 100 bytes"):
        parse_metadata(b"\xdc\x00\x64" + b"\x90" * 100)


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 1 << 43), (1 << 43, 8), (-8, 8), (0, -1), (0, 65537)]
)
def test_arguments_of_terabytes(offset: int, size: int) -> None:
    with pytest.raises(CodeObjectError, match="a kernarg segment has at most 65536"):
        loader._argument({".offset": offset, ".size": size})
    assert loader._argument({".offset": 65536, ".size": 65536}).size == 65536
