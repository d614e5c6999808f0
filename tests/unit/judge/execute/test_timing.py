"""Timelines keep the model's promises, whatever the seed."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom import CompiledSchedule, build_schedule
from pipeloom.judge.execute import TIMINGS, Executor, Moment
from pipeloom.judge.execute.program import Op
from pipeloom.judge.execute.timing import timelines
from pipeloom.reference.kernels import Kernel

Litmus = Callable[..., tuple[CompiledSchedule, Kernel]]

_EXECUTORS = {name: Executor(build_schedule(name)) for name in ("ping_pong", "four_wave")}


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(sorted(_EXECUTORS)),
    timing=st.sampled_from(sorted(TIMINGS)),
    trips=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_every_op_lands_once_between_issue_and_retirement(
    name: str, timing: str, trips: int, seed: int
) -> None:
    program = _EXECUTORS[name].program(trips)
    for wave, line in zip(program.waves, timelines(program, TIMINGS[timing], seed), strict=True):
        issued: dict[int, int] = {}
        landed: dict[int, int] = {}
        for at, (lands, op) in enumerate(line.events):
            assert op.uid not in (landed if lands else issued)
            (landed if lands else issued)[op.uid] = at
        assert landed == line.lands
        order = sorted((op for _, op in line.events if op.fills), key=lambda op: op.step)
        for register in range(len(program.registers)):
            filled = [landed[op.uid] for op in order if register in op.fills]
            assert filled == sorted(filled)
        assert all(issued[uid] < at for uid, at in landed.items())
        for step, program_line in enumerate(wave.lines):
            after = line.starts[step + 1] if step + 1 < len(wave.lines) else len(line.events)
            for op in (*program_line.before, *program_line.after):
                assert landed[op.uid] < after
            if program_line.is_barrier:
                assert line.starts[step] <= after
        assert list(line.ends) == sorted(line.ends)
        assert line.ends[-1] == len(line.events)
        assert len(line.ends) == len(wave.barrier_steps) + 1


def _is_load(op: Op) -> bool:
    return bool(op.writes)


def _is_read(op: Op) -> bool:
    return bool(op.reads)


def test_moments_differ_in_where_the_landing_stands() -> None:
    program = _EXECUTORS["four_wave"].program(0)
    load = next(op for op in program.ops(0) if _is_load(op))
    read = next(op for op in program.ops(0) if _is_read(op))
    flights = {}
    for timing in ("early", "late", "stale", "overrun"):
        line = timelines(program, TIMINGS[timing])[0]
        starts = {op.uid: at for at, (lands, op) in enumerate(line.events) if not lands}
        flights[timing] = tuple(line.lands[op.uid] - starts[op.uid] > 1 for op in (load, read))
    assert flights == {
        "early": (False, False),
        "late": (True, True),
        "stale": (True, False),
        "overrun": (False, True),
    }


def test_an_override_moves_one_op_only() -> None:
    program = _EXECUTORS["four_wave"].program(0)
    load = next(op for op in program.ops(0) if _is_load(op))
    usual = timelines(program, TIMINGS["late"])
    moved = timelines(program, TIMINGS["late"], 0, {(0, load.step): Moment.EARLY})
    assert [line.events for line in usual[1:]] == [line.events for line in moved[1:]]
    assert moved[0].lands[load.uid] == 1
    assert usual[0].lands[load.uid] > 1


def test_fills_of_one_register_land_in_issue_order(litmus: Litmus) -> None:
    compiled, kernel = litmus("load.a vm0 barrier read.a read.a read.a read.a fence fence lgkm0")
    program = Executor(compiled, kernel).program(0)
    reads = [op.uid for op in program.ops(0) if op.reads]
    flights = set()
    for seed in range(100):
        line = timelines(program, TIMINGS["random"], seed)[0]
        landed = [line.lands[uid] for uid in reads]
        assert landed == sorted(landed)
        flights.add(tuple(landed))
    assert len(flights) > 10
