"""The page of a measured run: each wave has a simulated and a measured lane on one timeline.

    html = fill_page(overlay_page(overlay))

The dictionary is that of ``kernel_page``, with the simulation's figures; ``beside`` has what each
instruction took in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeloom.judge.simulate import Trace
from pipeloom.judge.simulate.trace import LoopPhase
from pipeloom.show.cards import Card, speed_cards
from pipeloom.show.kernel_page import (
    TIMELINE_EVENTS,
    TIMELINE_ITERATIONS,
    instruction_meta,
    instruction_page,
    instruction_roles,
)
from pipeloom.show.page_parts import lost_cycles
from pipeloom.show.page_timeline import lane_data
from pipeloom.show.segments import InstructionRows, segments, stalls_by_step
from pipeloom.thread_trace import InstructionCycles, Overlay

_BESIDE = 40
"""Instructions in the table of differences."""


def overlay_page(overlay: Overlay, iterations: int = TIMELINE_ITERATIONS) -> dict[str, Any]:
    """What the page shows of both runs; the timeline has the first ``iterations`` trips."""
    trace = overlay.simulated
    code = dict(sorted({row.row.number: row.row for row in overlay.rows}.items()))
    texts = {number: (f"pc {row.pc:#x}", row.text) for number, row in code.items()}
    groups = [program.group for program in trace.programs]
    rows = InstructionRows(groups, texts)
    # On the timeline wave 2n is simulated wave n, wave 2n + 1 the measured one.
    doubled = InstructionRows([group for group in groups for _ in range(2)], texts)
    lost = lost_cycles(stalls_by_step(trace, rows))
    roles = instruction_roles(trace)
    return instruction_page(
        trace,
        None,
        rows,
        meta=instruction_meta(overlay.kernel, overlay.capture.folder.name),
        cards=_cards(overlay),
        sections=[["code", 0, "", True]],
        entries=[
            [
                *(0, f"{row.pc:x}", row.text, roles.get(n, "other"), -1, lost.get(at, 0.0)),
                *("", -1, row.source),
            ]
            for at, (n, row) in enumerate(code.items())
        ],
        beside=[
            [at, rows.name(at), row.row.text, *_cells(row)]
            for row in overlay.rows[:_BESIDE]
            for at in (rows.numbers[row.row.number],)
            if row.phase is LoopPhase.LOOP or not overlay.trips
        ],
        notes=[
            "Figures and stalls are the simulation's. A thread trace does not record when data "
            "arrived, so a measured lane shows issue and stalls only."
        ],
        timeline=_timeline(overlay, rows, doubled, iterations),
    )


def _cells(row: InstructionCycles) -> list[float]:
    m, s = row.measured, row.simulated
    found = (m.stall, s.stall, m.issue, s.issue, m.idle, row.difference)
    return [round(value, 1) for value in found]


def _cards(overlay: Overlay) -> list[Card]:
    unit = "cycles per trip" if overlay.trips else "cycles"
    clock = overlay.capture.clock_mhz
    at = "" if clock is None else f", at {clock:.0f} MHz"
    return [
        Card(f"{overlay.measured_cycles:.0f}", f"{unit}, measured", f"thread trace{at}"),
        Card(f"{overlay.simulated_cycles:.0f}", f"{unit}, simulated", "the same instructions"),
        Card(f"{overlay.error:+.1%}", "error of the model", "simulated against measured"),
        *speed_cards(overlay.simulated),
    ]


def _timeline(
    overlay: Overlay, rows: InstructionRows, doubled: InstructionRows, iterations: int
) -> dict[str, Any]:
    both = overlay.aligned()
    body = sum(len(program.loop) for program in both[0].programs)
    trips = min(iterations, max(TIMELINE_EVENTS // (2 * body), 1)) if body else 0
    simulated, measured = (_shortened(trace, trips) for trace in both)
    joined = _joined(simulated, measured)
    found = segments(joined)
    data = lane_data(joined, doubled, found, [None] * len(found))
    alone = lane_data(simulated, rows, segments(simulated), [None] * len(segments(simulated)))
    data["depth"] = lane_data(replace(simulated, total_cycles=joined.total_cycles), rows, (), ())[
        "depth"
    ]
    data["barriers"] = [[begin, end, 2 * wave] for begin, end, wave in alone["barriers"]]
    data["matrix"] = [row for row in data["matrix"] if found[row[3]].wave % 2 == 0]
    names = [(f"{w} simulated", f"{w} measured") for w in range(len(simulated.programs))]
    data["names"] = [f"wave {name}" for pair in names for name in pair]
    return data


def _shortened(trace: Trace, trips: int) -> Trace:
    """The run up to the end of so many trips, or the whole where it has no loop."""
    if not trips or trips >= trace.iterations:
        return trace
    kept = {n: event for n, event in enumerate(trace.events) if event.iteration < trips}
    return _chosen(trace, kept, trips)


def _chosen(trace: Trace, kept: dict[int, Any], trips: int) -> Trace:
    number_of = {old: new for new, old in enumerate(kept)}
    events = tuple(e._replace(source=number_of.get(e.source, -1)) for e in kept.values())
    return replace(
        trace,
        iterations=trips,
        events=events,
        marks=tuple(mark[: trips + 1] for mark in trace.marks),
        total_cycles=max((max(e.free, e.done) for e in events), default=0),
    )


def _joined(simulated: Trace, measured: Trace) -> Trace:
    """One run of twice the waves: simulated and measured in turn."""
    order = sorted(
        [(e.ready, 2 * e.wave, 0, n) for n, e in enumerate(simulated.events)]
        + [(e.ready, 2 * e.wave + 1, 1, n) for n, e in enumerate(measured.events)]
    )
    number_of = {(which, n): at for at, (_, _, which, n) in enumerate(order)}
    pair: Sequence[Trace] = (simulated, measured)
    events = tuple(
        (e := pair[which].events[n])._replace(
            wave=wave, source=number_of.get((which, e.source), -1)
        )
        for _, wave, which, n in order
    )
    return replace(
        simulated,
        programs=tuple(program for program in simulated.programs for _ in pair),
        events=events,
        marks=tuple(
            mark for both in zip(simulated.marks, measured.marks, strict=True) for mark in both
        ),
        total_cycles=max(simulated.total_cycles, measured.total_cycles),
    )
