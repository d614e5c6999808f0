"""GREEDY and IDENTITY: the order, and what its certificate may claim."""

from __future__ import annotations

import pytest

from pipeloom import (
    DepEdge,
    LoopBody,
    OpDesc,
    OrderError,
    OrderLimits,
    ResourceKind,
    SchedulingStrategy,
    greedy_schedule,
    simple_greedy,
)
from pipeloom.reference.strategies import STRATEGIES, strategy_for

GREEDY = strategy_for(SchedulingStrategy.GREEDY)
IDENTITY = strategy_for(SchedulingStrategy.IDENTITY)


def body(n: int, *edges: tuple[int, int], latency: int = 1) -> LoopBody:
    return LoopBody([OpDesc(1, latency=latency)] * n, [DepEdge(a, b) for a, b in edges])


def test_registry_names_every_strategy() -> None:
    assert list(STRATEGIES) == list(SchedulingStrategy)
    assert [s.name for s in STRATEGIES.values()][:3] == ["identity", "greedy", "csp"]
    assert all(s.summary for s in STRATEGIES.values())


def test_without_edges_greedy_keeps_the_order() -> None:
    assert greedy_schedule(body(5)) == (0, 1, 2, 3, 4)


def test_greedy_takes_the_lowest_ready_op_and_goes_back() -> None:
    # 0 waits for 2; once 2 is placed, 0 comes before 3
    assert simple_greedy(body(4, (2, 0))) == (1, 2, 0, 3)
    assert greedy_schedule(body(8, (2, 0))) == (1, 2, 0, 3, 4, 5, 6, 7)


def test_greedy_finishes_a_half_before_the_next() -> None:
    # 4 is ready early, but belongs to half 1; half 1 reverses
    assert greedy_schedule(body(6, (5, 3))) == (0, 1, 2, 4, 5, 3)
    # an odd body: half 0 is below n // 2
    assert greedy_schedule(body(5, (1, 0))) == (1, 0, 2, 3, 4)


def test_greedy_names_both_ops_where_the_halves_contradict_an_edge() -> None:
    with pytest.raises(OrderError, match=r"#0 .* depends on #3 .* second half") as caught:
        greedy_schedule(body(4, (3, 0)))
    assert "loop_distance 1" in (caught.value.hint or "")
    assert simple_greedy(body(4, (3, 0))) == (1, 2, 3, 0)


def test_the_strategy_follows_limits_halves() -> None:
    graph = body(4, (3, 1))
    assert GREEDY.order(graph, OrderLimits(halves=False)).order == (0, 2, 3, 1)
    with pytest.raises(OrderError, match="half"):
        GREEDY.order(graph, OrderLimits(halves=True))


def test_certificate_of_an_order_that_meets_the_bound() -> None:
    graph = LoopBody(
        [OpDesc(1, latency=16, resource=ResourceKind.MMA_UNIT, vgpr_def=4)] * 3, [DepEdge(0, 1)]
    )
    for strategy in (GREEDY, IDENTITY):
        certificate = strategy.order(graph, OrderLimits()).certificate
        assert certificate.strategy == strategy.name
        assert (certificate.makespan, certificate.lower_bound) == (48, 48)
        assert (certificate.vgpr_peak, certificate.nodes) == (12, 0)
        assert certificate.proved


def test_an_order_above_the_bound_is_not_called_proved() -> None:
    # MMA 1 waits for a slow op, and the declared order makes MMA 2 wait behind it
    mma = OpDesc(1, latency=16, resource=ResourceKind.MMA_UNIT)
    graph = LoopBody([OpDesc(2, latency=100), mma, mma], [DepEdge(0, 1)])
    certificate = IDENTITY.order(graph, OrderLimits()).certificate
    assert (certificate.makespan, certificate.lower_bound) == (132, 116)
    assert not certificate.proved


def test_identity_is_never_proved_where_it_breaks_an_edge() -> None:
    graph = body(2, (1, 0), latency=10)
    ordering = IDENTITY.order(graph, OrderLimits())
    assert ordering.order == (0, 1)
    assert ordering.certificate.makespan == 10
    assert ordering.certificate.lower_bound == 20
    assert not ordering.certificate.proved


def test_the_certificate_uses_the_contention_penalty() -> None:
    lds = OpDesc(1, latency=20, resource=ResourceKind.LDS)
    limits = OrderLimits(lds_contention_penalty=8)
    certificate = IDENTITY.order(LoopBody([lds, lds, lds]), limits).certificate
    assert (certificate.makespan, certificate.lower_bound) == (36, 36)
