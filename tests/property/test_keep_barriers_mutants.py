"""Random barriers, load places and staggers: waits are found exactly where some waits exist.

The oracle drains both counters before every entry. If that is no proof, no waits are; if it is,
``synchronize`` must find looser ones with the same barriers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from pipeloom import CompiledSchedule, OpDesc, OrderError, Phase, ScheduleEntry, build_schedule
from pipeloom.drive.programs import as_program, verify
from pipeloom.judge.verify import proves
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.resync import synchronize

DRAIN = (OpDesc.wait_vm(0), OpDesc.wait_lgkm(0))


@cache
def base(name: str) -> CompiledSchedule:
    return synchronize(build_schedule(name), reorder=True, keep_barriers=True)


def with_ops(
    compiled: CompiledSchedule, phase: Phase, ops: Sequence[OpDesc], stagger: int
) -> CompiledSchedule:
    entries = tuple(ScheduleEntry(op, slot, phase) for slot, op in enumerate(ops))
    changed = replace(compiled, warp_stagger_index=stagger)
    return replace(changed, **{phase.name.lower(): entries})  # type: ignore[arg-type]


def mutant(compiled: CompiledSchedule, rng: random.Random) -> CompiledSchedule:
    """One barrier more or less, one load elsewhere, or another stagger."""
    phase = rng.choice([Phase.PROLOGUE, Phase.KERNEL, Phase.KERNEL, Phase.EPILOGUE])
    ops = [entry.op for entry in compiled.phase(phase)]
    stagger = compiled.warp_stagger_index
    barriers = [n for n, op in enumerate(ops) if op.tag == OpTag.BARRIER]
    loads = [n for n, op in enumerate(ops) if op.role is OpRole.GLOBAL_LOAD]
    kind = rng.randrange(4)
    if kind == 0 and barriers:
        at = rng.choice(barriers)
        del ops[at]
        stagger -= phase is Phase.PROLOGUE and at < stagger
    elif kind == 1 and loads:
        op = ops.pop(rng.choice(loads))
        ops.insert(rng.randrange(len(ops) + 1), op)
    elif kind == 2 and stagger <= len(compiled.prologue):
        stagger = rng.randrange(len(compiled.prologue) + 2)
    else:
        at = rng.randrange(len(ops) + 1)
        ops.insert(at, OpDesc.barrier())
        stagger += phase is Phase.PROLOGUE and at < stagger
    return with_ops(compiled, phase, ops, stagger)


def drained(compiled: CompiledSchedule) -> CompiledSchedule:
    """The same data ops and barriers, and nothing in flight anywhere."""
    at = compiled.warp_stagger_index
    for phase in Phase:
        ops: list[OpDesc] = []
        for entry in compiled.phase(phase):
            ops.extend([*DRAIN, entry.op])
        stagger = at * (len(DRAIN) + 1) + len(DRAIN)
        compiled = with_ops(compiled, phase, [*ops, *DRAIN], stagger)
    return compiled


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_mutants_are_saved_exactly_if_drained_ones_are_proved(name: str) -> None:
    rng = random.Random(f"mutants of {name}")
    verdicts = []
    for _ in range(14):
        compiled = mutant(base(name), rng)
        verdicts.append(proves(as_program(drained(compiled))))
        if verdicts[-1]:
            assert verify(synchronize(compiled, keep_barriers=True)).proved
        else:
            with pytest.raises(OrderError):
                synchronize(compiled, keep_barriers=True)
    assert True in verdicts
    assert False in verdicts
