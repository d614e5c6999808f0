"""The timeline of the report page as compact rows: what each lane shows, in cycles.

Rows are lists, not objects, because there are thousands of them; ``assets/types.js`` names their
columns for the page and must change together with this file.

Which iteration every step of a run works for, and which piece of LDS it fills or reads.

A step says its iteration itself. LDS is shown in lanes: one per copy and box that is written as a
whole, or one per copy where there are many boxes; a step touches every lane that it overlaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pipeloom.judge.simulate.instruction import LDS_KINDS, LOAD_KINDS, Kind, Track
from pipeloom.judge.simulate.trace import Cause, LoopPhase, Trace
from pipeloom.program import Access, Box, Program, Space, Work
from pipeloom.program.tiles import describe_box, overlap
from pipeloom.show.segments import (
    Rows,
    Segment,
    drawn_as,
    matrix_end,
    retired_by,
    row_of,
    segment_of_event,
    segments,
    shares,
)
from pipeloom.show.step_rows import trip_counts

MOST_BOXES = 4
"""Lanes of one copy."""

StepKey = tuple[str, int, int]
"""Section, slot, trip: one step of a wave's run."""


DEPTH_BUCKETS = 1200
COLOURS = ("mma", "lds", "global", "wait", "barrier", "scalar", "vector")
"""Of a segment; the page has their numbers."""


def timeline_data(
    program: Program, trace: Trace, listing: Rows, lines: Mapping[int, int] | None = None
) -> dict[str, Any]:
    """Every lane of a run of a program; entries are numbered as in the listing.

    ``lines`` are those of the page's assembly, by the instructions' own numbers.
    """
    found = segments(trace)
    touched = list(_touched(program, trace, found))
    lanes = lane_data(trace, listing, found, touched)
    lanes["lines"] = _line_rows(trace, found, lines or {})
    lanes["regions"] = [lane.name for lane in lds_lanes(program)]
    return lanes


def lane_data(
    trace: Trace,
    listing: Rows,
    found: Sequence[Segment],
    touched: Sequence[LdsUse | None],
) -> dict[str, Any]:
    """Every lane of a run; ``touched`` says which LDS buffers each segment touches."""
    return {
        "iterations": trace.iterations,
        "total": trace.total_cycles,
        "marks": [list(mark) for mark in trace.marks],
        "frames": _frames(trace, found),
        "waves": [[p.simd, listing.group(n)] for n, p in enumerate(trace.programs)],
        "names": [],
        "causes": [cause.text for cause in Cause],
        "segments": _segment_rows(trace, found, touched, listing),
        "matrix": _matrix_rows(trace, found),
        "barriers": _barrier_rows(trace),
        "depth": _depth(trace),
        "regions": [],
        "lines": [],
        "buffers": _buffer_rows(found, touched),
    }


def _touched(program: Program, trace: Trace, found: Sequence[Segment]) -> Iterator[LdsUse | None]:
    """What each segment touches. Outside of the main loop, the n-th of a step is its trip n."""
    lanes = lds_lanes(program)
    flows = [touches(program, lanes, w, trace.iterations) for w in range(len(trace.programs))]
    seen: Counter[tuple[int, str, int]] = Counter()
    for segment in found:
        if segment.entry is None:
            yield None
            continue
        at = (segment.wave, segment.section, segment.entry)
        trip = segment.iteration if segment.phase is LoopPhase.LOOP else seen[at]
        seen[at] += 1
        yield flows[segment.wave].get((segment.section, segment.entry, trip))


def _frames(trace: Trace, found: Sequence[Segment]) -> list[list[Any]]:
    """From, to, name: the sections of the first wave before its loop, its trips, those after."""
    marks = trace.marks[0]
    frames: list[list[Any]] = []
    for phase, begin, end in (
        (LoopPhase.PROLOGUE, 0, marks[0]),
        (LoopPhase.EPILOGUE, marks[-1], trace.total_cycles),
    ):
        mine = [s for s in found if s.wave == 0 and s.phase is phase and s.entry is not None]
        starts = {s.section: s.ready for s in reversed(mine)} or {phase.value: begin}
        names = sorted(starts, key=lambda name: starts[name])
        edges = [begin, *(starts[name] for name in names[1:]), end]
        frames += [[*span, name] for span, name in zip(pairwise(edges), names, strict=True)]
        if phase is LoopPhase.PROLOGUE:
            trips = range(trace.iterations)
            frames += [[marks[i], marks[i + 1], f"trip {i}"] for i in trips]
    return frames


def _colour(trace: Trace, segment: Segment) -> int:
    own = segment.entry is None and segment.unit is Track.VALU
    return COLOURS.index("scalar" if own else drawn_as(trace, segment))


def _segment_rows(
    trace: Trace,
    found: Sequence[Segment],
    touched: Sequence[LdsUse | None],
    listing: Rows,
) -> list[list[Any]]:
    """Wave, entry, label, colour, trip, ready, start, free, done, stall, cause,
    source, iteration, then stall and issue cycles of each instruction in turn, then the segments a
    wait retires."""
    owner = segment_of_event(tuple(found))
    retired = retired_by(trace)
    rows: list[list[Any]] = []
    for segment, touch in zip(found, touched, strict=True):
        entry = row_of(trace, listing, trace.events[segment.events[-1]])
        tile = -1 if touch is None or touch.iteration is None else touch.iteration
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
                -1 if entry is None else entry,
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


