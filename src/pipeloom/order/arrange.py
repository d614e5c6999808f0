"""A declaration to an ordered program, without waits and barriers: ``arrange``.

arranged = arrange(loop, GFX950, 4)
arranged.program           # an order with copies; nothing in it waits
arranged.barrier_gaps      # where the loop's barriers would cost nothing

Where a loop's barriers cost nothing: between the last moment and the first.

Data crosses waves through LDS twice per copy: from its writer to a reader, and from the last reader
to the next writer. Under the timetable each crossing leaves an interval for its barrier,

    writer -> reader        [start of writer + latency,  start of reader]
    reader -> next writer   [start of reader + hold,     start of writer + copies * II]

A barrier inside waits for nothing that is not over; one before it would stall the wave. So the
fewest barriers that cost nothing are the fewest points that meet every interval, modulo II. (The
fewest barriers of all, which ``synchronize`` finds without times, may stand where a load has only
just been issued.)

Intervals on the circle of an initiation interval, and the fewest points that meet them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from pipeloom.checks import check_int
from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError
from pipeloom.machine.target import Target
from pipeloom.order.modulo import Expansion, Step
from pipeloom.order.node_tasks import lower
from pipeloom.order.problem_builder import LoopProblem
from pipeloom.order.roles import Consumer, Role
from pipeloom.order.sections import LOOP, TRIPS, expand, make_phases
from pipeloom.order.strategy import Exact, Strategy, Timetable, ask, strategy_name
from pipeloom.order.task_problem import loop_problem
from pipeloom.order.tasks import Lowered
from pipeloom.program.program import Program, TripCount
from pipeloom.program.provenance import OrderedBy, Provenance
from pipeloom.program.resources import Space


@dataclass(frozen=True, slots=True)
class Arranged:
    """An ordered program; ``barrier_gaps`` proposes barriers: by section, what they precede."""

    program: Program
    barrier_gaps: Mapping[str, tuple[int, ...]]


def arrange(
    loop: Loop,
    target: Target,
    waves: int | Mapping[str, int] | None = None,
    *,
    groups: Sequence[Role] | None = None,
    depth: int | None = None,
    stages: int | None = None,
    quadrants: int | None = None,
    k_tiles: int | None = None,
    global_latency: int | None = None,
    strategy: Strategy | None = None,
) -> Arranged:
    """One iteration of ``loop``, pipelined: an order with copies, but nothing that waits.

    ``waves`` is how many compute, or how many along each dimension; ``groups`` gives loads to waves
    of their own. ``depth`` limits the copies of anything that rotates, ``stages`` how many
    iterations overlap. ``k_tiles`` is the number of iterations to be run, without which the program
    runs stages - 1, and then multiples of its unrolling more.
    """
    for name, value in (("depth", depth), ("stages", stages), ("k_tiles", k_tiles)):
        if value is not None:
            check_int("pipeline", name, value, 1)
    lowered = lower(
        loop.meaning,
        target,
        loop.ops,
        loop.staged,
        _computing(waves, groups),
        groups,
        quadrants,
    )
    solve = strategy or Exact()
    problem = loop_problem(lowered, depth=depth, stages=stages, global_latency=global_latency)
    timetable = ask(solve, problem.problem)
    expansion = expand(problem, timetable)
    if k_tiles is not None and k_tiles < expansion.stages - 1:
        # Too few iterations to fill it: the best order of fewer stages, of which one is none.
        budget = replace(problem.problem.budget, stages=k_tiles + 1)
        problem = replace(problem, problem=replace(problem.problem, budget=budget))
        timetable = ask(solve, problem.problem)
        expansion = expand(problem, timetable)
    rest = 0 if k_tiles is None else (k_tiles - expansion.stages + 1) % expansion.unroll
    phases = make_phases(lowered, problem, expansion, rest)
    program = Program(
        name=loop.name,
        meaning=lowered.meaning,
        target=target,
        resources=phases.resources,
        groups=phases.groups,
        trips=(TripCount(TRIPS),),
        iterations=phases.iterations,
        provenance=Provenance(
            source=f"loop {loop.name}",
            ordered=OrderedBy(
                strategy_name(solve),
                timetable.ii * problem.quantum,
                None if timetable.lower_bound is None else timetable.lower_bound * problem.quantum,
                timetable.proved,
                phases.stages,
                timetable.interrupted,
            ),
        ),
    )
    notes = _notes(lowered, problem, timetable, program)
    return Arranged(
        replace(program, provenance=replace(program.provenance, notes=notes)),
        barrier_gaps(lowered, problem, timetable, expansion),
    )


def _computing(
    waves: int | Mapping[str, int] | None, groups: Sequence[Role] | None
) -> int | Mapping[str, int]:
    """How many waves compute."""
    if groups is None:
        if waves is None:
            raise ConfigError(
                "pipeline needs a number of waves",
                hint="pass waves=4, waves={'m': 2, 'n': 2}, or groups=(Producer(1), Consumer(4))",
                field="waves",
            )
        return waves
    consumers = sum(role.waves for role in groups if isinstance(role, Consumer))
    if waves is None:
        return consumers
    total = prod(waves.values()) if isinstance(waves, Mapping) else waves
    if total != consumers:
        raise ConfigError(
            f"waves say that {total} compute, groups that {consumers} do",
            hint="leave waves out: with groups, the consumers compute",
            field="waves",
        )
    return waves


def _notes(
    lowered: Lowered, problem: LoopProblem, timetable: Timetable, program: Program
) -> tuple[str, ...]:
    ordered = program.provenance.ordered
    assert ordered is not None
    copies = ", ".join(f"{r.copies} x {r.name}" for r in program.resources if r.copies > 1)
    grid = ", ".join(f"{c.waves} along {c.dim}" for c in lowered.shares.cuts if c.waves > 1)
    return (
        f"{ordered.cycles} cycles per iteration, in steps of {problem.quantum}"
        + (f": {timetable.why}" if timetable.why else ""),
        f"{ordered.stages} stages; copies: {copies or 'one of everything'}",
        f"{program.iterations} iterations",
        f"waves: {grid or 'one'}",
    )


def fewest_points(intervals: Iterable[tuple[int, int]], ii: int) -> list[int]:
    """The fewest slots modulo ``ii`` that meet every interval, as late as possible.

    On a circle the first point is a guess: every interval's end is tried, and the greedy choice,
    always the end of the interval that ends first, is best for each guess.
    """
    arcs = sorted({(a % ii, b - a) for a, b in intervals if b - a < ii})
    if not arcs:
        return []
    best: list[int] | None = None
    for first in sorted({(a + length) % ii for a, length in arcs}):
        chosen = [first]
        turned = sorted(((a - first) % ii, length) for a, length in arcs)
        ends = sorted((a + length, a) for a, length in turned if a and a + length < ii)
        at = 0
        for end, start in ends:
            if start > at:
                at = end
                chosen.append((end + first) % ii)
        if best is None or len(chosen) < len(best):
            best = chosen
    assert best is not None
    return sorted(best)


def barrier_gaps(
    lowered: Lowered, loop: LoopProblem, timetable: Timetable, expansion: Expansion
) -> dict[str, tuple[int, ...]]:
    """The steps of the loop, by number, before which a barrier stands.

    Groups of waves that run different steps meet at the same barriers; each has its own numbers,
    under ``loop@`` and the number of the group.
    """
    ii = timetable.ii
    slots = fewest_points(_intervals(lowered, loop, timetable, expansion), ii)
    if not slots:
        return {}
    if len(lowered.groups) == 1:
        return {LOOP: tuple(sorted(set(_gaps(slots, expansion.kernel, ii, wrap=True))))}
    found: dict[str, tuple[int, ...]] = {}
    for number, group in enumerate(lowered.groups):
        mine = [step for step in expansion.kernel if loop.tasks[step.op].group == group.name]
        found[f"{LOOP}@{number}"] = tuple(_gaps(slots, mine, ii, expansion.unroll, wrap=False))
    return found


def _intervals(
    lowered: Lowered, loop: LoopProblem, timetable: Timetable, expansion: Expansion
) -> list[tuple[int, int]]:
    starts, ii = timetable.starts, timetable.ii
    found: dict[tuple[int, int], None] = {}
    for channel, copies in zip(loop.problem.channels, expansion.channel_copies, strict=True):
        place = lowered.place(channel.name)
        if place is None or place.space is not Space.LDS:
            continue
        for fill in channel.fills:
            landed = starts[fill] + loop.problem.ops[fill].latency
            for reader in channel.readers:
                read = starts[reader.op] + reader.distance * ii
                found.setdefault((min(landed, read), read))
                done, refilled = read + reader.hold, starts[fill] + copies * ii
                found.setdefault((min(done, refilled), refilled))
    return list(found)


def _gaps(
    slots: Sequence[int], steps: Sequence[Step], ii: int, rows: int | None = None, *, wrap: bool
) -> list[int]:
    """The first step at or after each slot of each row; behind the last is the end of the loop.

    ``wrap`` has the beginning of the loop instead, which is the same but for the first trip.
    """
    if rows is None:
        rows = 1 + max(step.cycle for step in steps) // ii
    after = 0 if wrap else len(steps)
    return [
        next((n for n, step in enumerate(steps) if step.cycle >= row * ii + slot), after)
        for row in range(rows)
        for slot in slots
    ]
