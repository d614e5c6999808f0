"""Waits for a draft: an order from a timetable, at the speed of a search.

A timetable has its barriers where they cost nothing, its steps mean what they claim, and copies
rotate: iteration i overwrites what i - copies left. So no value has to be followed:

    register      filled by x, used by y       x retired at y
    LDS           filled by x, read by y, or   x retired, in every wave, at the last barrier before
                  read by x, overwritten by y  y

Whatever comes out is proved by the verifier, or not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeloom.errors import OrderError
from pipeloom.program import Program, Space, Work
from pipeloom.sync.flow import Demands, OrderDemand
from pipeloom.sync.replay import Bench
from pipeloom.sync.script import Scripts, Sync
from pipeloom.sync.strip import stripped
from pipeloom.sync.walk import Gates, Run, Walk, sample_runs

Copy = tuple[str, int]
"""A resource, and which copy of it."""


@dataclass(slots=True)
class _Accesses:
    """The copies that a step touches: of LDS, and of registers, those it fills by a counter."""

    lds_reads: list[Copy] = field(default_factory=list)
    lds_writes: list[Copy] = field(default_factory=list)
    reads: list[Copy] = field(default_factory=list)
    fills: list[Copy] = field(default_factory=list)

    def matters(self, filled: set[Copy]) -> bool:
        """Whether it touches anything but registers that no counter ever fills; forgets those."""
        self.reads = [copy for copy in self.reads if copy in filled]
        return bool(self.lds_reads or self.lds_writes or self.reads or self.fills)


_Step = tuple[int, _Accesses]
"""A step by its number in the work of a row."""


def with_waits(program: Program) -> Program:
    """``program`` with waits for the barriers that it has; those outside of loops at which nothing
    is due are left out.

    Raises ``OrderError`` where the barriers are too few.
    """
    scripts = stripped(program, keep_barriers=True, apart=True)
    draft = _Draft(scripts)
    bench = Bench(scripts, [draft.demands(run) for run in sample_runs(scripts)])
    sync = Sync()
    bench.tighten(sync, {(r, r) for r in bench.loops})
    bench.tighten(sync)
    sync.spared = draft.idle_barriers()
    return program.with_groups(scripts.assemble(sync, ahead=True), program.provenance)


class _Draft:
    """What the runs of a draft demand, and at which barriers."""

    def __init__(self, scripts: Scripts) -> None:
        resources = scripts.program.resources
        self._is_lds = {r.name: r.space is Space.LDS for r in resources}
        self._copies = {r.name: r.copies for r in resources}
        self._meetings: dict[tuple[int, ...], None] = {}
        self._needed = {gap for gap in range(len(scripts.places)) if scripts.row(gap).loops}
        steps = [
            [
                [(n, self._touched(work)) for n, (_, work) in enumerate(scripts.works(group, row))]
                for row in range(len(scripts.scripts[s].rows))
            ]
            for group, s in enumerate(scripts.script_of)
        ]
        filled = {copy for group in steps for row in group for _, a in row for copy in a.fills}
        self._steps = [
            [[step for step in row if step[1].matters(filled)] for row in group] for group in steps
        ]

    def demands(self, run: Run) -> Demands:
        """Those of one run."""
        gates = run.gates({})
        met = zip(*gates.by_group, strict=True)
        self._meetings |= dict.fromkeys(tuple(gate.slot // 2 for gate in each) for each in met)
        return Demands(run, [*self._in_lds(run, gates), *self._in_registers(run)])

    def idle_barriers(self) -> frozenset[int]:
        """The barriers outside of loops at which nothing has to have retired, by gap.

        Those at which all groups meet go together, and stay if one stands in a loop. Without them
        every demand stands where it stood: at a barrier that is kept.
        """
        needed = set(self._needed)
        while more := {gap for met in self._meetings if needed & {*met} for gap in met} - needed:
            needed |= more
        return frozenset({gap for met in self._meetings for gap in met} - needed)

    def _touched(self, work: Work) -> _Accesses:
        """What a step touches of resources; memory is none."""
        found = _Accesses()
        fills = found.fills if work.counter else []
        for accesses, lds, registers in (
            ((*work.reads, *work.accumulates), found.lds_reads, found.reads),
            ((*work.writes, *work.accumulates), found.lds_writes, fills),
        ):
            for access in accesses:
                is_lds = self._is_lds.get(access.resource)
                if is_lds is not None:
                    (lds if is_lds else registers).append((access.resource, access.copy))
        return found

    def _events(self, walk: Walk) -> Iterator[_Step]:
        """A group's events."""
        for row, passes in walk.starts.items():
            for _, first in passes:
                for number, found in self._steps[walk.group][row]:
                    yield first + number, found

    def _in_lds(self, run: Run, gates: Gates) -> Iterator[OrderDemand]:
        """What must be filled, or read, everywhere before a step that touches LDS.

        All steps between the same two barriers ask for the same. Of what one queue counts, the last
        is enough.
        """
        last: dict[tuple[bool, Copy, int | None], dict[tuple[int, str | None], int]] = {}
        asked: dict[tuple[bool, Copy, int | None, int], int] = {}
        for walk in run.walks:
            for number, found in self._events(walk):
                if not found.lds_reads and not found.lds_writes:
                    continue
                event, epoch = run.events[number], gates.issue_epoch[number]
                queue, i = (walk.group, event.work.counter), event.iteration
                for copy in found.lds_reads:
                    last.setdefault((True, copy, i), {})[queue] = number
                    asked.setdefault((False, copy, i, epoch), number)
                for copy in found.lds_writes:
                    last.setdefault((False, copy, i), {})[queue] = number
                    if i is not None:
                        asked.setdefault((True, copy, i - self._copies[copy[0]], epoch), number)
        for (reads, copy, i, epoch), number in asked.items():
            there = last.get((reads, copy, i)) or last.get((reads, copy, None), {})
            for (group, _), first in there.items():
                if gates.issue_epoch[first] >= epoch:
                    raise _unseparated(run.events[first].work, run.events[number].work)
                self._needed.add(gates.by_group[group][epoch - 1].slot // 2)
                yield OrderDemand(first, number, False)

    def _in_registers(self, run: Run) -> Iterator[OrderDemand]:
        """The loads of a register before its first use; later ones find it done."""
        for walk in run.walks:
            pending: dict[Copy, list[int]] = {}
            fresh: set[Copy] = set()
            for number, found in self._events(walk):
                for copy in found.reads:
                    if copy in fresh:
                        fresh.discard(copy)
                        for first in pending[copy]:
                            yield OrderDemand(first, number, True)
                for copy in found.fills:
                    i, kept = run.events[number].iteration, pending.get(copy, ())
                    parts = [n for n in kept if run.events[n].iteration == i]
                    pending[copy] = [*parts, number]
                    fresh.add(copy)


def _unseparated(first: Work, second: Work) -> OrderError:
    return OrderError(
        f"no barrier stands between {first.label} and {second.label}",
        hint="more barriers, or an earlier start",
    )
