"""The nominal run: ops of very many counter entries cost no more to play than to fill a counter."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom import build_schedule
from pipeloom.judge.happens_before.nominal_clock import Window
from pipeloom.judge.verify import verify
from pipeloom.judge.verify.dated_run import walk_group
from pipeloom.judge.verify.prove import _verdict
from pipeloom.judge.verify.severity import STEADY_AFTER, GroupClock
from pipeloom.program import Access, Program, Work
from pipeloom.reference.lift import lift
from tests.unit.judge.verify.programs import (
    ROW,
    TILE,
    copy,
    lds,
    program,
    register,
    row_sum,
    straight,
)

LIMITS = {"vm": 63, "lgkm": 15}
SOURCES = {"vm": "X", "lgkm": "L"}
BIG = ("big", Access("big"))
Op = tuple[str, int, int]
"""Counter, entries, latency."""


def program_of(ops: list[Op], when: Sequence[bool] = ()) -> Program:
    steps = [
        replace(
            copy("X", SOURCES[counter], "R", 0, counter, entries, BIG if under else None),
            latency=cycles,
        )
        for (counter, entries, cycles), under in zip_longest(ops, when)
    ]
    resources = [register("R", TILE), register("sum", ROW), register("big", ROW), lds("L", TILE)]
    return program(row_sum(), resources, [((0,), [straight("all", *steps)])])


def played(ops: list[Op], stalls: bool, when: Sequence[bool] = ()) -> tuple[list[Window], int]:
    """The windows, and the cycle of the last issue; ``when`` says which are under a condition."""
    base = program_of(ops, when)
    walk = walk_group(base, 0, {"T": 0}, None)
    windows: dict[int, Window] = {}
    latencies = {id(m.step): m.step.latency for m in walk.moments if isinstance(m.step, Work)}
    clock = GroupClock(base, walk, windows, latencies, stalls)
    clock.advance()
    assert clock.ended
    return [windows[id(moment)] for moment in walk.moments], clock.now


def entry_by_entry(ops: list[Op], stalls: bool) -> tuple[list[Window], int]:
    """The same, said the slow way."""
    now = 0
    flying: dict[str, deque[int]] = {counter: deque() for counter in LIMITS}
    last = dict.fromkeys(LIMITS, 0)
    found = []
    for counter, entries, cycles in ops:
        issues, dones = [], []
        for _ in range(entries):
            while stalls and len(flying[counter]) >= LIMITS[counter]:
                now = max(now, flying[counter].popleft())
            last[counter] = max(now + cycles, last[counter])
            flying[counter].append(last[counter])
            issues.append(now)
            dones.append(last[counter])
            now += 1
        found.append(Window(issues[0], dones[0], dones[-1]))
    return found, now


@given(
    st.lists(
        st.tuples(st.sampled_from(list(LIMITS)), st.integers(1, 700), st.integers(1, 300)),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_laps_skipped_are_laps_played(ops: list[Op], stalls: bool) -> None:
    assert played(ops, stalls) == entry_by_entry(ops, stalls)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(LIMITS)), st.integers(1, 20), st.integers(1, 300), st.booleans()
        ),
        min_size=1,
        max_size=5,
    )
)
def test_steps_under_a_condition_take_as_long_as_others(
    ops: list[tuple[str, int, int, bool]],
) -> None:
    """Nothing waits here, so it does not matter that no wait counts on them."""
    plain = [(counter, entries, cycles) for counter, entries, cycles, _ in ops]
    when = [under for *_, under in ops]
    assert played(plain, False, when) == entry_by_entry(plain, False)


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("counter", list(LIMITS))
def test_the_work_of_an_op_does_not_grow_with_its_entries(
    counter: str, stalls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = 0
    enter = GroupClock._entry

    def counted(self: GroupClock, *arguments: Any) -> tuple[int, int]:
        nonlocal work
        work += 1
        return enter(self, *arguments)

    monkeypatch.setattr(GroupClock, "_entry", counted)
    played([(counter, 3_000_000, 20)], stalls)
    assert work <= (STEADY_AFTER + 1) * LIMITS[counter] + 1
    work = 0
    _verdict.cache_clear()
    verify(lift(build_schedule("ping_pong")), counter_stall=stalls)
    usual, work = work, 0
    huge = build_schedule({"schedule": "ping_pong", "lgkm_a": 3_000_000})
    verify(lift(huge), counter_stall=stalls)
    assert usual < work < 20 * usual
