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
never written and in the numbers that it stores.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeloom.judge.check.flow import Static, lanes_of_path
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.emulate.registers import ALL_LANES, EXEC, VGPR, register_bits
from pipeloom.judge.emulate.step import Step

_EXEC_BITS = register_bits(EXEC, 2)
_SCALARS = register_bits(0, VGPR)
_OFTEN = "how often it ran"


def drifts(
    program: Sequence[Step],
    statics: Sequence[Static],
    trace: WaveTrace,
    starts: Sequence[int],
    end: int,
    period: int,
    exposed: Container[int],
) -> str:
    """Why the trips that ran do not speak for others; empty where they do.

    ``exposed`` are times of accesses to buffers that the kernel writes.
    """
    seen = dict(trace.heads.get(trace.steps[starts[0]], ()))
    known = [seen[time] for time in starts if time in seen]
    if len(known) <= period:
        return "the trips that ran do not repeat often enough"
    different = np.zeros(len(known[0]), np.bool_)
    for before, after in zip(known, known[period:], strict=False):
        different |= before != after
    tainted = sum(1 << register for register in np.flatnonzero(different).tolist())
    wave = _Wave(program, statics, trace, lanes_of_path(trace), exposed)
    head = trace.steps[starts[0]]
    inside = {*range(head, max(trace.steps[starts[0] : end]) + 1), *loop_body(tuple(program), head)}
    while True:
        reason, carried = wave.follow(range(starts[-1 - period], starts[-1]), tainted, inside)
        if reason:
            return reason
        if not carried & ~tainted:
            break
        tainted |= carried
    reason, tainted = wave.follow(range(starts[-1], end), tainted, inside)
    return reason or wave.follow(range(end, len(trace.steps)), tainted)[0]


@dataclass(frozen=True, slots=True)
class _Wave:
    """One wave's path."""

    program: Sequence[Step]
    statics: Sequence[Static]
    trace: WaveTrace
    lanes: Sequence[int]
    exposed: Container[int]

    def follow(
        self, span: range, tainted: int, inside: Container[int] | None = None
    ) -> tuple[str, int]:
        """(What asks for a register that drifts, registers that do behind it) of some steps.

        Those of the loop are ``inside``; without it, the steps lie behind it.
        """
        trace, lanes = self.trace, self.lanes
        loads = {time for time, _, _, _ in trace.loads}
        data = trace.foreign | trace.reads_lds
        where = "behind" if inside is None else "in"
        for time in span:
            at = trace.steps[time]
            step = self.statics[at]
            asked = step.reads & tainted
            if step.branch and asked and (inside is None or _stays(self.program, at, inside)):
                return f"a branch {where} it, at {self._place(at)}, depends on {_OFTEN}", tainted
            if step.address and (step.address | _EXEC_BITS) & tainted:
                return f"an LDS address, at {self._place(at)}, depends on {_OFTEN}", tainted
            if (step.stores or time in self.exposed) and (step.pointer | _EXEC_BITS) & tainted:
                return f"an address, at {self._place(at)}, depends on {_OFTEN}", tainted
            if not step.writes:
                continue
            every = step.whole or lanes[time] == ALL_LANES
            if step.restores and lanes[min(time + 1, len(lanes) - 1)] == lanes[0]:
                tainted &= ~_EXEC_BITS
            elif time not in data and (asked or (time not in loads and tainted & _EXEC_BITS)):
                tainted |= step.writes
            elif step.clean:
                tainted &= ~(step.writes if every else step.writes & _SCALARS)
        return "", tainted

    def _place(self, at: int) -> str:
        return f"pc {self.program[at].instruction.pc:#x}"


def _stays(program: Sequence[Step], at: int, inside: Container[int]) -> bool:
    """Whether a branch leads to the same loop either way: it is no exit."""
    return all(after in inside for after in _successors(tuple(program))[at])


@lru_cache(maxsize=8)
def _successors(program: tuple[Step, ...]) -> tuple[tuple[int, ...], ...]:
    """Where control may go from each step; jumps to computed places are not executed."""
    places = {step.instruction.pc: at for at, step in enumerate(program)}
    found: list[tuple[int, ...]] = []
    for at, step in enumerate(program):
        one = step.instruction
        after = [at + 1] if at + 1 < len(program) else []
        if one.name.startswith("s_endpgm"):
            after = []
        elif one.name.startswith(("s_branch", "s_cbranch")):
            jump = one.fields["simm16"]
            target = places[one.pc + 4 + 4 * (jump - (jump >> 15 << 16))]
            after = [target, *(after if one.name.startswith("s_cbranch") else [])]
        found.append(tuple(after))
    return tuple(found)


@lru_cache(maxsize=64)
def loop_body(program: tuple[Step, ...], head: int) -> frozenset[int]:
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
