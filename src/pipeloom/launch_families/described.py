"""Families described by data: which kernels, which arguments, which sizes, and the source of it.

A description is JSON: facts about arguments (names, places, what they count) with the file of the
public source that states them; nothing of that source's text. ``symbol`` is a regular expression;
the numbers of its named groups are sizes. A description may extend another, key by key.
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
from pipeloom.launch_families.drafts import Draft

FOLDER = Path(__file__).with_name("descriptions")
_SLOT = 16
"""Bytes between arguments where a description lists them as slots."""
_MERGED = ("sizes", "args")


@lru_cache(maxsize=8)
def descriptions(family: str) -> tuple[dict[str, Any], ...]:
    """What is described of a family, each description whole."""
    data = json.loads(read_text(FOLDER / f"{family}.json"))
    known: dict[str, dict[str, Any]] = {}
    for one in data["kernels"]:
        base = known.get(one.get("extends", ""), {})
        merged = {key: {**base.get(key, {}), **one.get(key, {})} for key in _MERGED}
        known[one["name"]] = {**base, **one, **merged}
    return tuple(known.values())


def described(family: str, kernel: CodeKernel) -> Draft | None:
    """The draft of a kernel that some description fits; the first of them."""
    return next(_fitting(family, kernel), None)


def _fitting(family: str, kernel: CodeKernel) -> Iterator[Draft]:
    listed = {one.name for one in kernel.explicit_arguments}
    for one in descriptions(family):
        found = re.search(one["symbol"], kernel.name)
        if found is None or kernel.arch not in one.get("arch", (kernel.arch,)):
            continue
        slots = one.get("slots", ())
        if not slots and not set(one["args"]) <= listed:
            continue
        if slots and _SLOT * (len(slots) - 1) + 8 > kernel.kernarg_size:
            continue
        named = {key: int(value) for key, value in found.groupdict().items() if value}
        yield _draft(family, one, kernel, named)


def _draft(
    family: str, one: Mapping[str, Any], kernel: CodeKernel, named: Mapping[str, int]
) -> Draft:
    said = kernel.metadata
    usual = list(said.required_block or (said.max_work_items or 256, 1, 1))
    pointers = {name for name, row in one["args"].items() if row is None or "shape" in row}
    places = [
        (name, _SLOT * at, 8 if name in pointers else 4, name in pointers)
        for at, name in enumerate(one.get("slots", ()))
    ]
    return Draft(
        f"{family}: {one['name']}",
        {**named, **{key: value for key, value in one["sizes"].items() if key not in named}},
        one["grid"],
        one.get("block", usual),
        0,
        one["args"],
        places,
        one["source"],
    )
