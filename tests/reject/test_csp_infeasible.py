"""Limits that no order can meet: the error names the limit and says what to relax."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeloom.errors import OrderError
from pipeloom.reference.graph import DepEdge, LoopBody
from pipeloom.reference.ops import OpDesc, OpRole, ResourceKind
from pipeloom.reference.strategies.contract import OrderLimits
from pipeloom.reference.strategies.csp import optimal_schedule, optimal_schedule_with_halves

MMA = OpDesc(0, resource=ResourceKind.MMA_UNIT, latency=16, role=OpRole.COMPUTE)
FRAGMENT = OpDesc(1, resource=ResourceKind.LDS, latency=20, role=OpRole.FRAGMENT_LOAD, vgpr_def=8)
LOAD = OpDesc(2, resource=ResourceKind.GLOBAL_MEM, latency=200, role=OpRole.GLOBAL_LOAD)
USE = OpDesc(
    3, resource=ResourceKind.MMA_UNIT, latency=16, role=OpRole.COMPUTE, vgpr_def=4, vgpr_kill=8
)


def body(ops: Sequence[OpDesc], *edges: tuple[int, int]) -> LoopBody:
    return LoopBody(ops, [DepEdge(p, c) for p, c in edges])


def test_a_half_without_compute() -> None:
    with pytest.raises(OrderError, match="second half has 2 ops but no COMPUTE") as error:
        optimal_schedule_with_halves(body([FRAGMENT, MMA, FRAGMENT, LOAD]))
    assert error.value.field == "halves"
    assert "without halves" in str(error.value.hint)


def test_a_half_that_cannot_end_in_a_compute() -> None:
    ops = [MMA, LOAD, FRAGMENT, MMA]
    with pytest.raises(OrderError, match=r"first half cannot end in a COMPUTE: #1 GLOBAL_LOAD"):
        optimal_schedule_with_halves(body(ops, (0, 1)))


def test_more_fragments_than_blocks_hold() -> None:
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, MMA, LOAD, LOAD, MMA, MMA]
    with pytest.raises(OrderError, match="first half has 3 FRAGMENT_LOAD ops, but its 1 COMPUTE"):
        optimal_schedule_with_halves(body(ops))


def test_more_loads_than_blocks_hold() -> None:
    ops = [FRAGMENT, MMA, MMA, MMA, LOAD, LOAD, LOAD, MMA]
    with pytest.raises(OrderError, match="second half has 3 GLOBAL_LOAD ops") as error:
        optimal_schedule_with_halves(body(ops))
    assert error.value.field == "halves"


def test_fragments_that_an_edge_forces_together() -> None:
    # Every COMPUTE needs all three fragments, so they stand before the first.
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, MMA, MMA, LOAD, LOAD, MMA, MMA, MMA]
    edges = [(f, c) for f in range(3) for c in (3, 4)]
    with pytest.raises(OrderError, match="no order can become blocks") as error:
        optimal_schedule_with_halves(body(ops, *edges))
    assert "loop_distance 1" in str(error.value.hint)


def test_too_few_registers_says_how_many_are_needed() -> None:
    ops = [FRAGMENT, FRAGMENT, USE]
    with pytest.raises(OrderError, match=r"max_vgpr is 12, but .* at least 20") as error:
        optimal_schedule(body(ops, (0, 2), (1, 2)), OrderLimits(max_vgpr=12))
    assert error.value.field == "max_vgpr"
    assert "raise max_vgpr to at least 20" in str(error.value.hint)


def test_the_number_of_registers_named_is_enough() -> None:
    ops = [FRAGMENT, FRAGMENT, USE]
    ordering = optimal_schedule(body(ops, (0, 2), (1, 2)), OrderLimits(max_vgpr=20))
    assert ordering.certificate.vgpr_peak == 20


def test_max_globals_alone_is_named() -> None:
    # Greedy breaks the blocks (three fragments in a row), so the search must find an order, and
    # both loads must come before the first COMPUTE.
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, LOAD, LOAD, MMA, MMA, *[MMA] * 7]
    edges = [(3, 5), (4, 5), (3, 6), (4, 6)]
    optimal_schedule_with_halves(body(ops, *edges), OrderLimits(max_globals=2))
    with pytest.raises(OrderError, match="max_globals is 1") as error:
        optimal_schedule_with_halves(body(ops, *edges), OrderLimits(max_globals=1))
    assert error.value.field == "max_globals"


def test_loads_counted_against_max_globals() -> None:
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, LOAD, LOAD, LOAD, MMA, MMA, *[MMA] * 8]
    with pytest.raises(OrderError, match=r"3 GLOBAL_LOAD ops, but its 2 COMPUTEs .*max_globals"):
        optimal_schedule_with_halves(body(ops), OrderLimits(max_globals=1))


def test_limits_that_only_together_rule_out_every_order() -> None:
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, MMA, MMA, LOAD, LOAD, MMA, MMA, MMA]
    edges = [(f, c) for f in range(3) for c in (3, 4)]
    with pytest.raises(OrderError, match="these limits together: max_vgpr, halves"):
        optimal_schedule_with_halves(body(ops, *edges), OrderLimits(max_vgpr=4))


def test_an_edge_from_the_second_half_to_the_first() -> None:
    with pytest.raises(OrderError, match="first half but depends on #2"):
        optimal_schedule_with_halves(body([FRAGMENT, MMA, FRAGMENT, MMA], (2, 1)))


def test_a_search_cut_short_before_it_found_anything() -> None:
    ops = [FRAGMENT, FRAGMENT, FRAGMENT, MMA, MMA, MMA, LOAD, MMA, MMA, MMA, MMA, MMA]
    limits = OrderLimits(node_limit=2)
    with pytest.raises(OrderError, match="in 2 nodes; there may still be one") as error:
        optimal_schedule_with_halves(body(ops), limits)
    assert error.value.field == "node_limit"
    assert "raise node_limit" in str(error.value.hint)
