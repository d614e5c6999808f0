"""How a struct of arguments lies in memory: from a C or C++ header, or from a class of ``ctypes``.

    header_layout("args.h:Args", folder)      # StructField("ptr_q", 0, 8, "pointer"), ...
    ctypes_layout(Args)

The compiler that assembles kernels lays the header's structs out for the GPU, so that packing,
alignment and nested structs are as they are there. A header is taken by itself: its ``#include``
lines are left out, the integer types of ``stdint.h`` are known, and nothing in it is run.
"""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeloom.checks import nearest
from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading, scratch_folder, write_file
from pipeloom.machine_code.launch_elements import bits_of
from pipeloom.write.assemble import check_tools, limited_tool

MOST_FIELDS = 1024
_DIRECTIVE = re.compile(r"\s*(#|%:)")
_KEPT = re.compile(r"\s*#\s*(define|undef|ifn?def|if|elif|else|endif|pragma\s+pack|error)\b")
_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LOOKS_FOR_FILES = re.compile(r"__has_(include|include_next|embed)")
_LINE = re.compile(r"^\s*(\d+)(:\S+)? \|( +)(.*)$")
_ARRAY = re.compile(r"^(.*?)\[(\d+)\]$")
_PADDING = re.compile(r"^_*(p\d*|pad\w*|_\w*|reserved\w*)$", re.IGNORECASE)
_BEFORE = """
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned long size_t; typedef long ptrdiff_t; typedef long ssize_t;
typedef unsigned long uintptr_t; typedef long intptr_t;
typedef _Float16 half; typedef _Float16 __half; typedef __bf16 hip_bfloat16;
"""
_TYPES = {
    "bool": "u8",
    "_Bool": "u8",
    "char": "i8",
    "signed char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "unsigned int": "u32",
    "long": "i64",
    "unsigned long": "u64",
    "long long": "i64",
    "unsigned long long": "u64",
    "float": "f32",
    "double": "f64",
    "_Float16": "fp16",
    "__bf16": "u16",
}
_SIZEOF = re.compile(r"\[sizeof=(\d+)")
_BASE = re.compile(r"(.*) \((?:primary |virtual )?base\)(?: \(empty\))?$")
_Member = tuple[int, str, str]
"""Offset, type and name; a base class has none."""


@dataclass(frozen=True, slots=True)
class StructField:
    """One number, pointer or run of bytes of a struct."""

    path: str
    """Its name, with those around it: ``inner.scale``, ``sizes[2]``."""
    offset: int
    size: int
    type: str
    """``pointer``, ``bytes``, or a type of launch files."""

    @property
    def is_padding(self) -> bool:
        """Whether its name says that nobody looks at it."""
        last = self.path.rpartition(".")[2].split("[")[0]
        return any(_PADDING.match(part) for part in (self.path.split(".")[0].split("[")[0], last))

    @property
    def words(self) -> str:
        """For messages."""
        return f"{self.type} at byte {self.offset}"


def header_layout(named: str, folder: Path = Path()) -> tuple[StructField, ...]:
    """The fields of ``args.h:Args``, in order."""
    path, _, struct = named.partition(":")
    if not path or not re.fullmatch(r"[A-Za-z_][\w:]*", struct):
        raise SpecError(
            f"{named!r} names no struct of a header", hint="write args.h:Args", field="layout"
        )
    with reading(path, "a header is named from the launch file's folder", "layout"):
        text = read_text(folder / path)
    return _laid(_dumped(text, struct, path), struct, path)


def _dumped(text: str, struct: str, path: str) -> str:
    kept = _without_files(text)
    check_tools()
    with scratch_folder() as place:
        write_file(place / "struct.h", f"{kept}\n")
        write_file(place / "before.h", _BEFORE)
        asked = f"static_assert(sizeof({struct}) > 0);\n"
        write_file(place / "asked.cpp", f'#include "before.h"\n#include "struct.h"\n{asked}')
        code, said = limited_tool(
            [
                *("clang", "-cc1", "-triple", "amdgcn-amd-amdhsa", "-std=c++20"),
                *("-fsyntax-only", "-nostdsysteminc", "-nobuiltininc"),
                *("-fdump-record-layouts-canonical", "-x", "c++", "asked.cpp"),
            ],
            place,
        )
    if code:
        first = next((line for line in said.splitlines() if "error:" in line), said[:200])
        raise SpecError(
            f"the compiler does not take {path} with the struct {struct}: "
            + first.strip().replace("struct.h", path),
            hint="copy the struct, and what it is made of, into a header of its own",
            field="layout",
        )
    return said


def _without_files(text: str) -> str:
    """The header without any line that makes the compiler open, or look for, another file.

    A directive may hide behind a comment, a line that goes on, or ``%:``.
    """
    text, before = re.sub(r"\r\n?", "\n", text), ""
    while text != before:
        before, text = text, _COMMENT.sub(" ", _SPLICE.sub("", text))
    return "\n".join(
        ""
        if _DIRECTIVE.match(line) and (not _KEPT.match(line) or _LOOKS_FOR_FILES.search(line))
        else line
        for line in text.split("\n")
    )


