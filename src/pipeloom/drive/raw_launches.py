"""Launches as the recorder writes them, made into launch files.

    for launch in raw_launches(folder): launch.files("gemm-1")

A record is text: ``kernel``, ``code`` (the number of its file), ``arch``, ``grid``, ``block``,
``lds``, ``arguments`` (bytes), and a line per allocation that an argument, or a word of a small
buffer, points into: its address, its bytes, and the file of its content if that was asked for.
Addresses become buffers: an allocation that one argument points to is that argument's, others stand
by themselves with pointers into them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeloom.drive.argument_places import kernel_in
from pipeloom.errors import SpecError
from pipeloom.files import read_file, read_text
from pipeloom.judge.emulate import CodeKernel
from pipeloom.machine_code.launch_file import launch_text

MOST_TABLE = 1 << 16
"""Bytes of a buffer in which addresses are looked for."""
_SCALARS = {1: "u8", 2: "u16", 4: "i32", 8: "i64"}
_NUMBER = re.compile(r"launch-(\d+)\.txt")


@dataclass(frozen=True, slots=True)
class RawMemory:
    """An allocation, as large as it was made."""

    base: int
    size: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class RawLaunch:
    """One launch as it was written down."""

    kernel: CodeKernel
    code: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds: int
    arguments: bytes
    memory: tuple[RawMemory, ...]
    folder: Path

    @property
    def name(self) -> str:
        """The kernel's, as part of a file's name."""
        return re.sub(r"\W+", "_", self.kernel.name)[:80]

    def files(self, stem: str) -> dict[str, str | bytes]:
        """The launch file, the code object and contents, by name."""
        maker = _Rows(self, stem)
        plain = {
            "kernel": self.kernel.name,
            "grid": list(self.grid),
            "block": list(self.block),
            "dynamic_lds": self.lds,
            "args": maker.rows(),
        }
        return {
            f"{stem}.hsaco": self.code,
            f"{stem}.launch.json": launch_text(plain),
            **maker.contents,
        }


def raw_launches(folder: Path) -> Iterator[RawLaunch | str]:
    """The launches of a folder in their order; a text says why one cannot be told."""
    found = {int(m[1]): p for p in folder.iterdir() if (m := _NUMBER.fullmatch(p.name))}
    for number in sorted(found):
        lines = read_text(found[number]).splitlines()
        pairs = [line.partition(" ")[::2] for line in lines]
        said = {key: value for key, value in pairs if key != "memory"}
        name = said.get("kernel", f"launch {number}")
        if "end" not in said:
            yield f"{name}: the program ended while it was written"
            continue
        memory = tuple(_memory(value) for key, value in pairs if key == "memory")
        arch = said.get("arch", "").split(":")[0]
        path = folder / f"code-{said['code']}.bin"
        kernel = kernel_in(str(path), name, arch) if path.is_file() else None
        if kernel is None or said["fault"] != "0":
            yield f"{name}: its code object for {arch or 'the device'} cannot be read"
            continue
        gx, gy, gz = map(int, said["grid"].split())
        bx, by, bz = map(int, said["block"].split())
        yield RawLaunch(
            *kernel,
            (gx, gy, gz),
            (bx, by, bz),
            int(said["lds"]),
            bytes.fromhex(said["arguments"]),
            memory,
            folder,
        )


def _memory(text: str) -> RawMemory:
    base, size, *file = text.split(" ")
    return RawMemory(int(base), int(size), *file)


class _Rows:
    """The rows of one launch file, and the contents of its buffers."""

    def __init__(self, launch: RawLaunch, stem: str) -> None:
        self._launch, self._stem = launch, stem
        self._memory = sorted(launch.memory, key=lambda one: one.base)
        self._bases = [one.base for one in self._memory]
        self.contents: dict[str, str | bytes] = {}
        self._names: dict[int, str] = {}
        self._rows: list[dict[str, Any]] = []

    def rows(self) -> list[dict[str, Any]]:
        places = list(self._places())
        counts: dict[int, int] = {}
        for _, _, _, value in places:
            at = self._block(value)
            if at is not None:
                counts[at] = counts.get(at, 0) + 1
        inside = {to for at in range(len(self._memory)) for _, to, _ in self._links(at)}
        for name, offset, size, value in places:
            at = self._block(value) if size == 8 else None
            if at is None:
                self._rows.append(_number(name, offset, size, value))
                continue
            byte = value - self._memory[at].base
            if at in self._names or byte or counts[at] > 1 or at in inside:
                self._alone(at)
                row: dict[str, Any] = {"same_as": self._names[at]}
                self._rows.append({"is": "buffer", "name": name, "offset": offset, **row})
                if byte:
                    self._rows[-1]["byte"] = byte
            else:
                self._names[at] = name
                self._buffer(at, {"is": "buffer", "name": name, "offset": offset})
        return self._rows

    def _places(self) -> Iterator[tuple[str, int, int, int]]:
        """Every argument as (name, offset, size, value); structs in words, addresses whole."""
        data = self._launch.arguments
        listed = self._launch.kernel.explicit_arguments
        known = [(one.name or f"arg_{one.offset}", one.offset, one.size) for one in listed]
        for name, offset, size in known or [("kernarg", 0, len(data))]:
            if size in _SCALARS and known:
                yield name, offset, size, int.from_bytes(data[offset : offset + size], "little")
                continue
            at = offset
            while at < min(offset + size, len(data)):
                word = int.from_bytes(data[at : at + 8], "little")
                address = at + 8 <= offset + size and self._block(word) is not None
                step = 8 if address else min(4, offset + size - at)
                value = int.from_bytes(data[at : at + step], "little")
                yield f"{name}_{at - offset}", at, step, value
                at += step

    def _block(self, address: int) -> int | None:
        at = bisect_right(self._bases, address) - 1
        return at if at >= 0 and address < self._bases[at] + self._memory[at].size else None

    def _links(self, at: int) -> list[tuple[int, int, int]]:
        """The addresses inside an allocation: (byte, allocation, byte of that)."""
        one = self._memory[at]
        if not one.file or one.size > MOST_TABLE:
            return []
        words = np.frombuffer(read_file(self._launch.folder / one.file)[: one.size // 8 * 8], "<u8")
        return [
            (8 * place, to, word - self._bases[to])
            for place, word in enumerate(words.tolist())
            if (to := self._block(word)) is not None and to != at
        ]

    def _alone(self, at: int) -> None:
        """A buffer that is no argument, those that it points to before it."""
        if at not in self._names:
            self._names[at] = f"memory_{at}"
            self._buffer(at, {"is": "buffer", "name": self._names[at]})

    def _buffer(self, at: int, row: dict[str, Any]) -> None:
        one = self._memory[at]
        links = []
        for place, to, byte in self._links(at):
            if to not in self._names:
                self._alone(to)
            if any(found.get("name") == self._names[to] for found in self._rows):
                links.append(
                    {"to": self._names[to], "at": place} | ({"byte": byte} if byte else {})
                )
        size = next(size for size in (8, 4, 2, 1) if one.size % size == 0)
        row |= {"shape": [one.size // size], "type": f"u{8 * size}"}
        if one.file:
            name = f"{self._stem}.{row['name']}.bin"
            self.contents[name] = read_file(self._launch.folder / one.file)
            row["file"] = name
        else:
            row["fill"] = "zeros"
        if links:
            row["pointers"] = links
        self._rows.append(row)


def _number(name: str, offset: int, size: int, value: int) -> dict[str, Any]:
    place = {"name": name, "offset": offset}
    if size not in _SCALARS:
        return {"is": "bytes", **place, "hex": value.to_bytes(size, "little").hex()}
    kind = _SCALARS[size]
    if kind[0] == "i" and value >> (8 * size - 1):
        kind = f"u{8 * size}"
    return {"is": "value", **place, "type": kind, "value": value}


def named(launches: Mapping[str, int], name: str) -> str:
    """A name for the next launch of a kernel: ``gemm``, then ``gemm-2``."""
    count = launches.get(name, 0) + 1
    return name if count == 1 else f"{name}-{count}"


def check_some(found: int, faults: list[str], command: str) -> None:
    """Refuse a recording of nothing, and say why it may be."""
    if not found:
        why = faults[0] if faults else "no kernel was launched through HIP, or none that is wanted"
        raise SpecError(
            f"nothing was recorded of {command}: {why}",
            hint="a program that is linked statically, or changes its user, loads no recorder; "
            "--kernel is a part of a kernel's name",
            field="command",
        )
