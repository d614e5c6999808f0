"""Scripts steer a run; ``provoke`` agrees with the definition of happens-before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom import CompiledSchedule, build_schedule
from pipeloom.judge.execute import (
    Access,
    Executor,
    FlightState,
    Hold,
    Land,
    Moment,
    Replayer,
    RunThrough,
    RunTo,
    fully_synchronized,
    operands,
    provoke,
    replay,
)
from pipeloom.judge.execute.replay import Directive
from pipeloom.reference.kernels import Kernel

Litmus = Callable[..., tuple[CompiledSchedule, Kernel]]
UNPUBLISHED = "load.a load.b vm0 read.a read.b lgkm0 mma"


def test_a_script_brings_about_the_stale_read(litmus: Litmus) -> None:
    compiled, kernel = litmus(UNPUBLISHED)
    script = [RunThrough(0, 3)]
    wrong = replay(compiled, script, trips=0, kernel=kernel, timing="early")
    assert not wrong.correct
    assert wrong.poisoned_reads[0].at == Access(0, 3)
    both = [RunThrough(1, 1), RunThrough(0, 3)]
    assert replay(compiled, both, trips=0, kernel=kernel, timing="early", order="reverse").correct


def test_run_to_stops_before_the_step(litmus: Litmus) -> None:
    compiled, kernel = litmus(UNPUBLISHED)
    script: list[Directive] = [RunTo(0, 3), RunThrough(1, 1)]
    execution = replay(compiled, script, trips=0, kernel=kernel, timing="early")
    assert execution.correct
    order = [event.at for event in execution.trace if event.what == "issues"]
    assert order[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_land_makes_one_load_late(litmus: Litmus) -> None:
    compiled, kernel = litmus("load.a load.b barrier read.a read.b lgkm0 mma")
    assert replay(compiled, [], trips=0, kernel=kernel, timing="early").correct
    late = replay(compiled, [Land(1, 1, Moment.LATE)], trips=0, kernel=kernel, timing="early")
    assert {read.at for read in late.poisoned_reads} == {Access(0, 4), Access(1, 4)}
    assert all(read.causes == (Access(1, 1),) for read in late.poisoned_reads)


def test_a_hold_makes_a_barrier_unreachable(litmus: Litmus) -> None:
    compiled, kernel = litmus("load.a load.b vm0 barrier read.a read.b lgkm0 mma")
    script: list[Directive] = [Hold(1, 1), RunThrough(0, 4)]
    execution = replay(compiled, script, trips=0, kernel=kernel)
    assert execution.unreached.startswith("RunThrough(wave=0, step=4) is impossible")
    assert execution.correct
    reached = replay(compiled, [Hold(1, 4), RunThrough(0, 4)], trips=0, kernel=kernel)
    assert reached.unreached == ""


def test_a_hold_behind_the_wave_comes_too_late(litmus: Litmus) -> None:
    compiled, kernel = litmus(UNPUBLISHED)
    execution = replay(compiled, [RunThrough(0, 3), Hold(0, 1)], trips=0, kernel=kernel)
    assert "comes too late" in execution.unreached


def test_a_wave_held_at_its_own_target_cannot_get_there(litmus: Litmus) -> None:
    compiled, kernel = litmus(UNPUBLISHED)
    execution = replay(compiled, [Hold(0, 1), RunThrough(0, 3)], trips=0, kernel=kernel)
    assert "is impossible" in execution.unreached


def test_provoke_reports_a_deadlock_on_the_way(litmus: Litmus) -> None:
    compiled, kernel = litmus("load.a load.b vm0 0:barrier read.a read.b lgkm0 mma")
    execution = provoke(compiled, kernel=kernel, trips=0, first=(1, 0), second=(0, 4))
    assert "deadlock" in execution.unreached
    assert execution.pair is not None
    assert execution.pair.state is FlightState.UNREACHED
    assert not execution.pair.unordered
    assert not execution.correct


def test_provoke_on_numbers_gives_the_wrong_c() -> None:
    compiled = build_schedule("four_wave")
    a, b = operands(compiled, trips=1)
    wrong = Executor(compiled).run(trips=1).poisoned_reads[0]
    first, second = sorted([wrong.at, wrong.causes[0]], key=lambda access: access.step)
    execution = provoke(compiled, trips=1, first=first, second=second, operands=(a, b))
    assert execution.pair is not None
    assert execution.pair.unordered
    assert execution.c is not None
    assert (execution.c != a @ b.T).any()
    assert execution.trace
    assert execution.poisoned is not None
    assert np.array_equal(execution.c == -(2**63), execution.poisoned)


_SCHEDULES = {
    "four_wave": build_schedule("four_wave"),
    "ping_pong": build_schedule("ping_pong"),
    "strict four_wave": fully_synchronized(build_schedule("four_wave")),
}
_REPLAYERS = {name: Replayer(compiled) for name, compiled in _SCHEDULES.items()}
_PROGRAMS = {name: Executor(compiled).program(1) for name, compiled in _SCHEDULES.items()}


def _segment(name: str, wave: int, step: int) -> int:
    """How many barriers the wave passes before the step."""
    return sum(barrier < step for barrier in _PROGRAMS[name].waves[wave].barrier_steps)


def _retired_at(name: str, wave: int, step: int) -> float:
    """The step that retires the op at ``step``, in a count of entries of its own."""
    program = _PROGRAMS[name]
    lines = program.waves[wave].lines
    issued = lines[step].issue
    assert issued is not None
    if not issued.counted:
        return step
    for at, line in enumerate(lines):
        if any(op.uid == issued.uid for op in (*line.before, *line.after)):
            return at
    return float("inf")


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(sorted(_SCHEDULES)))
def test_provoke_succeeds_exactly_where_nothing_orders_the_pair(
    data: st.DataObject, name: str
) -> None:
    """X before Y holds iff X retires in a segment before the one in which Y issues."""
    program = _PROGRAMS[name]
    accesses = []
    for _ in range(2):
        wave = data.draw(st.integers(0, len(program.waves) - 1))
        op = data.draw(st.sampled_from(list(program.ops(wave))))
        accesses.append(Access(wave, op.step))
    first, second = accesses
    if first == second:
        return
    execution = _REPLAYERS[name].provoke(trips=1, first=first, second=second)
    retired = _retired_at(name, *first)
    if first.wave == second.wave:
        ordered = retired < second.step or retired == second.step > first.step
    else:
        ordered = retired != float("inf") and _segment(name, first.wave, int(retired)) < _segment(
            name, *second
        )
    assert execution.pair is not None
    assert execution.pair.unordered is not ordered
    assert (execution.pair.state is FlightState.RETIRED) is ordered


@pytest.mark.parametrize("name", ["four_wave", "ping_pong"])
def test_every_poisoned_read_can_be_provoked_by_its_cause(name: str) -> None:
    compiled = _SCHEDULES[name]
    execution = Executor(compiled).run(trips=1)
    reads = [read for read in execution.poisoned_reads if read.consumed and read.causes]
    assert reads
    for read in reads:
        pairs = [(read.causes[0], read.at), (read.at, read.causes[0])]
        provoked = [
            _REPLAYERS[name].provoke(trips=1, first=first, second=second).pair
            for first, second in pairs
        ]
        assert any(pair is not None and pair.witnessed for pair in provoked)
