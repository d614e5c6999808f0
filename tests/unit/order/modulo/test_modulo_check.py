"""The checker finds each kind of violation, and every mutation that is one."""

from __future__ import annotations

import pytest

from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import OrderError
from pipeloom.order.modulo import (
    Budget,
    Channel,
    Edge,
    MachineUnit,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
    Value,
    check_modulo,
    solve_modulo,
)
from pipeloom.order.modulo.measure import fits_budget, measure, unit_tables

LOOP = ModuloProblem(
    "loop",
    (MachineUnit("port", 1),),
    (Op("load", 3, (Reservation("port", 2),)), Op("use", 1, (Reservation("port", 1, 1),))),
    (Edge(0, 1, 3), Edge(1, 1, 1, 1)),
    values=(Value("v", 0, 4, (Reader(1, hold=1),)),),
    channels=(Channel("c", 32, (0,), (Reader(1),), 1),),
    budget=Budget(registers=8, lds_bytes=32, stages=2),
)


@pytest.mark.parametrize(
    ("ii", "starts", "kind", "words"),
    [
        (0, (0, 3), "shape", "II is 0"),
        (3, (0,), "shape", "1 starts for 2 ops"),
        (4, (0, 2), "edge", "use starts at 2, before load lets it at 3"),
        (3, (0, 3), "unit", "port is held 2 times in slot 1, capacity 1"),
        (3, (0, 7), "registers", "12 registers live in slot"),
        (4, (0, 5), "buffers", "c needs 2 buffers, at most 1"),
        (4, (0, 5), "lds", "buffers take 64 bytes, limit 32"),
        (3, (0, 7), "stages", "starts span 7 cycles, 2 stages of 3"),
    ],
)
def test_each_kind_of_violation(ii: int, starts: tuple[int, ...], kind: str, words: str) -> None:
    found = check_modulo(LOOP, ii, starts)
    assert any(v.kind == kind and words in v.message for v in found), [str(v) for v in found]


def test_a_valid_schedule_has_no_violation() -> None:
    assert check_modulo(LOOP, 5, (0, 3)) == []


def test_checker_and_solver_arithmetic_agree_on_mutated_schedules() -> None:
    """The solver's own measures, computed differently, must reject exactly the same starts."""
    rejected = accepted = 0
    for seed in range(40):
        problem = random_problem(seed, Shape(ops=6, lifetimes=True, tightness=0.8))
        try:
            result = solve_modulo(problem, max_ii=20, work_limit=0.02)  # any schedule will do
        except OrderError:
            continue
        for op in range(len(problem.ops)):
            for delta in (-3, -1, 1, 2, result.ii):
                starts = list(result.starts)
                starts[op] += delta
                edges = all(
                    starts[e.dst] >= starts[e.src] + e.latency - e.distance * result.ii
                    for e in problem.edges
                )
                tables = unit_tables(problem, result.ii, starts)
                units = all(
                    t.capacity is None or all(len(s) <= t.capacity for s in t.slots) for t in tables
                )
                fits = fits_budget(problem, measure(problem, result.ii, starts))
                # Lifetimes are only defined where readers wait for their writer.
                if not edges:
                    assert check_modulo(problem, result.ii, starts)
                    rejected += 1
                    continue
                assert (check_modulo(problem, result.ii, starts) == []) == (units and fits)
                accepted += units and fits
                rejected += not (units and fits)
    assert rejected > 100
    assert accepted > 20


def test_a_buffer_is_taken_from_the_first_of_its_fills_on() -> None:
    ops = (Op("first"), Op("second"), Op("use"))
    channel = Channel("c", 32, (0, 1), (Reader(2),), 1)
    problem = ModuloProblem("halves", (), ops, (Edge(0, 2, 0),), channels=(channel,))
    assert check_modulo(problem, 4, (0, 3, 4)) == []
    for starts in ((0, 3, 5), (3, 0, 5)):
        assert [v.kind for v in check_modulo(problem, 4, starts)] == ["buffers"]
