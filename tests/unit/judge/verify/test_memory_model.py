"""Dates of accesses: in-order retirement, partial waits, back-pressure, epochs."""

from __future__ import annotations

from typing import Any

import pytest

from pipeloom.judge.verify.schedules.model import (
    NEVER,
    Access,
    Timeline,
    build_timeline,
    happens_before,
)
from pipeloom.reference.kernels import Counter


def timeline(toy: Any, line: str, vm: int = 1, lgkm: int = 1) -> Timeline:
    kernel = toy.Kernel(waves=1, vm=vm, lgkm=lgkm)
    steps = kernel.walk(toy.compiled(prologue=line), 0, 0)
    effects = [kernel.effect(step, 0) for step in steps if not step.op.is_framework]
    return build_timeline(steps, effects)


def dates(line: Timeline) -> list[tuple[int, int]]:
    return [(a.retire // 2, a.retire_epoch) for a in line.accesses if a.retire != NEVER]


def test_a_wait_retires_the_oldest_first(toy: Any) -> None:
    line = timeline(toy, "load load load vm1 bar vm0")
    assert dates(line) == [(3, 0), (3, 0), (5, 1)]
    assert line.outstanding == [(0, 0), (1, 0), (2, 0), (3, 0), (1, 0), (1, 0)]


def test_a_load_is_retired_only_with_its_last_entry(toy: Any) -> None:
    line = timeline(toy, "load load vm5 vm4 vm0", vm=4)
    assert dates(line) == [(3, 0), (4, 0)]


def test_counters_are_independent(toy: Any) -> None:
    line = timeline(toy, "load frag lg0 vm0")
    assert dates(line) == [(3, 0), (2, 0)]


def test_never_retired(toy: Any) -> None:
    assert [a.never_retires for a in timeline(toy, "load frag lg0").accesses] == [True, False]


def test_an_mma_retires_at_issue(toy: Any) -> None:
    (access,) = timeline(toy, "mma").accesses
    assert (access.issue, access.retire) == (0, 0)


@pytest.mark.parametrize(("word", "limit"), [("load", Counter.VM.limit), ("frag", 15)])
def test_issue_past_the_limit_retires_the_oldest(toy: Any, word: str, limit: int) -> None:
    line = timeline(toy, " ".join([word] * (limit + 1)))
    assert dates(line) == [(limit, 0)]
    assert line.accesses[0].retire <= line.accesses[limit].issue


def test_an_op_larger_than_its_counter_stalls_on_itself(toy: Any) -> None:
    line = timeline(toy, "frag frag", lgkm=20)
    first, second = line.accesses
    assert second.issue < first.retire < second.issue + 2
    assert second.never_retires


def test_a_stall_half_way_through_an_issue_does_not_order_its_start(toy: Any) -> None:
    """60 + 4 entries: the last of the second op waits for the first of the first, no more."""
    line = timeline(toy, "load " * 16, vm=4)
    first, last = line.accesses[0], line.accesses[15]
    assert first.retire == NEVER  # 3 of its 4 entries may still be in flight
    assert not happens_before(first, last, same_wave=True)


def test_happens_before_needs_a_barrier_across_waves(toy: Any) -> None:
    waited: list[Access] = timeline(toy, "load vm0 bar frag").accesses
    assert happens_before(waited[0], waited[1], same_wave=False)
    unpublished = timeline(toy, "load vm0 frag").accesses
    assert happens_before(unpublished[0], unpublished[1], same_wave=True)
    assert not happens_before(unpublished[0], unpublished[1], same_wave=False)
    early = timeline(toy, "load bar vm0 frag").accesses
    assert not happens_before(early[0], early[1], same_wave=False)
