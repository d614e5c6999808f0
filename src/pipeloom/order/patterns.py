"""Which ways to weave there are for a loop, and the program of each.

    structures     groups of waves, their turns, barriers: what the loop looks like
    variations     of one structure: order of products, copies, distances in time

    solved         loops whose times the modulo solver finds

Told only a number of waves, a search tries structures first and then varies the best. Nothing here
knows how fast a program is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from pipeloom.errors import OrderError
from pipeloom.order.exact_weave import exact_bound, exact_weave
from pipeloom.order.instructions import has_vectors, refine
from pipeloom.order.interleave import interleave
from pipeloom.order.phases import TRIPS, expand, make_phases
from pipeloom.order.prices import RESERVED_VGPRS, registers_kept
from pipeloom.order.tasks import Lowered
from pipeloom.order.turns import in_turns
from pipeloom.order.unit_times import Machine, UnitTime
from pipeloom.order.waits import with_waits
from pipeloom.order.weave import TICKS, WHOLE, Pattern, Woven, weave
from pipeloom.program.meaning import Region
from pipeloom.program.program import Program, TripCount
from pipeloom.program.provenance import OrderedBy, Provenance, SyncMethod
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit

STRATEGY = "weave"
ROOMS = (12, 20, 32)
"""Cycles between products, beyond what vector ops take on average."""
LOADED_COPIES = 3
"""Of block scales, which are loaded from memory to registers: its latency may be an iteration's."""
MOST_UNROLL = 6
MOST_STEPS = 1200
"""Iterations and instructions of a trip, beyond which code grows for little."""