def _laid(dump: str, struct: str, path: str) -> tuple[StructField, ...]:
    records: dict[str, list[_Member]] = {}
    sizes: dict[str, int] = {}
    for part in dump.split("*** Dumping AST Record Layout")[1:]:
        lines = [found for found in map(_LINE.match, part.splitlines()) if found]
        if not lines:
            continue
        name = _bare(lines[0][4])
        members = []
        for found in lines[1:]:
            if found[2]:
                raise SpecError(
                    f"{path}: {found[4].strip()} of {name} is a bit field",
                    hint="write its bytes as one integer",
                    field="layout",
                )
            text = found[4].strip()
            if len(found[3]) != 3 or text.startswith("("):
                continue  # members of members are laid out by their own record; no table is passed
            base = _BASE.match(text)
            kind, _, member = (base[1], "", "") if base else text.rpartition(" ")
            members.append((int(found[1]), kind, member))
        size = _SIZEOF.search(part)
        assert size is not None
        records[name], sizes[name] = members, int(size[1])
    wanted = next((one for one in records if one == struct or one.endswith(f"::{struct}")), None)
    if wanted is None:
        raise SpecError(
            f"{path} has no struct {struct}", hint=nearest(struct, records), field="layout"
        )
    found_fields: list[StructField] = []
    _flatten(wanted, "", 0, records, sizes, found_fields, path)
    return tuple(found_fields)


def _bare(kind: str) -> str:
    for word in ("struct ", "class ", "union ", "enum "):
        kind = kind.removeprefix(word)
    return re.sub(r"\s*\((empty|base)\)$", "", kind).strip()


def _flatten(
    name: str,
    prefix: str,
    begin: int,
    records: dict[str, list[_Member]],
    sizes: dict[str, int],
    found: list[StructField],
    path: str,
) -> None:
    members = records[name]
    for number, (offset, kind, member) in enumerate(members):
        end = members[number + 1][0] if number + 1 < len(members) else sizes[name]
        counts: list[int] = []
        while (array := _ARRAY.match(kind)) is not None:
            kind = array[1].strip()
            counts.append(int(array[2]))
        total = math.prod(counts)
        inner = _bare(kind)
        room = (end - offset) // max(total, 1)
        for at in range(total):
            if len(found) >= MOST_FIELDS:
                raise SpecError(
                    f"{path}: the struct has more than {MOST_FIELDS} fields",
                    hint="describe it as bytes",
                    field="layout",
                )
            label = f"{prefix}{member}" + (f"[{at}]" if counts else "")
            if inner in records:
                where = begin + offset + at * sizes[inner]
                inside = f"{label}." if member else prefix
                _flatten(inner, inside, where, records, sizes, found, path)
                continue
            known = "pointer" if kind.endswith(("*", "&")) or "(*)" in kind else _type(inner, room)
            size = room if known == "bytes" else 8 if known == "pointer" else bits_of(known) // 8
            found.append(StructField(label, begin + offset + at * size, size, known))


def _type(kind: str, room: int) -> str:
    """A number's type; of an enumeration the integer that fits where it stands."""
    plain = " ".join(w for w in kind.split() if w not in ("const", "volatile", "__restrict"))
    if plain in _TYPES:
        return _TYPES[plain]
    return {1: "u8", 2: "u16", 4: "i32", 8: "i64"}.get(room, "bytes")


def ctypes_layout(kind: Any) -> tuple[StructField, ...]:
    """The fields of a class of ``ctypes``, in order."""
    if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
        raise SpecError(
            f"{kind!r} is no ctypes.Structure",
            hint="derive it from ctypes.Structure",
            field="struct",
        )
    found: list[StructField] = []
    _from_ctypes(kind, "", 0, found)
    return tuple(found)


def _from_ctypes(kind: Any, label: str, begin: int, found: list[StructField]) -> None:
    if issubclass(kind, ctypes.Structure):
        for name, inner, *bits in kind._fields_:
            if bits:
                raise SpecError(
                    f"{name} of {kind.__name__} is a bit field",
                    hint="write its bytes as one integer",
                    field="struct",
                )
            at = begin + getattr(kind, name).offset
            _from_ctypes(inner, f"{label}.{name}" if label else name, at, found)
        return
    if issubclass(kind, ctypes.Array):
        for at in range(kind._length_):
            one = begin + at * ctypes.sizeof(kind._type_)
            _from_ctypes(kind._type_, f"{label}[{at}]", one, found)
        return
    size = ctypes.sizeof(kind)
    code = getattr(kind, "_type_", None)
    if not isinstance(code, str) or code in "PzZ":
        known = "pointer"
    elif code in "gO":
        known = "bytes"
    elif code in "fd":
        known = "f32" if code == "f" else "f64"
    else:
        known = ("u" if code.isupper() or code in "?" else "i") + str(8 * size)
    found.append(StructField(label, begin, size, known))
