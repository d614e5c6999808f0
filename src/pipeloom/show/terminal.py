"""A compiled schedule as coloured terminal tables.

Each row of a phase is one MMA with everything issued since the previous one, in issue order:
what the reader wants to see is which waits and barriers stand between a load and its use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pipeloom.reference.compiled import CompiledSchedule, ScheduleEntry
from pipeloom.reference.graph import DepKind, LoopBody
from pipeloom.reference.ops import OpRole, OpTag, Phase
from pipeloom.show.headers import tile_text
from pipeloom.show.labels import STYLES, Labels

KIND_MARKS = {DepKind.FLOW: "", DepKind.ANTI: "a", DepKind.OUTPUT: "o"}


def render_schedule(compiled: CompiledSchedule, *, elements: str | None = None) -> RenderableType:
    """The three phases, the wait summary, the certificate and the notes.

    ``elements`` is that of ``headers.tile_text``.
    """
    labels = Labels(compiled)
    parts: list[RenderableType] = [_headline(compiled, elements), Text()]
    for phase in Phase:
        parts += [_phase_table(compiled, phase, labels), Text()]
    parts += [_summary_table(compiled)]
    parts += [Text(f"note: {note}", style="yellow") for note in compiled.notes]
    return Group(*parts)


def _headline(compiled: CompiledSchedule, elements: str | None) -> Text:
    c = compiled.certificate
    state = "proved optimal" if c.proved else "not proved optimal"
    text = Text()
    text.append(compiled.schedule, style="bold")
    text.append(
        f"  {tile_text(compiled, elements)}; depth {compiled.config.depth}, "
        f"{len(compiled.body)} ops, order {c.strategy}: {c.measure} {c.makespan} cycles, "
        f"lower bound {c.lower_bound} ({state}), VGPR peak {c.vgpr_peak}"
    )
    return text


def _phase_table(compiled: CompiledSchedule, phase: Phase, labels: Labels) -> Table:
    entries = compiled.phase(phase)
    table = Table(
        title=f"{phase.name.lower()}: {len(entries)} entries",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1),
        show_header=False,
    )
    table.add_column("block", justify="right", style="bright_black", no_wrap=True)
    table.add_column("slots", justify="right", style="bright_black", no_wrap=True)
    table.add_column("issue order", overflow="fold")
    for number, row in enumerate(_rows(entries)):
        slots = f"{row[0].time_slot}-{row[-1].time_slot}" if len(row) > 1 else str(row[0].time_slot)
        table.add_row(str(number), slots, _issue_line(row, labels))
    return table


def _rows(entries: Sequence[ScheduleEntry]) -> Iterator[list[ScheduleEntry]]:
    """Split after each MMA and the priority drop, barrier and fence that trail it."""
    row: list[ScheduleEntry] = []
    closing = False
    trailing = (OpTag.SET_PRIO, OpTag.BARRIER, OpTag.SCHEDULE_BARRIER)
    for entry in entries:
        is_compute = entry.op.role is OpRole.COMPUTE
        if closing and not is_compute and entry.op.tag not in trailing:
            yield row
            row, closing = [], False
        row.append(entry)
        closing = closing or is_compute
    if row:
        yield row


@dataclass(frozen=True, slots=True)
class _IssueLine:
    """Labels side by side, wrapped between labels and never inside one."""

    labels: tuple[Text, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for label in self.labels:
            if line and line.cell_len + 2 + label.cell_len > options.max_width:
                yield line
                line = Text()
            if line:
                line.append("  ")
            line.append_text(label)
        yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        total = sum(label.cell_len + 2 for label in self.labels) - 2
        widest = max(label.cell_len for label in self.labels)
        return Measurement(widest, min(total, options.max_width))


def _issue_line(row: Sequence[ScheduleEntry], labels: Labels) -> _IssueLine:
    return _IssueLine(
        tuple(
            Text(
                labels.of(entry.op),
                style="bold red" if entry.op.tag == OpTag.BARRIER else STYLES[entry.op.role],
            )
            for entry in row
        )
    )


def _summary_table(compiled: CompiledSchedule) -> Table:
    table = Table(title="synchronisation", title_justify="left", title_style="bold", box=None)
    for column in ("phase", "entries", "vm waits", "lgkm waits", "as instructions"):
        table.add_column(column, justify="left" if column == "phase" else "right")
    table.add_column("barriers", justify="right")
    table.add_column("fences", justify="right")
    for phase in Phase:
        c = compiled.counts(phase)
        values = (c.entries, c.wait_vm, c.wait_lgkm, c.coalesced_waits, c.barriers, c.fences)
        table.add_row(phase.name.lower(), *(str(v) for v in values))
    return table


def render_graph(body: LoopBody, labels: Labels) -> RenderableType:
    """ASAP, ALAP and slack of every op, the edges, and the critical path."""
    critical = set(body.critical_path)
    ops = Table(title="ops", title_justify="left", title_style="bold", box=None)
    for name in ("op", "label", "latency", "ASAP", "ALAP", "slack"):
        ops.add_column(name, justify="left" if name == "label" else "right")
    ops.add_column("needs (+d: from d iterations before)")
    for i, op in enumerate(body.ops):
        needs = ", ".join(
            f"{e.producer}{KIND_MARKS[e.kind]}{f'+{e.loop_distance}' if e.loop_distance else ''}"
            for e in body.edges
            if e.consumer == i
        )
        ops.add_row(
            str(i),
            Text(labels.of(op), style=STYLES[op.role]),
            str(op.latency),
            str(body.asap[i]),
            str(body.alap[i]),
            str(body.slack[i]),
            needs,
            style="bold" if i in critical else "",
        )
    path = " -> ".join(labels.of(body.ops[i]) for i in body.critical_path)
    footer = Text(f"{len(body.edges)} edges (a: anti, o: output). ")
    footer.append(f"Critical path, {body.longest_path} cycles: {path}")
    return Group(ops, Text(), footer)


def graph_dot(body: LoopBody, labels: Labels) -> str:
    """The dependence graph for Graphviz; dashed edges are anti, labels are distances."""
    colours = {
        OpRole.GLOBAL_LOAD: "plum",
        OpRole.FRAGMENT_LOAD: "lightcyan",
        OpRole.COMPUTE: "palegreen",
        OpRole.SHARED_STORE: "lightblue",
    }
    lines = [
        "digraph body {",
        "  rankdir=LR;",
        '  node [shape=box, style=filled, fillcolor="white"];',
    ]
    for i, op in enumerate(body.ops):
        colour = colours.get(op.role, "white")
        lines.append(f'  n{i} [label="{i}: {labels.of(op)}", fillcolor="{colour}"];')
    for e in body.edges:
        style = "solid" if e.kind == 0 else "dashed"
        distance = f', label="{e.loop_distance}", constraint=false' if e.loop_distance else ""
        lines.append(f"  n{e.producer} -> n{e.consumer} [style={style}{distance}];")
    return "\n".join([*lines, "}"]) + "\n"
