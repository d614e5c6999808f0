"""A hand-written loop beside others: a row of a comparison, and its instructions on a page.

    html = fill_page(stream_page("four clusters", trace, shown))

The dictionary is that of ``page_data``, with the stream's instructions where a program has steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Phase, Trace
from pipeloom.show.comparison import Comparison
from pipeloom.show.kernel_page import ROLES
from pipeloom.show.page_data import speed_cards, stall_row
from pipeloom.show.page_timeline import lane_data
from pipeloom.show.segments import segments, stalls_by_step

LOOP = "loop"
NOT_ASKED = "-"
"""The verdict of a loop that was only timed."""


class _Body:
    """The instructions of the loop, which all waves run."""

    def __init__(self, trace: Trace) -> None:
        self._programs = trace.programs

    def find(self, wave: int, section: str, entry: int) -> int | None:
        return entry

    def label(self, number: int) -> str:
        return self._programs[0].loop[number].label

    def name(self, number: int) -> str:
        return f"{LOOP}[{number}]"

    def group(self, wave: int) -> int:
        return self._programs[wave].group


def stream_row(name: str, trace: Trace) -> Comparison:
    """Figures of one trip; its work is what the matrix unit computes in it."""
    trace = _numbered(trace)
    body = trace.programs[0].loop
    stalls = [row for row in stalls_by_step(trace, _Body(trace)) if row.phase is Phase.LOOP]
    top = f"{stalls[0].where} {stalls[0].label}, {stalls[0].mean:.0f}: {stalls[0].cause.text}"
    flops = sum(
        one.matrix_op.flops for p in trace.programs for one in p.loop if one.matrix_op is not None
    )
    return Comparison(
        name=name,
        cycles_per_iteration=round(trace.steady_cycles_per_iteration, 2),
        matrix_efficiency=round(max(trace.steady_matrix_efficiency()), 4),
        limiting_unit=trace.limiting_unit(),
        total_cycles=trace.total_cycles,
        waits=sum(one.kind is Kind.WAIT for one in body),
        barriers=sum(one.kind is Kind.BARRIER for one in body),
        stall_cycles=round(sum(row.mean for row in stalls), 1),
        top_stall=top if stalls else "none",
        verdict=NOT_ASKED,
        tile=f"{flops / 1e6:.2f} MFLOP",
        k_tiles_per_iteration=0,
    )


def stream_page(name: str, trace: Trace, shown: Trace) -> dict[str, Any]:
    """What the page shows of a stream: figures of ``trace``, the timeline of ``shown``."""
    trace, shown = _numbered(trace), _numbered(shown)
    rows, found = _Body(trace), segments(shown)
    stalls = stalls_by_step(trace, rows)
    lost = {row.row: round(row.mean, 1) for row in reversed(stalls) if row.phase is Phase.LOOP}
    cycles = f"{trace.steady_cycles_per_iteration:.0f}"
    return {
        "meta": {
            "program": name,
            "machine": f"{trace.machine.chip} ({trace.machine.arch})",
            "tile": "a stream",
            "sync": "",
            "strategy": "",
            "stream": "",
            "over": "trip",
            "knobs": "",
            "waves": len(trace.programs),
            "per_iteration": "1 trip of the loop",
            "iterations": trace.iterations,
            "cycles": trace.total_cycles,
            "prologue": trace.prologue_cycles,
            "epilogue": trace.epilogue_cycles,
            "variant": name,
        },
        "headline": [
            [cycles, "cycles per trip", "steady state of the simulated loop"],
            *speed_cards(trace),
        ],
        "unsimulated": "",
        "sections": [[LOOP, 0, "", True]],
        "entries": [
            [0, str(n), one.label, ROLES.get(one.kind, "other"), -1, lost.get(n, 0.0), ""]
            for n, one in enumerate(trace.programs[0].loop)
        ],
        "ops": [],
        "edges": [],
        "critical": [],
        "timeline": lane_data(shown, rows, found, [None] * len(found)),
        "verdict": None,
        "stalls": [stall_row(row) for row in stalls],
        "utilisation": [[unit, round(share, 4)] for unit, share in trace.utilisation().items()],
        "estimate": None,
        "knobs": [],
        "notes": [],
    }


def _numbered(trace: Trace) -> Trace:
    """The trace with every instruction of the loop a step of its own."""
    return replace(
        trace,
        programs=tuple(
            replace(
                program,
                loop=tuple(
                    replace(one, section=LOOP, entry=n) for n, one in enumerate(program.loop)
                ),
            )
            for program in trace.programs
        ),
    )
