"""The nearest legal order: as few data ops as possible move, each as little as possible.

Precedences say which op must come before which within one pass through a phase. An op u and a
later op v *conflict* if v must come (directly or through others) before u. Ops that stay keep their
relative order, which is possible iff no two of them conflict; so the fewest moves are a smallest
set of ops that touches every conflict (a minimum vertex cover, found by branching: conflicts are
few). Among equals, loads move rather than fragments and MMAs.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.errors import OrderError
from pipeloom.reference.compiled import ScheduleEntry
from pipeloom.reference.graph import describe_op
from pipeloom.reference.ops import OpRole


def nearest_order(
    entries: tuple[ScheduleEntry, ...], precedences: Iterable[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """A legal order of ``entries`` as indices into it, and the indices of those that moved."""
    size = len(entries)
    after = _closure(size, precedences)
    for op in range(size):
        if after[op] >> op & 1:
            raise OrderError(
                f"no order of this phase is legal: {describe_op(entries[op].op, op)} would have to "
                "come before itself",
                hint="the ops of one iteration need each other in a circle; change the body",
            )
    conflicts = [(u, v) for u in range(size) for v in range(u + 1, size) if after[v] >> u & 1]
    moved = _cover(conflicts, entries)
    order = [op for op in range(size) if op not in moved]
    for op in sorted(moved, key=lambda m: (sum(after[n] >> m & 1 for n in moved), m)):
        low = max((at + 1 for at, o in enumerate(order) if after[o] >> op & 1), default=0)
        high = min((at for at, o in enumerate(order) if after[op] >> o & 1), default=len(order))
        wish = sum(o < op for o in order)
        order.insert(min(max(wish, low), high), op)
    return order, sorted(moved)


def _closure(size: int, precedences: Iterable[tuple[int, int]]) -> list[int]:
    """after[u]: bit set of the ops that must come after u."""
    after = [0] * size
    for first, second in precedences:
        after[first] |= 1 << second
    for middle in range(size):
        for op in range(size):
            if after[op] >> middle & 1:
                after[op] |= after[middle]
    return after


def _cover(conflicts: list[tuple[int, int]], entries: tuple[ScheduleEntry, ...]) -> set[int]:
    """A smallest set of ops that touches every conflict; loads first."""

    def cost(chosen: frozenset[int]) -> tuple[int, int, tuple[int, ...]]:
        others = sum(entries[op].op.role is not OpRole.GLOBAL_LOAD for op in chosen)
        return len(chosen), others, tuple(sorted(chosen))

    best: frozenset[int] | None = None
    seen: set[frozenset[int]] = set()
    stack: list[frozenset[int]] = [frozenset()]
    while stack:
        chosen = stack.pop()
        if chosen in seen or (best is not None and len(chosen) > len(best)):
            continue
        seen.add(chosen)
        left = next((c for c in conflicts if c[0] not in chosen and c[1] not in chosen), None)
        if left is None:
            if best is None or cost(chosen) < cost(best):
                best = chosen
            continue
        stack.extend(chosen | {op} for op in left)
    return set(best or ())
