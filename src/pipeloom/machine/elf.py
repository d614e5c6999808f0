"""The sections of a 64-bit little-endian ELF file: what assembler and emulator both read.

Nothing is judged here: bytes that are cut short or point out of the file raise ``struct.error``,
``IndexError`` or ``ValueError``, and the caller says what that means to it. So do tables that would
take far more memory than the file has bytes: headers or sections that overlap, endless names.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NO_BITS = 8
_HEADER = "<IIQQQQIIQQ"
MOST_SECTIONS = 1024
MOST_NAME = 1 << 16
"""Bytes of a section's or a symbol's name; templates make names of some thousands."""


@dataclass(frozen=True, slots=True)
class ElfSection:
    """One section; ``data`` is empty where the file holds none of it."""

    name: str
    kind: int
    address: int
    size: int
    link: int
    data: bytes


def read_sections(elf: bytes) -> list[ElfSection]:
    """All sections, in the order of the file's table."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    step, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    if count and step < struct.calcsize(_HEADER):
        raise ValueError(f"section headers of {step} bytes")
    if count > MOST_SECTIONS:
        raise ValueError(f"{count} sections; at most {MOST_SECTIONS} are read")
    if table + step * count > len(elf):
        raise ValueError(f"{count} section headers at {table:#x}, past the file's {len(elf)} bytes")
    headers = [struct.unpack_from(_HEADER, elf, table + step * i) for i in range(count)]
    sections: list[ElfSection] = []
    read = 0
    for name, kind, _, address, offset, size, link, _, _, _ in headers:
        text = text_at(elf, headers[names][4] + name)
        if kind != _NO_BITS and offset + size > len(elf):
            raise ValueError(f"section {text!r} ends at {offset + size:#x}, past the file's end")
        read += 0 if kind == _NO_BITS else size
        if read > len(elf):
            raise ValueError("the sections overlap: together they are larger than the file")
        data = b"" if kind == _NO_BITS else elf[offset : offset + size]
        sections.append(ElfSection(text, kind, address, size, link, data))
    return sections


def text_at(data: bytes, start: int) -> str:
    """The text that ends with a zero byte, which must not be too far."""
    return data[start : data.index(b"\0", start, start + MOST_NAME)].decode()
