"""The verdict on a recorded run: findings from the pairs, from the emulator, and from the code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from pipeloom.judge.check.nominal import nominal_margins
from pipeloom.judge.check.pairs import Pairs
from pipeloom.judge.check.prepared import GroupStudy, Prepared
from pipeloom.judge.check.record import Recorder, WaveTrace
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.check.story import KINDS, Lines, PairStory, site
from pipeloom.judge.check.verdict import (
    CheckFinding,
    CheckKind,
    CheckStatus,
    CheckVerdict,
    LoopCoverage,
    Site,
    UnorderedPair,
)
from pipeloom.judge.check.workgroups import meetings
from pipeloom.judge.emulate import CodeKernel, Defect, DefectKind, Effect, check_hazards
from pipeloom.judge.emulate.ds import UNWRITTEN_LDS
from pipeloom.judge.happens_before.same_defect import same_defect
from pipeloom.machine.wait_rules import Basis

_FROM_EMULATOR = {
    DefectKind.POISON_READ: CheckKind.UNINITIALISED,
    DefectKind.IN_FLIGHT_READ: CheckKind.REGISTER,
    DefectKind.IN_FLIGHT_WRITE: CheckKind.REGISTER,
    DefectKind.OUT_OF_BOUNDS: CheckKind.OUT_OF_BOUNDS,
    DefectKind.INVALID_DESCRIPTOR: CheckKind.DESCRIPTOR,
    DefectKind.BARRIER_MISMATCH: CheckKind.BARRIER,
    DefectKind.TRAP: CheckKind.TRAP,
}
Clock = Callable[[GroupStudy, Pairs], "list[int] | None"]
"""Margins of pairs of a workgroup: cycles from the first's end to the second's start."""
_Key = tuple[int, int, CheckKind]
BY_ATOMICS = "workgroups share global memory and may be ordered by atomics, which is not judged"


def judge_run(
    study: Prepared,
    recorder: Recorder,
    observed: Iterable[Defect],
    lines: Lines,
    *,
    stopped: str = "",
    clock: Clock | None = None,
) -> CheckVerdict:
    """The verdict on what was recorded; ``observed`` are the emulator's own findings.

    ``stopped`` says why the run ended early; without a finding that is NOT JUDGED. ``clock`` gives
    pairs their margins; what it does not know has those of the nominal run.
    """
    kernel = recorder.kernel
    findings = list(_of_pairs(study, lines, clock))
    outside, dead = _outside(study, lines)
    findings += outside
    findings += _observed(study, observed, findings, dead, lines)
    findings = defects(findings)
    between, by_atomics = _between_groups(study, lines)
    if not by_atomics:
        findings += between
    required, customary = _wait_states(kernel, study, lines)
    findings += required
    findings.sort(key=_rank)
    reason = stopped or (BY_ATOMICS if by_atomics and between else "")
    return CheckVerdict(
        kernel.name,
        kernel.arch,
        _status(findings, reason),
        tuple(findings),
        coverage(study),
        reason,
        by_data(study),
        customary=tuple(customary),
        dead=tuple(dead),
        figures={
            "workgroups": len(study.every),
            "waves": sum(len(group.waves) for group in study.every),
            "instructions": sum(len(w.steps) for g in study.every for w in g.waves),
            "pairs": sum(len(group.pairs) for group in study.groups),
        },
    )


def coverage(study: Prepared, sync: SyncPlan | None = None) -> tuple[LoopCoverage, ...]:
    """For which trip counts of each loop a verdict holds, under the kernel's waits or others."""
    return tuple(
        LoopCoverage(
            study.program[claim.head].instruction.pc,
            claim.trips,
            claim.least,
            claim.period,
            claim.reason,
            claim.unlike,
        )
        for claim in study.claims(sync)
    )


def by_data(study: Prepared) -> str:
    """What of the order depends on data in memory; empty where nothing does."""
    for group, flows in zip(study.every, study.flows, strict=True):
        for trace, flow in zip(group.waves, flows, strict=True):
            for time, what in flow.by_data:
                return f"{what} at pc {_pc(study, trace, time):#x} depends on loaded data"
    written = study.written()
    for group, flows in zip(study.every, study.flows, strict=True):
        for access in group.accesses:
            if access.buffer in written and access.time in flows[access.wave].scattered:
                place = f"pc {_pc(study, group.waves[access.wave], access.time):#x}"
                name = written[access.buffer]
                return f"which bytes of {name} are touched at {place} depends on loaded data"
    return ""


