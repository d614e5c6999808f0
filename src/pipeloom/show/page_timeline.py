"""The timeline of the report page as compact rows: what each lane shows, in cycles.

Rows are lists, not objects, because there are thousands of them; ``assets/types.js`` names their
columns for the page and must change together with this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeloom.judge.simulate import costs
from pipeloom.judge.simulate.instruction import Kind, Unit
from pipeloom.judge.simulate.trace import Cause, Trace
from pipeloom.judge.simulate.trace import Phase as TracePhase
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel, Region
from pipeloom.reference.ops import Phase
from pipeloom.show.data_flow import StepKey, Touch, regions_of, touches
from pipeloom.show.segments import Segment, retired_by, segment_of_event, segments

DEPTH_BUCKETS = 1200
_PHASES = {
    TracePhase.PROLOGUE: Phase.PROLOGUE,
    TracePhase.LOOP: Phase.KERNEL,
    TracePhase.EPILOGUE: Phase.EPILOGUE,
}
_KINDS = {Unit.MATRIX: 0, Unit.VALU: 0, Unit.LDS: 1, Unit.GLOBAL: 2, Unit.SCALAR: 5}
WAIT, BARRIER = 3, 4
"""Colour codes of a segment: 0 MMA, 1 LDS, 2 global, 3 wait, 4 barrier, 5 scalar."""


def timeline_data(
    compiled: CompiledSchedule, kernel: Kernel, trace: Trace, first_entry: Mapping[Phase, int]
) -> dict[str, Any]:
    """Every lane of a run; entries are numbered through the phases from ``first_entry``."""
    found = segments(trace)
    flows = [touches(compiled, kernel, w, trace.iterations) for w in range(len(trace.programs))]
    touched = [flows[s.wave].get(_key(s, trace.iterations)) for s in found]
    regions = regions_of({k: t for flow in flows for k, t in flow.items()})
    return {
        "iterations": trace.iterations,
        "total": trace.total_cycles,
        "marks": [list(mark) for mark in trace.marks],
        "waves": [[program.simd, program.group] for program in trace.programs],
        "causes": [cause.text for cause in Cause],
        "segments": _segment_rows(trace, found, touched, first_entry),
        "matrix": _matrix_rows(trace, found),
        "barriers": _barrier_rows(trace),
        "depth": _depth(trace),
        "regions": [str(region).removeprefix("LDS ") for region in regions],
        "buffers": _buffer_rows(found, touched, regions),
    }


def _key(segment: Segment, iterations: int) -> StepKey:
    inside = 0 <= segment.iteration < iterations
    slot = -1 if segment.entry is None else segment.entry
    return (_PHASES[segment.phase], slot, segment.iteration if inside else None)


def _colour(trace: Trace, segment: Segment) -> int:
    last = trace.instruction(trace.events[segment.events[-1]])
    kind = last.kind if segment.unit is Unit.SYNC else None
    if kind is Kind.WAIT:
        return WAIT
    if kind is Kind.BARRIER:
        return BARRIER
    own = segment.entry is None and segment.unit is Unit.VALU
    return _KINDS[Unit.SCALAR if own else segment.unit]


def _segment_rows(
    trace: Trace,
    found: Sequence[Segment],
    touched: Sequence[Touch | None],
    first_entry: Mapping[Phase, int],
) -> list[list[Any]]:
    """Wave, entry, label, colour, iteration, ready, start, free, done, stall, cause, source, tile,
    then stall and issue cycles of each instruction in turn, then the segments a wait retires."""
    owner = segment_of_event(tuple(found))
    retired = retired_by(trace)
    rows: list[list[Any]] = []
    for segment, touch in zip(found, touched, strict=True):
        entry = -1
        if segment.entry is not None:
            entry = first_entry[_PHASES[segment.phase]] + segment.entry
        tile = -1 if touch is None or touch.tile is None else touch.tile
        pulses: list[int] = []
        at = segment.ready
        for number in segment.events:
            event = trace.events[number]
            pulses += [event.start - at, event.free - event.start]
            at = event.free
        waits_for = sorted({owner[e] for n in segment.events for e in retired.get(n, ())})
        rows.append(
            [
                segment.wave,
                entry,
                segment.label,
                _colour(trace, segment),
                segment.iteration,
                segment.ready,
                segment.start,
                segment.free,
                segment.done,
                segment.stall,
                int(segment.cause),
                owner.get(segment.source, -1),
                tile,
                pulses,
                waits_for,
            ]
        )
    return rows


def _matrix_rows(trace: Trace, found: Sequence[Segment]) -> list[list[int]]:
    """SIMD, from, to, segment: runs in which the matrix unit never idles."""
    rows: list[list[int]] = []
    for number, segment in enumerate(found):
        if segment.unit is not Unit.MATRIX:
            continue
        simd = trace.programs[segment.wave].simd
        run: list[int] = []
        for index in segment.events:
            event = trace.events[index]
            end = event.start + costs.matrix_cycles(trace.instruction(event))
            if run and run[2] == event.start:
                run[2] = end
            else:
                run = [simd, event.start, end, number]
                rows.append(run)
    return sorted(rows)


def _barrier_rows(trace: Trace) -> list[list[int]]:
    """First arrival, release, last wave: the n-th barriers of all waves are one barrier."""
    arrivals: dict[int, list[tuple[int, int, int]]] = {}
    count: Counter[int] = Counter()
    for event in trace.events:
        if trace.instruction(event).kind is Kind.BARRIER:
            arrivals.setdefault(count[event.wave], []).append((event.ready, event.wave, event.done))
            count[event.wave] += 1
    return [
        [min(a[0] for a in found), max(a[2] for a in found), max(found)[1]]
        for _, found in sorted(arrivals.items())
    ]


def _depth(trace: Trace) -> dict[str, Any]:
    """Mean number of LDS operations and of KiB of loads under way, in equal buckets."""
    step = max(-(-trace.total_cycles // DEPTH_BUCKETS), 1)
    buckets = -(-trace.total_cycles // step)
    lds, loads = [0.0] * buckets, [0.0] * buckets
    for event in trace.events:
        instruction = trace.instruction(event)
        if instruction.kind in costs.LDS_KINDS:
            _add(lds, step, event.start, event.done, 1.0)
        elif instruction.kind in costs.LOAD_KINDS:
            _add(loads, step, event.start, event.done, instruction.bytes / 1024)
    return {
        "step": step,
        "lds": [round(d, 1) for d in lds],
        "loads": [round(d, 1) for d in loads],
    }


def _add(buckets: list[float], step: int, start: int, done: int, amount: float) -> None:
    for bucket in range(start // step, min(-(-done // step), len(buckets))):
        left = bucket * step
        share = (min(done, left + step) - max(start, left)) / step
        buckets[bucket] += amount * share


def _buffer_rows(
    found: Sequence[Segment], touched: Sequence[Touch | None], regions: Sequence[Region]
) -> list[list[int]]:
    """Region, 0 written or 1 read, K tile, from, to, a segment: overlapping spans are merged."""
    number = {region: at for at, region in enumerate(regions)}
    spans: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    for at, (segment, touch) in enumerate(zip(found, touched, strict=True)):
        if touch is None or touch.tile is None:
            continue
        for use, places in enumerate((touch.writes, touch.reads)):
            for region in places:
                key = (number[region], use, touch.tile)
                spans.setdefault(key, []).append((segment.start, segment.done, at))
    return [[*key, *span] for key, parts in sorted(spans.items()) for span in _merged(parts)]


def _merged(parts: Iterable[tuple[int, int, int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for start, done, at in sorted(parts):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], done)
        else:
            merged.append([start, done, at])
    return merged
