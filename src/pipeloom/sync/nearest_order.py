"""The nearest legal order: as few steps as possible move, each as little as possible.

Precedences say which work must come before which within one pass of a row. Two that stand the
wrong way round *conflict*. Work that stays keeps its relative order, which is possible iff no two
of it conflict; so the fewest moves are a smallest set that touches every conflict (a minimum vertex
cover, found by branching: conflicts are few). Among equals, loads from memory move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeloom.errors import OrderError
from pipeloom.program import Move
from pipeloom.sync.flow import Flow
from pipeloom.sync.script import Around, Doing, Item, Row, Scripts
from pipeloom.sync.study import Change

Pair = tuple[int, int]


def reordered(scripts: Scripts, flows: Sequence[Flow]) -> tuple[Scripts, list[Change]]:
    """The scripts in the nearest legal order, and what moved."""
    pairs = precedences(scripts, flows)
    told: list[Change] = []

    def ordered(s: int, r: int, row: Row) -> Row:
        found, moves = _row(row, pairs.get((s, r), set()))
        told.extend(moves)
        return found

    return scripts.with_rows(ordered), told


def precedences(scripts: Scripts, flows: Sequence[Flow]) -> dict[tuple[int, int], set[Pair]]:
    """By script and row, the pairs of items of which every legal order has the first one first."""
    pairs: dict[tuple[int, int], set[Pair]] = {}
    for flow in flows:
        groups, events = flow.run.groups, flow.run.events
        for first, second in _pairs(flow):
            x, y = events[first], events[second]
            if groups[first] == groups[second] and (x.row, x.trip) == (y.row, y.trip):
                s, r, p = scripts.places[x.gap]
                pairs.setdefault((s, r), set()).add((p, scripts.places[y.gap][2]))
    return pairs


def _pairs(flow: Flow) -> Iterable[Pair]:
    yield from flow.kept
    for rivals in flow.rivals:
        yield (rivals.read, rivals.write) if rivals.newer else (rivals.write, rivals.read)


def _row(row: Row, pairs: set[Pair]) -> tuple[Row, list[Change]]:
    places = [p for p, item in enumerate(row.items) if isinstance(item, Doing)]
    number = {p: n for n, p in enumerate(places)}
    names = [row.name(p) for p in places]
    costs = [_cost(row.items[p]) for p in places]
    order, moved = nearest_order(
        names, costs, sorted((number[a], number[b]) for a, b in pairs if a != b)
    )
    told = []
    for op in moved:
        at = order.index(op)
        where = f"after {names[order[at - 1]]}" if at else "to the front"
        words = f"{row.section.name}: {names[op]} moves {where}"
        told.append(Change(words, Move(names[op], at - op)))
    if not moved:
        return row, told
    # fences go with the work that they stand at
    source = dict(zip(places, (places[n] for n in order), strict=True))
    items = tuple(row.items[source.get(p, p)] for p in range(len(row.items)))
    before = [row.fences[0].before]
    before += [row.fences[source.get(p, p) + 1].before for p in range(len(items))]
    after = [row.fences[source.get(p, p)].after for p in range(len(items))]
    fences = map(Around, before, [*after, row.fences[-1].after])
    return Row(row.section, items, tuple(fences)), told


def _cost(item: Item) -> int:
    """What it costs to move: less for loads from memory to LDS."""
    shared = isinstance(item, Doing) and any(access.shared for access in item.work.writes)
    return 0 if shared else 1


def nearest_order(
    names: Sequence[str], costs: Sequence[int], precedences: Iterable[Pair]
) -> tuple[list[int], list[int]]:
    """A legal order of the named work, as indices, and the indices of what moved."""
    size = len(names)
    after = _closure(size, precedences)
    for op in range(size):
        if after[op] >> op & 1:
            raise OrderError(
                f"no order is legal: {names[op]} would have to come before itself",
                hint="the work of one pass needs each other in a circle; change the body",
            )
    conflicts = [(u, v) for u in range(size) for v in range(u + 1, size) if after[v] >> u & 1]
    moved = _cover(conflicts, costs)
    order = [op for op in range(size) if op not in moved]
    for op in sorted(moved, key=lambda m: (sum(after[n] >> m & 1 for n in moved), m)):
        low = max((at + 1 for at, o in enumerate(order) if after[o] >> op & 1), default=0)
        high = min((at for at, o in enumerate(order) if after[op] >> o & 1), default=len(order))
        wish = sum(o < op for o in order)
        order.insert(min(max(wish, low), high), op)
    return order, sorted(moved)


def _closure(size: int, precedences: Iterable[Pair]) -> list[int]:
    """after[u]: bit set of the work that must come after u."""
    after = [0] * size
    for first, second in precedences:
        after[first] |= 1 << second
    for middle in range(size):
        for op in range(size):
            if after[op] >> middle & 1:
                after[op] |= after[middle]
    return after


def _cover(conflicts: list[Pair], costs: Sequence[int]) -> set[int]:
    """A smallest set that touches every conflict; the cheapest to move first."""

    def cost(chosen: frozenset[int]) -> tuple[int, int, tuple[int, ...]]:
        return len(chosen), sum(costs[op] for op in chosen), tuple(sorted(chosen))

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
