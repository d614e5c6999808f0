"""Pairs of accesses that must be ordered, against all pairs there are, worked out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest

from pipeloom.judge.check.conflicts import memory_pairs
from pipeloom.judge.check.pairs import Conflict
from pipeloom.judge.check.record import LDS, CellAccess, GroupRecord, WaveTrace
from pipeloom.judge.emulate import Effect
from pipeloom.judge.emulate.pending import WaitQueue

WAVES, CELLS = 3, 5
READ, WRITE, UPDATE = Effect.READ, Effect.WRITE, Effect.UPDATE
KINDS = {
    (READ, WRITE): Conflict.WAR,
    (READ, UPDATE): Conflict.WAR,
    (WRITE, READ): Conflict.RAW,
    (UPDATE, READ): Conflict.RAW,
    (WRITE, UPDATE): Conflict.RAW,
    (WRITE, WRITE): Conflict.WAW,
    (UPDATE, WRITE): Conflict.WAW,
}
"""What two accesses of one cell are to each other; those that are missing may come in any order."""
QUEUES = (WaitQueue.VM, WaitQueue.LGKM, WaitQueue.SMEM)
Rows = set[tuple[int, int, Conflict, int]]
"""(first access, second, kind, cell)."""


def drawn(rng: np.random.Generator) -> GroupRecord:
    waves = [WaveTrace(w) for w in range(WAVES)]
    accesses = []
    for _ in range(int(rng.integers(2, 12))):
        wave = waves[int(rng.integers(WAVES))]
        held = tuple(sorted(rng.choice(CELLS, int(rng.integers(1, 3)), replace=False).tolist()))
        accesses.append(
            CellAccess(
                wave.index,
                len(wave.steps),
                (READ, READ, WRITE, WRITE, UPDATE)[int(rng.integers(5))],
                QUEUES[int(rng.integers(3))],
                int(rng.choice([LDS, 1])),
                np.array(held, np.int64),
                key=sum(1 << cell for cell in held),
            )
        )
        wave.steps.append(len(wave.steps))
    return GroupRecord((0, 0, 0), waves, 64, accesses)


def found_in(group: GroupRecord, *, local: bool = True, dead: tuple[int, ...] = ()) -> Rows:
    place = {(a.wave, a.time): n for n, a in enumerate(group.accesses)}
    away = [
        {a.time for n, a in enumerate(group.accesses) if n in dead and a.wave == w}
        for w in range(WAVES)
    ]
    pairs = memory_pairs(group, away, lambda *_: True, local=local)
    return {
        (place[v, s], place[w, t], Conflict(kind), cell)
        for v, s, w, t, kind, _, cell in pairs.rows().tolist()
    }


def conflicts(group: GroupRecord) -> Iterator[tuple[int, int]]:
    for (i, x), (j, y) in combinations(enumerate(group.accesses), 2):
        same = x.buffer == y.buffer and bool({*x.cells.tolist()} & {*y.cells.tolist()})
        if same and (x.effect, y.effect) in KINDS and not kept_in_order(x, y):
            yield i, j


def kept_in_order(x: CellAccess, y: CellAccess) -> bool:
    return x.wave == y.wave and x.queue == y.queue != WaitQueue.SMEM


def retired_before(group: GroupRecord, found: Rows) -> set[tuple[int, int]]:
    """Who has retired before whom is issued, if every pair found is ordered."""
    known = {(i, j) for i, j, *_ in found}
    issued, queued = set(), set()
    for w in range(WAVES):
        mine = [(n, a.queue) for n, a in enumerate(group.accesses) if a.wave == w]
        issued |= {(i, j) for (i, _), (j, _) in pairwise(mine)}
        for queue in QUEUES:  # a scalar load has retired where all of them have
            queued |= {*pairwise(n for n, one in mine if one is queue)}
    while True:
        more = {(i, m) for i, j in known for k, m in known | issued if j == k}
        more |= {(i, m) for i, j in queued for k, m in known if j == k}
        if more <= known:
            return known
        known |= more


@pytest.mark.parametrize("seed", range(4))
def test_ordering_the_pairs_found_orders_all_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(120):
        group = drawn(rng)
        found = found_in(group)
        assert {*conflicts(group)} <= retired_before(group, found), group.accesses
        for i, j, kind, cell in found:
            x, y = group.accesses[i], group.accesses[j]
            assert KINDS[x.effect, y.effect] is kind
            assert i < j
            assert x.buffer == y.buffer
            assert cell in x.cells
            assert cell in y.cells
            assert not kept_in_order(x, y)
        lds = {n for n, a in enumerate(group.accesses) if a.buffer == LDS}
        assert found_in(group, local=False) == {row for row in found if row[0] not in lds}
        reads = [n for n, a in enumerate(group.accesses) if a.effect is READ]
        if reads:
            left = found_in(group, dead=(reads[0],))
            assert {row for row in found if reads[0] not in row[:2]} == left


def written(first: int, second: int, step: int, agree: bool, reader: int) -> Rows:
    """Two waves write a cell, the second at ``step`` where the first is at 0, and one reads it."""
    waves = [WaveTrace(w, steps=[0, 7]) for w in range(WAVES)]
    waves[1].steps[0] = step
    cells = np.array([2], np.int64)
    accesses = [
        CellAccess(w, 0, WRITE, WaitQueue.LGKM, LDS, cells, np.array([value], np.uint32))
        for w, value in ((0, first), (1, second))
    ]
    accesses.append(CellAccess(reader, 1, READ, WaitQueue.VM, LDS, cells))
    group = GroupRecord((0, 0, 0), waves, 64, accesses)
    pairs = memory_pairs(group, [()] * WAVES, lambda *_: agree)
    return {(v, w, Conflict(kind), cell) for v, _, w, _, kind, _, cell in pairs.rows().tolist()}


def test_waves_may_write_equal_values_by_one_instruction() -> None:
    raw, waw = Conflict.RAW, Conflict.WAW
    assert written(5, 5, 0, True, 2) == {(1, 2, raw, 2)}
    assert written(5, 5, 0, True, 0) == {(0, 0, raw, 2)}
    for different in (
        written(5, 6, 0, True, 2),
        written(5, 5, 1, True, 2),
        written(5, 5, 0, False, 2),
    ):
        assert different == {(0, 1, waw, 2), (1, 2, raw, 2)}
