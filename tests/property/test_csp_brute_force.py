"""CSP against every permutation of small bodies: the cost, the tie-break, and infeasibility."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeloom.config import UNLIMITED_VGPR
from pipeloom.errors import OrderError
from pipeloom.graph import DepEdge, LoopBody
from pipeloom.ops import OpDesc, OpRole, ResourceKind
from pipeloom.strategies.bounds import Job, preemptive_bound
from pipeloom.strategies.budget import Budget
from pipeloom.strategies.cost import Evaluation, evaluate, lower_bound
from pipeloom.strategies.csp import CspStrategy
from pipeloom.strategies.greedy import greedy_schedule, simple_greedy
from pipeloom.strategies.interface import OrderLimits
from pipeloom.strategies.registers import Registers
from pipeloom.strategies.tables import Tables

KINDS = (
    (ResourceKind.MMA_UNIT, OpRole.COMPUTE),
    (ResourceKind.LDS, OpRole.FRAGMENT_LOAD),
    (ResourceKind.GLOBAL_MEM, OpRole.GLOBAL_LOAD),
    (ResourceKind.VALU, OpRole.VALU_COMPUTE),
    (ResourceKind.VALU, OpRole.COMPUTE),
    (ResourceKind.LDS, OpRole.SHARED_STORE),
    (ResourceKind.SCALAR, OpRole.SYNC),
)
WEIGHTED = [0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6]


@st.composite
def bodies(draw: st.DrawFn, most: int) -> LoopBody:
    n = draw(st.integers(0, most))
    ops = []
    for _ in range(n):
        resource, role = KINDS[draw(st.sampled_from(WEIGHTED))]
        ops.append(
            OpDesc(
                0,
                resource=resource,
                role=role,
                latency=draw(st.sampled_from([0, 1, 3, 4, 7, 10])),
                vgpr_def=draw(st.sampled_from([0, 1, 2, 4])),
                vgpr_kill=draw(st.sampled_from([0, 0, 1, 3])),
            )
        )
    # A hidden order that need not be the index order, so that greedy is often wrong.
    hidden = draw(st.permutations(range(n)))
    if draw(st.booleans()):
        hidden = sorted(hidden, key=lambda i: i >= n // 2)
    edges = []
    for at in range(n):
        for before in range(at):
            if draw(st.integers(0, 3)) == 0:
                edges.append(DepEdge(hidden[before], hidden[at], loop_distance=0))
    if n > 1 and draw(st.booleans()):
        edges.append(DepEdge(hidden[-1], hidden[0], loop_distance=1))
    return LoopBody(ops, edges)


limits = st.builds(
    OrderLimits,
    halves=st.booleans(),
    max_globals=st.sampled_from([0, 0, 1, 2]),
    max_vgpr=st.sampled_from([UNLIMITED_VGPR, UNLIMITED_VGPR, 3, 6, 9]),
    lds_contention_penalty=st.sampled_from([0, 2, 5, 12]),
    mma_serial=st.sampled_from([True, True, True, False]),
)


def linear_extensions(body: LoopBody) -> Iterator[tuple[int, ...]]:
    """Every order that keeps the d=0 edges, in lexicographic order."""

    def extend(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(body):
            yield order
        for i in range(len(body)):
            if i not in order and all(p in order for p in body.predecessors[i]):
                yield from extend((*order, i))

    return extend(())


def is_legal(
    body: LoopBody, order: tuple[int, ...], limits: OrderLimits, *, globals_too: bool = True
) -> bool:
    """The limits, straight from their definition."""
    n = len(body)
    if limits.halves:
        if set(order[: n // 2]) != set(range(n // 2)):
            return False
        for end in (n // 2, n):
            if end and body.ops[order[end - 1]].role is not OpRole.COMPUTE:
                return False
    block: list[OpRole] = []
    for position, i in enumerate(order):
        if limits.halves and position == n // 2:
            block = []
        role = body.ops[i].role
        block = [] if role is OpRole.COMPUTE else [*block, role]
        loads = block.count(OpRole.GLOBAL_LOAD)
        if limits.halves and (loads > 2 or block.count(OpRole.FRAGMENT_LOAD) > 2):
            return False
        if globals_too and limits.max_globals and loads > limits.max_globals:
            return False
    return cost(body, order, limits).vgpr_peak <= limits.max_vgpr


def cost(body: LoopBody, order: tuple[int, ...], limits: OrderLimits) -> Evaluation:
    return evaluate(
        body,
        order,
        lds_contention_penalty=limits.lds_contention_penalty,
        mma_serial=limits.mma_serial,
    )


def expected(body: LoopBody, limits: OrderLimits) -> tuple[int, ...] | None:
    """The answer by definition: section 5 of the specification, read literally."""
    try:
        greedy = greedy_schedule(body) if limits.halves else simple_greedy(body)
    except OrderError:
        return None
    best: tuple[Evaluation, tuple[int, ...]] | None = None
    if is_legal(body, greedy, limits, globals_too=False):
        best = (cost(body, greedy, limits), greedy)
        bound = lower_bound(
            body,
            lds_contention_penalty=limits.lds_contention_penalty,
            mma_serial=limits.mma_serial,
        )
        if best[0].makespan == bound:
            return greedy
    for order in linear_extensions(body):
        if is_legal(body, order, limits):
            found = cost(body, order, limits)
            if best is None or found < best[0]:
                best = (found, order)
    return best[1] if best else None


def check(body: LoopBody, limits: OrderLimits) -> None:
    answer = expected(body, limits)
    if answer is None:
        with pytest.raises(OrderError):
            CspStrategy().order(body, limits)
        return
    ordering = CspStrategy().order(body, limits)
    certificate = ordering.certificate
    wanted = cost(body, answer, limits)
    assert certificate.proved
    assert (certificate.makespan, certificate.vgpr_peak) == (wanted.makespan, wanted.vgpr_peak)
    assert ordering.order == answer
    assert certificate.lower_bound <= certificate.makespan


@settings(max_examples=200, deadline=None)
@given(bodies(most=6), limits, st.integers(0, 40))
def test_a_limited_search_claims_only_what_it_proved(
    body: LoopBody, limits: OrderLimits, node_limit: int
) -> None:
    answer = expected(body, limits)
    limited = replace(limits, node_limit=node_limit)
    if answer is None:
        with pytest.raises(OrderError):
            CspStrategy().order(body, limited)
        return
    try:
        ordering = CspStrategy().order(body, limited)
    except OrderError as error:
        if "there may still be one" in error.message:
            return
        raise
    certificate, optimum = ordering.certificate, cost(body, answer, limits)
    assert certificate.nodes <= node_limit
    assert certificate.lower_bound <= optimum.makespan <= certificate.makespan
    assert sorted(ordering.order) == list(range(len(body)))
    assert not body.violations(ordering.order)
    if certificate.proved:
        assert cost(body, ordering.order, limits) == optimum
    greedy = greedy_schedule(body) if limits.halves else simple_greedy(body)
    if is_legal(body, greedy, limits, globals_too=False):
        found = Evaluation(certificate.makespan, certificate.vgpr_peak)
        assert found <= cost(body, greedy, limits)


@settings(max_examples=200, deadline=None)
@given(bodies(most=7), st.booleans())
def test_no_order_has_a_lower_peak_than_the_register_bound(body: LoopBody, halves: bool) -> None:
    # With halves but without blocks to fill, the bound is exact: time and blocks play no part.
    limits = OrderLimits(halves=halves)
    n = len(body)
    peaks = [
        cost(body, order, limits).vgpr_peak
        for order in linear_extensions(body)
        if not halves or set(order[: n // 2]) == set(range(n // 2))
    ]
    assume(peaks)
    registers = Registers(Tables(body, limits), Budget())
    assert registers.least_peak(max(peaks)) == min(peaks)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(-3, 9)), min_size=1, max_size=6
    )
)
def test_the_preemptive_bound_is_below_every_queue(jobs: list[Job]) -> None:
    frees, ends = [], []
    for order in permutations(jobs):
        clock = end = 0
        for head, held, rest in order:
            clock = max(clock, head) + held
            end = max(end, clock + rest)
        frees.append(clock)
        ends.append(end)
    free, end = preemptive_bound(list(jobs))
    assert free == min(frees)
    assert end <= min(ends)


@settings(max_examples=600, deadline=None)
@given(bodies(most=6), limits)
def test_small_bodies(body: LoopBody, limits: OrderLimits) -> None:
    check(body, limits)


@settings(max_examples=120, deadline=None)
@given(bodies(most=8), limits)
def test_larger_bodies(body: LoopBody, limits: OrderLimits) -> None:
    check(body, limits)
