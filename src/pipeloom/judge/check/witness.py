"""What a proof rests on, as plain data for other checkers: bytes by pc, and why each wait is there.

Another tool can check our verdict from it without running the kernel: every instruction that
touches LDS with the bytes that each wave touches, every wait and barrier that was executed with the
pairs of accesses it orders, and the pairs that nothing orders, if there are any.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.judge.check.pairs import Conflict
from pipeloom.judge.check.prepared import GroupStudy, Prepared
from pipeloom.judge.check.record import LDS
from pipeloom.judge.check.retirement import NEVER
from pipeloom.judge.check.story import KINDS
from pipeloom.judge.check.verdict import CheckVerdict
from pipeloom.judge.emulate.disassembly import instruction_text

FORMAT = "pipeloom-witness-1"

_Reasons = defaultdict[int, dict[tuple[int, int, int], None]]
"""Position of a wait or barrier -> (first, second, kind) of the pairs that it orders."""


def witness(study: Prepared, verdict: CheckVerdict) -> dict[str, Any]:
    """Everything by pc, in ascending order; waves that touch the same bytes share an entry."""
    waits: _Reasons = defaultdict(dict)
    barriers: _Reasons = defaultdict(dict)
    for group in study.groups:
        _reasons(study, group, waits, barriers)
    return {
        "format": FORMAT,
        "kernel": verdict.kernel,
        "arch": verdict.arch,
        "verdict": verdict.status.value,
        "summary": verdict.summary(),
        "lds": _bytes(study),
        "waits": [
            _entry(study, at, waits[at]) for at in sorted(study.sync.waits) if at in study.executed
        ],
        "barriers": [
            _entry(study, at, barriers[at])
            for at in sorted(study.sync.barriers)
            if at in study.executed
        ],
        "unordered": [
            {"first": one.pc, "second": other.pc, "kind": f.kind.value}
            for f in verdict.findings
            if f.first is not None
            for one, other in ((f.first, f.second), *((p.first, p.second) for p in f.others))
        ],
    }


def _entry(study: Prepared, at: int, reasons: dict[tuple[int, int, int], None]) -> dict[str, Any]:
    one = study.program[at].instruction
    return {
        "pc": one.pc,
        "instruction": instruction_text(one),
        "orders": [
            {
                "first": study.program[first].instruction.pc,
                "second": study.program[second].instruction.pc,
                "kind": KINDS[Conflict(kind)].value,
            }
            for first, second, kind in sorted(reasons)
        ],
    }


def _bytes(study: Prepared) -> list[dict[str, Any]]:
    cells: defaultdict[tuple[int, str], defaultdict[int, dict[int, Places]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for group in study.groups:
        for access in group.record.accesses:
            if access.buffer == LDS:
                at = group.record.waves[access.wave].steps[access.time]
                cells[at, access.effect.value][access.wave][access.key] = access.cells
    granule = study.granules[True]
    found = []
    for (at, effect), by_wave in sorted(cells.items()):
        alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for wave, sets in sorted(by_wave.items()):
            spans = _spans(np.unique(np.concatenate(list(sets.values()))), granule)
            alike.setdefault(spans, []).append(wave)
        found.append(
            {
                "pc": study.program[at].instruction.pc,
                "instruction": instruction_text(study.program[at].instruction),
                "effect": effect,
                "touches": [
                    {"waves": waves, "bytes": [list(span) for span in spans]}
                    for spans, waves in alike.items()
                ],
            }
        )
    return found


def _spans(cells: Places, granule: int) -> tuple[tuple[int, int], ...]:
    """[first, last] bytes of each run of cells."""
    breaks = np.flatnonzero(np.diff(cells) > 1)
    firsts = cells[np.r_[0, breaks + 1]] * granule
    lasts = cells[np.r_[breaks, cells.size - 1]] * granule + granule - 1
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _reasons(study: Prepared, group: GroupStudy, waits: _Reasons, barriers: _Reasons) -> None:
    """Pairs by the wait that retires their first, and by the one barrier between the two."""
    pairs, lines = group.pairs, group.order.timelines
    retired = [line.retired(study.sync) for line in lines]
    times: list[Places] = [line.barrier_times(study.sync) for line in lines]
    late = group.order.unordered(study.sync)
    for v, x, w, y, kind, _, _ in pairs.take(~late).rows().tolist():
        key = int(lines[v].path[x]), int(lines[w].path[y]), kind
        end = int(retired[v][x])
        if end != NEVER and end % 2 == 0:
            waits[int(lines[v].path[end // 2])].setdefault(key)
        if v != w:
            epoch = int(np.searchsorted(times[w], 2 * y))
            if int(np.searchsorted(times[v], end)) == epoch - 1:
                barriers[int(lines[w].path[int(times[w][epoch - 1]) // 2])].setdefault(key)
