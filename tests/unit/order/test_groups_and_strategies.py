"""Waves with jobs of their own, and orders from outside."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.errors import ConfigError, OrderError
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.modulo import ModuloProblem
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.strategy import Exact, Timetable
from pipeloom.program import Program, Unit, Work
from tests.unit.order.test_arrange import assert_computes

GROUPS = (Producer(2), Consumer(4))


@pytest.fixture(scope="module")
def split() -> Program:
    return arrange(gemm(64, 128, 32), GFX950, groups=GROUPS, strategy=Exact(1.0)).program


def test_producers_only_load(split: Program) -> None:
    producers, consumers = split.groups
    assert (producers.waves, consumers.waves) == ((0, 1), (2, 3, 4, 5))
    for group, loads in ((producers, True), (consumers, False)):
        units = {i.unit for _, _, s in group.steps() if isinstance(s, Work) for i in s.issues}
        assert (units == {Unit.LOAD_LDS}) == loads
        assert (Unit.LOAD_LDS in units) == loads


def test_all_groups_have_the_same_sections(split: Program) -> None:
    producers, consumers = split.groups
    assert [s.name for s in producers.sections] == [s.name for s in consumers.sections]
    assert [s.trips for s in producers.sections] == [s.trips for s in consumers.sections]


def test_loads_are_shared_by_the_producers_alone(split: Program) -> None:
    """64 x 32 bf16 in two pieces: 2 KiB by 2 waves of 1 KiB per instruction."""
    loads = [s for _, _, s in split.groups[0].steps() if isinstance(s, Work)]
    assert {s.entries for s in loads if s.node == "A"} == {1}
    assert {s.entries for s in loads if s.node == "B"} == {2}
    assert all(s.reads[0].shared and s.writes[0].shared for s in loads)


def test_every_group_has_a_proposal_of_equally_many_barriers() -> None:
    arranged = arrange(gemm(64, 128, 32), GFX950, groups=GROUPS, strategy=Exact(1.0))
    gaps = arranged.barrier_gaps
    assert sorted(gaps) == ["loop@0", "loop@1"]
    assert len(gaps["loop@0"]) == len(gaps["loop@1"]) > 0


def test_groups_in_either_order() -> None:
    program = arrange(
        gemm(64, 64, 32), GFX950, groups=(Consumer(4), Producer(1)), strategy=Exact(1.0)
    ).program
    assert [g.waves for g in program.groups] == [(0, 1, 2, 3), (4,)]


def test_group_refusals() -> None:
    loop = gemm(64, 64, 32)
    with pytest.raises(ConfigError, match="groups hold Consumer, Consumer"):
        arrange(loop, GFX950, groups=(Consumer(4), Consumer(4)))
    with pytest.raises(ConfigError, match="waves say that 2 compute, groups that 4 do"):
        arrange(loop, GFX950, 2, groups=GROUPS)
    with pytest.raises(ConfigError, match="waves say that 8 compute, groups that 4 do"):
        arrange(loop, GFX950, {"m": 2, "n": 4}, groups=GROUPS)
    with pytest.raises(ConfigError, match="needs a number of waves"):
        arrange(loop, GFX950)
    with pytest.raises(ConfigError, match="only load, but stages nothing"):
        arrange(row_sum(), GFX950, groups=(Producer(1), Consumer(1)))
    with pytest.raises(ConfigError, match=r"Producer\.waves is 0"):
        Producer(0)
    with pytest.raises(ConfigError, match=r"Consumer\.waves is 0"):
        Consumer(0)


def one_after_the_other(problem: ModuloProblem) -> Timetable:
    """No overlap at all: each task when the one before it is over."""
    starts, now = [], 0
    for op in problem.ops:
        starts.append(now)
        now += 1 + max([op.latency, *(use.offset + use.occupancy for use in op.uses)])
    slack = max(edge.latency for edge in problem.edges)
    return Timetable(now + slack, tuple(starts))


@dataclass(frozen=True)
class Delayed:
    """An object with a name of its own, and options."""

    name: str = "delayed"
    by: int = 2

    def __call__(self, problem: ModuloProblem) -> Timetable:
        found = Exact(1.0)(problem)
        return Timetable(found.ii, tuple(start + self.by for start in found.starts))


def test_a_strategy_is_a_function() -> None:
    loop = gemm(64, 64, 32)
    program = arrange(loop, GFX950, 4, strategy=one_after_the_other).program
    ordered = program.provenance.ordered
    assert ordered is not None
    assert (ordered.strategy, ordered.proved, ordered.stages) == ("one_after_the_other", False, 1)
    assert ordered.bound is None
    assert {r.copies for r in program.resources} == {1}
    assert_computes(loop, program, 2)


def test_a_strategy_is_an_object() -> None:
    loop = attention(64, 32, 32)
    program = arrange(loop, GFX950, 4, strategy=Delayed()).program
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.strategy == "delayed"
    assert_computes(loop, program, 1)


def test_a_wrong_order_is_refused() -> None:
    def together(problem: ModuloProblem) -> Timetable:
        return Timetable(4096, (0,) * len(problem.ops))

    with pytest.raises(OrderError, match="the schedule cannot be expanded"):
        arrange(gemm(64, 64, 32), GFX950, 4, strategy=together)
