"""By how many cycles a simulated machine keeps unordered accesses apart, at the least.

    verdict_of(program)                 # with margins beside its findings
    lay_margins(program, verdict)       # beside the findings that somebody has already

``recorded_margins`` has those of a recorded workgroup.

The nominal clock gives every load one latency, so loads that are issued together land together and
their order never turns. The simulator has queues, bandwidth and barriers, and each run but the
first stretches every global access by a random share of up to its whole latency. The margin is the
least of all runs; the other workgroups of a compute unit are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeloom.errors import ScheduleError
from pipeloom.judge.happens_before.nominal_clock import Window, margin
from pipeloom.judge.simulate import Kind, Trace, WaveProgram, simulate_programs
from pipeloom.judge.simulate.issued import wave_programs
from pipeloom.judge.verify import verify
from pipeloom.judge.verify.findings import Finding, FindingKind, Status, StepPlace, Verdict
from pipeloom.machine.target import Target
from pipeloom.program import VOCABULARY, Program, Vocabulary

RUNS = ((0.0, 0), *((1.0, seed) for seed in range(6)))
"""(jitter, seed) of each simulated run."""
BUDGET = 400_000
"""Instructions of all runs together; a run that is longer by itself has nominal margins only."""


def traces(
    programs: Sequence[WaveProgram], machine: Target, trips: int, length: int
) -> Iterable[Trace]:
    """As many runs as the budget has room for."""
    for jitter, seed in RUNS[: BUDGET // max(length, 1)]:
        yield simulate_programs(programs, machine, trips, jitter=jitter, seed=seed)


_Place = tuple[int, str, int, int | None]
"""Wave, section, slot, trip."""


def verdict_of(
    program: Program, *, ops: Vocabulary = VOCABULARY, counter_stall: bool | None = None
) -> Verdict:
    """What every command says of a program, and what decides whether it is emitted.

    Args:
        program: What to judge.
        ops: Every op that it uses.
        counter_stall: That of ``judge.verify.verify``.
    """
    return lay_margins(program, verify(program, counter_stall=counter_stall, ops=ops))


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
            for trace in traces(programs, program.target, trips, length):
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
    places = [_places(program) for program in trace.programs]
    for event in trace.events:
        served = places[event.wave][event.position]
        if served is None:
            continue
        section, entry, repeated = served
        place = event.wave, section, entry, event.iteration if repeated else None
        start, done = event.start, event.done
        old = found.get(place)
        if old is None:
            found[place] = Window(start, done, done)
        elif start < old.issue or not old.first_done <= done <= old.last_done:
            found[place] = Window(
                min(old.issue, start), min(old.first_done, done), max(old.last_done, done)
            )
    return found


def _places(program: WaveProgram) -> list[tuple[str, int, bool] | None]:
    """By position in a wave's program: the step that it serves, and whether in the loop."""
    return [
        # addresses are no accesses
        None if one.entry is None or one.kind is Kind.SALU else (one.section, one.entry, repeated)
        for part, repeated in (
            (program.prologue, False),
            (program.loop, True),
            (program.epilogue, False),
        )
        for one in part
    ]


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
