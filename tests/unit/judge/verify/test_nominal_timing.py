"""The nominal run: ops of very many counter entries cost no more to play than to fill a counter."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom import OpDesc, OpRole, Phase, build_schedule
from pipeloom.judge.verify.schedules import verify
from pipeloom.judge.verify.schedules.model import Timeline, build_timeline
from pipeloom.judge.verify.schedules.timing import STEADY_AFTER, Window, _GroupClock
from pipeloom.reference.kernels import Counter, Effect, Step

Op = tuple[Counter, int, int]
"""Counter, entries, latency."""


def timeline_of(ops: list[Op]) -> Timeline:
    steps = tuple(
        Step(at, OpDesc(0, latency=cycles, role=OpRole.GLOBAL_LOAD), Phase.PROLOGUE, at, None, 0)
        for at, (_, _, cycles) in enumerate(ops)
    )
    return build_timeline(steps, [Effect(counter, entries) for counter, entries, _ in ops])


def played(ops: list[Op]) -> tuple[list[Window], int]:
    """The windows, and the cycle of the last issue."""
    timeline = timeline_of(ops)
    windows: dict[int, Window] = {}
    end = _GroupClock(timeline, windows, {}).advance()
    return [windows[id(access)] for access in timeline.accesses], end


def entry_by_entry(ops: list[Op]) -> tuple[list[Window], int]:
    """The same, said the slow way."""
    now = 0
    flying: dict[Counter, deque[int]] = {counter: deque() for counter in Counter}
    last = dict.fromkeys(Counter, 0)
    found = []
    for counter, entries, cycles in ops:
        issues, dones = [], []
        for _ in range(entries):
            while len(flying[counter]) >= counter.limit:
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
        st.tuples(st.sampled_from(Counter), st.integers(1, 700), st.integers(1, 300)),
        min_size=1,
        max_size=5,
    )
)
def test_laps_skipped_are_laps_played(ops: list[Op]) -> None:
    assert played(ops) == entry_by_entry(ops)


@pytest.mark.parametrize("counter", list(Counter))
def test_the_work_of_an_op_does_not_grow_with_its_entries(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = 0
    enter = _GroupClock._enter

    def counted(self: _GroupClock, *arguments: Any) -> tuple[int, int]:
        nonlocal work
        work += 1
        return enter(self, *arguments)

    monkeypatch.setattr(_GroupClock, "_enter", counted)
    played([(counter, 3_000_000, 20)])
    assert work <= (STEADY_AFTER + 1) * counter.limit + 1
    work = 0
    verify(build_schedule("ping_pong"))
    usual, work = work, 0
    huge = build_schedule({"schedule": "ping_pong", "lgkm_a": 3_000_000})
    verify(huge)
    assert usual < work < 20 * usual
