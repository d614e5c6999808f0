"""The ways to weave a loop, generated from it and its machine, and the program of each.

    groups      numbers that divide the waves of a SIMD, so that each has waves of every group
    cluster     products of a turn: every divisor of those that a wave has
    barriers, stagger, loading, priority, order, copies, distances in time

A *structure* is a point of the coarse grid: groups, turns, barriers, the part of the iteration that
reads take. A *variation* of a pattern is the same with one choice made otherwise. *Solved* are
loops whose times the modulo solver finds. Nothing here knows how fast a program is.

A pattern's loop from the modulo solver: the smallest II of its instructions, proved.

The weaver's own times are the hint. What the solver gives are steps of a product; within a step the
product comes first, then loads, then reads, and a barrier stands alone. Whether the order is faster
than the weaver's is for the simulator to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

from pipeloom.errors import OrderError
from pipeloom.order.alternate import alternate
from pipeloom.order.grains import has_vectors, made_operands
from pipeloom.order.instruction_problem import relaxed, step_cycles, stepped
from pipeloom.order.instructions import refine
from pipeloom.order.interleave import interleave
from pipeloom.order.modulo import ModuloProblem, least_ii, solve_modulo
from pipeloom.order.passing import has_passing, order_of
from pipeloom.order.pattern import WHOLE, Pattern
from pipeloom.order.prices import RESERVED_VGPRS, registers_kept
from pipeloom.order.roles import Loading
from pipeloom.order.sections import TRIPS, expand, make_phases
from pipeloom.order.staging import turns
from pipeloom.order.tasks import Lowered
from pipeloom.order.turns import by_turn, in_turns
from pipeloom.order.unit_times import Machine, UnitTime
from pipeloom.order.weave import TICKS, Weaver, Woven, weave
from pipeloom.program.nodes import Region
from pipeloom.program.problem_spans import shared_out
from pipeloom.program.program import Program, TripCount
from pipeloom.program.provenance import OrderedBy, Provenance, SyncMethod
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit
from pipeloom.sync.draft import with_waits

WORK_LIMIT = 0.5
"""Of a solve, in units of about a second that are the same on every machine."""


STRATEGY = "weave"
ROOMS = (12, 20, 32)
"""Cycles between products, beyond what vector ops take on average: little, or they would not be
spread."""
QUIET_TURNS = ((16,), (32,))
"""Cycles that gaps with a product count for more, where groups take turns: vector ops stand where
the others multiply."""
LOADED_COPIES = 3
"""Of what products take from memory, without LDS: its latency may be an iteration's."""
MOST_UNROLL = 6
MOST_STEPS = 1200
"""Iterations and instructions of a trip, beyond which code grows for little."""
NEAR = 2
"""Of a long list of values, a variation takes those so many places from the pattern's own: the rest
is reached step by step, if the first ones help."""

ORDERS = tuple(permutations(("depth", "rows", "columns")))
BARRIERS = (1, 2, 3, 4, 8)
"""Of an iteration: with few, LDS is free late; each costs a lone wave its barrier cycles."""
LOADED = ((2, 0, 1, 64), (2, 0, 2, 64), (1, 0, 1, 64), (1, 2, 1, 64))
"""Barriers, tiles with a copy more, workgroups beside each other, and leads, where memory is what
takes long: little LDS, so that others find room beside it, or much, so that loads do not end at
barriers."""
PASSED = ((2, 2, 1, 0), (2, 2, 1, 32), (1, 0, 1, 64))
"""The same where results pass LDS: they need a barrier of their own, and their registers."""
STRUCTURE = ("groups", "cluster")
"""Choices that every structure makes anew, so that none is varied in them."""
Choices = Mapping[str, tuple[Any, ...]]
"""By field of ``Pattern``, its values."""


