"""Phases of random schedules, executed: every op of every iteration once, in dependence order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import ConfigError, OrderError
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
    expand_modulo,
    solve_modulo,
)
from pipeloom.order.modulo.expand import Expansion


def schedule_of_depth(seed: int, stages: int) -> tuple[ModuloProblem, int, tuple[int, ...]]:
    """A random problem with a schedule of exactly ``stages`` stages.

    The stage budget bounds the depth from above; a last op, placed in the last stage, from
    below, and the value it reads lives through all of them.
    """
    shape = Shape(ops=4 + seed % 5, carried=0.15, lifetimes=True, tightness=-1.0)
    drawn = random_problem(seed, shape)
    problem = replace(
        drawn,
        ops=(*drawn.ops, Op("tail", 1)),
        edges=(*drawn.edges, Edge(0, len(drawn.ops), 1)),
        values=(*drawn.values, Value("late", 0, 1, (Reader(len(drawn.ops)),))),
        channels=tuple(replace(channel, max_buffers=None) for channel in drawn.channels),
        budget=Budget(stages=stages),
    )
    result = solve_modulo(problem)
    last = max(result.starts[-1], (stages - 1) * result.ii)
    return problem, result.ii, (*result.starts[:-1], last)


def execute(problem: ModuloProblem, expansion: Expansion, trip_count: int) -> None:
    """Run the phases; copies hold the iteration that wrote them, and readers look."""
    position: dict[tuple[int, int], int] = {}
    value_copy: dict[tuple[int, int], int] = {}
    channel_copy: dict[tuple[int, int, int], int] = {}
    for op, iteration in expansion.run(trip_count):
        assert (op, iteration) not in position, "performed twice"
        position[op, iteration] = len(position)
        for i, value in enumerate(problem.values):
            count = expansion.value_copies[i]
            for reader in value.readers:
                born = iteration - reader.distance
                if reader.op == op and born >= 0:
                    assert value_copy[i, born % count] == born, "value was overwritten"
            if value.op == op:
                value_copy[i, iteration % count] = iteration
        for i, channel in enumerate(problem.channels):
            count = expansion.channel_copies[i]
            for reader in channel.readers:
                born = iteration - reader.distance
                if reader.op == op and born >= 0:
                    held = {channel_copy.get((i, fill, born % count)) for fill in channel.fills}
                    assert held == {born}, "buffer was overwritten"
            if op in channel.fills:
                channel_copy[i, op, iteration % count] = iteration
    assert len(position) == len(problem.ops) * trip_count
    for edge in problem.edges:
        for iteration in range(edge.distance, trip_count):
            before = position[edge.src, iteration - edge.distance]
            assert before <= position[edge.dst, iteration], f"{edge} out of order"


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_phases_perform_every_op_once_and_in_order(stages: int) -> None:
    for seed in range(50):
        problem, ii, starts = schedule_of_depth(seed, stages)
        expansion = expand_modulo(problem, ii, starts)
        assert expansion.stages == stages
        for trip_count in range(13):
            execute(problem, expansion, trip_count)


def test_solved_schedules_expand_at_the_depth_they_have() -> None:
    depths = set()
    for seed in range(60):
        shape = Shape(ops=7, longest_latency=9, edges_per_op=1.6, lifetimes=True, tightness=-1.0)
        problem = random_problem(seed, shape)
        result = solve_modulo(problem)
        expansion = expand_modulo(problem, result.ii, result.starts)
        depths.add(expansion.stages)
        for trip_count in range(13):
            execute(problem, expansion, trip_count)
    assert len(depths) >= 3


def two_rates(lds_bytes: int | None) -> ModuloProblem:
    """A load read after 3 laps, and one read after 2: copies of 3 and 2."""
    return ModuloProblem(
        "two rates",
        (MachineUnit("port", 1),),
        (
            Op("a", 0, (Reservation("port"),)),
            Op("b", 0, (Reservation("port"),)),
            Op("use a"),
            Op("use b"),
        ),
        (Edge(0, 2, 6), Edge(1, 3, 4)),
        channels=(Channel("A", 32, (0,), (Reader(2),)), Channel("B", 32, (1,), (Reader(3),))),
        budget=Budget(lds_bytes=lds_bytes),
    )


def test_copies_round_up_to_divisors_of_the_unroll_factor() -> None:
    expansion = expand_modulo(two_rates(None), 2, (0, 1, 6, 5))
    assert (expansion.unroll, expansion.channel_copies) == (3, (3, 3))


def test_a_tight_lds_budget_unrolls_further_instead_of_adding_buffers() -> None:
    expansion = expand_modulo(two_rates(160), 2, (0, 1, 6, 5))
    assert (expansion.unroll, expansion.channel_copies) == (6, (3, 2))
    for trip_count in range(13):
        execute(two_rates(160), expansion, trip_count)


def test_an_overwrite_in_the_cycle_of_the_last_read_comes_after_it() -> None:
    problem = ModuloProblem(
        "tie",
        (),
        (Op("write"), Op("read")),
        (Edge(0, 1, 4),),
        values=(Value("v", 0, 1, (Reader(1),)),),
    )
    expansion = expand_modulo(problem, 4, (0, 4))
    assert expansion.value_copies == (1,)
    for trip_count in range(6):
        execute(problem, expansion, trip_count)
    assert [step.op for step in expansion.kernel] == [1, 0]


def test_two_ops_that_read_what_the_other_overwrites_in_one_cycle_get_another_copy() -> None:
    """No order of the two is right with one copy each: ``a, b = b, a``."""
    problem = ModuloProblem(
        "swap",
        (),
        (Op("a"), Op("b")),
        (Edge(0, 1, 1, 1), Edge(1, 0, 1, 1)),
        (Value("A", 0, 1, (Reader(1, 1),)), Value("B", 1, 1, (Reader(0, 1),))),
    )
    expansion = expand_modulo(problem, 1, (0, 0))
    assert max(expansion.value_copies) == 2
    for trip_count in range(6):
        execute(problem, expansion, trip_count)


def test_a_loop_that_keeps_nothing_is_not_unrolled() -> None:
    problem = ModuloProblem("free", (), (Op("a"),), ())
    assert expand_modulo(problem, 1, (0,)).unroll == 1


def test_an_invalid_schedule_is_refused() -> None:
    with pytest.raises(OrderError, match="cannot be expanded: edge: use a starts at 0"):
        expand_modulo(two_rates(None), 2, (0, 1, 0, 5))


def test_a_negative_trip_count_is_refused() -> None:
    expansion = expand_modulo(two_rates(None), 2, (0, 1, 6, 5))
    with pytest.raises(ConfigError, match="trip count is -1"):
        list(expansion.run(-1))
