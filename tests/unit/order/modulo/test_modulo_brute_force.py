"""The solver's II against exhaustive search, budgets included.

The oracle below tries every start time of every op against the rules written once more, naively;
it shares nothing with the solver. Its horizon is generous rather than tight.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from benchmarks.random_loops import Shape, random_problem
from pipeloom.errors import OrderError
from pipeloom.order.modulo import (
    ModuloProblem,
    Reader,
    check_modulo,
    explain_ii,
    solve_modulo,
)
from pipeloom.order.modulo.explain import relaxed

MAX_II = 12

# The acceptance run asks for 500 of 500; the default keeps the suite short.
PROBLEMS = int(os.environ.get("PIPELOOM_ORACLE_PROBLEMS", "100"))

# The oracle gives up on a problem beyond this many placements, and another one is drawn.
PLACEMENTS = 30_000


class TooLargeError(Exception):
    """The oracle would take too long."""


class Oracle:
    """Exhaustive search with a count of placements tried."""

    def __init__(self) -> None:
        self.tried = 0

    def count(self) -> None:
        self.tried += 1
        if self.tried > PLACEMENTS:
            raise TooLargeError


def smallest_ii(problem: ModuloProblem) -> int | None:
    """The smallest II up to MAX_II with a schedule, by trying all of them."""
    oracle = Oracle()
    return next((ii for ii in range(1, MAX_II + 1) if schedule_exists(problem, ii, oracle)), None)


def schedule_exists(problem: ModuloProblem, ii: int, oracle: Oracle) -> bool:
    """Whether any start times satisfy the problem at ``ii``."""
    count = len(problem.ops)
    far = [[-(10**6)] * count for _ in range(count)]
    for i in range(count):
        far[i][i] = 0
    for edge in problem.edges:
        weight = edge.latency - edge.distance * ii
        far[edge.src][edge.dst] = max(far[edge.src][edge.dst], weight)
    for via in range(count):
        for a in range(count):
            for b in range(count):
                far[a][b] = max(far[a][b], far[a][via] + far[via][b])
    if any(far[i][i] > 0 for i in range(count)):
        return False
    if not problem.values and not problem.channels and problem.budget.stages is None:
        return _slots_exist(problem, ii, far, oracle)
    stages = problem.budget.stages
    # Two ops tied by a path, or by a lifetime, need not be further apart than this.
    reach = max(abs(w) for row in far for w in row if w > -(10**5)) + 3 * ii + 6
    span = stages * ii - 1 if stages is not None else reach
    starts: list[int | None] = [None] * count
    tied = [
        sum(far[i][j] > -(10**5) or far[j][i] > -(10**5) for j in range(count))
        for i in range(count)
    ]
    order = sorted(range(count), key=lambda i: -tied[i])

    def extend(position: int) -> bool:
        if position == count:
            final = [start for start in starts if start is not None]
            return not check_modulo(problem, ii, final)
        op = order[position]
        placed = [(other, at) for other, at in enumerate(starts) if at is not None]
        if not placed:
            starts[op] = 0
            found = extend(position + 1)
            starts[op] = None
            return found
        low = max(at + far[other][op] for other, at in placed)
        high = min(at - far[op][other] for other, at in placed)
        low = max(low, max(at for _, at in placed) - span)
        high = min(high, min(at for _, at in placed) + span)
        for at in sorted(range(low, high + 1), key=abs):
            starts[op] = at
            oracle.count()
            if _partly_valid(problem, ii, starts) and extend(position + 1):
                starts[op] = None
                return True
        starts[op] = None
        return False

    return extend(0)


def _slots_exist(problem: ModuloProblem, ii: int, far: list[list[int]], oracle: Oracle) -> bool:
    """Every choice of slots; whole IIs between ops follow from longest paths over laps."""
    count = len(problem.ops)
    slots: list[int | None] = [0] + [None] * (count - 1)

    def laps_exist() -> bool:
        laps = [0] * count
        for _ in range(count + 1):
            moved = False
            for a in range(count):
                for b in range(count):
                    gap = far[a][b] + _slot(slots, a) - _slot(slots, b)
                    least = laps[a] - (-gap // ii)
                    if far[a][b] > -(10**5) and least > laps[b]:
                        laps[b] = least
                        moved = True
            if not moved:
                return True
        return False

    def extend(op: int) -> bool:
        if op == count:
            return laps_exist()
        for slot in range(ii):
            slots[op] = slot
            oracle.count()
            if (
                all(
                    _can_meet(far[other][op], -far[op][other], slot - _slot(slots, other), ii)
                    for other in range(op)
                )
                and _partly_valid(problem, ii, slots)
                and extend(op + 1)
            ):
                return True
        slots[op] = None
        return False

    return _partly_valid(problem, ii, slots) and extend(1)


def _slot(slots: list[int | None], op: int) -> int:
    slot = slots[op]
    assert slot is not None
    return slot


def _can_meet(low: int, high: int, difference: int, ii: int) -> bool:
    """Whether some number in [low, high] is ``difference`` modulo II."""
    return high - low >= ii or low + (difference - low) % ii <= high


def _partly_valid(problem: ModuloProblem, ii: int, starts: list[int | None]) -> bool:
    """Whether the ops placed so far already break a limit; more ops only add to each count."""
    capacity = {unit.name: unit.capacity for unit in problem.units}
    held: dict[tuple[str, int], int] = {}
    for op, start in zip(problem.ops, starts, strict=True):
        if start is None:
            continue
        for use in op.uses:
            limit = capacity[use.unit]
            for cycle in range(use.occupancy):
                key = (use.unit, (start + use.offset + cycle) % ii)
                held[key] = held.get(key, 0) + 1
                if limit is not None and held[key] > limit:
                    return False
    live = [0] * ii
    for value in problem.values:
        born = starts[value.op]
        if born is None:
            continue
        for cycle in range(born + value.delay, _freed(value.readers, ii, starts, born)):
            live[cycle % ii] += value.registers
    if problem.budget.registers is not None and max(live) > problem.budget.registers:
        return False
    total = 0
    for channel in problem.channels:
        fills = [starts[op] for op in channel.fills]
        taken = min((at for at in fills if at is not None), default=None)
        buffers = 1
        if taken is not None:
            buffers = max(1, -(-(_freed(channel.readers, ii, starts, taken) - taken) // ii))
        if channel.max_buffers is not None and buffers > channel.max_buffers:
            return False
        total += buffers * channel.bytes
    return problem.budget.lds_bytes is None or total <= problem.budget.lds_bytes


def _freed(readers: Sequence[Reader], ii: int, starts: list[int | None], default: int) -> int:
    ends = [default]
    for reader in readers:
        at = starts[reader.op]
        if at is not None:
            ends.append(at + reader.distance * ii + reader.hold)
    return max(ends)


def shape_of(seed: int) -> Shape:
    """Sizes up to 8 ops; those with lifetimes are kept where trying all times ends soon."""
    lifetimes = seed % 2 == 1
    return Shape(
        ops=2 + seed % 7,
        units=1 + seed % 3,
        longest_hold=1 + seed % 3,
        lifetimes=lifetimes,
        edges_per_op=1.0 + 0.25 * (seed % 5),
        carried=0.2 + 0.1 * (seed % 3),
        tightness=0.6,
    )


CHUNKS = 5


def known_answers(chunk: int) -> list[tuple[ModuloProblem, int | None]]:
    """This chunk's share of PROBLEMS problems that the oracle finishes, with their II."""
    found: list[tuple[ModuloProblem, int | None]] = []
    seed = chunk
    while len(found) < PROBLEMS // CHUNKS:
        problem = random_problem(seed, shape_of(seed))
        seed += CHUNKS
        try:
            found.append((problem, smallest_ii(problem)))
        except TooLargeError:
            continue
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_ii_equals_exhaustive_search(chunk: int) -> None:
    for problem, expected in known_answers(chunk):
        if expected is None:
            with pytest.raises(OrderError, match=r"II up to 12|bytes of LDS"):
                solve_modulo(problem, max_ii=MAX_II)
            continue
        result = solve_modulo(problem, max_ii=MAX_II)
        assert (result.ii, result.proved) == (expected, True), problem.name
        assert not check_modulo(problem, result.ii, result.starts)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_explanations_are_infeasible_and_minimal_by_exhaustive_search(chunk: int) -> None:
    explained = 0
    for problem, expected in known_answers(chunk)[: max(8, PROBLEMS // CHUNKS // 2)]:
        ii = 6 if expected is None else expected - 1
        if ii == 0:
            continue
        explanation = explain_ii(problem, ii)
        assert explanation is not None
        assert explanation.minimal
        assert explanation.words
        try:
            assert not schedule_exists(relaxed(problem, explanation.pieces), ii, Oracle())
            for piece in explanation.pieces:
                rest = [other for other in explanation.pieces if other != piece]
                assert schedule_exists(relaxed(problem, rest), ii, Oracle()), (piece, explanation)
        except TooLargeError:
            continue
        explained += 1
    assert explained >= 4
