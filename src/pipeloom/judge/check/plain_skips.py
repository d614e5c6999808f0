"""Branches that decide arithmetic only: attention jumps over the mask of tiles that need none.

    s_cmp_lt_i32 s62, s65           is the whole tile within the keys?
    s_cbranch_scc1 .Lfull
    v_cmp_lt_i32 ...                v_cndmask_b32 ...
    .Lfull:

What is jumped over touches no memory, waits for nothing and leaves EXEC as it is. So whichever way
it goes, the same operations are in flight behind it, in the same order. It may use registers only
that nothing in flight is to fill, and nothing that a load brings which seemed to reach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeloom.judge.check.static import Static
from pipeloom.judge.emulate.step import MicroOp

_MEMORY = ("DS", "MUBUF", "MTBUF", "MIMG", "GLOBAL", "FLAT", "SCRATCH", "SMEM")
_IDLE = ("s_nop", "s_setprio", "s_sleep")
_JUMPS = ("s_cbranch", "s_branch")


@dataclass(frozen=True, slots=True)
class PlainSkip:
    """What a branch jumps over: the positions between it and ``join``, and their registers."""

    join: int
    reads: int
    writes: int
    touched: int


def plain_skips(program: Sequence[MicroOp], statics: Sequence[Static]) -> Mapping[int, PlainSkip]:
    """Position of a branch -> what it jumps over, where that is arithmetic alone."""
    places = {step.instruction.pc: at for at, step in enumerate(program)}
    targets = {
        at: places[step.instruction.target]
        for at, step in enumerate(program)
        if step.instruction.target in places
    }
    found: dict[int, PlainSkip] = {}
    for at, join in targets.items():
        if not program[at].instruction.name.startswith("s_cbranch") or join <= at:
            continue
        inside = range(at + 1, join)
        plain = all(_is_plain(program, statics, one, targets, inside) for one in inside)
        entered = any(to in inside and by not in inside for by, to in targets.items() if by != at)
        if plain and not entered:
            found[at] = _skip(join, [statics[one] for one in inside])
    return found


def _skip(join: int, steps: Sequence[Static]) -> PlainSkip:
    reads = writes = touched = 0
    for step in steps:
        reads, writes = reads | step.reads, writes | step.writes
        touched |= step.touched
    return PlainSkip(join, reads, writes, touched)


def _is_plain(
    program: Sequence[MicroOp],
    statics: Sequence[Static],
    at: int,
    targets: Mapping[int, int],
    inside: range,
) -> bool:
    one = program[at].instruction
    if one.name.startswith(_JUMPS):
        to = targets.get(at)
        return to is not None and at < to <= inside.stop
    if one.encoding in _MEMORY:
        return False
    return not statics[at].lasting or one.name.startswith(_IDLE)