def _pc(study: Prepared, trace: WaveTrace, time: int) -> int:
    return study.program[trace.steps[time]].instruction.pc


def _status(findings: list[CheckFinding], reason: str) -> CheckStatus:
    found = {finding.status for finding in findings}
    if CheckStatus.RACE in found:
        return CheckStatus.RACE
    if reason:
        return CheckStatus.NOT_JUDGED
    return CheckStatus.TIMING if CheckStatus.TIMING in found else CheckStatus.PROVED


def _rank(finding: CheckFinding) -> tuple[bool, int, int, str]:
    """The worst first: what is wrong in every run, then the least margin."""
    least = -(1 << 60) if finding.margin is None else finding.margin
    return finding.status is not CheckStatus.RACE, least, finding.second.pc, finding.kind.value


def _of_pairs(study: Prepared, lines: Lines, clock: Clock | None) -> Iterable[CheckFinding]:
    """One finding per pair of instructions that nothing orders, with its tightest instance."""
    best: dict[_Key, tuple[int, int, bool, bool, GroupStudy, list[int]]] = {}
    counts: defaultdict[_Key, int] = defaultdict(int)
    for group, late in zip(study.groups, study.unordered(), strict=True):
        if not late.any():
            continue
        chosen = group.pairs.take(late).oriented()
        nominal = nominal_margins(chosen, group.record, study.program, study.sync, study.arch)
        simulated = None if clock is None else clock(group, chosen)
        margins = nominal if simulated is None else simulated
        paths = [line.path for line in group.order.timelines]
        for row, margin, by_latency in zip(chosen.rows().tolist(), margins, nominal, strict=True):
            v, x, w, y, kind = row[:5]
            key = int(paths[v][x]), int(paths[w][y]), KINDS[kind]
            counts[key] += 1
            old = best.get(key)
            meets = min(margin, by_latency) <= 0 or (old is not None and old[2])
            if old is None or (margin, x + y) < old[:2]:
                best[key] = margin, x + y, meets, simulated is None, group, row
            elif meets:
                best[key] = *old[:2], meets, *old[3:]
    for key, (margin, _, meets, by_nominal, group, row) in best.items():
        story = PairStory(study, group, row, lines)
        yield CheckFinding(
            KINDS[story.kind],
            CheckStatus.RACE if meets else CheckStatus.TIMING,
            story.second,
            story.why(),
            story.first,
            story.where(),
            margin,
            by_nominal,
            group.record.place,
            counts[key],
            story=story.lines(),
        )


