"""Scalar arithmetic of a loop, moved up between matrix instructions, where it costs nothing.

A step writes its address before its load, and a loop its counting before the branch. Behind one
matrix instruction there is room for two others; three in a row make the next one late.

    v_mfma ...                      v_mfma ...
    v_mfma ...                      s_add_u32 m0, s36, 0x1000
    s_add_u32 m0, s36, 0x1000       v_mfma ...
    buffer_load_dwordx4 ... lds     buffer_load_dwordx4 ... lds

An instruction moves up past what neither reads nor writes a scalar of its own, and never past
another scalar instruction, a label or a branch: those share the condition code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipeloom.write.isa import M0, Comment, Instruction, Line, Register, Unit

ROOM = 2
"""Instructions that issue under a matrix instruction for free."""


def hoist_scalars(lines: Sequence[Line]) -> list[Line]:
    """A loop's body with every scalar instruction before the matrix instruction in front of it.

    Where more than ``ROOM`` stand together then, the first go up further.
    """
    found = list(lines)
    for at, line in enumerate(lines):
        if _is(line, Unit.SALU):
            _up(found, at)
    matrix = [at for at, line in enumerate(found) if _is(line, Unit.MFMA)]
    for begin, end in reversed(list(pairwise(matrix))):
        between = [at for at in range(begin + 1, end) if isinstance(found[at], Instruction)]
        scalars = [at for at in between if _is(found[at], Unit.SALU)]
        for at in scalars[: max(0, len(between) - ROOM)]:
            if not _up(found, at):
                break
    return found


def _is(line: Line, unit: Unit) -> bool:
    return isinstance(line, Instruction) and line.opcode.unit is unit


def _up(lines: list[Line], at: int) -> bool:
    """Move a line before the matrix instruction above it, if it may go there."""
    to = _above(lines, at)
    if to is not None:
        lines.insert(to, lines.pop(at))
    return to is not None


def _above(lines: Sequence[Line], at: int) -> int | None:
    """Where the nearest matrix instruction stands that the line may pass; None if it may not.

    Without any, what writes m0 goes up past one instruction, which then stands where the hazard of
    a load right behind it would take a nop.
    """
    moved = lines[at]
    assert isinstance(moved, Instruction)
    last: int | None = None
    for place in range(at - 1, -1, -1):
        other = lines[place]
        if isinstance(other, Comment):
            continue
        if not isinstance(other, Instruction) or not _passes(moved, other):
            break
        if other.opcode.unit is Unit.MFMA:
            return place
        last = place if last is None else last
    return last if M0 in moved.writes else None


def _passes(moved: Instruction, other: Instruction) -> bool:
    """Whether the order of the two makes no difference."""
    if other.opcode.unit in (Unit.SALU, Unit.SMEM):
        return False
    if other.opcode.unit is Unit.CONTROL and other.opcode.name != "s_waitcnt":
        return False
    theirs = [*other.reads, *other.writes, *((M0,) if other.is_lds_dma else ())]
    clash = any(w.overlaps(r) for w in moved.writes for r in theirs)
    return not clash and not any(
        r.overlaps(w) for r in moved.reads for w in other.writes if isinstance(r, Register)
    )
