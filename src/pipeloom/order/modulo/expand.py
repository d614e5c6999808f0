"""A modulo schedule as a loop: prologue, kernel and epilogue, for any stages and trip count.

How the schedule was found does not matter here: II and start times are enough. Think of time as
*rows* of II cycles; op i of iteration n falls into row ``n + stage(i)``. With s stages, the rows
before ``s - 1`` fill the pipeline (prologue), rows in which every stage has an iteration are the
kernel, and the rest drain it (epilogue).

A value that lives longer than II would be overwritten by the next iteration. Instead of moving
it, the kernel is unrolled (modulo variable expansion): with c copies of the value, iteration n
uses copy ``n mod c``, and a kernel of ``unroll`` rows, a multiple of every c, names copies
statically. The same holds for LDS buffers.

Example: three ops with starts 0, 5, 9 at II = 4 have stages 0, 1, 2. For 5 iterations the rows are

    row      0     1     2     3     4     5     6
    stage 0  i0    i1    i2    i3    i4
    stage 1        i0    i1    i2    i3    i4
    stage 2              i0    i1    i2    i3    i4
             prologue    kernel            epilogue

A trip count N of at least s - 1 runs the prologue, ``(N - s + 1) // unroll`` kernel passes, and
the epilogue of the remainder, which begins with the rows that did not fill a pass. Fewer
iterations never fill the pipeline and have straight-line code of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

from pipeloom.errors import ConfigError, OrderError
from pipeloom.order.modulo.measure import copies, lifetime, normalised
from pipeloom.order.modulo.parts import Channel, Value
from pipeloom.order.modulo.problem import ModuloProblem
from pipeloom.order.modulo.validity import check_modulo


class Step(NamedTuple):
    """Op ``op`` of iteration ``iteration``, ``cycle`` cycles after the phase begins.

    Prologue and short phases count iterations from the loop's first. Kernel and epilogue count
    from the first iteration of the pass: add ``unroll`` times the passes done before.
    """

    op: int
    iteration: int
    cycle: int


@dataclass(frozen=True, slots=True)
class Expansion:
    """The phases of one modulo schedule.

    ``epilogues[r]`` ends a loop with ``r`` rows left over after the last kernel pass, and
    ``shorts[n]`` is the whole loop for n iterations, n < stages - 1. ``value_copies`` and
    ``channel_copies`` say how many copies rotate; each divides ``unroll``.
    """

    ii: int
    stages: int
    unroll: int
    value_copies: tuple[int, ...]
    channel_copies: tuple[int, ...]
    prologue: tuple[Step, ...]
    kernel: tuple[Step, ...]
    epilogues: tuple[tuple[Step, ...], ...]
    shorts: tuple[tuple[Step, ...], ...]

    def passes(self, trip_count: int) -> int:
        """Kernel passes that ``trip_count`` iterations run."""
        return max(0, (trip_count - self.stages + 1) // self.unroll)

    def run(self, trip_count: int) -> Iterator[tuple[int, int]]:
        """Every (op, iteration) of a loop of ``trip_count`` iterations, in program order."""
        if trip_count < 0:
            raise ConfigError(f"trip count is {trip_count}", hint="give 0 or more")
        if trip_count < self.stages - 1:
            for step in self.shorts[trip_count]:
                yield step.op, step.iteration
            return
        for step in self.prologue:
            yield step.op, step.iteration
        passes = self.passes(trip_count)
        for number in range(passes):
            for step in self.kernel:
                yield step.op, step.iteration + number * self.unroll
        for step in self.epilogues[(trip_count - self.stages + 1) % self.unroll]:
            yield step.op, step.iteration + passes * self.unroll

    def cycles(self, trip_count: int) -> int:
        """Cycles from the first start to the end of the last row."""
        return (trip_count + self.stages - 1) * self.ii if trip_count else 0


def expand_modulo(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> Expansion:
    """Derive the phases of a valid schedule; the unroll factor is the least that fits budgets."""
    broken = check_modulo(problem, ii, starts)
    if broken:
        raise OrderError(f"the schedule cannot be expanded: {broken[0]}")
    starts = normalised(starts)
    stages = max(starts) // ii + 1
    # From issue, whatever the value's delay: in program order a write may land at once.
    value_copies = [
        copies((starts[value.op], lifetime(value, ii, starts)[1]), ii) for value in problem.values
    ]
    channel_copies = [copies(lifetime(c, ii, starts), ii) for c in problem.channels]
    rank = _issue_order(problem, ii, starts, value_copies, channel_copies)
    unroll, value_copies, channel_copies = _choose_unroll(problem, value_copies, channel_copies)
    order = sorted(range(len(starts)), key=lambda op: (starts[op] % ii, rank[op]))

    def rows(first: int, last: int, trip_count: int | None) -> tuple[Step, ...]:
        """Steps of rows ``first`` to ``last - 1``; an iteration beyond the trip count is none."""
        steps: list[Step] = []
        for row in range(first, last):
            for op in order:
                iteration = row - starts[op] // ii
                if iteration >= 0 and (trip_count is None or iteration < trip_count):
                    cycle = (row - first) * ii + starts[op] % ii
                    steps.append(Step(op, iteration, cycle))
        return tuple(steps)

    fill = stages - 1
    return Expansion(
        ii=ii,
        stages=stages,
        unroll=unroll,
        value_copies=tuple(value_copies),
        channel_copies=tuple(channel_copies),
        prologue=rows(0, fill, None),
        kernel=rows(fill, fill + unroll, None),
        epilogues=tuple(rows(fill, fill + rest + fill, fill + rest) for rest in range(unroll)),
        shorts=tuple(rows(0, count + fill, count) for count in range(fill)),
    )


def _choose_unroll(
    problem: ModuloProblem, value_copies: list[int], channel_copies: list[int]
) -> tuple[int, list[int], list[int]]:
    """The least unroll factor for which rounding copies up to its divisors fits the budgets.

    The least common multiple needs no rounding, so the search ends there.
    """
    wanted = value_copies + channel_copies
    least = max(wanted, default=1)
    for unroll in range(least, lcm(*wanted) + 1):
        divisors = [d for d in range(1, unroll + 1) if unroll % d == 0]
        values = [min(d for d in divisors if d >= count) for count in value_copies]
        channels = [min(d for d in divisors if d >= count) for count in channel_copies]
        if _copies_fit(problem, value_copies, values, channels):
            return unroll, values, channels
    held = sum(c.bytes * n for c, n in zip(problem.channels, channel_copies, strict=True))
    raise OrderError(
        f"rotating buffers of {problem.name!r} would take {held} bytes, more than its budget",
        hint="two ops meet in one cycle as last reader and next writer; allow one more buffer",
    )


def _copies_fit(
    problem: ModuloProblem, least: list[int], values: list[int], channels: list[int]
) -> bool:
    """Whether rounded copies keep the LDS budget, and registers grow no further than allowed.

    Copies of different values are counted as if none shared a register, so the budget can only
    refuse rounding; the least copies themselves are always accepted.
    """
    held = sum(c.bytes * n for c, n in zip(problem.channels, channels, strict=True))
    if problem.budget.lds_bytes is not None and held > problem.budget.lds_bytes:
        return False
    for channel, count in zip(problem.channels, channels, strict=True):
        if channel.max_buffers is not None and count > channel.max_buffers:
            return False
    if problem.budget.registers is None or values == least:
        return True
    registers = sum(v.registers * n for v, n in zip(problem.values, values, strict=True))
    return registers <= problem.budget.registers


def _issue_order(
    problem: ModuloProblem,
    ii: int,
    starts: Sequence[int],
    value_copies: list[int],
    channel_copies: list[int],
) -> list[int]:
    """A rank for ops that start in the same cycle: dependences first, reads before overwrites.

    Where a read would have to both precede and follow the overwrite of its own copy, the copies
    of such values grow by one, which parts the two.
    """
    ties: list[tuple[int, int]] = [
        (edge.src, edge.dst)
        for edge in problem.edges
        if edge.src != edge.dst
        and edge.latency >= 0
        and starts[edge.dst] + edge.distance * ii == starts[edge.src]
    ]
    overwrites: list[tuple[int, int]] = []
    tight: list[tuple[list[int], int]] = []

    def meet(held: Value | Channel, count: int) -> bool:
        met = False
        for writer in held.fills:
            for reader in held.readers:
                reads = starts[reader.op] + reader.distance * ii
                if reader.op != writer and reads == starts[writer] + count * ii:
                    overwrites.append((reader.op, writer))
                    met = True
        return met

    places = [(value_copies, i) for i in range(len(problem.values))]
    places += [(channel_copies, i) for i in range(len(problem.channels))]
    for held, (counts, i) in zip(problem.lifetimes, places, strict=True):
        if meet(held, counts[i]):
            tight.append((counts, i))
    rank = _rank(len(starts), ties + overwrites)
    if rank is not None:
        return rank
    for counts, i in tight:
        counts[i] += 1
    # What is left are ops that start together by a cycle of zero latency: any order will do.
    return _rank(len(starts), ties) or list(range(len(starts)))


def _rank(count: int, before: list[tuple[int, int]]) -> list[int] | None:
    """Topological positions, smallest op first among the ready; None if there is a cycle."""
    waiting = [0] * count
    successors: list[list[int]] = [[] for _ in range(count)]
    for first, second in before:
        waiting[second] += 1
        successors[first].append(second)
    rank = [0] * count
    ready = [op for op in range(count) if waiting[op] == 0]
    position = 0
    while ready:
        op = ready.pop(0)
        rank[op] = position
        position += 1
        for successor in successors[op]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                ready.append(successor)
    return rank if position == count else None