def defects(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """One finding per defect: pairs that share an instruction lack the same wait or barrier, and so
    do loads that the same wait comes too late for.

    Without one barrier every read before it is unordered with every write behind it. Of such pairs
    the one with the least margin speaks for all, and the others stand under it.
    """
    ranked = sorted(findings, key=_rank)
    alone = [one for one in ranked if one.first is None or one.kind not in KINDS.values()]
    pairs = [one for one in ranked if one.first is not None and one.kind in KINDS.values()]
    return alone + [_lead(sorted(group, key=_rank)) for group in same_defect(pairs, _ends)]


def _ends(finding: CheckFinding) -> list[tuple[object, ...]]:
    """What makes two pairs one defect: either instruction, or the wait that comes too late."""
    assert finding.first is not None
    ends: list[tuple[object, ...]] = [
        (finding.kind, "first", finding.first.pc),
        (finding.kind, "second", finding.second.pc),
    ]
    if finding.kind is CheckKind.REGISTER and len(finding.story) > 2:
        ends.append((finding.kind, "wait", finding.story[-1].pc))
    return ends


def _lead(group: list[CheckFinding]) -> CheckFinding:
    first, *rest = group
    return replace(
        first,
        others=tuple(
            UnorderedPair(one.first, one.second, one.margin, one.instances)
            for one in rest
            if one.first is not None
        ),
    )


def _outside(study: Prepared, lines: Lines) -> tuple[list[CheckFinding], list[CheckFinding]]:
    """Global accesses outside every buffer: those that matter, and those whose data do not."""
    found: dict[tuple[int, bool], CheckFinding] = {}
    for group in study.groups:
        landed = _landed(group)
        for wave, flow in zip(group.record.waves, group.flows, strict=True):
            loads = {time for time, *_ in wave.loads}
            for time, effect, where in wave.outside:
                at = wave.steps[time]
                dead = effect is Effect.READ and (
                    time in flow.dead if time in loads else (wave.index, time) not in landed
                )
                found.setdefault(
                    (at, dead),
                    CheckFinding(
                        CheckKind.OUT_OF_BOUNDS,
                        CheckStatus.RACE,
                        site(study.program[at], lines, wave.index),
                        f"{effect.value} at {where}",
                        where="global memory",
                        workgroup=group.record.place,
                    ),
                )
    return (
        [finding for (_, dead), finding in found.items() if not dead],
        [finding for (_, dead), finding in found.items() if dead],
    )


def _landed(group: GroupStudy) -> set[tuple[int, int]]:
    """(wave, time) of writes that some live read may see."""
    pairs = group.pairs
    raw = np.flatnonzero(pairs.kind == 0)
    return set(zip(pairs.first_wave[raw].tolist(), pairs.first_time[raw].tolist(), strict=True))


def _observed(
    study: Prepared,
    observed: Iterable[Defect],
    known: list[CheckFinding],
    dead: list[CheckFinding],
    lines: Lines,
) -> Iterable[CheckFinding]:
    """What the run itself found, but for what the pairs already say."""
    positions = {step.instruction.pc: step for step in study.program}
    paired = {(f.first.pc, f.second.pc) for f in known if f.first is not None}
    strayed = {f.second.pc for f in (*known, *dead) if f.kind is CheckKind.OUT_OF_BOUNDS}
    early = any(f.kind is CheckKind.RAW for f in known)
    for finding in observed:
        if early and UNWRITTEN_LDS in finding.message:
            # A read that came too early in this run: the race is what is wrong.
            continue
        kind = _FROM_EMULATOR.get(finding.kind)
        if kind is None or (finding.cause_pc, finding.pc) in paired:
            continue
        if kind is CheckKind.OUT_OF_BOUNDS and finding.pc in strayed:
            continue
        cause = None if finding.cause_pc is None else positions[finding.cause_pc]
        yield CheckFinding(
            kind,
            CheckStatus.RACE,
            site(positions[finding.pc], lines, finding.wave),
            finding.message,
            None if cause is None else site(cause, lines, finding.wave),
            workgroup=finding.workgroup,
        )


def _between_groups(study: Prepared, lines: Lines) -> tuple[list[CheckFinding], bool]:
    found, by_atomics = meetings(study.every, study.flows)
    findings = []
    for meeting in found:
        groups = study.every[meeting.first_group], study.every[meeting.second_group]
        sites = [
            site(study.program[group.waves[one.wave].steps[one.time]], lines, one.wave)
            for group, one in zip(groups, (meeting.first, meeting.second), strict=True)
        ]
        findings.append(
            CheckFinding(
                CheckKind.WORKGROUPS,
                CheckStatus.RACE,
                sites[1],
                f"workgroup {groups[0].place} {meeting.first.effect.value} and workgroup "
                f"{groups[1].place} {meeting.second.effect.value} the same bytes, in any order",
                sites[0],
                study.place(meeting.buffer, meeting.cell),
                workgroup=groups[1].place,
            )
        )
    return findings, by_atomics


def _wait_states(
    kernel: CodeKernel, study: Prepared, lines: Lines
) -> tuple[list[CheckFinding], list[CheckFinding]]:
    positions = {step.instruction.pc: step for step in study.program}
    required: list[CheckFinding] = []
    customary: list[CheckFinding] = []
    for hazard in check_hazards(kernel):
        step = positions.get(hazard.pc)
        place = Site(hazard.pc, hazard.instruction) if step is None else site(step, lines)
        finding = CheckFinding(
            CheckKind.WAIT_STATES,
            CheckStatus.RACE,
            place,
            hazard.message,
            source=hazard.source,
        )
        fails = hazard.missing > 0 and hazard.basis is Basis.REQUIRED
        (required if fails else customary).append(finding)
    return required, customary
