"""Families described by data: which kernels, which arguments, which sizes, and the source of it.

A description is JSON: facts about arguments (names, places, what they count) with the file of the
public source that states them; nothing of that source's text. ``symbol`` is a regular expression:
the numbers of its named groups are sizes, their words are types. What holds for some of its kernels
only stands under ``also``, with a regular expression of its own (``when``), and is laid over the
rest, key by key. ``maybe`` names arguments that not every kernel has. Arguments lie where the
metadata says, every 16 bytes (``slots``), or in a ``struct`` whose size must be the kernel's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeloom.files import read_text
from pipeloom.judge.emulate import CodeKernel
from pipeloom.launch_families.drafts import Draft, is_buffer

FOLDER = Path(__file__).with_name("descriptions")
_SLOT = 16
"""Bytes between arguments where a description lists them as slots."""
_MERGED = ("sizes", "args")


@lru_cache(maxsize=8)
def descriptions(family: str) -> tuple[dict[str, Any], ...]:
    """What is described of a family."""
    return tuple(json.loads(read_text(FOLDER / f"{family}.json"))["kernels"])


def fitted(one: Mapping[str, Any], symbol: str) -> dict[str, Any]:
    """A description with what holds for a kernel of this symbol laid over it."""
    found = dict(one)
    for more in one.get("also", ()):
        if re.search(more["when"], symbol):
            merged = {key: {**found[key], **more.get(key, {})} for key in _MERGED}
            found = {**found, **more, **merged}
    return found


def described(family: str, kernel: CodeKernel) -> Draft | None:
    """The draft of a kernel that some description fits; the first of them."""
    return next(_fitting(family, kernel), None)


def _fitting(family: str, kernel: CodeKernel) -> Iterator[Draft]:
    listed = {one.name for one in kernel.explicit_arguments}
    for general in descriptions(family):
        found = re.search(general["symbol"], kernel.name)
        if found is None or kernel.arch not in general.get("arch", (kernel.arch,)):
            continue
        one = fitted(general, kernel.name)
        if not _laid_out(one, kernel, listed):
            continue
        yield _draft(family, one, kernel, {k: v for k, v in found.groupdict().items() if v})


def _laid_out(one: Mapping[str, Any], kernel: CodeKernel, listed: set[str]) -> bool:
    """Whether the kernel has its arguments as the description says."""
    if "struct" in one:
        explicit = kernel.explicit_arguments
        return [(a.offset, a.size) for a in explicit] == [(0, one["struct"]["size"])]
    if "slots" in one:
        return _SLOT * (len(one["slots"]) - 1) + 4 <= kernel.kernarg_size
    return set(one["args"]) - set(one.get("maybe", ())) <= listed


def _draft(
    family: str, one: Mapping[str, Any], kernel: CodeKernel, groups: Mapping[str, str]
) -> Draft:
    said = kernel.metadata
    named = {key: int(value) for key, value in groups.items() if value.isdecimal()}
    rows = {name: _typed(row, groups) for name, row in one["args"].items()}
    usual = list(said.required_block or (said.max_work_items or 256, 1, 1))
    pointers = {name for name, row in rows.items() if row is None or is_buffer(row)}
    laid = {name: _SLOT * at for at, name in enumerate(one.get("slots", ()))}
    laid |= one.get("struct", {}).get("places", {})
    places = [(n, at, 8 if n in pointers else 4, n in pointers) for n, at in laid.items()]
    return Draft(
        f"{family}: {one['name']}",
        {**named, **{key: value for key, value in one["sizes"].items() if key not in named}},
        one["grid"],
        one.get("block", usual),
        0,
        rows,
        places,
        one["source"],
    )


def _typed(row: dict[str, Any] | None, groups: Mapping[str, str]) -> dict[str, Any] | None:
    """A row whose type may be a word of the symbol."""
    if row is None or row.get("type") not in groups:
        return row
    return {**row, "type": groups[row["type"]]}
