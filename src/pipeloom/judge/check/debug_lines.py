"""Source lines of a code object, from the line table that compilers put in it (DWARF 2 to 5).

    debug_lines(data, entry, size)  ->  {0x1a4: "gemm.py:87", ...}

Only ``.debug_line`` is read: one program per compilation unit that steps through addresses and
lines (DWARF 5 standard, section 6.2). A table that cannot be read gives no lines, never an error:
lines are a comfort, and the verdict does not depend on them. So does one that would take too
long or too much memory: nothing is read past its unit, numbers have 64 bits, names and rows are
limited.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath

from pipeloom.machine.elf import read_sections

_PATH = 1
"""DW_LNCT_path."""
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""DW_FORM_data1, 2, 4, 8 and 16."""
_STRING, _BLOCK, _UDATA, _STRP, _LINE_STRP = 0x08, 0x09, 0x0F, 0x0E, 0x1F

MOST_ROWS = 1 << 20
"""Of a table; a row takes a hundred bytes."""
MOST_TEXT = 1 << 12
"""Bytes of a file's name."""
_LONGEST = 10
"""Bytes of a number of 64 bits, 7 in a byte."""
Row = tuple[int, str, int]
"""(address, file, line); line 0 ends a sequence."""


def debug_lines(data: bytes, entry: int, size: int) -> dict[int, str]:
    """``file:line`` by pc for the kernel of ``size`` bytes at address ``entry``; {} without any."""
    try:
        sections = {section.name: section.data for section in read_sections(data)}
        rows = sorted(islice(_rows(sections), MOST_ROWS + 1))
    except (ValueError, IndexError, struct.error, KeyError, ZeroDivisionError):
        return {}
    if len(rows) > MOST_ROWS:
        return {}
    starts = [address for address, _, _ in rows]
    found = {}
    for pc in range(0, size, 4):
        at = bisect_right(starts, entry + pc) - 1
        if at >= 0 and rows[at][2]:
            found[pc] = f"{rows[at][1]}:{rows[at][2]}"
    return found


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at
        self.end = len(data)

    def number(self, size: int) -> int:
        if not 0 <= size <= 16 or self.at + size > self.end:
            raise ValueError(f"a number of {size} bytes at {self.at} of {self.end}")
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def uleb(self) -> int:
        result = 0
        for place in range(_LONGEST):
            byte = self.number(1)
            result |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                return result
        raise ValueError("a number of more than 64 bits")

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        end = self.data.index(b"\0", self.at, min(self.end, self.at + MOST_TEXT))
        value = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return value

    def form(self, form: int, strings: dict[int, bytes]) -> str:
        """A value of this form, as text where it is text."""
        if form == _STRING:
            return self.text()
        if form in strings:
            return _Reader(strings[form], self.number(4)).text()
        if form == _UDATA:
            return str(self.uleb())
        if form == _BLOCK:
            size = self.uleb()  # which moves ``at``
            self.at += size
            return ""
        return str(self.number(_FIXED[form]))


def _rows(sections: dict[str, bytes]) -> Iterator[Row]:
    data = sections.get(".debug_line", b"")
    strings = {
        _STRP: sections.get(".debug_str", b""),
        _LINE_STRP: sections.get(".debug_line_str", b""),
    }
    reader = _Reader(data)
    while reader.at < len(data):
        length = reader.number(4)
        end = reader.at + length
        if end > len(data):
            raise ValueError("a unit that ends past its section")
        reader.end = end
        yield from _unit(reader, end, strings)
        reader.at, reader.end = end, len(data)


def _unit(reader: _Reader, end: int, strings: dict[int, bytes]) -> Iterator[Row]:
    version = reader.number(2)
    if version >= 5:
        reader.at += 2
    header = reader.number(4)
    program = reader.at + header
    shortest = reader.number(1)
    if version >= 4:
        reader.at += 1
    reader.at += 1
    base = reader.number(1)
    base -= 256 if base >= 128 else 0
    span, first = reader.number(1), reader.number(1)
    lengths = [reader.number(1) for _ in range(first - 1)]
    files = _files_5(reader, strings) if version >= 5 else _files(reader)
    reader.at = program
    address, file, line = 0, 1, 1
    while reader.at < end:
        opcode = reader.number(1)
        if opcode >= first:
            step = opcode - first
            address += step // span * shortest
            line += base + step % span
            yield address, files.get(file, "?"), line
        elif opcode == 0:
            size = reader.uleb()
            after = reader.at + size
            extended = reader.number(1)
            if extended == 1:
                yield address, "", 0
                address, file, line = 0, 1, 1
            elif extended == 2:
                address = reader.number(size - 1)
            reader.at = after
        elif opcode == 1:
            yield address, files.get(file, "?"), line
        elif opcode == 2:
            address += reader.uleb() * shortest
        elif opcode == 3:
            line += reader.sleb()
        elif opcode == 4:
            file = reader.uleb()
        elif opcode == 8:
            address += (255 - first) // span * shortest
        elif opcode == 9:
            address += reader.number(2)
        else:
            for _ in range(lengths[opcode - 1]):
                reader.uleb()


def _files(reader: _Reader) -> dict[int, str]:
    while reader.text():
        pass
    files = {}
    number = 1
    while name := reader.text():
        files[number] = PurePosixPath(name).name
        for _ in range(3):
            reader.uleb()
        number += 1
    return files


def _files_5(reader: _Reader, strings: dict[int, bytes]) -> dict[int, str]:
    _entries(reader, strings)
    return {
        number: PurePosixPath(name).name for number, name in enumerate(_entries(reader, strings))
    }


def _entries(reader: _Reader, strings: dict[int, bytes]) -> list[str]:
    """Paths of a table of directories or files."""
    formats = [(reader.uleb(), reader.uleb()) for _ in range(reader.number(1))]
    paths = []
    count = reader.uleb()
    if count > reader.end - reader.at:
        raise ValueError(f"{count} entries in {reader.end - reader.at} bytes")
    for _ in range(count):
        path = ""
        for content, form in formats:
            value = reader.form(form, strings)
            if content == _PATH:
                path = value
        paths.append(path)
    return paths
