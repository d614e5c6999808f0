"""``derive``: the fastest program of a loop that a search finds and the verifier proves.

    found = derive(gemm(256, 256, 64), target_for("gfx950"), waves=8)
    found.program, found.cycles, found.bound, found.unit

Structures of loops are simulated, the best are varied, and the fastest that is proved is kept, with
the bound that the machine's units set. A loop that cannot be woven from single instructions is
ordered by the modulo solver, like ``pipeline(..., strategy=Exact())``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeloom.declare.loop import Loop
from pipeloom.errors import InternalError, OrderError
from pipeloom.judge.simulate import simulate
from pipeloom.judge.verify import verify
from pipeloom.machine.target import Target
from pipeloom.order.instructions import refinable
from pipeloom.order.lower import lower
from pipeloom.order.patterns import bound_of, matrix_cycles, structures, variations, woven
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import Pattern
from pipeloom.program.program import Program

TRIPS = 6
"""Of the loop, simulated for one program of the search."""
CLOSE = 1.003
"""A program this near to its bound ends the search."""
VARIED = 2
"""Structures that are varied."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The best so far: cycles per iteration, and the bound."""

    tried: int
    seconds: float
    cycles: float
    bound: int
    unit: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Derived:
    """A proved program; ``cycles`` are those of the simulator, per iteration in the steady loop."""

    program: Program
    cycles: float
    bound: int
    unit: str
    matrix: int
    pattern: Pattern | None
    tried: int

    @property
    def busy(self) -> float:
        """The share of time in which the matrix unit works."""
        return self.matrix / self.cycles


def derive(
    loop: Loop,
    target: Target,
    waves: int | Mapping[str, int],
    *,
    k_tiles: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Derived | None:
    """The fastest proved program of ``loop``; None where it is not made of loads and products.

    Ctrl-C ends the search and keeps the best so far; before there is any, it is raised.
    """
    lowered = lower(loop.meaning, target, loop.ops, loop.staged, waves)
    if not refinable(lowered):
        return None
    search = _Search(lowered, k_tiles, progress)
    try:
        search.run()
    except KeyboardInterrupt:
        if not search.found:
            raise
    return search.proved()


class _Search:
    def __init__(
        self, lowered: Lowered, k_tiles: int | None, progress: Callable[[Progress], None] | None
    ) -> None:
        self.lowered, self.k_tiles, self.progress = lowered, k_tiles, progress
        self.bound, self.unit = bound_of(lowered)
        self.found: dict[Pattern, tuple[float, int, Program]] = {}
        self.tried: set[Pattern] = set()
        self.started = time.monotonic()

    def run(self) -> None:
        """Structures, then variations of the best, as long as they help."""
        for pattern in structures(self.lowered):
            self.try_(pattern)
        while not self.done():
            before = self.best()
            for pattern in sorted(self.found, key=self.rank)[:VARIED]:
                for other in variations(pattern):
                    if self.done():
                        return
                    self.try_(other)
            if self.best() == before:
                return

    def rank(self, pattern: Pattern) -> tuple[float, int]:
        """Cycles, then what was tried first."""
        return self.found[pattern][:2]

    def best(self) -> float:
        return min((cycles for cycles, _, _ in self.found.values()), default=float("inf"))

    def done(self) -> bool:
        return self.best() <= CLOSE * self.bound

    def try_(self, pattern: Pattern) -> None:
        """Make and simulate one."""
        if pattern in self.tried:
            return
        self.tried.add(pattern)
        try:
            program = woven(self.lowered, pattern, self.k_tiles)
        except OrderError:
            return
        cycles = steady_cycles(program)
        better = cycles < self.best()
        self.found[pattern] = (cycles, len(self.tried), program)
        if better and self.progress is not None:
            seconds = time.monotonic() - self.started
            self.progress(
                Progress(len(self.tried), seconds, cycles, self.bound, self.unit, pattern)
            )

    def proved(self) -> Derived | None:
        """The fastest that the verifier accepts."""
        for pattern in sorted(self.found, key=self.rank):
            cycles, _, program = self.found[pattern]
            if not verify(program).proved:
                raise InternalError(f"{pattern} gives a program that is not proved")
            return Derived(
                _described(program, cycles, self.bound, self.unit, pattern),
                cycles,
                self.bound,
                self.unit,
                matrix_cycles(self.lowered),
                pattern,
                len(self.tried),
            )
        return None


def steady_cycles(program: Program, trips: int = TRIPS) -> float:
    """Simulated cycles per iteration of the meaning, in the steady loop."""
    least = program.min_trips
    step = sum(factor for _, factor in program.iterations.factors)
    trace = simulate(program, iterations=program.iterations.at(least) + step * trips)
    return trace.steady_cycles_per_iteration / step


def _described(program: Program, cycles: float, bound: int, unit: str, pattern: Pattern) -> Program:
    ordered = program.provenance.ordered
    assert ordered is not None
    copies = ", ".join(f"{r.copies} x {r.name}" for r in program.resources if r.copies > 1)
    notes = (
        f"{cycles:g} cycles per iteration simulated; {bound} are the least, by the {unit}",
        f"{ordered.stages} stages; copies: {copies or 'one of everything'}",
        f"{program.iterations} iterations",
        f"woven: {pattern}",
    )
    how = replace(ordered, cycles=round(cycles), bound=bound, proved=round(cycles) <= bound)
    provenance = replace(program.provenance, ordered=how, notes=notes)
    return program.with_groups(program.groups, provenance)
