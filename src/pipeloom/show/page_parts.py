"""What every page has, whatever it is of: the run in figures, its stalls, the verdict's rows.

A page is one plain dictionary; ``assets/types.js`` names its parts for the scripts. What a page
does not have stays as in ``ABSENT``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pipeloom.judge.check.verdict import CheckFinding, CheckVerdict
from pipeloom.judge.simulate.trace import LoopPhase, Trace
from pipeloom.judge.verify.findings import Finding, Verdict
from pipeloom.show.cards import Card
from pipeloom.show.segments import StepStall

ABSENT: Mapping[str, Any] = MappingProxyType(
    {
        "unsimulated": "",
        "nodes": [],
        "assembly": None,
        "unwritten": "",
        "ops": [],
        "edges": [],
        "critical": [],
        "timeline": None,
        "beside": [],
        "verdict": None,
        "estimate": None,
        "knobs": [],
        "notes": [],
    }
)


def whole_page(
    trace: Trace | None,
    stalls: Sequence[StepStall],
    cards: Sequence[Card],
    meta: Mapping[str, Any],
    **own: Any,
) -> dict[str, Any]:
    """A page of a run, if there was one: what its trace tells, and what is its ``own``."""
    told = {
        "sync": "",
        "strategy": "",
        "stream": "",
        "variant": "",
        "machine": "" if trace is None else f"{trace.machine.chip} ({trace.machine.arch})",
        "waves": 0 if trace is None else len(trace.programs),
        "iterations": 0 if trace is None else trace.iterations,
        "cycles": 0 if trace is None else trace.total_cycles,
        "prologue": 0 if trace is None else trace.prologue_cycles,
        "epilogue": 0 if trace is None else trace.epilogue_cycles,
        **meta,
    }
    shares = {} if trace is None else trace.utilisation()
    compared = [("tile", told["shape"]), ("waves", str(told["waves"] or ""))]
    compared += [card.compared for card in cards]
    return {
        **ABSENT,
        "meta": told,
        "headline": [list(card[:3]) for card in cards],
        "compared": [[name, value] for name, value in compared if value],
        "stalls": [_stall_row(row) for row in stalls],
        "utilisation": [[unit, round(share, 4)] for unit, share in shares.items()],
        **own,
    }


def lost_cycles(stalls: Sequence[StepStall]) -> dict[int, float]:
    """Row of the listing -> cycles that waves stood there."""
    lost: dict[int, float] = {}
    for stall in stalls:
        if stall.row is not None:
            lost[stall.row] = lost.get(stall.row, 0.0) + stall.mean
    return {row: round(cycles, 1) for row, cycles in lost.items()}


def _stall_row(row: StepStall) -> list[Any]:
    """Entry or -1, where, label, mean, worst wave, cause, waited for, whether in the loop."""
    return [
        -1 if row.row is None else row.row,
        row.where,
        row.label,
        round(row.mean, 1),
        round(row.worst, 1),
        row.cause.text,
        row.waited_for,
        row.phase is LoopPhase.LOOP,
    ]


def verdict_data(
    verdict: Verdict | CheckVerdict,
    meaning: str,
    coverage: str,
    place: Callable[[Any], list[Any] | None],
    told: Callable[[Any], list[Any]],
    dead: Sequence[str] = (),
) -> dict[str, Any]:
    """The verdict for the page.

    ``place`` makes wave, entry or -1, iteration or null and words of where a finding is; ``told``
    makes wave, text and place of a line of its story.
    """
    findings: Sequence[Finding | CheckFinding] = verdict.findings
    shortest = verdict.shortest()
    shown = shortest is not None and shortest.story
    return {
        "status": verdict.status.title,
        "meaning": meaning,
        "coverage": coverage,
        "findings": [
            [
                finding.status.title,
                finding.kind.value,
                finding.where,
                finding.why,
                finding.cycles,
                finding.trips or 0,
                finding.instances,
                place(finding.first),
                place(finding.second),
            ]
            for finding in findings
        ],
        "examples": [_example(finding, told) for finding in findings],
        "shortest": findings.index(shortest) if shortest is not None and shown else -1,
        "dead": list(dead),
    }


def _example(
    finding: Finding | CheckFinding, told: Callable[[Any], list[Any]]
) -> dict[str, Any] | None:
    if not finding.story:
        return None
    return {
        "title": finding.where,
        "trips": finding.trips,
        "waves": sorted({line.wave for line in finding.story}),
        "steps": [told(line) for line in finding.story],
    }
