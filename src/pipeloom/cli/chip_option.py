"""The chip that an option names; apart from ``common``, which brings all that opens a source."""

from __future__ import annotations

from pipeloom.machine.chip_file import SUFFIX, read_chip
from pipeloom.machine.target import Target


def chip_named(given: str | None) -> str | Target | None:
    """A shipped chip by its name, or the one that a chip file describes."""
    return read_chip(given) if given is not None and given.endswith(SUFFIX) else given