def choices(lowered: Lowered) -> Choices:
    """Every value that a choice may have for this loop."""
    machine = Machine.of(refine(lowered))
    even = machine.waves % machine.target.simds.value == 0
    groups = _divisors(machine.per_simd) if even else (1,)
    several = len(groups) > 1
    found: dict[str, tuple[Any, ...]] = {"groups": groups}
    if several:
        found |= {"loading": tuple(Loading), "priority": (False, True), "stagger": (False, True)}
    if has_vectors(lowered):
        least, step = _room(machine), machine.issue
        if shared_out(lowered.meaning.span):
            found |= {"barriers": (1, 2, 3), "deep": (0, 1, 2), "beside": (1, 2, 3, 4)}
        if passes_results(lowered):
            return found  # each takes long to prove: what is tried, is tried at once
        turns = any(True for _ in turning(lowered))
        return found | {
            "lead": (64, 128),
            "room": tuple(range(step if turns else least, least + 12 * step, step)),
            "quiet": ((16, 16), (16, 24, 24), *(QUIET_TURNS if turns else ())),
        }
    products = _matrix_count(lowered)
    tiles = sum(p.space is Space.LDS and p.rotates for p in lowered.places)
    return found | {
        "cluster": (0, *_divisors(products)[1:-1]) if several else (0,),
        "barriers": BARRIERS,
        "span": (WHOLE, *range(95, 45, -5)),
        "deep": tuple(sorted({0, 1, tiles // 2, tiles})),
        "order": ORDERS,
        "margin": (0, 16, 32, 64, 128),
        "lead": (0, 64, 128, 256),
        "pace": (75, 90, 100, 115, 140),
    }


def _matrix_count(lowered: Lowered) -> int:
    """Matrix instructions of a wave in an iteration."""
    tasks = lowered.of(Region.LOOP)
    return sum(i.count for t in tasks for i in t.issues if i.unit is Unit.MATRIX)


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, number + 1) if number % n == 0)


def _room(machine: Machine, gaps: int = 0) -> int:
    """Cycles that what stands between two products takes on average, or in so many gaps."""
    tasks = machine.lowered.of(Region.LOOP)
    products = sum(machine.matrix(t) > 0 for t in tasks)
    needed = sum(machine.issued(t) for t in tasks if not machine.matrix(t)) // (gaps or products)
    return needed // machine.issue * machine.issue


def sensible(pattern: Pattern) -> bool:
    """Whether its choices go together."""
    alone, hurried = pattern.groups == 1, pattern.span < WHOLE
    if pattern.quiet and (len(pattern.quiet) == 1) != (pattern.cluster > 0):
        return False
    if pattern.cluster or pattern.exact:
        plain = pattern.barriers == 1 and not (hurried or pattern.stagger)
        return plain and (alone if pattern.exact else not alone)
    if alone and (pattern.stagger or pattern.loading is not Loading.IN_TURN):
        return False
    if pattern.stagger and (hurried or pattern.barriers < pattern.groups):
        return False
    return not hurried or 1 < pattern.barriers < 4


def structures(lowered: Lowered) -> Iterator[Pattern]:
    """Every shape of loop that the waves allow: the coarse grid of the space, simple ones first."""
    space = choices(lowered)
    if has_vectors(lowered):
        yield from _between(lowered, space["groups"])
        return
    alone = Machine.of(lowered).alone
    steady = {
        "groups": space["groups"],
        "cluster": space["cluster"],
        "order": (ORDERS[0], ORDERS[2]),
        "barriers": (1, 2) if alone else (1, 2, 4),
        "deep": space["deep"] if alone else (0,),
    }
    hurried = {"groups": space["groups"], "span": (80, 60), "barriers": (2, 3)}
    for grid in (steady, hurried):
        for values in product(*grid.values()):
            pattern = Pattern(**dict(zip(grid, values, strict=True)))
            if sensible(pattern) and (pattern.cluster or pattern.order == ORDERS[0]):
                yield pattern


def _between(lowered: Lowered, groups: Sequence[int]) -> Iterator[Pattern]:
    """Loops with vector ops between products."""
    machine = Machine.of(refine(lowered))
    made = made_operands(lowered)
    passes = has_passing(lowered)
    for early, more, count in product((0, 1) if made else (0,), ROOMS, groups):
        apart = count > 1
        # Where results pass, operands fill LDS, and nothing waits for what is computed.
        deep = 0 if passes else 2 * apart
        usual: tuple[tuple[int, int, int, int], ...] = ((count, deep, 1, 64),)
        if shared_out(lowered.meaning.span) and not apart:
            usual = LOADED
        elif passes_results(lowered):
            usual = PASSED
        for barriers, deep, beside, lead in usual:
            yield Pattern(
                groups=count,
                early=early,
                order=_between_order(lowered, made),
                barriers=barriers,
                stagger=apart,
                deep=deep,
                beside=beside,
                room=_room(machine) + more,
                lead=lead,
                quiet=(16, 16),
                priority=not machine.alone,
            )


def turning(lowered: Lowered) -> Iterator[Pattern]:
    """Loops with vector ops in which two groups take turns: one multiplies while the other
    computes. A turn is all products of an iteration; the last follows the first by so many that
    what is computed between them fills the time of a turn without waiting for a product."""
    machine, count = Machine.of(refine(lowered)), _matrix_count(lowered)
    if machine.per_simd % 2 or shared_out(lowered.meaning.span) or not has_vectors(lowered):
        return
    made = made_operands(lowered)
    for quiet, less in product(QUIET_TURNS, (16, 8, 0)):
        yield Pattern(
            groups=2,
            cluster=count,
            order=_between_order(lowered, made),
            deep=2,
            room=max(machine.issue, _room(machine, count) - less),
            lag=2,
            lead=64,
            quiet=quiet,
            priority=True,
        )


def passes_results(lowered: Lowered) -> bool:
    """Whether waves find results of others in LDS."""
    tasks = lowered.of(Region.LOOP)
    return any(t.unit is Unit.LDS_WRITE and not turns(lowered, t) for t in tasks)


def _between_order(lowered: Lowered, made: set[str]) -> tuple[str, ...]:
    """Of products: those of one fragment that vector ops compute follow each other, so that its
    registers are free for the next one most of the time."""
    products = [t for t in lowered.of(Region.LOOP) if t.unit is Unit.MATRIX]
    if has_passing(lowered):
        return order_of(lowered)
    return ORDERS[1] if any(t.reads[1].place in made for t in products) else ORDERS[0]


def variations(pattern: Pattern, space: Choices) -> Iterator[Pattern]:
    """The same with one choice made otherwise; the solver takes few of them."""
    names = ("margin", "deep") if pattern.exact else [n for n in space if n not in STRUCTURE]
    for name in names:
        values, now = space[name], getattr(pattern, name)
        if len(values) > 2 * NEAR + 2:
            at = values.index(now)
            values = values[max(0, at - NEAR) : at + NEAR + 1]
        for value in values:
            other = replace(pattern, **{name: value})
            if value != now and sensible(other):
                yield other


def unit_times(lowered: Lowered, barriers: int = 1) -> tuple[UnitTime, ...]:
    """How long an iteration keeps every unit busy, the longest first; none of as many barriers is
    faster, whatever its groups; of a loop that is shared out, beside other workgroups."""
    machine = Machine.of(refine(lowered))
    if shared_out(lowered.meaning.span):
        return machine.times_beside()
    shared = any(p.space is Space.LDS and p.rotates for p in lowered.places)
    return machine.times(barriers if shared else 0)


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
    if Machine.of(lowered).alone and not has_vectors(lowered):
        yield from (Pattern(exact=True, deep=deep) for deep in (1, 0))


def matrix_cycles(lowered: Lowered) -> int:
    """Cycles of a SIMD's matrix unit for one iteration."""
    return next(t.cycles for t in Machine.of(lowered).times(0) if t.unit == "matrix unit")


def timed(lowered: Lowered, pattern: Pattern) -> Woven:
    """The times of a pattern, which with its groups, who loads and ``priority`` say its program.

    Raises ``OrderError`` where the pattern does not fit the loop or the machine.
    """
    fine = refine(lowered, pattern.groups, pattern.loading)
    if has_vectors(fine):
        return (alternate if pattern.cluster else interleave)(fine, pattern)
    return (exact_weave if pattern.exact else weave)(fine, pattern, register_copies(fine))


def woven(
    lowered: Lowered, pattern: Pattern, k_tiles: int | None = None, times: Woven | None = None
) -> Program:
    """The program of a pattern, with its waits: a draft, which nothing has checked or proved yet.

    ``times`` are its own, where they are known. Raises ``OrderError`` as ``timed`` does, and where
    copies do not rotate.
    """
    found = timed(lowered, pattern) if times is None else times
    fine = refine(lowered, pattern.groups, pattern.loading)
    expansion = expand(found.loop, found.timetable)
    if expansion.unroll > MOST_UNROLL or len(expansion.kernel) > MOST_STEPS:
        raise OrderError(f"a trip would take {expansion.unroll} iterations", hint="fewer copies")
    rest = 0 if k_tiles is None else k_tiles - expansion.stages + 1
    if rest < 0:
        raise OrderError(
            f"{k_tiles} iterations are fewer than {expansion.stages} stages",
            hint="give more k_tiles or none; pipeline() finds another order for so few",
        )
    phases = make_phases(fine, found.loop, expansion, rest % expansion.unroll)
    program = Program.draft(
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
    if not pattern.priority:
        return program
    return by_turn(program) if pattern.cluster and has_vectors(lowered) else in_turns(program)


def register_copies(lowered: Lowered) -> dict[str, int]:
    """How many copies of every fragment a wave's registers hold."""
    target = lowered.target
    waves = sum(len(group.waves) for group in lowered.groups)
    share = target.vgpr_share(waves)
    in_matrix, others = registers_kept(lowered)
    left = min(share - in_matrix, target.direct_vgprs.value) - others - RESERVED_VGPRS
    fragments = [p for p in lowered.places if p.rotates and p.space is Space.REGISTER]
    tasks = lowered.of(Region.LOOP)
    taken = {touch.place for task in tasks if task.unit is Unit.MATRIX for touch in task.reads}
    filled = {touch.place for task in tasks if task.unit is Unit.LOAD for touch in task.writes}
    loaded = [p for p in fragments if p.name in filled & taken]
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


def exact_weave(lowered: Lowered, pattern: Pattern, registers: dict[str, int]) -> Woven:
    """The solver's times for the instructions of ``lowered``; raises ``OrderError``.

    Ctrl-C is raised too: what the solver has by then is no better than what the search has.
    """
    if pattern.cluster:
        raise OrderError("groups that take turns have their times", hint="no clusters")
    weaver = Weaver(lowered, pattern, registers)
    if any(task.unit is Unit.LOAD for task in weaver.tasks):
        raise OrderError("loads to registers have the weaver's times", hint="leave exact out")
    problem = stepped(
        lowered,
        weaver.products,
        registers,
        pattern.barriers,
        margin=pattern.margin,
        deep=pattern.deep,
    )
    step = step_cycles(lowered)
    hint = _hint(problem, Weaver(lowered, pattern, registers).weave(), step)
    result = solve_modulo(problem, work_limit=WORK_LIMIT, hint=hint)
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    return _placed(weaver, result.ii, result.starts, step)


def exact_bound(lowered: Lowered) -> tuple[int, str]:
    """Cycles below which the modulo problem of the instructions has no schedule, and why."""
    return least_ii(relaxed(lowered))


def _hint(problem: ModuloProblem, woven: Woven, step: int) -> tuple[int, ...]:
    """The weaver's times, in steps."""
    starts = woven.timetable.starts[: len(problem.ops)]
    first = min(starts)
    return tuple((start - first) // (step * TICKS) for start in starts)


def _placed(weaver: Weaver, ii: int, starts: Sequence[int], step: int) -> Woven:
    machine, tasks = weaver.machine, weaver.tasks
    rank = {Unit.MATRIX: 0, Unit.LOAD_LDS: 1, Unit.LDS_READ: 2}
    order = sorted(range(len(tasks)), key=lambda i: (starts[i] % ii, rank[tasks[i].unit], i))
    at: dict[int, float] = {}
    used: dict[tuple[int, str], int] = {}
    for i in order:
        unit = tasks[i].unit
        slot = (starts[i] % ii, tasks[i].group)
        at[i] = starts[i] * step
        if unit is not Unit.MATRIX:
            at[i] += min(machine.operands + machine.issue * used.get(slot, 0), step - 1)
            used[slot] = used.get(slot, 0) + (2 if unit is Unit.LOAD_LDS else 1)
    gates = sorted(starts[len(tasks) :])
    barriers = [gate * step + 0.25 for gate in gates]
    return weaver.placed(ii * step, at, barriers, (gates[0] - 2) * step)
