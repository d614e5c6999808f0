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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.judge.check.flow import Static, lanes_of_path
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.emulate.registers import ALL_LANES, EXEC, VGPR, register_bits
from pipeloom.judge.emulate.step import Step

_EXEC_BITS = register_bits(EXEC, 2)
_SCALARS = register_bits(0, VGPR)


def drifts(
    program: Sequence[Step],
    statics: Sequence[Static],
    trace: WaveTrace,
    starts: Sequence[int],
    end: int,
    period: int,
) -> str:
    """Why the trips that ran do not speak for others; empty where they do."""
    seen = dict(trace.heads.get(trace.steps[starts[0]], ()))
    known = [seen[time] for time in starts if time in seen]
    if len(known) <= period:
        return "the trips that ran do not repeat often enough"
    different = np.zeros(len(known[0]), np.bool_)
    for before, after in zip(known, known[period:], strict=False):
        different |= before != after
    tainted = sum(1 << register for register in np.flatnonzero(different).tolist())
    lanes = lanes_of_path(trace)
    span = range(starts[-1 - period], starts[-1])
    loop = range(trace.steps[starts[0]], max(trace.steps[starts[0] : end]) + 1)
    while True:
        reason, carried = _trip(program, statics, trace, lanes, span, loop, tainted)
        if reason or not carried & ~tainted:
            return reason
        tainted |= carried


def _trip(
    program: Sequence[Step],
    statics: Sequence[Static],
    trace: WaveTrace,
    lanes: Sequence[int],
    span: range,
    loop: range,
    tainted: int,
) -> tuple[str, int]:
    """(What asks for a register that drifts, registers that do behind it) of one period."""
    loads = {time for time, _, _, _ in trace.loads}
    data = trace.foreign | trace.reads_lds
    for time in span:
        at = trace.steps[time]
        step = statics[at]
        asked = step.reads & tainted
        if step.branch and asked and _stays(program, at, loop):
            return f"a branch in it, at {_place(program, at)}, depends on how often it ran", tainted
        if step.address and (step.address | _EXEC_BITS) & tainted:
            return f"an LDS address, at {_place(program, at)}, depends on how often it ran", tainted
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


def _stays(program: Sequence[Step], at: int, loop: range) -> bool:
    """Whether a branch leads to the same loop either way: it is no exit."""
    one = program[at].instruction
    if not one.name.startswith("s_cbranch"):
        return True
    jump = one.fields["simm16"]
    target = one.pc + 4 + 4 * (jump - (jump >> 15 << 16))
    first, last = (program[place].instruction.pc for place in (loop[0], loop[-1]))
    return first <= target <= last and at + 1 in loop


def _place(program: Sequence[Step], at: int) -> str:
    return f"pc {program[at].instruction.pc:#x}"
