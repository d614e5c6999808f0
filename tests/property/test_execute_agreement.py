"""Two memories, one machine: tile numbers and arrays must tell the same story of any schedule.

And luck must not beat malice: what no adversarial order shows, no random run may show.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom import build_schedule
from pipeloom.judge.execute import (
    ORDERS,
    TIMINGS,
    Executor,
    Mutant,
    Status,
    classify,
    fully_synchronized,
    operands,
    sample_mutants,
)

_BASES = {
    "ping_pong": build_schedule("ping_pong"),
    "four_wave": build_schedule("four_wave"),
    "single_buffer": build_schedule("single_buffer"),
}
_STRICT = {name: fully_synchronized(compiled) for name, compiled in _BASES.items()}
_MUTANTS = [
    mutant
    for number, compiled in enumerate([*_BASES.values(), *_STRICT.values()])
    for mutant in sample_mutants(compiled, 24, seed=number)
]


@settings(deadline=None, max_examples=120)
@given(
    mutant=st.sampled_from(_MUTANTS),
    trips=st.integers(0, 2),
    timing=st.sampled_from(sorted(TIMINGS)),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 1000),
    undefined=st.sampled_from(["poison", "memory"]),
)
def test_numbers_are_right_exactly_when_tiles_are(
    mutant: Mutant, trips: int, timing: str, order: str, seed: int, undefined: str
) -> None:
    compiled = mutant.compiled
    if timing == "worst":
        undefined = "poison"
    executor = Executor(compiled)
    a, b = operands(compiled, trips=trips, seed=seed)
    execution = executor.run(
        trips=trips,
        timing=timing,
        order=order,
        seed=seed,
        undefined=undefined,
        operands=(a, b),
    )
    if execution.status is Status.DEADLOCK:
        assert execution.c is None
        return
    assert execution.c is not None
    assert execution.poisoned is not None
    assert bool(np.array_equal(execution.c, a @ b.T)) is execution.correct
    assert bool(execution.poisoned.any()) is execution.has_poison
    dry = executor.run(trips=trips, timing=timing, order=order, seed=seed, undefined=undefined)
    assert dry.symptoms == execution.symptoms
    assert dry.poisoned_reads == execution.poisoned_reads


@pytest.mark.parametrize("name", ["four_wave", "single_buffer"])
def test_what_adversarial_orders_do_not_show_no_random_run_shows(name: str) -> None:
    right = 0
    for mutant in sample_mutants(_STRICT[name], 40, seed=11):
        if not classify(mutant.compiled, trips=(0, 1, 2), random_runs=0).correct:
            continue
        right += 1
        executor = Executor(mutant.compiled)
        for seed in range(6):
            timing = "random" if seed % 2 else "worst"
            execution = executor.run(trips=seed % 3, timing=timing, order="random", seed=seed)
            assert execution.correct, (mutant.name, seed, execution.describe())
    assert right >= 10
