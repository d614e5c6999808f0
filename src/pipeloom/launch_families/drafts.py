"""A launch drafted from what a family's kernels have in common, and the sizes it is for.

    draft = Draft("aiter: bf16gemm", {"M": None, "N": None}, ["ceil(N / 256)"], [256], 0, {...})
    plain = drafted(kernel, draft, {"M": 512, "N": 512})
    unknown(plain)                 # sizes that nobody gave, by name

What is drafted is a launch file with named sizes, so it can be read, changed, and launched at other
sizes. An argument that the family says nothing of is asked for by its own name, as a size: a
number, or the elements of what a pointer points to (0: a null pointer).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeloom.checks import check_known
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import CodeKernel
from pipeloom.machine_code.c_structs import StructField
from pipeloom.machine_code.launch_formulas import field_row

SIZED = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Types of numbers of which nothing but the size is known."""
Sizes = Mapping[str, "int | str"]


@dataclass(frozen=True, slots=True)
class Draft:
    """What is known of a kernel's launch before its sizes are."""

    family: str
    """For messages, and the file."""
    sizes: Mapping[str, int | str | None]
    """Numbers, expressions of those before them, or None: asked for."""
    grid: Sequence[int | str]
    block: Sequence[int | str]
    dynamic_lds: int | None
    rows: Mapping[str, Mapping[str, Any] | None]
    """Arguments by name, as a launch file has them, without name and place; None is null."""
    places: Sequence[tuple[str, int, int, bool]] = ()
    """(name, offset, size, is a pointer) of every argument, where the metadata has it not."""
    source: str = ""
    """Where all this is written."""
    fields: Sequence[StructField] = field(default=())
    """A struct's, in the place of the first argument that is one."""


def is_buffer(row: Mapping[str, Any]) -> bool:
    """Whether a row without its kind is a buffer's."""
    return any(key in row for key in ("shape", "values", "cumulative"))


def size_name(name: str) -> str:
    """A name as sizes have it."""
    return re.sub(r"\W", "_", name)


def drafted(kernel: CodeKernel, draft: Draft, given: Sizes) -> dict[str, Any]:
    """The launch file of a kernel as plain data."""
    sizes: dict[str, int | str | None] = {**draft.sizes}
    places = [*_places(kernel, draft)]
    own = {size_name(name) for name, *_ in places}
    named = [*sizes, *sorted(own - set(sizes))]
    for name in given:
        said = f"the launch of {kernel.name} has no size {name!r}"
        check_known(name, named, said, "sizes", SpecError)
    sizes |= {name: value for name, value in given.items() if name in sizes}
    args = []
    for name, offset, size, pointer in places:
        row = _row(name, size, pointer, draft, given, sizes)
        kind = "buffer" if is_buffer(row) else "value"
        args.append({"is": kind, "name": name, "offset": offset, **row})
    return {
        "kernel": kernel.name,
        "sizes": sizes,
        "grid": [*draft.grid],
        "block": [*draft.block],
        "dynamic_lds": draft.dynamic_lds,
        "args": args,
    }


def unknown(plain: Mapping[str, Any]) -> tuple[str, ...]:
    """The sizes that a drafted launch asks for."""
    return tuple(name for name, value in plain.get("sizes", {}).items() if value is None)


def _row(
    name: str,
    size: int,
    pointer: bool,
    draft: Draft,
    given: Sizes,
    sizes: dict[str, int | str | None],
) -> dict[str, Any]:
    own = size_name(name)
    known = draft.rows.get(name, {})
    if known is None or (pointer and given.get(own) == 0):
        return {"type": "u64", "value": 0}
    if pointer:
        if own in given or not known:
            sizes.setdefault(own, given.get(own))
            return {"type": "f32", "fill": "random", **known, "shape": [own]}
        return {**known}
    if own in given or not known:
        sizes.setdefault(own, given.get(own))
        return {"type": SIZED[size], **known, "value": own}
    return {"type": SIZED[size], **known}


def _places(kernel: CodeKernel, draft: Draft) -> Sequence[tuple[str, int, int, bool]]:
    if draft.places:
        return draft.places
    found: list[tuple[str, int, int, bool]] = []
    fields = draft.fields
    for one in sorted(kernel.explicit_arguments, key=lambda one: one.offset):
        name = one.name or f"arg_{one.offset}"
        if one.is_padding:
            continue
        if one.is_pointer or one.size in SIZED:
            found.append((name, one.offset, one.size, one.is_pointer))
            continue
        if not fields:
            raise SpecError(
                f"{name} of {kernel.name} is a struct of {one.size} bytes",
                hint="describe it: --struct args.h:Args, or my.py:Args of ctypes",
                field="struct",
            )
        found += _fields(fields, one.offset)
        fields = ()
    if not kernel.explicit_arguments and kernel.kernarg_size:
        if not fields:
            raise SpecError(
                f"the metadata of {kernel.name} lists none of its {kernel.kernarg_size} bytes of "
                "arguments",
                hint="describe them: --struct args.h:Args, or my.py:Args of ctypes",
                field="struct",
            )
        found += _fields(fields, 0)
    return found


def _fields(fields: Sequence[StructField], begin: int) -> list[tuple[str, int, int, bool]]:
    return [
        (one.path, begin + one.offset, one.size, one.type == "pointer")
        for one in fields
        if not one.is_padding
    ]


def field_types(fields: Sequence[StructField]) -> dict[str, dict[str, Any]]:
    """Types of a struct's numbers, as rows without values."""
    found = {}
    for one in fields:
        if one.type not in ("pointer", "bytes"):
            row = field_row(one, None, 0, "struct")
            found[one.path] = {"type": row["type"], "value": size_name(one.path)}
    return found
