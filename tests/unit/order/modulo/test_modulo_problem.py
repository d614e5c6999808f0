"""The problem as data: the written form, published records, stable bytes."""

from __future__ import annotations

import json

import pytest

from benchmarks.loop_records import read_record
from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import ConfigError
from pipeloom.order.modulo import Edge, MachineUnit, ModuloProblem, Op, Reader, Reservation, Value
from pipeloom.order.modulo.bounds import enough_ii, unit_bounds
from pipeloom.order.modulo.problem import FORMAT
from pipeloom.order.modulo.recurrences import _trace_cycle, critical_recurrence
from pipeloom.order.modulo.result import RESULT_FORMAT

HLS = {
    "name": "hls",
    "resources": [
        {"name": "mem", "latency": 2, "limit": 1},
        {"name": "add", "latency": 1, "limit": None},
    ],
    "nodes": [0, 1, 0],
    "edges": [[0, 1, 0, 0], [1, 2, 1, 0], [2, 0, 0, 1]],
    "reference": None,
}


def gpu(res_mii: int) -> dict[str, object]:
    def node(op: str, unit: str, latency: int, occupancy: int) -> dict[str, object]:
        return {"op": op, "unit": unit, "latency": latency, "occupancy": occupancy}

    return {
        "name": "gpu",
        "res_mii": res_mii,
        "nodes": [
            node("load", "TMA", 500, 96),
            node("alloc", "NONE", 0, 0),
            node("add", "CUDA", 1, 64),
            node("cast", "CUDA", 0, 0),
            node("mul", "CUDA", 1, 64),
        ],
        "edges": [[0, 1, 500, 0], [1, 2, 0, 0], [2, 3, 1, 0], [3, 4, 0, 0]],
    }


def test_hls_edges_wait_for_the_source_and_the_delay() -> None:
    problem = read_record(HLS)
    assert [op.name for op in problem.ops] == ["mem#0", "add#1", "mem#2"]
    assert problem.edges == (Edge(0, 1, 2), Edge(1, 2, 2), Edge(2, 0, 2, 1))
    assert problem.ops[0].uses == (Reservation("mem", 1),)
    assert problem.ops[1].uses == ()


def test_gpu_ops_hold_their_unit_and_none_holds_nothing() -> None:
    problem = read_record(gpu(128))
    assert problem.units == (MachineUnit("TMA", 1), MachineUnit("CUDA", 1))
    assert [op.uses for op in problem.ops] == [
        (Reservation("TMA", 96),),
        (),
        (Reservation("CUDA", 64),),
        (),
        (Reservation("CUDA", 64),),
    ]
    assert problem.ops[0].load


def test_gpu_record_whose_bound_counts_idle_ops_gets_them_for_one_cycle() -> None:
    problem = read_record(gpu(129))
    assert problem.ops[3].uses == (Reservation("CUDA", 1),)
    assert max(bound.ii for bound in unit_bounds(problem)) == 129


@pytest.mark.parametrize("seed", range(30))
def test_json_round_trip_gives_an_equal_problem_and_equal_bytes(seed: int) -> None:
    problem = random_problem(seed, Shape(ops=7, lifetimes=True))
    text = problem.to_json()
    again = ModuloProblem.from_json(text)
    assert again == problem
    assert again.to_json() == text
    assert ModuloProblem.from_dict(json.loads(text)) == problem


def test_our_form_has_short_defaults_and_accepts_op_numbers() -> None:
    problem = ModuloProblem.from_dict(
        {
            "ops": [{"name": "a", "latency": 3, "uses": [{"unit": "u"}]}, {"name": "b"}],
            "units": [{"name": "u"}],
            "edges": [{"from": 0, "to": "b"}, {"from": "b", "to": 0, "latency": 1, "distance": 2}],
        }
    )
    assert problem.name == "loop"
    assert problem.edges == (Edge(0, 1, 3), Edge(1, 0, 1, 2))
    assert problem.ops[0] == Op("a", 3, (Reservation("u", 1, 0),))


def test_with_budget_keeps_what_is_not_given() -> None:
    problem = random_problem(1, Shape(lifetimes=True)).with_budget(registers=9, stages=2)
    changed = problem.with_budget(stages=3)
    assert (changed.budget.registers, changed.budget.stages) == (9, 3)


def test_the_critical_recurrence_is_the_cycle_with_the_worst_ratio() -> None:
    problem = ModuloProblem(
        "loops",
        (),
        (Op("a"), Op("b"), Op("c")),
        (Edge(0, 1, 4), Edge(1, 0, 3, 2), Edge(1, 2, 1), Edge(2, 1, 4, 1), Edge(0, 0, 2, 1)),
    )
    loop = critical_recurrence(3, problem.edges)
    assert loop is not None
    assert (loop.ii, loop.latency, loop.distance, set(loop.ops)) == (5, 5, 1, {1, 2})
    assert [problem.edges[i].src for i in loop.edges] == list(loop.ops)


def test_files_keep_their_format_name_wherever_the_package_lies() -> None:
    assert (FORMAT, RESULT_FORMAT) == ("pipeloom.modulo/1", "pipeloom.modulo-result/1")


@pytest.mark.parametrize("field", ["distance", "hold"])
def test_a_reader_is_not_before_its_turn(field: str) -> None:
    ops = (Op("load"), Op("use"))
    for number in (0, -1):
        values = (Value("x", 0, 1, (Reader(1, **{field: number}),)),)
        if number == 0:
            assert ModuloProblem("two", (), ops, (Edge(0, 1, 1),), values).values == values
        else:
            with pytest.raises(ConfigError, match=field):
                ModuloProblem("two", (), ops, (Edge(0, 1, 1),), values)


def test_links_that_end_are_no_cycle() -> None:
    edges = (Edge(0, 1, 4), Edge(1, 2, 4), Edge(2, 1, 4, 1))
    chain = {1: (0, edges[0]), 2: (1, edges[1])}
    assert _trace_cycle(chain) is None
    found = _trace_cycle({**chain, 1: (2, edges[2])})
    assert found is not None
    assert set(found.edges) == {1, 2}


def test_an_ii_that_is_enough_leaves_a_gap_longer_than_any_latency() -> None:
    """Of the starts of two ops on the circle: whatever they are, one slot can be cut out there."""
    problem = ModuloProblem("pair", (), (Op("a"), Op("b")), (Edge(0, 1, 100),))
    ii = enough_ii(problem) + 1
    assert min(max(there, ii - there) for there in range(ii)) > 100
