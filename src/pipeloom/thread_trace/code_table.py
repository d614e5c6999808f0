"""The instructions of a trace: their text and address, and what traced waves spent on each.

``code.json`` holds whole kernels. Each row has a number, by which wave files name it, and the
address in its code object; a row ``; name`` begins a kernel, so that an instruction's offset in its
kernel follows. The CSV beside the folder has the same sums by address alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from pipeloom.thread_trace.att_files import (
    MOST_ROWS,
    broken,
    columns,
    item,
    read_json,
    read_table,
    whole,
)

_CODE = {"ISA": "text", "LineNumber": "number", "Codeobj": "object", "Vaddr": "address"}
_SUMS = ("Hit", "Latency", "Stall", "Idle")
_KERNEL = ";"


@dataclass(frozen=True, slots=True)
class Sums:
    """What all traced waves spent on an instruction, in cycles; ``hits`` is how often it ran."""

    hits: int
    latency: int
    stall: int
    idle: int


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One instruction."""

    number: int
    """What wave files call it."""
    text: str
    code_object: int
    address: int
    """In the code object, as its ELF counts."""
    kernel: str
    pc: int
    """Bytes from the kernel's first instruction."""
    source: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class CodeTable:
    """The instructions by their number; ``next_of`` gives the number that follows in memory."""

    rows: Mapping[int, CodeRow]
    next_of: Mapping[int, int]

    def row(self, number: int, path: Path) -> CodeRow:
        """The instruction that a wave file names."""
        if number not in self.rows:
            raise broken(path, f"line {number} of an instruction is not in code.json")
        return self.rows[number]


def read_code(path: Path) -> CodeTable:
    """The table of ``code.json``."""
    data = read_json(path)
    names = columns(data.get("header"), path)
    missing = [name for name in _CODE if name not in names]
    if missing:
        raise broken(path, f"'header' lacks {', '.join(missing)}")
    if data.get("code") is None:
        raise broken(path, "'code' is empty: the decoder found no code object")
    given = item(data, "code", list, path)
    if len(given) > MOST_ROWS:
        raise broken(path, f"'code' has more than {MOST_ROWS:,} rows")
    kernels: dict[int, list[tuple[int, str]]] = {}
    lines: list[tuple[int, str, int, int, str, Sums]] = []
    for at, row in enumerate(given):
        if not isinstance(row, list) or len(row) < len(names):
            raise broken(path, f"'code' row {at} has not the header's {len(names)} columns")
        cell = dict(zip(names, row, strict=False))
        text = cell["ISA"]
        if not isinstance(text, str):
            raise broken(path, f"'code' row {at}: ISA is no text")
        owner = whole(cell["Codeobj"], f"'code' row {at}: Codeobj", path)
        address = whole(cell["Vaddr"], f"'code' row {at}: Vaddr", path)
        if text.lstrip().startswith(_KERNEL):
            name = text.lstrip(f"{_KERNEL} ").strip()
            kernels.setdefault(owner, []).append((address, name))
            continue
        number = whole(cell["LineNumber"], f"'code' row {at}: LineNumber", path)
        sums = Sums(*(whole(cell.get(name, 0), f"'code' row {at}: {name}", path) for name in _SUMS))
        lines.append((number, text.strip(), owner, address, str(cell.get("Source", "")), sums))
    return _table(lines, kernels, path)


def _table(
    lines: list[tuple[int, str, int, int, str, Sums]],
    kernels: dict[int, list[tuple[int, str]]],
    path: Path,
) -> CodeTable:
    for owner in {line[2] for line in lines} - kernels.keys():
        kernels[owner] = [(min(line[3] for line in lines if line[2] == owner), "")]
    starts = {owner: sorted(found) for owner, found in kernels.items()}
    rows: dict[int, CodeRow] = {}
    for number, text, owner, address, source, sums in lines:
        if number in rows:
            raise broken(path, f"LineNumber {number} stands twice")
        at = max(bisect_right(starts[owner], (address, "\U0010ffff")) - 1, 0)
        begin, name = starts[owner][at]
        pc = address - begin
        rows[number] = CodeRow(number, text, owner, address, name, max(pc, 0), source, sums)
    order = sorted(rows.values(), key=lambda row: (row.code_object, row.address))
    follows = {a.number: b.number for a, b in pairwise(order)}
    return CodeTable(MappingProxyType(rows), MappingProxyType(follows))


def read_sums(path: Path) -> dict[tuple[int, int], Sums]:
    """The sums of a stats CSV by code object and address, whichever version wrote it."""
    found: dict[tuple[int, int], Sums] = {}
    for at, row in enumerate(read_table(path), start=2):
        if row.get("Instruction", "").lstrip().startswith(_KERNEL):
            continue
        cells = []
        for name in ("CodeObj", "Vaddr", "Hitcount", "Latency", "Stall", "Idle"):
            if name not in row:
                raise broken(path, f"no column {name}")
            cells.append(whole(row[name], f"line {at}: {name}", path))
        found[cells[0], cells[1]] = Sums(*cells[2:])
    return found
