"""The sections of a 64-bit little-endian ELF file: what assembler and emulator both read.

Nothing is judged here: bytes that are cut short or point out of the file raise ``struct.error``,
``IndexError`` or ``ValueError``, and the caller says what that means to it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_NO_BITS = 8
_HEADER = "<IIQQQQIIQQ"


@dataclass(frozen=True, slots=True)
class Section:
    """One section; ``data`` is empty where the file holds none of it."""

    name: str
    kind: int
    address: int
    size: int
    link: int
    data: bytes


def read_sections(elf: bytes) -> list[Section]:
    """All sections, in the order of the file's table."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    step, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    if table + step * count > len(elf):
        raise ValueError(f"{count} section headers at {table:#x}, past the file's {len(elf)} bytes")
    headers = [struct.unpack_from(_HEADER, elf, table + step * i) for i in range(count)]
    sections = []
    for name, kind, _, address, offset, size, link, _, _, _ in headers:
        start = headers[names][4] + name
        text = elf[start : elf.index(b"\0", start)].decode()
        if kind != _NO_BITS and offset + size > len(elf):
            raise ValueError(f"section {text!r} ends at {offset + size:#x}, past the file's end")
        data = b"" if kind == _NO_BITS else elf[offset : offset + size]
        sections.append(Section(text, kind, address, size, link, data))
    return sections
