"""A chip of your own as a file: a shipped one, with the numbers that were measured otherwise.

    base = "gfx950"
    chip = "MI355X, rack 7"

    [facts.lds_latency]
    value = 72
    source = "pipeloom calibrate: 22 loops; between 69 and 75"

``read_chip`` gives a ``Target``; every fact of the file is MEASURED, with the source that it names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeloom.errors import ConfigError, SpecError
from pipeloom.files import read_data
from pipeloom.machine.chips import target_for
from pipeloom.machine.facts import FactKind
from pipeloom.machine.target import Target
from pipeloom.plain import from_plain

SUFFIX = ".toml"
UNREAD = ("l2_mib_per_xcd",)
"""Facts that no model reads: a file that set one would change nothing."""


@dataclass(frozen=True, slots=True)
class ChipFact:
    """A number of the file, in the unit that the shipped chip has it in."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class ChipFile:
    """What a chip file says."""

    base: str
    chip: str = ""
    facts: Mapping[str, ChipFact] = field(default_factory=dict)


def read_chip(path: str | os.PathLike[str]) -> Target:
    """The chip that a file describes."""
    name = f"the chip file {path}"
    data = read_data(path, name, "pipeloom calibrate -o mine.toml writes one", "arch", form="TOML")
    found = from_plain(ChipFile, data, name=name)
    try:
        base = target_for(found.base)
        return with_facts(
            base, {n: (f.value, f.source) for n, f in found.facts.items()}, found.chip
        )
    except ConfigError as error:
        raise SpecError(f"{path}: {error.message}", hint=error.hint, field=error.field) from error


def chip_named(given: str | None) -> str | Target | None:
    """A shipped chip by its name, or the one that a chip file describes."""
    return read_chip(given) if given is not None and given.endswith(SUFFIX) else given


def with_facts(base: Target, facts: Mapping[str, tuple[float, str]], chip: str = "") -> Target:
    """A chip with numbers that were measured: values and sources by name."""
    for name, (value, source) in facts.items():
        if name in UNREAD:
            raise ConfigError(
                f"no model reads {name}", hint=f"leave facts.{name} out", field=f"facts.{name}"
            )
        base = base.with_value(name, value, source, FactKind.MEASURED)
    return replace(base, chip=chip or base.chip)


def chip_text(base: Target, facts: Mapping[str, tuple[float, str]], chip: str = "") -> str:
    """The file of a chip; the same numbers give the same bytes."""
    lines = [f"base = {json.dumps(base.arch)}", f"chip = {json.dumps(chip or base.chip)}"]
    known = dict(base.facts())
    for name, (value, source) in facts.items():
        whole = isinstance(known[name].value, int)
        shown = str(round(value)) if whole else repr(float(value))
        lines += ["", f"[facts.{name}]", f"value = {shown}", f"source = {json.dumps(source)}"]
    return "\n".join(lines) + "\n"
