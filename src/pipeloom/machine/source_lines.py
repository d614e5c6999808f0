"""Where the instructions of a code object come from: what assembler and emulator both name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where one instruction came from: a line of assembly and the schedule entry it serves."""

    line: int
    """The line of the assembly, from 1."""
    text: str = ""
    """The instruction."""
    entry: str | None = None
    """The step that it serves, in words; None for the frame around them."""


LineMap = Mapping[int, SourceLine]
"""Byte offset of an instruction from the kernel's first, to its source line."""
