"""Whether waits suffice for barriers that stay, and the least that must change if not.

In a ping-pong the barriers do two things: they order accesses, and they make the wave groups take
turns at memory and matrix unit. Here they are given, and each demand (X in wave v is over before Y
in wave w) is met by a wait in v directly before the last barrier of v that Y comes after:

    v    X   ...   wait   barrier n                   the wait as late, and as loose, as possible
    w                     barrier n   ...   Y

That needs a barrier between the two. Where there is none, X is issued too late or Y too early, and
no wait can help. Then the fewest loads move (``resettle``), and rows that run once get the barriers
they lack, also if else a wait of a loop would have to be tightened for their sake. The barriers of
loops never change.
"""

from __future__ import annotations

from pipeloom.program import Barrier, Move
from pipeloom.sync.flow import describe
from pipeloom.sync.resettle import Places, moved
from pipeloom.sync.script import Around, Kept, Place, Row, Scripts, Sync
from pipeloom.sync.study import Change, Study, unsavable

FIXED = "waits alone cannot save this order with its barriers"
WITHOUT = "Let the barriers be derived too (method=PROVEN)"


def mended(study: Study, reorder: bool) -> tuple[Study, list[Change]]:
    """The study itself if waits can save it; else, or with ``reorder``, the nearest that they can.

    Raises ``OrderError`` if that needs changes and ``reorder`` is off, or nothing helps.
    """
    found = trouble(study)
    if found is None and not reorder:
        return study, []
    changes: list[Change] = []
    if found is not None:
        moves = _moves(study, found)
        changes = [_move(study.scripts, load, to) for load, to in moves.items()]
        study = Study.of(_with_moves(study.scripts, moves))
    while (gap := _missing_barrier(study)) is not None:
        changes.append(Change(_added(study.scripts, gap)))
        study = Study.of(_with_barrier(study.scripts, gap))
    told = "; ".join(change.words for change in changes)
    still = trouble(study)
    if still is not None:
        raise unsavable(FIXED, still, f"even with {told or 'its loads moved'}. {WITHOUT}")
    if found is not None and not reorder:
        raise unsavable(FIXED, found, f"nearest legal order: {told}. reorder=True applies it")
    return study, changes


def trouble(study: Study, about: Place | None = None) -> str | None:
    """Two events that no wait can order, and why; with ``about``, one of them stands there."""
    conflict = study.conflict(about)
    if conflict is not None:
        return conflict
    for run, first, second in study.unseparated():
        events = run.events[first], run.events[second]
        if about is None or about in {study.scripts.places[e.gap] for e in events}:
            early, late = (describe(study.scripts, event) for event in events)
            return (
                f"{early} of a wave of group {run.groups[first]} must be over before {late} of "
                f"another, of group {run.groups[second]}, but no barrier comes between the two"
            )
    return None


def _moves(study: Study, found: str) -> dict[Place, int]:
    """Where the loads that cannot stay should go."""
    everywhere = Places(study)
    moves: dict[Place, int] = {}
    for load in everywhere.misplaced():
        to = everywhere.settle(load)
        if to is None:
            in_loop = Places(study, loop_only=True)
            if load not in in_loop.misplaced():
                continue
            to = in_loop.settle(load)
        if to is None:
            row = study.scripts.scripts[load[0]].rows[load[1]]
            where = f"no place in the {row.section.name} suits {row.name(load[2])}"
            raise unsavable(FIXED, trouble(study, load) or found, f"{where}. {WITHOUT}")
        moves[load] = to
    return moves


def _move(scripts: Scripts, load: Place, to: int) -> Change:
    row = scripts.scripts[load[0]].rows[load[1]]
    where = f"after {row.name(to - 1)}" if to else "to the front"
    label = row.name(load[2])
    by = to - load[2] - (to > load[2])
    return Change(f"{row.section.name}: {label} moves {where}", Move(label, by))


def _added(scripts: Scripts, gap: Place) -> str:
    row = scripts.scripts[gap[0]].rows[gap[1]]
    where = f"before {row.name(gap[2])}" if gap[2] < len(row.items) else "at the end"
    return f"{row.section.name}: a barrier is added {where}"


def _missing_barrier(study: Study) -> Place | None:
    """Where rows that run once lack a barrier: the first such place, as late as possible."""
    scripts = study.scripts
    if len(scripts.scripts) > 1:
        return None
    rows = scripts.scripts[0].rows
    lacking: set[Place] = set()
    for run, *pair in study.unseparated():
        first, second = (run.events[number] for number in pair)
        if not rows[second.row].loops:
            lacking.add(scripts.places[second.gap])
        elif first.row < second.row:
            before = second.row - 1
            lacking.add((0, before, len(rows[before].items)))
    return min(lacking or _burdens(study), default=None)


def _burdens(study: Study) -> set[Place]:
    """Work for whose sake a wait of a loop before it must be tighter than the loop needs."""
    scripts, bench = study.scripts, study.bench
    sync = Sync()
    bench.tighten(sync, {(r, r) for r in bench.loops})
    found: set[Place] = set()
    for flow, ordering, due in bench.unmet(sync):
        first, second = (flow.run.events[number] for number in ordering[:2])
        if due is None or first.row not in bench.loops or second.row in bench.loops:
            continue
        if scripts.places[due.slot // 2][1] == first.row:
            found.add(scripts.places[second.gap])
    return found


def _with_moves(scripts: Scripts, moves: dict[Place, int]) -> Scripts:
    def row(s: int, r: int, old: Row) -> Row:
        here = {p: to for (t, u, p), to in moves.items() if (t, u) == (s, r)}
        return moved(old, here) if here else old

    return scripts.with_rows(row)


def _with_barrier(scripts: Scripts, gap: Place) -> Scripts:
    """One more barrier, directly before an item, whose fences stay with it."""

    def row(s: int, r: int, old: Row) -> Row:
        if (s, r) != gap[:2]:
            return old
        at = gap[2]
        everyone = frozenset(scripts.scripts[s].groups)
        items = (*old.items[:at], Kept(Barrier(), everyone), *old.items[at:])
        return Row(old.section, items, (*old.fences[:at], Around(), *old.fences[at:]))

    return scripts.with_rows(row)
