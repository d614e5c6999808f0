"""Components, longest paths and slots of small random graphs, against their definitions."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pipeloom.errors import InternalError
from pipeloom.order.modulo.longest_paths import (
    NO_PATH,
    TimedGraph,
    forward_order,
    settle_in_slots,
    strong_components,
)
from pipeloom.order.modulo.parts import Edge

CASES = 40


def drawn(rng: random.Random) -> tuple[int, list[Edge], int]:
    count = rng.randint(1, 6)
    edges = []
    for _ in range(rng.randint(0, 9)):
        src, dst = rng.randrange(count), rng.randrange(count)
        distance = rng.randint(0 if src < dst else 1, 2)
        edges.append(Edge(src, dst, rng.randint(0, 9), distance))
    return count, edges, rng.randint(2, 9)


def paths(count: int, edges: list[Edge], ii: int) -> list[list[float]]:
    """Longest path weights between any two by Floyd and Warshall; above 0 on the diagonal where a
    cycle is positive."""
    far = [[0.0 if i == j else float("-inf") for j in range(count)] for i in range(count)]
    for e in edges:
        far[e.src][e.dst] = max(far[e.src][e.dst], e.latency - e.distance * ii)
    for k, i, j in product(range(count), repeat=3):
        far[i][j] = max(far[i][j], far[i][k] + far[k][j])
    return far


@pytest.mark.parametrize("seed", range(5))
def test_against_all_paths(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES):
        check_paths(rng, *drawn(rng))


def check_paths(rng: random.Random, count: int, edges: list[Edge], ii: int) -> None:
    far = paths(count, edges, ii)
    reach = paths(count, [Edge(e.src, e.dst, 0, 0) for e in edges], 0)
    components = strong_components(count, edges)
    assert sorted(op for part in components for op in part) == list(range(count))
    at = {op: n for n, part in enumerate(components) for op in part}
    for i, j in product(range(count), repeat=2):
        both = reach[i][j] == reach[j][i] == 0
        assert (at[i] == at[j]) is both
        assert reach[i][j] < 0 or at[i] <= at[j]
    assert all(part == sorted(part) for part in components)
    order = forward_order(count, edges)
    assert all(order.index(e.src) < order.index(e.dst) for e in edges if e.distance == 0)

    start = [rng.randint(0, 9) for _ in range(count)]
    for ranked in (None, rng.sample(range(count), count)):
        graph = TimedGraph(count, edges, ii, ranked)
        times = list(start)
        possible = all(far[i][i] == 0 for i in range(count))
        assert graph.settle(times) is possible
        if not possible:
            continue
        least = [max(start[i] + far[i][j] for i in range(count)) for j in range(count)]
        assert times == least
        for one in range(count):
            wanted = [NO_PATH if t == float("-inf") else t for t in far[one]]
            assert graph.longest_from(one) == wanted
            back = [NO_PATH if row[one] == float("-inf") else row[one] for row in far]
            assert TimedGraph.reversed(graph).longest_from(one) == back


@pytest.mark.parametrize("seed", range(5))
def test_slots_are_kept_at_the_least_times(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES):
        check_slots(rng, *drawn(rng))


def check_slots(rng: random.Random, count: int, edges: list[Edge], ii: int) -> None:
    slots = {op: rng.randrange(ii) for op in range(count) if rng.random() < 0.6}
    graph = TimedGraph(count, edges, ii)
    times = [0] * count
    if not graph.settle(list(times)):
        return
    try:
        settle_in_slots(graph, times, slots, ii)
    except InternalError:
        times = []
    span = range(4 * ii if count < 4 else 0)
    fitting = [
        t
        for t in product(span, repeat=count)
        if all(t[op] % ii == slot for op, slot in slots.items())
        and all(t[e.dst] - t[e.src] >= e.latency - e.distance * ii for e in edges)
    ]
    if fitting:
        assert times == [min(column) for column in zip(*fitting, strict=True)]
    if times:
        assert all(times[op] % ii == slot for op, slot in slots.items())
        assert all(times[e.dst] - times[e.src] >= e.latency - e.distance * ii for e in edges)
