"""A recorded run on the simulator's machine: every loop as the instruction streams of its waves.

Each wave has its own path, so waves may run different code. Of a loop the trips that repeat are
taken (``period`` of them where buffers rotate), and become the loop of a ``WaveProgram``; what the
wave executed before and after is around it, so that waves enter the loop as far apart as they do.
Waves that are in another loop meanwhile, as producers and consumers are, run that one: the trips
of all are repeated until every wave meets as many barriers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.errors import ConfigError
from pipeloom.judge.check.record import GroupRecord, WaveTrace
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.check.trip_counts import LoopRun, loop_runs
from pipeloom.judge.emulate import LaneAccess
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.simulate import WaveOp, WaveProgram, bank_conflict
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import Target
from pipeloom.machine_code.lowering import (
    MachineLine,
    lower_line,
    named_counts,
    read_step,
    values_of,
    with_values,
)
from pipeloom.machine_code.pressure import live_counts

MOST_PERIOD = 8
"""Trips after which a loop repeats, at most; of one that does not, all trips are one period."""
MOST_AROUND = 4000
"""Instructions of a wave before the loop, and after it, that are simulated with it."""


_Times = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RecordedLoop:
    """One loop, ready to be simulated. ``head`` and ``tail`` are positions in the program.

    An iteration of the programs is ``trips_per_iteration`` trips of the loop; a run of the kernel
    made ``trips`` of them at most. ``left_out`` are waves that are in no loop meanwhile. Without a
    loop, ``trips`` is 0 and the programs are the whole run. ``instructions`` are those of all waves
    in one iteration; of a loop that has more than was asked for there are no programs.
    """

    head: int
    tail: int
    trips: int
    trips_per_iteration: int
    waves: tuple[int, ...]
    programs: tuple[WaveProgram, ...]
    left_out: tuple[int, ...] = ()
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    """The part of a wave's path that repeats: times [start, stop), of ``trips`` trips each."""

    start: int
    stop: int
    end: int
    trips: int


