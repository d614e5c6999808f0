"""A fixed sample of the table of random kernels: executor and verifier must agree on each.

And luck must not beat malice: what no hostile order shows, no random run may show.
"""

from __future__ import annotations

import pytest

from benchmarks.random_programs import cases
from benchmarks.random_programs.judging import describe, judge
from pipeloom.judge.execute import Executor, adversarial_orders

CASES = 48
SHARDS = 4
CONCRETE = (("random", "random"), ("late", "reverse"), ("stale", "forward"), ("overrun", "reverse"))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_two_agree_on_random_kernels(shard: int) -> None:
    judgements = [judge(case) for case in cases(101 + shard, CASES // SHARDS)]
    for judgement in judgements:
        assert not judgement.missed, describe(judgement)
        assert not judgement.false_alarm, describe(judgement)
    assert {judgement.failure is None for judgement in judgements} == {True, False}


def test_what_hostile_orders_do_not_show_no_other_run_shows() -> None:
    right = wrong = 0
    for case in cases(5, 20):
        if case.kind in ("wrong box", "wrong start", "wrong iteration"):
            continue  # wrong with some inputs and not with others: no matter of order
        executor = Executor(case.program)
        hostile = [
            executor.run(trips=2, order=order, seed=seed).correct
            for order in adversarial_orders(case.program.waves)
            for seed in range(2)
        ]
        others = [
            executor.run(trips=2, policy=policy, order=order, seed=seed).correct
            for policy, order in CONCRETE
            for seed in range(2)
        ]
        right += all(hostile)
        wrong += not all(others)
        assert all(others) or not all(hostile), case.name
    assert right > 5
    assert wrong > 5
