"""Why not a smaller II: a minimal set of constraints that cannot hold together, in words.

The constraints are the pieces a person can change: one edge, one op's hold of a unit, one
value's claim on registers, one channel's claim on LDS, its buffer limit, the stage limit. The
*conflict* at an II is a subset with no schedule, from which no piece can be left out: without
any one of them a schedule exists. The exact solver establishes both halves, piece by piece.

Edges that make a reader wait for its value or buffer come with that value or channel, as a
lifetime without them means nothing; they are named on their own only where no lifetime is.

Example: 12 loads of 4 cycles on one LDS port at II = 32 conflict in any 9 of them: "lds: 9
holds of 4 cycles in 32".
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from pipeloom.errors import ConfigError
from pipeloom.order.modulo.bounds import unit_bounds
from pipeloom.order.modulo.core import Structure
from pipeloom.order.modulo.decide import Decider
from pipeloom.order.modulo.effort import Effort, OutOfEffort
from pipeloom.order.modulo.exact import SearchOutcome
from pipeloom.order.modulo.parts import Budget, Channel, Value
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.whole import WholeModel


class PieceKind(Enum):
    """The kinds of constraint a conflict may name."""

    EDGE = "edge"
    HOLD = "hold"
    VALUE = "value"
    CHANNEL = "channel"
    BUFFERS = "buffers"
    STAGES = "stages"


@dataclass(frozen=True, slots=True)
class Piece:
    """One constraint: ``index`` of the edge, op, value or channel; ``use`` of the op's holds."""

    kind: PieceKind
    index: int = 0
    use: int = 0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why ``ii`` is impossible. ``minimal`` is False only when time ran out while shrinking.

    ``relaxed(problem, pieces)`` gives the problem that has only those pieces.
    """

    ii: int
    pieces: tuple[Piece, ...]
    minimal: bool
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"II = {self.ii} is impossible:\n" + "\n".join(f"  {line}" for line in self.words)


def all_pieces(problem: ModuloProblem) -> tuple[Piece, ...]:
    """Every constraint of the problem, those that rarely matter first (they go first)."""
    pieces: list[Piece] = []
    if problem.budget.stages is not None:
        pieces.append(Piece(PieceKind.STAGES))
    limited = {unit.name for unit in problem.units if unit.capacity is not None}
    if problem.budget.registers is not None:
        pieces += [Piece(PieceKind.VALUE, i) for i in range(len(problem.values))]
    if problem.budget.lds_bytes is not None:
        pieces += [Piece(PieceKind.CHANNEL, i) for i in range(len(problem.channels))]
    pieces += [
        Piece(PieceKind.BUFFERS, i)
        for i, channel in enumerate(problem.channels)
        if channel.max_buffers is not None
    ]
    pieces += [
        Piece(PieceKind.HOLD, i, number)
        for i, op in enumerate(problem.ops)
        for number, use in enumerate(op.uses)
        if use.unit in limited
    ]
    pieces += [Piece(PieceKind.EDGE, i) for i in range(len(problem.edges))]
    return tuple(pieces)


def relaxed(problem: ModuloProblem, pieces: Iterable[Piece]) -> ModuloProblem:
    """The problem with only these constraints; a lifetime keeps the edges it rests on."""
    kept = set(pieces)
    values = tuple(v for i, v in enumerate(problem.values) if Piece(PieceKind.VALUE, i) in kept)
    channels = tuple(
        replace(
            channel,
            bytes=channel.bytes if Piece(PieceKind.CHANNEL, i) in kept else 0,
            max_buffers=channel.max_buffers if Piece(PieceKind.BUFFERS, i) in kept else None,
        )
        for i, channel in enumerate(problem.channels)
        if Piece(PieceKind.CHANNEL, i) in kept or Piece(PieceKind.BUFFERS, i) in kept
    )
    lifetimes: tuple[Value | Channel, ...] = (*values, *channels)
    rests_on = {
        (op, r.op, r.distance) for one in lifetimes for op in one.fills for r in one.readers
    }
    budget = problem.budget
    return replace(
        problem,
        ops=tuple(
            replace(
                op,
                uses=tuple(
                    use
                    for number, use in enumerate(op.uses)
                    if Piece(PieceKind.HOLD, i, number) in kept
                ),
            )
            for i, op in enumerate(problem.ops)
        ),
        edges=tuple(
            edge
            for i, edge in enumerate(problem.edges)
            if Piece(PieceKind.EDGE, i) in kept or (edge.src, edge.dst, edge.distance) in rests_on
        ),
        values=values,
        channels=channels,
        budget=Budget(
            registers=budget.registers,
            lds_bytes=budget.lds_bytes,
            stages=budget.stages if Piece(PieceKind.STAGES) in kept else None,
        ),
    )


def explain_ii(
    problem: ModuloProblem, ii: int, *, time_limit: float | None = None
) -> Explanation | None:
    """A minimal conflict at ``ii``, or None when a schedule exists or none was refuted in time.

    Ctrl-C ends it as anything else.
    """
    if type(ii) is not int or ii < 1:
        raise ConfigError(f"ii is {ii!r}", hint="give an integer of at least 1")
    deadline = None if time_limit is None else time.monotonic() + time_limit
    effort = Effort(deadline, workers=1, seed=0)
    pieces = _first_conflict(problem, ii)
    if pieces is None:
        pieces = all_pieces(problem)
        if _verdict(problem, pieces, ii, effort) is not SearchOutcome.IMPOSSIBLE:
            if effort.interrupted:
                raise KeyboardInterrupt
            return None
    shrunk, minimal = _shrink(problem, pieces, ii, effort)
    words = _conflict_words(problem, ii, shrunk, effort)
    if effort.interrupted:
        raise KeyboardInterrupt
    return Explanation(ii, shrunk, minimal, words)


def _verdict(
    problem: ModuloProblem, pieces: Iterable[Piece], ii: int, effort: Effort
) -> SearchOutcome:
    decider = Decider(relaxed(problem, pieces))
    return decider.decide(ii, effort).verdict


def _first_conflict(problem: ModuloProblem, ii: int) -> tuple[Piece, ...] | None:
    """The critical recurrence, or the fullest unit, when one alone exceeds ``ii``."""
    decider = Decider(problem)
    loop = decider.recurrence
    if loop is not None and loop.ii > ii:
        return tuple(Piece(PieceKind.EDGE, index) for index in loop.edges)
    for bound in sorted(unit_bounds(problem), key=lambda item: -item.ii):
        if bound.ii > ii:
            holds = [
                (use.occupancy, op, number)
                for op in bound.ops
                for number, use in enumerate(problem.ops[op].uses)
                if use.unit == bound.unit
            ]
            holds.sort(key=lambda hold: (-hold[0], hold[1], hold[2]))
            chosen: list[Piece] = []
            busy = 0
            for occupancy, op, number in holds:
                chosen.append(Piece(PieceKind.HOLD, op, number))
                busy += occupancy
                if busy > bound.capacity * ii:
                    return tuple(chosen)
    return None


def _shrink(
    problem: ModuloProblem, pieces: tuple[Piece, ...], ii: int, effort: Effort
) -> tuple[tuple[Piece, ...], bool]:
    """Drop pieces while the rest still conflicts: first in halves, then one by one.

    After a full pass in which every piece was tried alone and kept, the set is irreducible.
    """
    current = list(pieces)
    size = max(1, len(current) // 2)
    needed: set[Piece] = set()
    while True:
        position = 0
        while position < len(current):
            chunk = [p for p in current[position : position + size] if p not in needed]
            if not chunk:
                position += size
                continue
            rest = [piece for piece in current if piece not in chunk]
            verdict = _verdict(problem, rest, ii, effort)
            if verdict is SearchOutcome.IMPOSSIBLE:
                current = rest
                continue
            if verdict is SearchOutcome.UNKNOWN:
                return tuple(current), False
            if size == 1:
                needed.add(chunk[0])
            position += size
        if size == 1:
            return tuple(current), True
        size = max(1, min(size, len(current)) // 2)


def _conflict_words(
    problem: ModuloProblem, ii: int, pieces: tuple[Piece, ...], effort: Effort
) -> tuple[str, ...]:
    """The conflict in sentences: recurrences, units, lifetimes, stages."""

    def indices(kind: PieceKind) -> list[int]:
        return [piece.index for piece in pieces if piece.kind is kind]

    lines = _edge_words(problem, ii, indices(PieceKind.EDGE))
    lines += _unit_words(problem, ii, [p for p in pieces if p.kind is PieceKind.HOLD])
    values, channels = indices(PieceKind.VALUE), indices(PieceKind.CHANNEL)
    if values:
        need = _least_use(problem, ii, pieces, PieceKind.VALUE, effort)
        names = _listed([problem.values[i].name for i in values])
        lines.append(f"registers: {names} live at once need {need} of {problem.budget.registers}")
    if channels:
        need = _least_use(problem, ii, pieces, PieceKind.CHANNEL, effort)
        names = _listed([problem.channels[i].name for i in channels])
        lines.append(f"LDS: buffers of {names} need {need} bytes of {problem.budget.lds_bytes}")
    for i in indices(PieceKind.BUFFERS):
        channel = problem.channels[i]
        lines.append(f"buffers: {channel.name} has at most {channel.max_buffers}")
    if indices(PieceKind.STAGES):
        stages = problem.budget.stages or 0
        lines.append(
            f"stages: all starts within {stages} x {ii} = {stages * ii} {problem.time_unit}s of "
            "the first"
        )
    return tuple(lines)


def _least_use(
    problem: ModuloProblem,
    ii: int,
    pieces: tuple[Piece, ...],
    kind: PieceKind,
    effort: Effort,
) -> str:
    """The least registers or bytes with which the conflict's other pieces could be met."""
    free = relaxed(problem, pieces)
    if kind is PieceKind.VALUE:
        free = replace(free, budget=replace(free.budget, registers=None))
    else:
        free = replace(free, budget=replace(free.budget, lds_bytes=None))
    with suppress(OutOfEffort):
        model = WholeModel(Structure(free), ii, effort, stages=free.budget.stages)
        if model.possible:
            target = model.peak if kind is PieceKind.VALUE else model.bytes_held()
            model.model.model.minimize(target)
            verdict, _, solver = model.solve()
            if verdict is SearchOutcome.FOUND:
                return f"at least {round(solver.best_objective_bound)}"
    return "more than is available"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _edge_words(problem: ModuloProblem, ii: int, edges: list[int]) -> list[str]:
    """Edges joined into cycles and paths, each told with its total latency and distance."""
    lines: list[str] = []
    left = list(edges)
    while left:
        chain = [left.pop(0)]
        grown = True
        while grown:
            grown = False
            for index in left:
                if problem.edges[index].src == problem.edges[chain[-1]].dst:
                    chain.append(index)
                elif problem.edges[index].dst == problem.edges[chain[0]].src:
                    chain.insert(0, index)
                else:
                    continue
                left.remove(index)
                grown = True
                break
        hops = [problem.edges[index] for index in chain]
        names = [problem.ops[edge.src].name for edge in hops]
        names.append(problem.ops[hops[-1].dst].name)
        latency = sum(edge.latency for edge in hops)
        distance = sum(edge.distance for edge in hops)
        path = " -> ".join(names)
        closed = hops[0].src == hops[-1].dst
        if closed and distance:
            per = "iteration" if distance == 1 else f"{distance} iterations"
            lines.append(f"recurrence {path} needs {latency} {problem.time_unit}s per {per}")
        else:
            within = f" less {distance} x {ii}" if distance else ""
            lines.append(f"dependence {path} needs {latency} {problem.time_unit}s{within}")
    return lines


def _unit_words(problem: ModuloProblem, ii: int, holds: list[Piece]) -> list[str]:
    lines: list[str] = []
    for unit in problem.units:
        mine = [
            piece for piece in holds if problem.ops[piece.index].uses[piece.use].unit == unit.name
        ]
        if not mine or unit.capacity is None:
            continue
        cycles = sorted({problem.ops[p.index].uses[p.use].occupancy for p in mine})
        names = list(dict.fromkeys(problem.ops[p.index].name for p in mine))
        shown = _listed(names)
        each = str(cycles[0]) if len(cycles) == 1 else f"{cycles[0]} to {cycles[-1]}"
        each += f" {problem.time_unit}" + ("" if cycles == [1] else "s")
        holding = "hold" if len(mine) == 1 else "holds"
        room = f"{ii}" if unit.capacity == 1 else f"{unit.capacity} x {ii}"
        lines.append(f"{unit.name}: {len(mine)} {holding} of {each} in {room} ({shown})")
    return lines