def _line_rows(trace: Trace, found: Sequence[Segment], lines: Mapping[int, int]) -> list[Any]:
    """Of each segment the first line of its instructions, or all where they are apart.

    Empty where it is not known which lines they are.
    """
    rows: list[Any] = []
    for segment in found:
        numbers = [trace.instruction(trace.events[n]).line for n in segment.events]
        here = [lines.get(-1 if number is None else number, -1) for number in numbers]
        if -1 in here:
            return []
        follow = here == list(range(here[0], here[0] + len(here)))
        rows.append(here[0] if follow else here)
    return rows


def _matrix_rows(trace: Trace, found: Sequence[Segment]) -> list[list[int]]:
    """SIMD, from, to, segment: runs in which the matrix unit never idles."""
    rows: list[list[int]] = []
    for number, segment in enumerate(found):
        if segment.unit is not Track.MATRIX:
            continue
        simd = trace.programs[segment.wave].simd
        run: list[int] = []
        for index in segment.events:
            event = trace.events[index]
            end = matrix_end(trace, event)
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
    """Mean number of LDS operations and of KiB of loads under way, in equal buckets.

    And, where instructions know it, the most vector registers live in the first wave.
    """
    step = max(-(-trace.total_cycles // DEPTH_BUCKETS), 1)
    buckets = -(-trace.total_cycles // step)
    lds, loads = [0.0] * buckets, [0.0] * buckets
    for event in trace.events:
        instruction = trace.instruction(event)
        row, amount = lds, 1.0
        if instruction.kind in LOAD_KINDS:
            row, amount = loads, instruction.bytes / 1024
        elif instruction.kind not in LDS_KINDS:
            continue
        for bucket, covered in shares(event.start, event.done, 0, step, buckets):
            row[bucket] += amount * (covered / step)
    return {
        "step": step,
        "lds": [round(d, 1) for d in lds],
        "loads": [round(d, 1) for d in loads],
        "live": _live(trace, step, buckets),
    }


def _live(trace: Trace, step: int, buckets: int) -> list[int]:
    """Registers live in the first wave, the most per bucket; empty where that is not known."""
    found = [
        (event.start // step, live)
        for event in trace.events
        if event.wave == 0 and (live := trace.instruction(event).live) is not None
    ]
    if not found:
        return []
    most = [-1] * buckets
    last = dict(found)
    for bucket, live in found:
        most[bucket] = max(most[bucket], live)
    held = 0
    for bucket in range(buckets):
        if most[bucket] < 0:
            most[bucket] = held
        held = last.get(bucket, held)
    return most


def _buffer_rows(found: Sequence[Segment], touched: Sequence[LdsUse | None]) -> list[list[int]]:
    """Lane, 0 written or 1 read, iteration, from, to, a segment: overlapping spans are merged."""
    spans: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    for at, (segment, touch) in enumerate(zip(found, touched, strict=True)):
        if touch is None or touch.iteration is None:
            continue
        for use, places in enumerate((touch.writes, touch.reads)):
            for lane in places:
                key = (lane, use, touch.iteration)
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


@dataclass(frozen=True, slots=True)
class Lane:
    """A piece of LDS: a box of a copy of a resource."""

    resource: str
    copy: int
    box: Box
    name: str


@dataclass(frozen=True, slots=True)
class LdsUse:
    """The iteration of one step, and the lanes of LDS that it fills or reads, by number."""

    iteration: int | None
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()


def lds_lanes(program: Program) -> tuple[Lane, ...]:
    """All of LDS."""
    lanes = []
    for resource in program.resources:
        if resource.space is not Space.LDS:
            continue
        whole = resource.type.whole
        written = {
            box
            for group in program.groups
            for _, _, step in group.steps()
            if isinstance(step, Work)
            for access in step.writes
            if access.resource == resource.name
            for box in access.boxes or (whole,)
        }
        boxes = sorted(written) if len(written) <= MOST_BOXES else [whole]
        for copy in range(resource.copies):
            for box in boxes:
                name = resource.name.removeprefix("LDS ").removeprefix("lds ")
                name += f" copy {copy}" if resource.copies > 1 else ""
                cut = [n for n, (a, b) in enumerate(zip(box, whole, strict=True)) if a != b]
                dims = [resource.type.dims[n] for n in cut]
                if cut:
                    name += f" {describe_box(tuple(box[n] for n in cut), dims)}"
                lanes.append(Lane(resource.name, copy, box, name))
    return tuple(lanes)


def touches(
    program: Program, lanes: tuple[Lane, ...], wave: int, trips: int
) -> Mapping[StepKey, LdsUse]:
    """What every step of one wave touches, in a run with ``trips`` trips of the main loop."""
    group = next(group for group in program.groups if wave in group.waves)
    member, counts = group.waves.index(wave), trip_counts(program, trips)

    def touched(accesses: Iterable[Access]) -> tuple[int, ...]:
        found = set()
        for access in accesses:
            box = access.box(member)
            for number, lane in enumerate(lanes):
                same = (lane.resource, lane.copy) == (access.resource, access.copy)
                if same and (box is None or overlap(box, lane.box) is not None):
                    found.add(number)
        return tuple(sorted(found))

    places = {
        (section.name, slot): (touched(step.writes), touched(step.reads))
        for section, slot, step in group.steps()
        if isinstance(step, Work)
    }
    found: dict[StepKey, LdsUse] = {}
    for section in group.sections:
        for trip, base in section.passes(counts):
            for slot, step in enumerate(section.steps):
                if isinstance(step, Work):
                    iteration = None if step.iteration is None else base + step.iteration
                    place = section.name, slot
                    found[*place, trip or 0] = LdsUse(iteration, *places[place])
    return found
