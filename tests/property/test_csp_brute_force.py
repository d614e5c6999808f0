"""CSP against every permutation of small bodies: the cost, the tie-break, and infeasibility."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeloom.errors import OrderError
from pipeloom.reference.graph import DepEdge, LoopBody
from pipeloom.reference.ops import OpDesc, OpRole, ResourceKind
from pipeloom.reference.schedule_config import UNLIMITED_VGPR
from pipeloom.reference.strategies.branch_and_bound import BodySearch
from pipeloom.reference.strategies.contract import NodeBudget, OrderLimits
from pipeloom.reference.strategies.cost import OrderCost, lower_bound, order_cost
from pipeloom.reference.strategies.csp import CspStrategy
from pipeloom.reference.strategies.greedy import greedy_schedule, simple_greedy
from pipeloom.reference.strategies.tables import NEVER, Job, Tables, preemptive_bound

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


def cost(body: LoopBody, order: tuple[int, ...], limits: OrderLimits) -> OrderCost:
    return order_cost(
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
    best: tuple[OrderCost, tuple[int, ...]] | None = None
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
            CspStrategy(fit_blocks=True).order(body, limits)
        return
    ordering = CspStrategy(fit_blocks=True).order(body, limits)
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
            CspStrategy(fit_blocks=True).order(body, limited)
        return
    try:
        ordering = CspStrategy(fit_blocks=True).order(body, limited)
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
        found = OrderCost(certificate.makespan, certificate.vgpr_peak)
        assert found <= cost(body, greedy, limits)


def least_peak(body: LoopBody, halves: bool) -> int | None:
    """The fewest registers of any order, by dynamic programming over sets of placed ops."""
    n = len(body)
    best: dict[int, int] = {0: 0}
    for placed in range(1 << n):
        if placed not in best:
            continue
        held = [i for i in range(n) if placed >> i & 1]
        live = sum(body.ops[i].vgpr_def - body.ops[i].vgpr_kill for i in held)
        for i in range(n):
            if i in held or any(p not in held for p in body.predecessors[i]):
                continue
            if halves and i >= n // 2 and len([j for j in held if j < n // 2]) < n // 2:
                continue
            peak = max(best[placed], live + body.ops[i].vgpr_def)
            following = placed | 1 << i
            best[following] = min(best.get(following, peak), peak)
    return best.get((1 << n) - 1)


@settings(max_examples=300, deadline=None)
@given(bodies(most=8), st.booleans())
def test_the_register_bound_is_below_every_order(body: LoopBody, halves: bool) -> None:
    peak = least_peak(body, halves)
    assume(peak is not None)
    assert peak is not None
    assert Tables(body, OrderLimits(halves=halves)).least_peak <= peak


@pytest.mark.parametrize("seed", range(120))
def test_the_search_meets_the_least_peak_where_frees_are_tight(seed: int) -> None:
    rng = random.Random(seed)
    ops = [
        OpDesc(0, vgpr_def=rng.choice([0, 1, 2, 4]), vgpr_kill=rng.choice([0, 1, 2, 3]))
        for _ in range(7)
    ]
    edges = [DepEdge(p, c) for c in range(7) for p in range(c) if rng.random() < 0.3]
    body = LoopBody(ops, edges)
    peak = least_peak(body, halves=False)
    assert peak is not None
    search = BodySearch(Tables(body, OrderLimits()), NodeBudget())
    assert search.find(NEVER - 1, peak)[0] is not None
    assert search.find(NEVER - 1, peak - 1)[0] is None


class PlainSearch(BodySearch):
    """The same tree without shortcuts: no memory, no dominance, no commuting."""

    def _known_to_fail(self, *_: object) -> int:
        return 0

    def _failed_swapped(self, *_: object) -> bool:
        return False

    def _choices(self, state: object, peak: int) -> list[int]:
        return self._candidates(state, peak)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(60))
def test_the_shortcuts_of_the_search_change_no_answer(seed: int) -> None:
    """Bodies of 12 ops, tight in fragments and loads, where states meet again and again."""
    rng = random.Random(seed)
    roles = [1, 1, 1, 2, 0, 0] if seed % 2 else [1, 1, 2, 2, 2, 0, 0]
    codes = [code for _ in (0, 1) for code in rng.sample(roles, len(roles))]
    ops = [
        OpDesc(
            0,
            resource=KINDS[code][0],
            role=KINDS[code][1],
            latency=rng.choice([2, 3, 5, 7]),
            vgpr_def=rng.choice([0, 1, 2]),
            vgpr_kill=rng.choice([0, 0, 2]),
        )
        for code in codes
    ]
    n = len(ops)
    hidden = sorted(rng.sample(range(n), n), key=lambda i: (i >= n // 2, codes[i] == 0))
    edges = [
        DepEdge(hidden[p], hidden[c]) for c in range(n) for p in range(c) if rng.random() < 0.15
    ]
    tables = Tables(
        LoopBody(ops, edges), OrderLimits(halves=True, lds_contention_penalty=rng.choice([2, 4]))
    )
    quick, plain = BodySearch(tables, NodeBudget()), PlainSearch(tables, NodeBudget())
    for peak in (NEVER, 6):
        target = 0
        while target < NEVER:
            order, following = quick.find(target, peak)
            if order is not None:
                break
            # Nothing is shorter than what the quick search says comes next.
            assert plain.find(following - 1, peak, effort=30_000)[0] is None
            target = following
        assert (plain.find(target, peak, effort=30_000)[0] is None) == (target >= NEVER)


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
