"""A trace in the terminal: who issues what, two trips of the loop side by side with the units.

Time runs to the right, one character per bucket of cycles. A wave's row shows what it spent most
of the bucket on; a unit's row shows which wave holds it, or how full it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.simulate.estimate import Estimate
from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Cause, Event, LoopPhase, StallRow, Trace
from pipeloom.program import Program
from pipeloom.show.headers import limit_text, no_loop_text
from pipeloom.show.segments import StepStall, matrix_end, shares, stalls_by_step
from pipeloom.show.step_rows import listing, main_loop, pace

TIMELINE_ITERATIONS = 2
OUTSIDE_FROM = 8
"""Of twelve rows of stalls, this many may be the loop's."""
_MARGIN = 15

_ISSUE = {
    Kind.MFMA: ("M", "green"),
    Kind.VALU: ("v", "green"),
    Kind.TRANS: ("x", "green"),
    Kind.PACKED: ("p", "green"),
    Kind.LDS_READ: ("R", "cyan"),
    Kind.LDS_WRITE: ("W", "blue"),
    Kind.GLOBAL_TO_LDS: ("G", "magenta"),
    Kind.GLOBAL_TO_VGPR: ("G", "magenta"),
    Kind.GLOBAL_STORE: ("S", "magenta"),
    Kind.BARRIER: ("|", "red"),
    Kind.WAIT: ("w", "yellow"),
}
_STALL = {
    Cause.OTHER_WAVE: ("|", "red"),
    Cause.LOADS: ("g", "yellow"),
    Cause.LDS_DATA: ("r", "yellow"),
    Cause.MATRIX_UNIT: ("m", "bright_black"),
}
_OTHER_STALL = ("-", "bright_black")
_LEGEND = (
    "M R G W: issues MFMA, LDS read, load, LDS write.  m g r: waits for matrix unit, loads, LDS.  "
    "|: barrier.  w: issues a wait.  -: other.  .: nothing."
)
_VECTOR_LEGEND = "v x p: issues vector, transcendental, packed instructions.  "

Cell = tuple[str, str]
Span = tuple[int, int, Cell]


def render_trace(
    trace: Trace, program: Program | None = None, *, width: int = 118, stalls: int = 12
) -> RenderableType:
    """The figures, the timeline of two steady trips, and the worst stalls.

    ``program`` is what was run, if it is one; where its loop did not run, there is no timeline.
    """
    parts: list[RenderableType] = [_headline(trace, program), Text()]
    if trace.iterations:
        parts += [_timeline(trace, width), Text()]
    return Group(*parts, stall_table(trace, program, stalls))


def _headline(trace: Trace, program: Program | None) -> Text:
    if not trace.iterations:
        text = Text("the loop does not run" if program is None else no_loop_text(program), "bold")
        text.append(
            f"\n{trace.machine.arch}, {len(trace.programs)} waves: {trace.total_cycles} cycles, "
            f"prologue {trace.prologue_cycles} and epilogue {trace.epilogue_cycles} only",
            style="not bold",
        )
        return text
    efficiency = max(trace.steady_matrix_efficiency(), default=0.0)
    text = Text()
    cycles = trace.steady_cycles_per_iteration
    if program is None:
        text.append(f"{cycles:.0f} cycles per trip", style="bold")
    else:
        each, trip = pace(program, cycles)
        text.append(each, style="bold")
        text.append(f" ({trip})" if trip else "")
        others = len(program.trips) > 1
        text.append(
            f" in the loop {main_loop(program, program.groups[0]).name!r}" if others else ""
        )
    title, limit = limit_text(trace.limiting_unit())
    text.append(f", matrix unit {efficiency:.1%} busy\n{title}: {limit}\n")
    text.append(
        f"{trace.machine.arch}, {_count(len(trace.programs), 'wave')}, "
        f"{_count(trace.iterations, 'trip')}: "
        f"{trace.total_cycles} cycles (prologue {trace.prologue_cycles}, epilogue "
        f"{trace.epilogue_cycles})"
    )
    return text


def stall_table(trace: Trace, program: Program | None, most: int) -> RenderableType:
    """Where the waves stood longest; cycles per trip for loop points.

    An MFMA behind another in the matrix unit is work, not lost time, and is not listed.
    """
    rows = _rows(trace, program)[:most]
    if not rows:
        return Text("no stalls: no wave stood, but for a busy matrix unit", "bold")
    table = Table(title="stalls", title_justify="left", title_style="bold", box=None)
    table.add_column("where")
    for name in ("mean", "worst wave"):
        table.add_column(name, justify="right")
    table.add_column("waits for", overflow="fold")
    for where, mean, worst, waited_for in rows:
        table.add_row(where, f"{mean:.0f}", f"{worst:.0f}", waited_for)
    return table


def _rows(trace: Trace, program: Program | None) -> list[tuple[str, float, float, str]]:
    """Where, mean, worst wave, on what: by step of the program, or by position in a stream."""
    if program is None:
        return [
            (
                f"{row.phase.value}[{row.position}] {row.label}",
                row.mean,
                max(row.cycles),
                _waited_for(row),
            )
            for row in trace.stall_table()
            if row.mean > 0 and row.cause is not Cause.MATRIX_UNIT
        ]
    return [
        (f"{row.where} {row.label}", row.mean, row.worst, _waited_for(row))
        for row in _loop_first(stalls_by_step(trace, listing(program)))
    ]


def _loop_first(rows: Sequence[StepStall]) -> list[StepStall]:
    """Lost time of the loop before that outside of it, of which only the worst."""
    outside = [row for row in rows if row.phase is not LoopPhase.LOOP]
    return [*[row for row in rows if row.phase is LoopPhase.LOOP][:OUTSIDE_FROM], *outside]


