"""A trace for Perfetto and chrome://tracing, in the Trace Event Format's JSON object form.

One process per wave, one thread per unit of it:

    issue            every instruction, and before it what the wave stood for
    matrix unit      MFMAs as long as they keep the unit busy
    LDS, global      operations from issue until their data is there; where they overlap, slices of
                     one thread must nest, so a further thread "(2)" takes the next one
    waits, barriers  from arrival until satisfied
    measured         with a thread trace of the same waves: what they issued, and where they stood

Flow arrows lead from every load or LDS read to the first wait that guarantees it. One microsecond
of the file is one cycle.

Format: "Trace Event Format" (Google, docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0n\
SsKchNAySU): phases X (name, cat, ts, dur, pid, tid, args), M (process_name, thread_name and their
sort indices), s and f (id, and bp "e" to bind to the enclosing slice), C (counters in args).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeloom.judge.simulate.instruction import LDS_KINDS, LOAD_KINDS, Track
from pipeloom.judge.simulate.trace import Trace
from pipeloom.show.segments import Segment, matrix_end, retired_by, segment_of_event, segments

ISSUE, MATRIX, SYNC, MEASURED, LDS, GLOBAL = 1, 2, 3, 4, 10, 40
"""Thread ids; LDS and global operations that overlap take the ids that follow."""
_THREADS = {ISSUE: "issue", MATRIX: "matrix unit", SYNC: "waits and barriers"}
_FLIGHTS = {Track.LDS: (LDS, "LDS"), Track.GLOBAL: (GLOBAL, "global memory")}
COUNTER_PID = 1000
"""Not 0, which Perfetto takes for the idle process."""

Row = dict[str, Any]


def chrome_trace(trace: Trace, title: str = "", measured: Trace | None = None) -> str:
    """The whole file as text; the same trace gives the same bytes.

    Args:
        trace: A simulated run.
        title: What the file says it is.
        measured: The same programs as they ran on a GPU, on the same clock: a lane more per wave.
    """
    head = {
        "displayTimeUnit": "ns",
        "otherData": {
            "title": title,
            "machine": trace.machine.arch,
            "unit": "1 us of this file is 1 cycle",
            "cycles per iteration": round(trace.steady_cycles_per_iteration, 2),
        },
    }
    compact = (",", ":")
    rows = ",\n".join(json.dumps(row, separators=compact) for row in trace_events(trace, measured))
    return json.dumps(head, separators=compact)[:-1] + f',"traceEvents":[\n{rows}\n]}}\n'


def trace_events(trace: Trace, measured: Trace | None = None) -> list[Row]:
    """The events of the file: metadata, slices, flows, counters."""
    found = segments(trace)
    flights = dict(_lanes(found))
    threads = _THREADS if measured is None else {**_THREADS, MEASURED: "issue, measured"}
    rows = list(_metadata(trace, found, flights, threads))
    for wave in range(len(trace.programs)):
        rows += _issue_rows(trace, wave)
        if measured is not None:
            rows += _issue_rows(measured, wave, MEASURED)
    rows += _unit_rows(trace, found, flights)
    rows += _flow_rows(trace, found, flights)
    rows += _counter_rows(trace)
    return rows


def _pid(wave: int) -> int:
    return wave + 1


def _slice(name: str, category: str, pid: int, tid: int, start: int, end: int, args: Row) -> Row:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start,
        "dur": end - start,
        "pid": pid,
        "tid": tid,
        "args": args,
    }


def _lanes(found: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Segment -> thread id, for what is in flight: the first thread that is free by then."""
    busy: dict[tuple[int, Track], list[int]] = {}
    for number, segment in enumerate(found):
        if segment.unit not in _FLIGHTS:
            continue
        ends = busy.setdefault((segment.wave, segment.unit), [])
        lane = next((at for at, end in enumerate(ends) if end <= segment.start), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = segment.done
        yield number, _FLIGHTS[segment.unit][0] + lane


def _metadata(
    trace: Trace, found: Sequence[Segment], flights: dict[int, int], usual: Mapping[int, str]
) -> Iterator[Row]:
    def meta(kind: str, pid: int, tid: int, **args: object) -> Row:
        return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}

    yield meta("process_name", COUNTER_PID, 0, name="compute unit")
    yield meta("process_sort_index", COUNTER_PID, 0, sort_index=COUNTER_PID)
    for wave, program in enumerate(trace.programs):
        pid = _pid(wave)
        yield meta(
            "process_name", pid, 0, name=f"wave {wave} (SIMD {program.simd}, group {program.group})"
        )
        yield meta("process_sort_index", pid, 0, sort_index=pid)
        threads = dict(usual)
        for number, tid in flights.items():
            if found[number].wave == wave:
                first, name = _FLIGHTS[found[number].unit]
                threads[tid] = name if tid == first else f"{name} ({tid - first + 1})"
        for tid, name in sorted(threads.items()):
            yield meta("thread_name", pid, tid, name=name)
            yield meta("thread_sort_index", pid, tid, sort_index=tid)


