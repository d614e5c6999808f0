"""By how many cycles a simulated machine keeps unordered accesses apart, at the least.

    clock = SimulatedClock(study.program, study.arch)
    clock(group, pairs)                 # a margin for each pair of a recorded workgroup
    lay_margins(program, verdict)       # the same beside the findings of a program

The nominal clock gives every load one latency, so loads that are issued together land together and
their order never turns. The simulator has queues, bandwidth and barriers, and each run but the
first stretches every global access by a random share of up to its whole latency. The margin is the
least of all runs; the other workgroups of a compute unit are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeloom.errors import ScheduleError
from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.prepared import GroupStudy
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.happens_before.nominal_clock import Window, margin
from pipeloom.judge.simulate import Kind, Trace, WaveProgram, simulate_programs
from pipeloom.judge.simulate.issued import wave_programs
from pipeloom.judge.verify.findings import Finding, FindingKind, Status, StepPlace, Verdict
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code.recorded import RecordedKernel
from pipeloom.program import Program

RUNS = ((0.0, 0), *((1.0, seed) for seed in range(6)))
"""(jitter, seed) of each simulated run."""
BUDGET = 400_000
"""Instructions of all runs together; a run that is longer by itself has nominal margins only."""


def _traces(
    programs: Sequence[WaveProgram], machine: Target, trips: int, length: int
) -> Iterable[Trace]:
    """As many runs as the budget has room for."""
    for jitter, seed in RUNS[: BUDGET // max(length, 1)]:
        yield simulate_programs(programs, machine, trips, jitter=jitter, seed=seed)


class SimulatedClock:
    """Margins of the pairs of recorded workgroups."""

    def __init__(self, program: Sequence[MicroOp], arch: str) -> None:
        self._program, self._machine = program, target_for(arch)

    def __call__(self, group: GroupStudy, pairs: Pairs) -> list[int] | None:
        """A margin for each pair; None where the run is too long, or is none of the model's."""
        length = sum(len(wave.steps) for wave in group.record.waves)
        if length > BUDGET:
            return None
        rows = pairs.rows().tolist()
        best: list[int] | None = None
        try:
            whole = RecordedKernel(self._program, group.record, self._machine).whole()
            for trace in _traces(whole.programs, self._machine, 0, length):
                at = {
                    (one.wave, one.position): Window(one.start, one.done, one.done)
                    for one in trace.events
                }
                found = [
                    margin(at[v, x], at[w, y], second_writes=kind in (Conflict.WAR, Conflict.WAW))
                    for v, x, w, y, kind, *_ in rows
                ]
                best = found if best is None else list(map(min, best, found))
        except (ScheduleError, KeyError):
            return None
        return best


_Place = tuple[int, str, int, int | None]
"""Wave, section, slot, trip."""


def lay_margins(program: Program, verdict: Verdict) -> Verdict:
    """The verdict with simulated margins beside its findings, the least first.

    A pair that meets in simulation is a RACE, whatever the nominal latencies say. A program whose
    steps name no instructions cannot be simulated, and keeps its verdict.
    """
    asked = [f for f in verdict.findings if _is_timed(f)]
    if not asked:
        return verdict
    least: dict[int, int] = {}
    try:
        programs = wave_programs(program)
        for trips in sorted({finding.trips for finding in asked}):
            mine = [f for f in asked if f.trips == trips]
            length = sum(
                len(one.prologue) + len(one.epilogue) + trips * len(one.loop) for one in programs
            )
            for trace in _traces(programs, program.target, trips, length):
                windows = _windows(trace)
                for finding in mine:
                    found = _margin(finding, windows)
                    if found is not None:
                        least[id(finding)] = min(least.get(id(finding), found), found)
    except ScheduleError:
        return verdict
    kinds = list(dict.fromkeys(finding.kind for finding in verdict.findings))
    findings = sorted(
        (_with(finding, least.get(id(finding))) for finding in verdict.findings),
        key=lambda f: (-f.status.rank, kinds.index(f.kind), _least(f)),
    )
    worst = max((f.status for f in findings), key=lambda status: status.rank)
    status = worst if worst.rank > verdict.status.rank else verdict.status
    return replace(verdict, status=status, findings=tuple(findings))


def _is_timed(finding: Finding) -> bool:
    pairs = (FindingKind.RAW, FindingKind.WAR, FindingKind.REGISTER)
    return finding.kind in pairs and finding.first is not None


def _with(finding: Finding, least: int | None) -> Finding:
    if least is None:
        return finding
    status = Status.RACE if least <= 0 and finding.status is Status.TIMING else finding.status
    return replace(finding, status=status, simulated=least)


def _least(finding: Finding) -> int:
    known = finding.margin if finding.simulated is None else finding.simulated
    return -(1 << 30) if known is None else known


def _windows(trace: Trace) -> dict[_Place, Window]:
    """When each step was issued, and when its first and last access was done."""
    found: dict[_Place, Window] = {}
    for event in trace.events:
        program = trace.programs[event.wave]
        before, body = len(program.prologue), len(program.loop)
        if event.position < before:
            one, trip = program.prologue[event.position], None
        elif event.position < before + body:
            one, trip = program.loop[event.position - before], event.iteration
        else:
            one, trip = program.epilogue[event.position - before - body], None
        if one.entry is None or one.kind is Kind.SALU:  # addresses are no accesses
            continue
        place = event.wave, one.section, one.entry, trip
        old = found.get(place, Window(event.start, event.done, event.done))
        found[place] = Window(
            min(old.issue, event.start),
            min(old.first_done, event.done),
            max(old.last_done, event.done),
        )
    return found


def _margin(finding: Finding, windows: dict[_Place, Window]) -> int | None:
    """In LDS those waves count that are last with the first step and earliest with the second."""
    assert finding.first is not None
    alone = finding.kind is FindingKind.REGISTER
    first, second = (_all(windows, one, alone) for one in (finding.first, finding.second))
    if first is None or second is None:
        return None
    return margin(first, second, second_writes=finding.kind is FindingKind.WAR)


def _all(windows: dict[_Place, Window], place: StepPlace, alone: bool) -> Window | None:
    """The step of a wave, or of every wave that executes it."""
    key = place.section, place.slot, place.iteration
    waves = (place.wave,) if alone else sorted({wave for wave, *_ in windows})
    found = [windows[wave, *key] for wave in waves if (wave, *key) in windows]
    if not found:
        return None
    return Window(
        min(one.issue for one in found),
        min(one.first_done for one in found),
        max(one.last_done for one in found),
    )