def _waited_for(row: StallRow | StepStall) -> str:
    return f"{row.cause.text}: {row.waited_for}" if row.waited_for else row.cause.text


def render_estimate(estimate: Estimate) -> Text:
    """The whole-GPU model with its assumptions."""
    text = Text("\nwhole GPU, a model: ", style="bold")
    text.append(f"{estimate.tflops:.0f} TFLOPS", style="bold green")
    text.append(
        f" at {estimate.clock_ghz:.2f} GHz ({estimate.tflops_at_peak_clock:.0f} at the peak), "
        f"{estimate.microseconds:.0f} us, limit: {estimate.bound}; "
        f"{_count(estimate.workgroups, 'workgroup')} in {_count(estimate.rounds, 'round')}, "
        f"the last {estimate.last_round_share:.0%} full"
    )
    for assumption in estimate.assumptions:
        text.append(f"\n  assumes {assumption}", style="bright_black")
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _timeline(trace: Trace, width: int) -> Text:
    first, _ = trace.steady_window
    last = min(first + TIMELINE_ITERATIONS, trace.iterations)
    begin, end = trace.marks[0][first], trace.marks[0][last]
    columns = max(width - _MARGIN, 20)
    step = max((end - begin) / columns, 1.0)
    waves = [w for w, p in enumerate(trace.programs) if p.simd == trace.programs[0].simd]
    text = Text(f"cycles {begin} to {end}, {step:.0f} per character, waves of one SIMD\n", "bold")
    for wave in waves:
        add_wave(text, f"wave {wave}", trace, wave, begin, end, step)
    tops: list[str] = []
    for name, cells, top in _unit_rows(trace, waves, begin, end, step):
        if top is not None:
            tops.append(f"{top:.0f} for {name}")
        text.append(f"{name:>{_MARGIN - 2}}  ", "bright_black")
        _append(text, cells)
    shown = {trace.instruction(e).kind for e in trace.events if begin <= e.start < end}
    vector = _VECTOR_LEGEND if shown & {Kind.VALU, Kind.TRANS, Kind.PACKED} else ""
    text.append(f"{vector}{_LEGEND}  {_digits(tops)}", "bright_black")
    return text


def add_wave(
    text: Text, name: str, trace: Trace, wave: int, begin: int, end: int, step: float
) -> None:
    """A wave's row: what it spent most of each bucket on."""
    events = [e for e in trace.events if e.wave == wave]
    text.append(f"{name:>{_MARGIN - 2}}  ", "bright_black")
    _append(text, _dominant(_wave_spans(trace, events), begin, end, step))


def _digits(tops: Sequence[str]) -> str:
    """What the digits of the units' rows stand for."""
    return (
        "Matrix unit: the wave that holds it.  Depths: operations under way in the whole CU, as a "
        f"share of the most, which is 9: {', '.join(tops)}."
    )


def _append(text: Text, cells: Iterable[Cell]) -> None:
    for character, style in cells:
        text.append(character, style)
    text.append("\n")


def _wave_spans(trace: Trace, events: Sequence[Event]) -> list[Span]:
    spans: list[Span] = []
    for event in events:
        if event.start > event.ready:
            spans.append((event.ready, event.start, _STALL.get(event.cause, _OTHER_STALL)))
        cell = _ISSUE.get(trace.instruction(event).kind)
        if cell is not None:
            spans.append((event.start, event.free, cell))
    return spans


def _dominant(spans: Sequence[Span], begin: int, end: int, step: float) -> list[Cell]:
    """For each bucket the cell that covers most of it; a dot where nothing does."""
    buckets: list[dict[Cell, float]] = [{} for _ in range(round((end - begin) / step))]
    for start, stop, cell in spans:
        for index, covered in shares(start, min(stop, end), begin, step, len(buckets)):
            buckets[index][cell] = buckets[index].get(cell, 0.0) + covered
    empty: Cell = (".", "bright_black")
    return [max(b, key=lambda cell: b[cell]) if b else empty for b in buckets]


def _unit_rows(
    trace: Trace, waves: Sequence[int], begin: int, end: int, step: float
) -> Iterable[tuple[str, list[Cell], float | None]]:
    """Name, cells, and of a depth what its 9 stands for."""
    matrix: list[Span] = []
    for event in trace.events:
        instruction = trace.instruction(event)
        if event.wave in waves and instruction.kind is Kind.MFMA:
            colour = ("green", "bright_cyan")[trace.programs[event.wave].group % 2]
            matrix.append((event.start, matrix_end(trace, event), (str(event.wave % 10), colour)))
    yield "matrix unit", _dominant(matrix, begin, end, step), None
    loads = (Kind.GLOBAL_TO_LDS, Kind.GLOBAL_TO_VGPR)
    reads = (Kind.LDS_READ, Kind.LDS_WRITE)
    yield "LDS depth", *_depth(trace, reads, begin, end, step, "cyan")
    yield "loads flying", *_depth(trace, loads, begin, end, step, "magenta")


def _depth(
    trace: Trace, kinds: tuple[Kind, ...], begin: int, end: int, step: float, style: str
) -> tuple[list[Cell], float]:
    """How many of the CU's operations are under way, on a scale of nine, and the most of them."""
    count = round((end - begin) / step)
    depth = [0.0] * count
    for event in trace.events:
        if trace.instruction(event).kind not in kinds:
            continue
        for index, covered in shares(event.start, min(event.done, end), begin, step, count):
            depth[index] += covered / step
    most = max(depth, default=0.0)
    top = most or 1.0
    cells = [(" 123456789"[min(round(9 * d / top), 9)] if d else ".", style) for d in depth]
    return cells, most