def _issue_rows(trace: Trace, wave: int, tid: int = ISSUE) -> Iterator[Row]:
    for event in trace.events:
        if event.wave != wave:
            continue
        instruction = trace.instruction(event)
        pid = _pid(wave)
        if event.stall:
            args: Row = {"for": instruction.label}
            if event.source >= 0:
                source = trace.events[event.source]
                args["waited for"] = f"{trace.instruction(source).label}, wave {source.wave}"
            name = f"stall: {event.cause.text}"
            yield _slice(name, "stall", pid, tid, event.ready, event.start, args)
        section = instruction.section or trace.phase(event).value
        detail: Row = {"section": section, "iteration": event.iteration}
        if instruction.entry is not None:
            detail["step"] = instruction.entry
        kind = instruction.kind.name.lower()
        yield _slice(instruction.label, kind, pid, tid, event.start, event.free, detail)


def _unit_rows(trace: Trace, found: Sequence[Segment], flights: dict[int, int]) -> Iterator[Row]:
    for number, segment in enumerate(found):
        pid, args = _pid(segment.wave), {"iteration": segment.iteration}
        if number in flights:
            category = "lds" if segment.unit is Track.LDS else "global"
            tid = flights[number]
            yield _slice(segment.label, category, pid, tid, segment.start, segment.done, args)
        elif segment.unit is Track.SYNC:
            yield _slice(segment.label, "sync", pid, SYNC, segment.ready, segment.free, args)
        elif segment.unit is Track.MATRIX:
            for index in segment.events:
                event = trace.events[index]
                end = matrix_end(trace, event)
                yield _slice(segment.label, "matrix", pid, MATRIX, event.start, end, args)


def _flow_rows(trace: Trace, found: Sequence[Segment], flights: dict[int, int]) -> Iterator[Row]:
    """From the end of a load's slice to the moment its wait is satisfied, one arrow per load op."""
    owner = segment_of_event(tuple(found))
    flow = 0
    for wait, retired in sorted(retired_by(trace).items()):
        target = found[owner[wait]]
        # An op of several instructions is guaranteed by the wait that retires its last one.
        whole = {owner[e] for e in retired if e == _last_memory_event(trace, found[owner[e]])}
        for number in sorted(whole):
            source = found[number]
            flow += 1
            common = {"name": "guarantees", "cat": "wait", "id": flow, "pid": _pid(source.wave)}
            yield {**common, "ph": "s", "ts": source.done - 1, "tid": flights[number]}
            yield {**common, "ph": "f", "bp": "e", "ts": target.start, "tid": SYNC}


def _last_memory_event(trace: Trace, segment: Segment) -> int:
    memory = (Track.LDS, Track.GLOBAL)
    return max(e for e in segment.events if trace.instruction(trace.events[e]).unit in memory)


def _counter_rows(trace: Trace) -> Iterator[Row]:
    """How much the compute unit has in flight, at every change."""
    for name, kinds, unit in (
        ("LDS operations in flight", LDS_KINDS, "operations"),
        ("global loads in flight", LOAD_KINDS, "KiB"),
    ):
        changes: dict[int, float] = {}
        for event in trace.events:
            instruction = trace.instruction(event)
            if instruction.kind in kinds:
                amount = 1.0 if instruction.kind in LDS_KINDS else instruction.bytes / 1024
                changes[event.start] = changes.get(event.start, 0.0) + amount
                changes[event.done] = changes.get(event.done, 0.0) - amount
        level = 0.0
        for time, change in sorted(changes.items()):
            level += change
            yield {
                "name": name,
                "ph": "C",
                "ts": time,
                "pid": COUNTER_PID,
                "tid": 0,
                "args": {unit: round(level, 3)},
            }
