"""The within-iteration cost model and its bound, on examples worked by hand."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom import DepEdge, DepKind, LoopBody, OpDesc, OrderCost, ResourceKind
from pipeloom.reference.strategies.cost import lower_bound, order_cost

MMA, VALU = ResourceKind.MMA_UNIT, ResourceKind.VALU
LDS, MEM, NONE = ResourceKind.LDS, ResourceKind.GLOBAL_MEM, ResourceKind.NONE


def op(latency: int, resource: ResourceKind = NONE, define: int = 0, kill: int = 0) -> OpDesc:
    return OpDesc(1, latency=latency, resource=resource, vgpr_def=define, vgpr_kill=kill)


def test_independent_ops_overlap() -> None:
    assert order_cost(LoopBody([op(5), op(9)]), (0, 1)).makespan == 9


def test_predecessors_of_either_kind_delay_their_consumer() -> None:
    for kind in (DepKind.FLOW, DepKind.ANTI):
        body = LoopBody([op(5), op(9)], [DepEdge(0, 1, kind)])
        assert order_cost(body, (0, 1)).makespan == 14


def test_a_predecessor_later_in_the_order_contributes_nothing() -> None:
    body = LoopBody([op(5), op(9)], [DepEdge(0, 1)])
    assert order_cost(body, (1, 0)).makespan == 9


def test_edges_across_iterations_cost_nothing_within_one() -> None:
    body = LoopBody([op(5), op(9)], [DepEdge(0, 1, DepKind.FLOW, 1)])
    assert order_cost(body, (0, 1)).makespan == 9


def test_the_mma_unit_and_the_valu_are_serial_and_independent() -> None:
    assert order_cost(LoopBody([op(16, MMA), op(16, MMA)]), (0, 1)).makespan == 32
    assert order_cost(LoopBody([op(16, VALU), op(16, VALU)]), (0, 1)).makespan == 32
    assert order_cost(LoopBody([op(16, MMA), op(16, VALU)]), (0, 1)).makespan == 16


def test_a_pipelined_mma_unit_is_not_serial() -> None:
    body = LoopBody([op(16, MMA), op(16, MMA)])
    assert order_cost(body, (0, 1), mma_serial=False).makespan == 16
    assert lower_bound(body, mma_serial=False) == 16


def test_an_mma_waits_for_its_unit_in_order() -> None:
    # the load delays MMA 1, and MMA 2 comes after it in the order
    body = LoopBody([op(100, MEM), op(16, MMA), op(16, MMA)], [DepEdge(0, 1)])
    assert order_cost(body, (0, 1, 2)).makespan == 132
    assert order_cost(body, (0, 2, 1)).makespan == 116


def test_the_port_is_shared_by_lds_and_global_and_held_for_the_penalty() -> None:
    body = LoopBody([op(20, LDS), op(200, MEM), op(20, LDS)])
    assert order_cost(body, (0, 1, 2)).makespan == 200
    assert order_cost(body, (0, 1, 2), lds_contention_penalty=8).makespan == 208
    assert order_cost(body, (0, 2, 1), lds_contention_penalty=8).makespan == 216
    # the port does not hold back other units
    mixed = LoopBody([op(20, LDS), op(16, MMA)])
    assert order_cost(mixed, (0, 1), lds_contention_penalty=50).makespan == 20


def test_vgpr_peak_counts_definitions_before_kills() -> None:
    body = LoopBody([op(1, NONE, 8, 3), op(1, NONE, 4, 0), op(1, NONE, 0, 9)])
    assert order_cost(body, (0, 1, 2)).vgpr_peak == 9  # 8, then 5 + 4
    assert order_cost(body, (1, 0, 2)).vgpr_peak == 12  # 4, then 4 + 8
    assert order_cost(body, (2, 0, 1)).vgpr_peak == 0  # -9 from the start


def test_evaluations_compare_by_makespan_then_registers() -> None:
    assert OrderCost(10, 99) < OrderCost(11, 0)
    assert OrderCost(10, 8) < OrderCost(10, 9)


def test_bound_longest_path() -> None:
    assert lower_bound(LoopBody([op(5), op(9)], [DepEdge(0, 1)])) == 14


@pytest.mark.parametrize("unit", [MMA, VALU])
def test_bound_serial_unit_starts_at_its_earliest_asap(unit: ResourceKind) -> None:
    body = LoopBody([op(10), op(16, unit), op(16, unit)], [DepEdge(0, 1), DepEdge(0, 2)])
    assert lower_bound(body) == 10 + 32


def test_bound_port() -> None:
    body = LoopBody([op(20, LDS), op(30, MEM), op(25, LDS)])
    assert lower_bound(body) == 30
    # penalty * (N-1) + the least latency
    assert lower_bound(body, lds_contention_penalty=8) == 8 * 2 + 20
    assert lower_bound(body, lds_contention_penalty=1) == 30


@st.composite
def bodies(draw: st.DrawFn) -> LoopBody:
    n = draw(st.integers(1, 5))
    resources = st.sampled_from([MMA, VALU, LDS, MEM])
    ops = [
        op(
            draw(st.integers(0, 9)),
            draw(resources),
            draw(st.integers(0, 4)),
            draw(st.integers(0, 4)),
        )
        for _ in range(n)
    ]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=5)) if pairs else []
    return LoopBody(ops, [DepEdge(i, j) for i, j in chosen])


@given(bodies(), st.integers(0, 12))
def test_no_legal_order_beats_the_bound(body: LoopBody, penalty: int) -> None:
    bound = lower_bound(body, lds_contention_penalty=penalty)
    for order in permutations(range(len(body))):
        if not body.violations(order):
            cost = order_cost(body, order, lds_contention_penalty=penalty)
            assert cost.makespan >= bound


@given(bodies())
def test_without_a_penalty_nothing_waits_for_the_port(body: LoopBody) -> None:
    """The declared order costs at least the longest path of a legal body."""
    assert order_cost(body, range(len(body))).makespan >= body.longest_path
