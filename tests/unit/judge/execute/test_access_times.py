"""Timelines keep the model's promises, whatever the seed."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom import build_schedule
from pipeloom.judge.execute import TIMINGS, Executor
from pipeloom.judge.execute.access_times import What, timelines
from pipeloom.program import Program
from pipeloom.reference.lift import lift_in_units

_EXECUTORS = {
    name: Executor(lift_in_units(build_schedule(name))) for name in ("ping_pong", "four_wave")
}


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(sorted(_EXECUTORS)),
    timing=st.sampled_from(sorted(TIMINGS)),
    trips=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_every_access_reads_then_writes_between_issue_and_retirement(
    name: str, timing: str, trips: int, seed: int
) -> None:
    walks = _EXECUTORS[name].walks(trips)
    for wave, line in zip(walks, timelines(walks, TIMINGS[timing], seed), strict=True):
        when: dict[What, dict[int, int]] = {what: {} for what in What}
        for at, (what, step) in enumerate(line.events):
            assert step.number not in when[what]
            when[what][step.number] = at
        assert when[What.WRITE] == line.written
        counted = {step.number for step in wave.lines if step.counted}
        assert set(line.written) == counted
        for number in counted:
            read = when[What.READ].get(number, when[What.ISSUE][number])
            assert when[What.ISSUE][number] <= read < line.written[number]
        for step in wave.lines:
            last = step.number + 1
            after = line.starts[last] if last < len(wave.lines) else len(line.events)
            assert all(line.written[s.number] < after for s in (*step.before, *step.after))
        assert list(line.ends) == sorted(line.ends)
        assert line.ends[-1] == len(line.events)
        assert len(line.ends) == len(wave.barriers) + 1


def test_policies_differ_in_when_memory_is_read_and_written(
    litmus: Callable[..., Program],
) -> None:
    walks = Executor(litmus("load.a vm0 barrier read.a fence lgkm0")).walks({})
    flights = {}
    for timing in ("early", "late", "stale", "overrun"):
        events = timelines(walks, TIMINGS[timing])[0].events
        order = [(what, step.place.slot) for what, step in events]
        load = order.index((What.WRITE, 0)) - order.index((What.ISSUE, 0))
        flights[timing] = (load, order.index((What.READ, 3)) - order.index((What.ISSUE, 3)))
    assert flights["early"] == (2, 1)
    seen = {
        timing: {
            slot: timelines(walks, TIMINGS[timing])[0].written[slot]
            >= timelines(walks, TIMINGS[timing])[0].starts[slot + 1]
            for slot in (0, 3)
        }
        for timing in flights
    }
    assert seen == {
        "early": {0: False, 3: False},
        "late": {0: True, 3: True},
        "stale": {0: True, 3: True},
        "overrun": {0: False, 3: True},
    }


def test_stale_reads_memory_at_issue_and_brings_it_late(litmus: Callable[..., Program]) -> None:
    """The second load is issued between: what ``late`` reads behind it, ``stale`` reads before."""
    walks = Executor(litmus("load.a vm0 barrier read.a load.b lgkm0 vm0")).walks({})
    for timing, early in (("early", True), ("stale", True), ("late", False), ("overrun", False)):
        line = timelines(walks, TIMINGS[timing])[0]
        read = next(
            at
            for at, (what, step) in enumerate(line.events)
            if what is What.READ and step.place.slot == 3
        )
        assert (read < line.starts[4]) is early, timing