def structures(lowered: Lowered) -> Iterator[Pattern]:
    """Every shape of loop that the waves allow."""
    machine = Machine(lowered)
    if has_vectors(lowered):
        yield from _between(lowered)
        return
    products = sum(t.issues[0].unit is Unit.MATRIX for t in refine(lowered).of(Region.LOOP))
    hurried = (Pattern(barriers=b, span=s) for b in (2, 3) for s in (60, 80))
    if machine.alone:
        yield from (Pattern(barriers=b, deep=d) for b in (1, 2) for d in (0, 1, 2, 4))
        yield from hurried
        return
    turns = [m for m in (4, 8, 16, 32) if products % m == 0 and products // m > 1]
    orders = (Pattern().order, ("rows", "depth", "columns"))
    yield from (Pattern(barriers=b) for b in (1, 2, 4))
    yield from hurried
    if len(lowered.groups[0].waves) % 2 == 0 and machine.per_simd % 2 == 0:
        yield from (Pattern(groups=2, barriers=b) for b in (2, 4))
        yield from (Pattern(groups=2, cluster=m, order=o) for o in orders for m in turns)


def _between(lowered: Lowered) -> Iterator[Pattern]:
    """Loops with vector ops between products, and how much room there is for them, to begin with:
    little more than they need, or they would not be spread."""
    fine = refine(lowered)
    machine, tasks = Machine(fine), fine.of(Region.LOOP)
    products = sum(machine.matrix(t) > 0 for t in tasks)
    needed = sum(machine.issued(t) for t in tasks if not machine.matrix(t)) // products
    two = len(lowered.groups[0].waves) % 2 == 0 and machine.per_simd % 2 == 0
    for more in ROOMS:
        room = machine.issue * ((needed + more) // machine.issue)
        yield Pattern(room=room, lead=64, quiet=(16, 16))
        if two:
            yield Pattern(groups=2, barriers=2, room=room, lead=64, quiet=(16, 16), deep=2)


def variations(pattern: Pattern) -> Iterator[Pattern]:
    """Small changes of one."""
    if pattern.room:
        for more in (-4, 4):
            yield replace(pattern, room=pattern.room + more)
        yield replace(pattern, lead=128)
        yield replace(pattern, quiet=(16, 24, 24))
        return
    if pattern.exact:
        yield from (replace(pattern, margin=margin) for margin in (0, 32))
        return
    for deep in (0, 1, 2, 4):
        yield replace(pattern, deep=deep)
    for pace in (75, 90, 115, 140):
        yield replace(pattern, pace=pace)
    for margin in (0, 32, 64, 128):
        yield replace(pattern, margin=margin)
    for lead in (64, 128, 256):
        yield replace(pattern, lead=lead)
    for order in permutations(("depth", "rows", "columns")):
        yield replace(pattern, order=order)
    if pattern.span < WHOLE:
        for span in (-10, -5, 5, 10):
            yield replace(pattern, span=pattern.span + span)
    if not pattern.cluster:
        for barriers in (1, 2, 3, 4, 8):
            yield replace(pattern, barriers=barriers)


def unit_times(lowered: Lowered) -> tuple[UnitTime, ...]:
    """How long an iteration keeps every unit busy, the longest first."""
    shared = any(p.space is Space.LDS and p.rotates for p in lowered.places)
    return Machine(refine(lowered)).times(1 if shared else 0)


def bound_of(lowered: Lowered) -> tuple[int, str]:
    """Cycles of an iteration that no order can beat, and the unit that says so."""
    longest = unit_times(lowered)[0]
    return longest.cycles, longest.unit


def certificate(lowered: Lowered) -> tuple[int, str]:
    """Cycles that the modulo problem of single instructions forbids to go below, and why.

    Of a loop with vector ops, what the busiest unit says.
    """
    if has_vectors(lowered):
        cycles, unit = bound_of(lowered)
        return cycles, f"{unit} is held {cycles} cycles per iteration"
    return exact_bound(refine(lowered))


def solved(lowered: Lowered) -> Iterator[Pattern]:
    """Loops whose times the modulo solver finds: of lone waves, which meet at one barrier.

    Waves that share a matrix unit take turns at it by chance, which no timetable says.
    """
    if Machine(lowered).alone and not has_vectors(lowered):
        yield from (Pattern(exact=True, deep=deep) for deep in (1, 0))


def matrix_cycles(lowered: Lowered) -> int:
    """Cycles of a SIMD's matrix unit for one iteration."""
    return next(t.cycles for t in Machine(lowered).times(0) if t.unit == "matrix unit")


def woven(lowered: Lowered, pattern: Pattern, k_tiles: int | None = None) -> Program:
    """The program of a pattern, with its waits; nothing has proved it yet.

    Raises ``OrderError`` where the pattern does not fit the loop or the machine.
    """
    fine = refine(lowered, pattern.groups)
    found = _timed(fine, pattern)
    expansion = expand(found.loop, found.timetable)
    if expansion.unroll > MOST_UNROLL or len(expansion.kernel) > MOST_STEPS:
        raise OrderError(f"a trip would take {expansion.unroll} iterations", hint="fewer copies")
    rest = 0 if k_tiles is None else k_tiles - expansion.stages + 1
    if rest < 0:
        raise OrderError(
            f"{k_tiles} iterations are fewer than {expansion.stages} stages", hint="more of them"
        )
    phases = make_phases(fine, found.loop, expansion, rest % expansion.unroll)
    program = Program(
        name=lowered.meaning.name,
        meaning=lowered.meaning,
        target=lowered.target,
        resources=phases.resources,
        groups=phases.groups,
        trips=(TripCount(TRIPS),),
        iterations=phases.iterations,
        provenance=Provenance(
            source=f"loop {lowered.meaning.name}",
            ordered=OrderedBy(STRATEGY, stages=phases.stages),
            synchronised=SyncMethod.PROVEN,
        ),
    )
    program = with_waits(program)
    return in_turns(program) if has_vectors(lowered) else program


def planned_cycles(lowered: Lowered, pattern: Pattern) -> float:
    """The II of a pattern's timetable, in cycles: what its loop takes if all goes to plan."""
    return _timed(refine(lowered, pattern.groups), pattern).timetable.ii / TICKS


def _timed(fine: Lowered, pattern: Pattern) -> Woven:
    if has_vectors(fine):
        return interleave(fine, pattern)
    return (exact_weave if pattern.exact else weave)(fine, pattern, register_copies(fine))


def register_copies(lowered: Lowered) -> dict[str, int]:
    """How many copies of every fragment a wave's registers hold."""
    target = lowered.target
    waves = sum(len(group.waves) for group in lowered.groups)
    share = target.vgpr_share(waves)
    in_matrix, others = registers_kept(lowered)
    left = min(share - in_matrix, target.direct_vgprs.value) - others - RESERVED_VGPRS
    fragments = [p for p in lowered.places if p.rotates and p.space is Space.REGISTER]
    loaded = [p for p in fragments if p.layout is not None and p.layout.kind == "scales"]
    fragments = [p for p in fragments if p not in loaded]
    one, each = (sum(p.registers for p in places) for places in (fragments, loaded))
    ahead = max(1, min(LOADED_COPIES, (left - one) // each)) if each else 0
    left -= ahead * each
    if left < one:
        raise OrderError(
            f"fragments take {one} registers per lane, and {left} are left",
            hint=target.more_room(waves),
        )
    copies = dict.fromkeys((p.name for p in fragments), left // one if one else 1)
    return copies | dict.fromkeys((p.name for p in loaded), ahead)
