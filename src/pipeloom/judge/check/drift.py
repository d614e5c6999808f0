"""Whether trips beyond those that ran do as those did.

That the trips of a run repeat says nothing of the next: a barrier may be left out in trip 100, a
buffer change every 16 trips. What differs from trip to trip is in registers that *drift*: they hold
something else at the head of the loop than a period before. As long as nothing in a trip but its
exits asks for them, or for what was computed from them, every trip is like the others.

    s_add_u32 s8, s8, 1             s8 drifts
    s_cmp_eq_u32 s8, 100
    s_cbranch_scc1 .Lskip           inside the loop: says what trip 100 does, which did not run
    s_cmp_lt_u32 s8, s9
    s_cbranch_scc1 .Lloop           an exit: says how many trips there are

What comes behind the loop must not ask for them either, but in what it loads from buffers that are
never written and in the numbers that it stores. A branch may that jumps over arithmetic only
(below): what is computed there drifts from then on.

Branches that decide arithmetic only: attention jumps over the mask of tiles that need none.

    s_cmp_lt_i32 s62, s65           is the whole tile within the keys?
    s_cbranch_scc1 .Lfull
    v_cmp_lt_i32 ...                v_cndmask_b32 ...
    .Lfull:

What is jumped over touches no memory, waits for nothing and leaves EXEC as it is. So whichever way
it goes, the same operations are in flight behind it, in the same order. It may use registers only
that nothing in flight is to fill, and nothing that a load brings which seemed to reach nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.check.register_flow import Taint
from pipeloom.judge.check.static import EXEC_BITS, Static, lanes_of_path, path_statics
from pipeloom.judge.emulate.register_numbers import M0
from pipeloom.judge.emulate.step import MicroOp

_MEMORY = ("DS", "MUBUF", "MTBUF", "MIMG", "GLOBAL", "FLAT", "SCRATCH", "SMEM")
_IDLE = ("s_nop", "s_setprio", "s_sleep")
_JUMPS = ("s_cbranch", "s_branch")


_BRANCH = "a branch"


@dataclass(frozen=True, slots=True)
class Watched:
    """Times of a wave at which addresses and lanes matter, beside those of LDS accesses.

    ``apart``: lanes keep two uses of a register apart; ``shared``: a buffer is touched that the
    kernel writes. ``behind`` is where the loop is left for the first time. ``retired`` is when the
    operation of each time is over, doubled; ``dead`` are loads that seem to reach nothing.
    """

    apart: frozenset[int]
    shared: frozenset[int]
    behind: int
    retired: Places
    dead: frozenset[int]


def drifts(
    program: Sequence[MicroOp],
    statics: Sequence[Static],
    trace: WaveTrace,
    starts: Sequence[int],
    end: int,
    period: int,
    watched: Watched,
) -> str:
    """Why the trips that ran do not speak for others; empty where they do."""
    seen = dict(trace.heads.get(trace.steps[starts[0]], ()))
    known = [seen[time] for time in starts if time in seen]
    if len(known) <= period:
        return "the trips that ran do not repeat often enough"
    different = np.zeros(len(known[0]), np.bool_)
    for before, after in zip(known, known[period:], strict=False):
        different |= before != after
    held = sum(1 << register for register in np.flatnonzero(different).tolist())
    data = trace.foreign | trace.reads_lds
    lanes = lanes_of_path(trace)
    steps = path_statics(trace, statics)
    taint = Taint(trace, steps, lanes, lambda time, asked: asked and time not in data, held)
    head = trace.steps[starts[0]]
    inside = {*range(head, max(trace.steps[starts[0] : end]) + 1), *loop_body(tuple(program), head)}

    skips = plain_skips(program, statics)
    joins: dict[int, int] = {}

    def skips_plainly(time: int) -> bool:
        """Whether either way of a branch leads past the same operations; what it decides drifts."""
        skip = skips.get(trace.steps[time])
        if skip is None or _busy(trace, time, watched) & skip.touched:
            return False
        if any(registers & skip.reads for t, _, registers, _ in trace.loads if t in watched.dead):
            return False
        joins[skip.join] = joins.get(skip.join, 0) | skip.writes
        return True

    def follow(span: range, inside: Container[int] | None = None) -> str:
        """What of some steps asks for registers that drift; without ``inside``, behind the loop."""
        for time in span:
            at = trace.steps[time]
            taint.held |= joins.get(at, 0)
            asks = _asks(taint, time, watched)
            if asks == _BRANCH:
                leaves = inside is not None and not _stays(program, at, inside)
                asks = "" if leaves or skips_plainly(time) else asks
            if asks:
                where = "behind" if inside is None else "in"
                place = f"pc {program[at].instruction.pc:#x}"
                return f"{asks} {where} it, at {place}, depends on how often it ran"
            taint.advance(time)
        return ""

    while not (reason := follow(range(starts[-1 - period], starts[-1]), inside)):
        if not taint.held & ~held:
            break
        held = taint.held = held | taint.held
    reason = reason or follow(range(starts[-1], end), inside)
    taint.held |= held
    return reason or follow(range(watched.behind, len(trace.steps)))


def _asks(taint: Taint, time: int, watched: Watched) -> str:
    """What of a step depends on the registers that drift."""
    step = taint.step(time)
    if step.branch and step.reads & taint.held:
        return _BRANCH
    if step.local and (step.local | EXEC_BITS) & taint.held:
        return "an LDS address"
    if time in watched.shared and (step.place | EXEC_BITS) & taint.held:
        return "an address"
    if step.indexed and taint.held >> M0 & 1:
        return "which register is used"
    if taint.masked and time in watched.apart:
        return "which lanes use a register"
    return ""


def _busy(trace: WaveTrace, time: int, watched: Watched) -> int:
    """Registers that operations in flight at a time are to fill."""
    found = 0
    for issued, _, registers, _ in trace.loads:
        if issued < time and watched.retired[issued] >= 2 * time:
            found |= registers
    return found


def _stays(program: Sequence[MicroOp], at: int, inside: Container[int]) -> bool:
    """Whether a branch leads to the same loop either way: it is no exit."""
    return all(after in inside for after in _successors(tuple(program))[at])


@lru_cache(maxsize=8)
def _successors(program: tuple[MicroOp, ...]) -> tuple[tuple[int, ...], ...]:
    """Where control may go from each step; jumps to computed places are not executed."""
    places = {step.instruction.pc: at for at, step in enumerate(program)}
    found: list[tuple[int, ...]] = []
    for at, step in enumerate(program):
        one = step.instruction
        after = [at + 1] if at + 1 < len(program) else []
        if one.name.startswith("s_endpgm"):
            after = []
        elif one.target is not None:
            after = [places[one.target], *(after if one.name.startswith("s_cbranch") else [])]
        found.append(tuple(after))
    return tuple(found)


@lru_cache(maxsize=64)
def loop_body(program: tuple[MicroOp, ...], head: int) -> frozenset[int]:
    """The natural loop of a head: what only it leads to, and what leads back to it from there.

    Code that the run never came to belongs to it wherever it stands.
    """
    successors = _successors(program)
    others = _reached([0], successors, {head})
    mine = {at for at in range(len(program)) if at not in others}
    before: list[list[int]] = [[] for _ in program]
    for at in mine:
        for after in successors[at]:
            before[after].append(at)
    return frozenset(_reached(before[head], before, {head}))


def _reached(start: Iterable[int], edges: Sequence[Sequence[int]], without: set[int]) -> set[int]:
    seen = set(start) - without
    todo = list(seen)
    while todo:
        for other in edges[todo.pop()]:
            if other not in seen and other not in without:
                seen.add(other)
                todo.append(other)
    return seen


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