class RecordedKernel:
    """The instructions of a recorded workgroup, lowered once each.

    ``sync`` gives waits and barriers other counts than the program's own, or leaves them out.
    """

    def __init__(
        self,
        program: Sequence[MicroOp],
        record: GroupRecord,
        machine: Target,
        sync: SyncPlan | None = None,
    ) -> None:
        self.program, self.record, self.machine = program, record, machine
        self.paths = [wave.path() for wave in self.record.waves]
        executed = sorted({at for wave in self.record.waves for at in wave.steps})
        self.lines: Mapping[int, MachineLine] = {at: read_step(program[at]) for at in executed}
        self._gone = frozenset(at for at in executed if self.lines[at].name == "s_endpgm")
        if sync is not None:
            self._gone |= _left_out(self.lines, sync)
            self.lines = {at: _with_counts(line, sync, at) for at, line in self.lines.items()}
        self._values = values_of(self.lines)
        self._lowered: dict[tuple[int, bool, float, int], WaveOp] = {}
        self._conflicts: dict[tuple[int, int], float] = {}
        barriers = [
            at
            for at, line in self.lines.items()
            if line.name == "s_barrier" and at not in self._gone
        ]
        self._barrier_times = [np.flatnonzero(np.isin(path, barriers)) for path in self.paths]

    def loops(self, most: int | None = None) -> tuple[RecordedLoop, ...]:
        """Every loop that some wave went through, the one with most work first.

        One that the launch went round only once counts too: where a branch could have gone back.
        A loop without repetition is as long as its run, and waves whose trips have different
        numbers of barriers repeat them until they agree: an iteration of more than ``most``
        instructions gets no programs.
        """
        runs = [loop_runs(path) for path in self.paths]
        known = {run.head for one in runs for run in one}
        edges = {
            head: tail for head, tail in _back_edges(self.program).items() if head not in known
        }
        runs = [one + _single(path, edges) for one, path in zip(runs, self.paths, strict=True)]
        heads = sorted({run.head for one in runs for run in one})
        found = [self._loop(head, runs, most) for head in heads]
        return tuple(sorted(found, key=lambda loop: self._work(loop, runs), reverse=True))

    def whole(self) -> RecordedLoop:
        """The whole run, for a kernel without a loop."""
        waves = range(len(self.paths))
        programs = [self._program(w, (0, len(self.paths[w])), (0, 0), (0, 0)) for w in waves]
        last = max(self.lines)
        length = sum(map(len, self.paths))
        return RecordedLoop(0, last, 0, 0, tuple(waves), _grouped(programs), (), length)

    @property
    def _simds(self) -> int:
        return self.machine.simds.value

    def _work(self, loop: RecordedLoop, runs: Sequence[Sequence[LoopRun]]) -> tuple[int, int]:
        """Matrix instructions and instructions of all trips; of an outer loop, only its own."""
        wave = loop.waves[0]
        own = np.zeros(len(self.paths[wave]), np.bool_)
        for run in runs[wave]:
            if run.head == loop.head:
                own[run.starts[0] : run.end] = True
        for run in runs[wave]:
            if run.head != loop.head and loop.head <= run.head <= loop.tail:
                own[run.starts[0] : run.end] = False
        matrix = [at for at, line in self.lines.items() if "mfma" in line.name]
        mine = self.paths[wave][own]
        return int(np.isin(mine, matrix).sum()), len(mine)

    def _loop(self, head: int, runs: Sequence[Sequence[LoopRun]], most: int | None) -> RecordedLoop:
        mine = [max((r for r in one if r.head == head), key=_length, default=None) for one in runs]
        first = next(n for n, run in enumerate(mine) if run is not None)
        chosen = mine[first]
        assert chosen is not None
        window = self._barriers(first, chosen.starts[0]), self._barriers(first, chosen.end)
        spans: dict[int, _Span] = {}
        for wave, run in enumerate(mine):
            run = self._meanwhile(wave, runs[wave], window) if run is None else run
            if run is not None:
                spans[wave] = self._span(wave, run)
        met = {
            wave: self._barriers(wave, span.stop) - self._barriers(wave, span.start)
            for wave, span in spans.items()
        }
        barriers = math.lcm(*(count for count in met.values() if count), 1)
        times = {wave: barriers // count if count else 1 for wave, count in met.items()}
        length = sum((span.stop - span.start) * times[wave] for wave, span in spans.items())
        short = most is None or length <= most
        programs = self._programs(spans, times) if short else ()
        tail = int(self.paths[first][chosen.starts[0] : chosen.end].max())
        return RecordedLoop(
            head,
            tail,
            len(chosen.starts),
            spans[first].trips * times[first],
            tuple(spans),
            programs,
            tuple(wave for wave in range(len(runs)) if wave not in spans),
            length,
        )

    def _programs(
        self, spans: Mapping[int, _Span], times: Mapping[int, int]
    ) -> tuple[WaveProgram, ...]:
        skipped = self._skipped(spans)
        return _grouped(
            [
                self._program(
                    wave,
                    (skipped[wave], span.start),
                    (span.start, span.stop),
                    (span.end, span.end + MOST_AROUND),
                    times[wave],
                )
                for wave, span in spans.items()
            ]
        )

    def _skipped(self, spans: Mapping[int, _Span]) -> dict[int, int]:
        """Where the simulation of each wave begins: all at the same barrier, if not at the start.

        Waves that a barrier more or less sets apart before the loop stay apart.
        """
        if max(span.start for span in spans.values()) <= MOST_AROUND:
            return dict.fromkeys(spans, 0)
        cut = 0
        least = min(self._barriers(wave, span.start) for wave, span in spans.items())
        for barrier in range(least, 0, -1):
            cut = barrier
            starts = {wave: int(self._barrier_times[wave][barrier - 1]) + 1 for wave in spans}
            if all(spans[wave].start - start >= MOST_AROUND // 4 for wave, start in starts.items()):
                break
        if not cut:
            return {wave: max(span.start - MOST_AROUND, 0) for wave, span in spans.items()}
        return {wave: int(self._barrier_times[wave][cut - 1]) + 1 for wave in spans}

    def _meanwhile(
        self, wave: int, runs: Sequence[LoopRun], window: tuple[int, int]
    ) -> LoopRun | None:
        """The loop in which a wave meets most of the barriers of ``window``."""

        def shared(run: LoopRun) -> int:
            begin, end = self._barriers(wave, run.starts[0]), self._barriers(wave, run.end)
            return min(end, window[1]) - max(begin, window[0])

        best = max(runs, key=lambda run: (shared(run), _length(run)), default=None)
        return best if best is not None and shared(best) > 0 else None

    def _span(self, wave: int, run: LoopRun) -> _Span:
        """The trips that repeat: the first period of the longest repetition."""
        path = self.paths[wave]
        names: dict[bytes, int] = {}
        trips = [
            names.setdefault(path[run.trip(n)].tobytes(), len(names))
            for n in range(len(run.starts))
        ]
        count = len(trips)
        for period in range(1, min(MOST_PERIOD, count // 2) + 1):
            first, best, begin = 0, 0, 0
            for at in range(count - period):
                if trips[at] != trips[at + period]:
                    begin = at + 1
                elif at + 1 - begin > best:
                    first, best = begin, at + 1 - begin
            if best + period >= max(count // 2, 2 * period):
                start, stop = run.trip(first).start, run.trip(first + period - 1).stop
                return _Span(start, stop, run.end, period)
        return _Span(run.starts[0], run.end, run.end, count)

    # --- instructions ----------------------------------------------------------------------------

    def _barriers(self, wave: int, time: int) -> int:
        """Barriers of a wave before ``time``."""
        return int(np.searchsorted(self._barrier_times[wave], time))

    def _program(
        self, wave: int, before: _Times, loop: _Times, after: _Times, times: int = 1
    ) -> WaveProgram:
        path = self.record.waves[wave].steps
        parts = [
            [t for t in range(start, min(stop, len(path))) if path[t] not in self._gone]
            for start, stop in (before, loop, after)
        ]
        live = live_counts([[path[t] for t in part] for part in parts], self.lines)
        first, body, last = (
            tuple(self._instruction(wave, t, n) for t, n in zip(part, counts, strict=True))
            for part, counts in zip(parts, live, strict=True)
        )
        return WaveProgram(wave % self._simds, body * times, first, last)

    def _instruction(self, wave: int, time: int, live: int) -> WaveOp:
        path = self.record.waves[wave].steps
        at = path[time]
        jumped = time + 1 < len(path) and path[time + 1] != at + 1
        conflict = self._conflict(wave, at)
        key = at, jumped, conflict, live
        found = self._lowered.get(key)
        if found is None:
            line = self.lines[at]
            found = lower_line(line, self.machine, jumped=jumped, conflict=conflict)
            found = with_values(found, self._values[at])
            found = self._lowered[key] = replace(found, label=line.text, entry=at, live=live)
        return found

    def _conflict(self, wave: int, at: int) -> float:
        if not self.lines[at].name.startswith("ds_"):
            return 1.0
        key = wave, at
        if key not in self._conflicts:
            self._conflicts[key] = _bank_conflict(self.record.waves[wave], at, self.machine)
        return self._conflicts[key]


def _left_out(lines: Mapping[int, MachineLine], sync: SyncPlan) -> frozenset[int]:
    """Waits for nothing and barriers that are not in ``sync``: a kernel without them has none."""
    return frozenset(
        at
        for at, line in lines.items()
        if (line.name == "s_barrier" and at not in sync.barriers)
        or (at in sync.waits and not sync.waits[at].waits)
    )


def _with_counts(line: MachineLine, sync: SyncPlan, at: int) -> MachineLine:
    if at not in sync.waits:
        return line
    counts = sync.waits[at]
    return replace(line, counts=named_counts(counts), text=counts.text())


def _back_edges(program: Sequence[MicroOp]) -> dict[int, int]:
    """Where branches go back to -> the last of these branches, as positions."""
    positions = {step.instruction.pc: at for at, step in enumerate(program)}
    found: dict[int, int] = {}
    for at, step in enumerate(program):
        target = step.instruction.target
        head = None if target is None else positions.get(target)
        if head is not None and head <= at:
            found[head] = at
    return found


def _single(path: Places, edges: Mapping[int, int]) -> list[LoopRun]:
    """The times that a path goes through a loop once."""
    found = []
    for head, tail in edges.items():
        outside = np.append(np.flatnonzero((path < head) | (path > tail)), len(path))
        for start in np.flatnonzero(path == head).tolist():
            end = int(outside[np.searchsorted(outside, start)])
            found.append(LoopRun(head, (start,), end))
    return found


def _length(run: LoopRun) -> int:
    return len(run.starts)


def _grouped(programs: Sequence[WaveProgram]) -> tuple[WaveProgram, ...]:
    """Waves on the same path form a group, numbered by their first wave."""
    known: dict[tuple[WaveOp, ...], int] = {}
    return tuple(
        replace(one, group=known.setdefault(one.prologue + one.loop, len(known)))
        for one in programs
    )


def _bank_conflict(wave: WaveTrace, at: int, machine: Target) -> float:
    """The mean over the parts of an access; 1 where the chip's phases are not known."""
    found = [_of_touch(touch, machine) for touch in wave.local.get(at, ())]
    known = [conflict for conflict in found if conflict is not None]
    return sum(known) / len(known) if known else 1.0


def _of_touch(touch: LaneAccess, machine: Target) -> float | None:
    if not touch.lanes.size or touch.lanes.size > WAVE_LANES:
        return None
    # A lane that takes no part wants what the first one does, which costs nothing.
    addresses = [int(touch.addresses[0])] * WAVE_LANES
    for lane, address in zip(touch.lanes.tolist(), touch.addresses.tolist(), strict=True):
        addresses[lane] = address
    try:
        return bank_conflict(addresses, touch.size, machine)
    except ConfigError:
        return None
