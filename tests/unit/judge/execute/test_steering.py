"""``provoke`` agrees with the definition of happens-before, and ``replay`` shows findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.random_programs.strict import fully_synchronized
from pipeloom import build_schedule
from pipeloom.judge.execute import Executor, Meeting, StepAt, provoke, replay
from pipeloom.judge.execute.unrolled import Line
from pipeloom.program import Program
from pipeloom.reference.lift import lift_in_units

Litmus = Callable[..., Program]
_STRICT = Executor(fully_synchronized(lift_in_units(build_schedule("four_wave"))))
_PUBLISHED = Executor(lift_in_units(build_schedule("ping_pong")))


@dataclass(frozen=True)
class Spot:
    wave: int
    section: str
    slot: int
    iteration: int | None


@dataclass(frozen=True)
class Finding:
    first: Spot | None
    second: Spot
    trips: int = 0
    counts: tuple[tuple[str, int], ...] = ()


def _retired(executor: Executor, x: Line, y: Line, trips: int) -> bool:
    """X has retired before Y issues: in one wave by its lines, else by barriers."""
    walks = executor.walks(trips)
    if x.place.wave == y.place.wave:
        return x.number < y.number and (not x.counted or x.last <= y.number)
    own, other = walks[x.place.wave], walks[y.place.wave]
    done = x.last if x.counted else x.number
    passed = sum(b < y.number for b in other.barriers)
    return sum(b < done for b in own.barriers) < passed


@settings(deadline=None, max_examples=60)
@given(data=st.data(), trips=st.integers(0, 1), published=st.booleans())
def test_provoke_meets_exactly_what_nothing_orders(
    data: st.DataObject, trips: int, published: bool
) -> None:
    executor = _PUBLISHED if published else _STRICT
    lines = [x for walk in executor.walks(trips) for x in walk.lines if x.data is not None]
    x, y = data.draw(st.sampled_from(lines)), data.draw(st.sampled_from(lines))
    if x is y or (x.place.wave == y.place.wave and x.number > y.number):
        return
    outcome = provoke(
        executor, trips=trips, first=x.place, second=y.place, explain=False, trace=False
    )
    assert outcome.meeting is not None
    assert outcome.meeting.unordered is not _retired(executor, x, y, trips)


def test_a_finding_is_shown_with_its_pair(litmus: Litmus) -> None:
    program = litmus("load.a load.b barrier read.a read.b lgkm0 mma")
    found = Finding(Spot(1, "all", 0, None), Spot(0, "all", 3, None))
    outcome = replay(program, found)
    assert not outcome.correct
    assert outcome.meeting is Meeting.IN_FLIGHT
    assert outcome.trace
    assert any(s.at == StepAt(0, "all", 3) for s in outcome.suspects)


def test_a_finding_of_one_place_is_shown_too(litmus: Litmus) -> None:
    program = litmus("load.a load.b vm0 barrier read.a read.b lgkm0 mma mma")
    outcome = replay(program, Finding(None, Spot(0, "all", 8, None)))
    assert not outcome.correct


def test_a_false_alarm_shows_nothing(litmus: Litmus) -> None:
    program = litmus("load.a load.b vm0 barrier read.a read.b lgkm0 mma")
    outcome = replay(program, Finding(Spot(1, "all", 0, None), Spot(0, "all", 4, None)))
    assert outcome.clean


def test_a_suspect_read_is_shown_where_no_output_depends_on_it(litmus: Litmus) -> None:
    program = litmus("read.a lgkm0 barrier load.a load.b vm0 barrier read.a read.b lgkm0 mma")
    outcome = replay(program, Finding(None, Spot(0, "all", 0, None)))
    assert outcome.correct
    assert not outcome.clean


@pytest.mark.parametrize("trips", [1, 2])
def test_trips_of_a_finding_are_kept(trips: int) -> None:
    found = Finding(None, Spot(0, "loop", 0, None), trips, (("T", trips),))
    assert replay(_PUBLISHED, found).trips == {"T": trips}
