"""A simulated run in the format of rocprofv3, for viewers of thread traces and for our own reader.

    files = viewer_files(trace, code_lines(emitted, code), "gemm")
    write_files({folder / name: text for name, text in files.items()})

What the model knows and the format has no place for, as when data arrived, is left out. The cycles
that it has are exact: read again, every instruction stands, issues and ends as it was simulated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeloom.judge.simulate import Event, Kind, Trace, Track, WaveOp
from pipeloom.machine_code.lowering import read_text_line
from pipeloom.thread_trace.code_table import Sums
from pipeloom.thread_trace.wave_file import (
    FLAT,
    IMMEDIATE,
    JUMP,
    LDS,
    NEXT,
    SALU,
    SMEM,
    VALU,
    VMEM,
)
from pipeloom.write import AssembledCode, EmittedKernel
from pipeloom.write.isa import Instruction

VERSION = "3.0.0"
HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
_STATS = '"CodeObj","Vaddr","Instruction","Hitcount","Latency","Stall","Idle","Source"\n'
_OBJECT = 1
_FOLDER = "ui_output_agent_0_dispatch_1"
_IDLE, _RUNS, _WAITS, _STALLS = 1, 2, 3, 4
"""States of a wave's timeline."""
_CATEGORIES = {
    Track.MATRIX: VALU,
    Track.VALU: VALU,
    Track.LDS: LDS,
    Track.GLOBAL: VMEM,
    Track.SCALAR: SALU,
    Track.SYNC: IMMEDIATE,
}
_OWN_CATEGORIES = {
    Kind.SCALAR_LOAD: SMEM,
    Kind.NOP: IMMEDIATE,
    Kind.SET_PRIO: IMMEDIATE,
    Kind.BRANCH: JUMP,
}


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One instruction of the kernel that ran."""

    pc: int
    text: str
    source: str = ""


def code_lines(emitted: EmittedKernel, code: AssembledCode) -> dict[int, CodeLine]:
    """The instructions of an emitted kernel, by their place among its lines."""
    places = [n for n, line in enumerate(emitted.lines) if isinstance(line, Instruction)]
    return {
        place: CodeLine(pc, line.text, line.entry or "")
        for place, (pc, line) in zip(places, sorted(code.line_map.items()), strict=True)
    }


def viewer_files(
    trace: Trace,
    lines: Mapping[int, CodeLine],
    kernel: str,
    *,
    code_object: bytes = b"",
    place: Callable[[WaveOp], int | None] = lambda op: op.line,
) -> dict[str, str | bytes]:
    """The files by name, within a folder; ``place`` says which of ``lines`` an instruction is."""
    order = sorted(lines, key=lambda key: lines[key].pc)
    number_of = {key: number for number, key in enumerate(order, start=1)}
    waves = [_wave(trace, wave, number_of, lines, place) for wave in range(len(trace.programs))]
    sums = _sums(wave["wave"]["instructions"] for wave in waves)
    nothing = Sums(0, 0, 0, 0)
    slots: dict[int, int] = {}
    names: dict[str, dict[str, dict[str, Any]]] = {}
    found: dict[str, str | bytes] = {}
    for wave, program in zip(waves, trace.programs, strict=True):
        slot = slots.get(program.simd, 0)
        slots[program.simd] = slot + 1
        name = f"se0_sm{program.simd}_sl{slot}_wv0.json"
        body = wave["wave"]
        body["slot"] = slot
        leaf = {"0": [name, body["begin"], body["end"]]}
        names.setdefault(str(program.simd), {})[str(slot)] = leaf
        found[f"{_FOLDER}/{name}"] = _text(wave)
    head: list[Any] = [f"; {kernel}", 0, 0, "", _OBJECT, lines[order[0]].pc, 0, 0, 0, 0]
    rows = [head]
    stats = [_STATS]
    for key in order:
        line, spent = lines[key], sums.get(number_of[key], nothing)
        own = [spent.hits, spent.latency, spent.stall, spent.idle]
        rows.append([line.text, 0, number_of[key], line.source, _OBJECT, line.pc, *own])
        cells = [_OBJECT, line.pc, _quoted(line.text), *own, _quoted(line.source)]
        stats.append(",".join(map(str, cells)) + "\n")
    found[f"{_FOLDER}/code.json"] = _text({"code": rows, "header": HEADER, "version": VERSION})
    found[f"{_FOLDER}/filenames.json"] = _text(
        {
            "counter_names": [],
            "gfxip": 9,
            "gfxv": "vega",
            "global_begin_time": 0,
            "version": VERSION,
            "wave_filenames": {"0": names},
        }
    )
    found[f"{_FOLDER}/occupancy.json"] = _text(
        {"0": _occupancy(waves), "dispatches": {"1": kernel}, "version": VERSION}
    )
    found[f"stats_{_FOLDER}.csv"] = "".join(stats)
    if code_object:
        found[f"0_code_object_id_{_OBJECT}.out"] = code_object
    return found


def _wave(
    trace: Trace,
    wave: int,
    number_of: Mapping[int, int],
    lines: Mapping[int, CodeLine],
    place: Callable[[WaveOp], int | None],
) -> dict[str, Any]:
    events = sorted(
        (event for event in trace.events if event.wave == wave),
        key=lambda event: (event.iteration, event.position),
    )
    rows = []
    for event in events:
        op = trace.instruction(event)
        key = place(op)
        assert key is not None
        stall, lasts = event.start - event.ready, event.free - event.ready
        category = _category(op, lines[key].text, trace)
        rows.append([event.ready, category, stall, lasts, number_of[key]])
    end = max((max(event.free, event.done) for event in events), default=0)
    program = trace.programs[wave]
    return {
        "duration": end,
        "name": "SE0",
        "num_insts": len(rows),
        "num_stitched": len(rows),
        "wave": {
            "begin": 0,
            "end": end,
            "cu": 0,
            "simd": program.simd,
            "slot": 0,
            "id": 0,
            "instructions": rows,
            "timeline": _timeline(trace, events, end),
            "waitcnt": [],
        },
    }


def _category_of(kind: Kind) -> int:
    return _OWN_CATEGORIES.get(kind, _CATEGORIES[kind.track])


def _category(op: WaveOp, text: str, trace: Trace) -> int:
    if op.kind is Kind.SALU and text.startswith(("s_branch", "s_cbranch")):
        return NEXT
    if op.unit.name == "GLOBAL" and read_text_line(text, trace.machine).name.startswith("flat_"):
        return FLAT
    return _category_of(op.kind)


def _timeline(trace: Trace, events: Sequence[Event], end: int) -> list[list[int]]:
    """State and cycles, in turn."""
    spans: list[list[int]] = []

    def add(state: int, cycles: int) -> None:
        if cycles > 0 and spans and spans[-1][0] == state:
            spans[-1][1] += cycles
        elif cycles > 0:
            spans.append([state, cycles])

    now = 0
    for event in events:
        add(_IDLE, event.ready - now)
        waits = _category_of(trace.instruction(event).kind) == IMMEDIATE
        add(_WAITS if waits else _STALLS, event.start - max(event.ready, now))
        add(_WAITS if waits else _RUNS, event.free - max(event.start, now))
        now = max(now, event.free)
    add(_WAITS, end - now)
    return spans


def _sums(waves: Any) -> dict[int, Sums]:
    found: dict[int, list[int]] = {}
    for rows in waves:
        latest = 0
        for at, (time, _, stall, lasts, number) in enumerate(rows):
            idle = max(0, time - latest) if at else 0
            latest = max(latest, time + lasts)
            row = found.setdefault(number, [0, 0, 0, 0])
            for column, value in enumerate((1, lasts, stall, idle)):
                row[column] += value
    return {number: Sums(*row) for number, row in found.items()}


def _occupancy(waves: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    rows = []
    for wave in waves:
        own = wave["wave"]
        where = [own["cu"], own["simd"], own["slot"]]
        rows += [[own["begin"], *where, 1, 1], [own["end"], *where, 0, 1]]
    return sorted(rows)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n"
