"""A hand-written loop beside others: a row of a comparison, and its instructions on a page.

    html = fill_page(stream_page("four clusters", trace, shown))

The dictionary is that of ``page_data``, with the stream's instructions where a program has steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeloom.judge.simulate.trace import LoopPhase, Trace
from pipeloom.show.cards import Card, speed_cards
from pipeloom.show.comparison import Comparison, instruction_row
from pipeloom.show.kernel_page import ROLES, instruction_meta, instruction_page
from pipeloom.show.segments import InstructionRows, stalls_by_step

LOOP = "loop"


def _rows(trace: Trace) -> InstructionRows:
    """The instructions of the loop, which all waves run."""
    loop = enumerate(trace.programs[0].loop)
    rows = {number: (f"{LOOP}[{number}]", one.label) for number, one in loop}
    return InstructionRows([program.group for program in trace.programs], rows)


def stream_row(name: str, trace: Trace) -> Comparison:
    """Figures of one trip."""
    trace = _numbered(trace)
    return instruction_row(name, trace, _rows(trace))


def stream_page(name: str, trace: Trace, shown: Trace) -> dict[str, Any]:
    """What the page shows of a stream: figures of ``trace``, the timeline of ``shown``."""
    trace, shown = _numbered(trace), _numbered(shown)
    rows = _rows(trace)
    stalls = stalls_by_step(trace, rows)
    lost = {row.row: round(row.mean, 1) for row in reversed(stalls) if row.phase is LoopPhase.LOOP}
    cycles = f"{trace.steady_cycles_per_iteration:.0f}"
    return instruction_page(
        trace,
        shown,
        rows,
        meta=instruction_meta(name, "a stream", "Stream", variant=name),
        cards=[
            Card(
                cycles,
                "cycles per trip",
                "steady state of the simulated loop",
                "cycles",
                f"{cycles} per trip",
            ),
            *speed_cards(trace),
        ],
        sections=[[LOOP, 0, "", True]],
        entries=[
            [
                *(0, str(n), one.label, ROLES.get(one.kind, "other"), -1, lost.get(n, 0.0), "", -1),
                "" if one.line is None else f"line {one.line}",
            ]
            for n, one in enumerate(trace.programs[0].loop)
        ],
    )


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
