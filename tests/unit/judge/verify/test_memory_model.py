"""Dates of steps: in-order retirement, partial waits, full counters, epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.judge.verify.dated_run import NEVER, GroupWalk, happens_before, walk_group
from pipeloom.program import Program, Step, Work
from tests.unit.judge.verify.programs import (
    BARRIER,
    ROW,
    TILE,
    copy,
    lds,
    program,
    register,
    row_sum,
    straight,
    wait,
)


def walked(
    *steps: Step, waves: tuple[tuple[int, ...], ...] = ((0,),), stall: bool | None = None
) -> list[GroupWalk]:
    base: Program = program(
        row_sum(),
        [register("R", TILE), register("Q", TILE), register("sum", ROW), lds("L", TILE)],
        [(group, [straight("all", *steps)]) for group in waves],
    )
    return [walk_group(base, n, {"T": 0}, stall) for n in range(len(waves))]


def load(entries: int = 1, counter: str = "vm") -> Work:
    return copy("X", {"vm": "X", "lgkm": "L"}[counter], "R", 0, counter, entries)


def dates(walk: GroupWalk) -> list[tuple[int, int]]:
    found = [m for m in walk.moments if isinstance(m.step, Work) and m.retire != NEVER]
    return [(m.retire // 2, m.retire_epoch) for m in found]


def test_a_wait_retires_the_oldest_first() -> None:
    (walk,) = walked(load(), load(), load(), wait("vm", 1), BARRIER, wait("vm", 0))
    assert dates(walk) == [(3, 0), (3, 0), (5, 1)]


def test_a_step_is_retired_only_with_its_last_entry() -> None:
    (walk,) = walked(load(4), load(4), wait("vm", 5), wait("vm", 4), wait("vm", 0))
    assert dates(walk) == [(3, 0), (4, 0)]


def test_counters_are_independent() -> None:
    (walk,) = walked(load(), load(counter="lgkm"), wait("lgkm"), wait("vm"))
    assert dates(walk) == [(3, 0), (2, 0)]


def test_never_retired() -> None:
    (walk,) = walked(load(), load(counter="lgkm"), wait("lgkm"))
    assert [m.never_retires for m in walk.moments[:2]] == [True, False]


def test_a_step_without_a_counter_is_done_at_issue() -> None:
    (walk,) = walked(copy("X", "Q", "R", 0))
    assert (walk.moments[0].issue, walk.moments[0].retire) == (0, 0)


@pytest.mark.parametrize(("counter", "limit"), [("vm", 63), ("lgkm", 15)])
def test_a_full_counter_retires_only_where_it_stalls(counter: str, limit: int) -> None:
    steps = [load(counter=counter)] * (limit + 1)
    (walk,) = walked(*steps)
    assert dates(walk) == []
    (walk,) = walked(*steps, stall=True)
    assert dates(walk) == [(limit, 0)]
    (walk,) = walked(*steps, wait(counter, limit))
    assert dates(walk) == []


def test_a_step_under_a_condition_counts_for_no_wait() -> None:
    maybe = replace(load(), when="big")
    (walk,) = walked(load(), load(), wait("vm", 1))
    assert dates(walk) == [(2, 0)]
    base = walk_skipping(maybe)
    assert dates(base) == [(3, 0), (3, 0)]


def walk_skipping(maybe: Work) -> GroupWalk:
    steps = (load(), maybe, wait("vm", 1), wait("vm", 0))
    plain = walked(*(replace(s, when=None) if isinstance(s, Work) else s for s in steps))[0]
    sections = plain.group.sections
    group = replace(plain.group, sections=(replace(sections[0], steps=steps),))
    base = program(row_sum(), [register("R", TILE), register("sum", ROW)], [((0,), [])])
    object.__setattr__(base, "groups", (group,))
    return walk_group(base, 0, {"T": 0}, None)


def test_barriers_order_across_waves_what_has_retired() -> None:
    """The worked example of the module."""
    steps: tuple[Step, ...] = (load(), wait("vm"), BARRIER, load(counter="lgkm"), BARRIER)
    one, other = walked(*steps, waves=((0,), (1,)))
    assert happens_before(one.moments[0], other.moments[3], same_wave=False)
    steps = (load(), BARRIER, wait("vm"), load(counter="lgkm"), BARRIER)
    one, other = walked(*steps, waves=((0,), (1,)))
    assert not happens_before(one.moments[0], other.moments[3], same_wave=False)
    assert happens_before(one.moments[0], one.moments[3], same_wave=True)
