"""Ctrl-C and limits: a real signal to a real process, and work that every phase counts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_loops import Shape, random_problem
from pipeloom.drive.loops import GemmTileSpec
from pipeloom.drive.solving import order_problem
from pipeloom.order.modulo import Objective, SolveStatus, check_modulo, solve_modulo
from pipeloom.order.modulo.core import Hold
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import run_interruptible
from pipeloom.order.modulo.reservations import ReservationTable, first_free, last_free
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.schedules.ping_pong import DeclarativeSchedule
from pipeloom.reference.strategies.branch_and_bound import BodySearch
from pipeloom.reference.strategies.contract import OrderLimits
from pipeloom.reference.strategies.csp import optimal_schedule_with_halves

UNSETTLED = (
    3,
    Shape(
        ops=60,
        units=3,
        second_use=0.9,
        longest_hold=9,
        longest_latency=30,
        edges_per_op=1.5,
        carried=0.3,
    ),
)
"""CP-SAT works on its IIs for minutes; quick search has a schedule at once."""

_SOLVE = """
import sys
from pipeloom.order.modulo import ModuloProblem, solve_modulo
def tell(progress):
    print(progress.phase, progress.best, file=sys.stderr, flush=True)
result = solve_modulo(ModuloProblem.from_json(open(sys.argv[1]).read()), progress=tell)
print(result.to_json())
"""


def _in_exact_search(process: subprocess.Popen[str]) -> None:
    """Wait until CP-SAT has been at one II for some while: the same line, again and again."""
    assert process.stderr is not None
    seen = 0
    while seen < 4:
        line = process.stderr.readline()
        assert line, "the search ended by itself"
        seen = seen + 1 if line.startswith("exact") and "None" not in line else 0


def _ready_for_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_signal_in_the_middle_of_cp_sat_keeps_the_best(tmp_path: Path) -> None:
    problem = random_problem(*UNSETTLED)
    path = tmp_path / "hard.json"
    path.write_text(problem.to_json())
    with subprocess.Popen(
        [sys.executable, "-c", _SOLVE, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_ready_for_signals,
    ) as process:
        _in_exact_search(process)
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert time.monotonic() - pressed < 15
    assert process.returncode == 0, err
    data = json.loads(out)
    assert (data["status"], data["stopped"], data["proved"]) == ("stopped", "interrupted", False)
    assert data["lower_bound"] <= data["ii"]
    starts = [row["start"] for row in data["starts"]]
    assert not check_modulo(problem, data["ii"], starts)


def test_ctrl_c_before_any_schedule_is_an_interrupt() -> None:
    def press(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_modulo(random_problem(*UNSETTLED), progress=press)


def test_ctrl_c_among_the_objectives_keeps_the_proved_ii() -> None:
    problem = random_problem(0, Shape(ops=9))

    def press(progress: object) -> None:
        if getattr(progress, "phase", "") == "objectives":
            raise KeyboardInterrupt

    result = solve_modulo(problem, objectives=[Objective.STAGES], progress=press)
    assert (result.proved, result.status, result.stopped) == (
        True,
        SolveStatus.STOPPED,
        "interrupted",
    )
    assert result.certificate.stopped is None
    assert solve_modulo(problem).status is SolveStatus.PROVED


def test_ctrl_c_in_the_csp_keeps_the_best_order(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = DeclarativeSchedule()
    body = schedule.build_body()
    graph = LoopBody(tuple(body), tuple(schedule.derive_edges(body)))
    limits = OrderLimits(lds_contention_penalty=20)
    whole = optimal_schedule_with_halves(graph, limits)
    assert not whole.interrupted

    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BodySearch, "find", press)
    cut = optimal_schedule_with_halves(graph, limits)
    assert cut.interrupted
    assert not cut.certificate.proved
    assert cut.certificate.lower_bound <= whole.certificate.makespan <= cut.certificate.makespan


def test_a_work_limit_holds_before_cp_sat_is_asked() -> None:
    problem = order_problem(GemmTileSpec(global_latency=1_000_000).build()).problem
    started = time.process_time()
    first, second = (solve_modulo(problem, work_limit=0.05) for _ in range(2))
    assert time.process_time() - started < 10
    assert first == second
    assert first.stopped == "work limit"
    assert solve_modulo(problem, work_limit=0.5).lower_bound > first.lower_bound
    assert not check_modulo(problem, first.ii, first.starts)


def test_a_time_limit_holds_in_every_phase() -> None:
    problem = replace(random_problem(*UNSETTLED), name="timed")
    started = time.monotonic()
    result = solve_modulo(problem, time_limit=0.5, objectives=[Objective.STAGES])
    assert time.monotonic() - started < 10
    assert result.stopped == "time limit"


def test_steps_count_against_the_work_limit_and_the_clock() -> None:
    work = Effort(None, 1, 0, work_left=0.01)
    work.step(4000)
    with pytest.raises(OutOfEffort):
        work.step(1000)
    late = Effort(time.monotonic() - 1, 1, 0)
    with pytest.raises(OutOfEffort):
        late.step(1_000_000)
    Effort(None, 1, 0).step(10**9)


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_masks_tell_the_free_starts_of_an_op_that_holds_a_unit_twice(capacity: int) -> None:
    ii = 13
    holds = (Hold(0, 0, 4, 0), Hold(0, 2, 5, 0), Hold(0, 11, 3, 0))
    table = ReservationTable(ii, (capacity,))
    for slot in (0, 5, 6, 12):
        table.add((Hold(0, 0, 2, 0),), slot)
    expected = 0
    for slot in range(ii):
        if table.add(holds, slot):
            expected |= 1 << slot
            table.remove(holds, slot)
    assert table.starts(holds) == expected


HELD = st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 6))


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.lists(st.tuples(st.lists(HELD, max_size=3), st.integers(0, 6)), max_size=8),
)
def test_what_is_given_back_is_as_it_was(
    room: tuple[int, int], ops: list[tuple[list[tuple[int, int, int]], int]]
) -> None:
    """Counted slot by slot; a unit may be taken whole, and have no room for any slot more."""
    ii = 7
    table = ReservationTable(ii, room)
    placed: list[tuple[tuple[Hold, ...], int]] = []

    def held(extra: tuple[Hold, ...], slot: int) -> Counter[tuple[int, int]]:
        return Counter(
            (hold.unit, (at + hold.offset + n) % ii)
            for holds, at in (*placed, (extra, slot))
            for hold in holds
            for n in range(hold.length)
        )

    def check(holds: tuple[Hold, ...]) -> None:
        free = [
            slot
            for slot in range(ii)
            if all(count <= room[unit] for (unit, _), count in held(holds, slot).items())
        ]
        assert [slot for slot in range(ii) if table.starts(holds) >> slot & 1] == free

    for some, slot in ops:
        holds = tuple(Hold(unit, offset, length, 0) for unit, offset, length in some)
        check(holds)
        if table.add(holds, slot):
            placed.append((holds, slot))
    while placed:
        table.remove(*placed.pop(len(placed) // 2))
        check((Hold(0, 0, 1, 0), Hold(1, 2, 3, 0)))


def test_first_and_last_free() -> None:
    slots, ii = 0b0010010, 7
    for low in range(-8, 8):
        for high in range(low - 1, low + 9):
            free = [at for at in range(low, high + 1) if slots >> (at % ii) & 1]
            assert first_free(slots, low, high, ii) == (free[0] if free else None)
            assert last_free(slots, low, high, ii) == (free[-1] if free else None)


class _Endless:
    """A solver that ends when it is told to, and notes when it has."""

    def __init__(self) -> None:
        self.told, self.ended = threading.Event(), False

    def solve(self, model: object) -> str:
        assert self.told.wait(30)
        self.ended = True
        return "stopped"

    def stop_search(self) -> None:
        self.told.set()


@pytest.mark.parametrize("end", [SystemExit(143), KeyError("a fault of ours")], ids=repr)
def test_whatever_ends_the_wait_ends_the_solver_first(end: BaseException) -> None:
    """SIGTERM is a SystemExit; threads of CP-SAT that outlive the interpreter abort it."""

    def tick() -> None:
        raise end

    solver: Any = _Endless()
    with pytest.raises(type(end)) as raised:
        run_interruptible(solver, solver, Effort(None, 1, 0, tick=tick))
    assert raised.value is end
    assert solver.ended
