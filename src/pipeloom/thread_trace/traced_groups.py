"""The waves of a compute unit as programs: what each really executed, cut at its main loop.

A trace tells which instructions a wave executed, so no emulation is needed to know its path. The
main loop of a wave is the one with most matrix instructions. Its longest row of equal trips becomes
the loop of a ``WaveProgram``, what stands before and behind it is around it. Of waves that made
unlike numbers of such trips, the least number counts, and further trips stand behind the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeloom.errors import ConfigError
from pipeloom.judge.check.trip_counts import LoopRun, loop_runs
from pipeloom.judge.simulate import WaveOp, WaveProgram
from pipeloom.machine.target import Target
from pipeloom.machine_code.lowering import (
    MachineLine,
    lower_line,
    read_text_line,
    values_of,
    with_values,
)
from pipeloom.thread_trace.code_table import CodeTable
from pipeloom.thread_trace.wave_file import CATEGORY, JUMP, LINE, WaveRecord

SECTION = "code"
APART = 2000
"""Cycles between the begins of two waves from which they are not of one workgroup: the dispatcher
starts the waves of one within some hundred."""
_ENDS = ("s_endpgm", "s_endpgm_saved")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TracedGroup:
    """Waves of one compute unit that began together, with their programs.

    ``cuts[w]`` are the first record of each trip of wave w and of what stands behind the loop.
    """

    waves: tuple[WaveRecord, ...]
    programs: tuple[WaveProgram, ...]
    iterations: int
    cuts: tuple[tuple[int, ...], ...]
    paths: tuple[tuple[int, ...], ...]
    """Line numbers in order, without the end of the program."""


def traced_groups(
    waves: Sequence[WaveRecord], code: CodeTable, machine: Target
) -> tuple[TracedGroup, ...]:
    """Every group of waves, in order of engine, unit and time."""
    executed = {int(n) for wave in waves for n in np.unique(wave.instructions[:, LINE])}
    by_line = {n: wave.file for wave in waves for n in wave.instructions[:, LINE].tolist()}
    rows = {n: code.row(n, by_line[n]) for n in sorted(executed)}
    lines = {n: read_text_line(row.text, machine) for n, row in rows.items()}
    found = []
    for members in _together(waves):
        group = _GroupCutter(members, code, lines, machine).group()
        if group is not None:
            found.append(group)
    if not found:
        raise ConfigError(
            "the trace has no instructions",
            hint="trace another compute unit with --att-target-cu",
            field="measured",
        )
    return tuple(found)


def _together(waves: Sequence[WaveRecord]) -> list[list[WaveRecord]]:
    found: list[list[WaveRecord]] = []
    for wave in sorted(waves, key=lambda w: (w.engine, w.cu, w.begin, w.simd, w.slot, w.number)):
        last = found[-1][-1] if found else None
        same = last is not None and (last.engine, last.cu) == (wave.engine, wave.cu)
        if last is not None and same and wave.begin - last.begin <= APART:
            found[-1].append(wave)
        else:
            found.append([wave])
    return [sorted(one, key=lambda w: (w.slot, w.simd, w.number)) for one in found]


class _GroupCutter:
    """The paths of a group's waves, their loop, and the instructions of both."""

    def __init__(
        self,
        waves: Sequence[WaveRecord],
        code: CodeTable,
        lines: Mapping[int, MachineLine],
        machine: Target,
    ) -> None:
        self._code, self._lines, self._machine = code, lines, machine
        kept = [(wave, _path(wave, lines)) for wave in waves]
        self._waves = [wave for wave, path in kept if path]
        self._paths = [path for _, path in kept if path]
        self._values = values_of(lines)
        self._lowered: dict[tuple[int, bool], WaveOp] = {}

    def group(self) -> TracedGroup | None:
        if not self._waves:
            return None
        spans = [_repeated(path, self._main_loop(path)) for path in self._paths]
        trips = min(len(span) - 1 for span in spans)
        if trips < 1:
            spans, trips = [[len(path)] for path in self._paths], 0
        cuts = [tuple(span[: trips + 1]) for span in spans]
        programs = [
            self._program(wave, path, cut)
            for wave, path, cut in zip(self._waves, self._paths, cuts, strict=True)
        ]
        known: dict[tuple[WaveOp, ...], int] = {}
        numbered = tuple(
            replace(one, group=known.setdefault(one.prologue + one.loop, len(known)))
            for one in programs
        )
        paths = tuple(map(tuple, self._paths))
        return TracedGroup(tuple(self._waves), numbered, trips, tuple(cuts), paths)

    def _main_loop(self, path: Sequence[int]) -> int:
        """The first line of the loop with most matrix instructions, then most instructions."""
        work: dict[int, tuple[int, int]] = {}
        matrix = np.array(["mfma" in self._lines[n].name for n in path])
        runs = loop_runs(np.array(path, np.int64))
        for run in runs:
            own = np.zeros(len(path), np.bool_)
            own[run.starts[0] : run.end] = True
            for other in runs:
                if _inside(other, run):
                    own[other.starts[0] : other.end] = False
            have = work.get(run.head, (0, 0))
            work[run.head] = have[0] + int(matrix[own].sum()), have[1] + int(own.sum())
        return max(work, key=lambda head: (*work[head], -head), default=-1)

    def _program(self, wave: WaveRecord, path: Sequence[int], cut: Sequence[int]) -> WaveProgram:
        simds = self._machine.simds.value
        if wave.simd >= simds:
            raise ConfigError(
                f"{wave.file.name}: SIMD {wave.simd}, but {self._machine.arch} has {simds}",
                hint="name the chip of the trace with --arch",
                field="measured",
            )
        ops = [self._instruction(wave, path, at) for at in range(len(path))]
        first, last = cut[0], cut[-1]
        body = tuple(ops[first : cut[1]]) if len(cut) > 1 else ()
        return WaveProgram(wave.simd, body, tuple(ops[:first]), tuple(ops[last:]))

    def _instruction(self, wave: WaveRecord, path: Sequence[int], at: int) -> WaveOp:
        number = path[at]
        jumped = bool(wave.instructions[at, CATEGORY] == JUMP)
        if at + 1 < len(path):
            jumped = path[at + 1] != self._code.next_of.get(number)
        key = number, jumped
        if key not in self._lowered:
            line = self._lines[number]
            found = with_values(
                lower_line(line, self._machine, jumped=jumped), self._values[number]
            )
            self._lowered[key] = replace(found, label=line.text, section=SECTION, entry=number)
        return self._lowered[key]


def _path(wave: WaveRecord, lines: Mapping[int, MachineLine]) -> list[int]:
    path: list[int] = wave.instructions[:, LINE].tolist()
    while path and lines[path[-1]].name in _ENDS:
        path.pop()
    return path


def _inside(inner: LoopRun, outer: LoopRun) -> bool:
    return (
        inner.head != outer.head and outer.starts[0] <= inner.starts[0] and inner.end <= outer.end
    )


def _repeated(path: Sequence[int], head: int) -> list[int]:
    """Where the trips of the longest row of equal ones begin, and where the last ends."""
    column = np.array(path, np.int64)
    best: list[int] = []
    for run in loop_runs(column):
        if run.head != head:
            continue
        trips = [column[run.trip(n)].tobytes() for n in range(len(run.starts))]
        begin = 0
        for at in range(1, len(trips) + 1):
            if at == len(trips) or trips[at] != trips[begin]:
                if at - begin > max(len(best) - 1, 0):
                    best = [run.starts[n] for n in range(begin, at)] + [run.trip(at - 1).stop]
                begin = at
    return best or [len(path)]
