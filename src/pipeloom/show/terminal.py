"""A program as coloured terminal tables, section by section and track by track.

Each row of a section ends with work of the matrix unit and starts with everything issued since the
one before, in issue order: what the reader wants to see is which waits and barriers stand between
a load and its use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pipeloom.program import Program
from pipeloom.show.dependence_graph import FLOW, KINDS, Graph
from pipeloom.show.headers import sync_text, tile_text
from pipeloom.show.step_rows import STYLES, Listing, StepRow, counts, listing, offset_text

TRAILING = ("priority", "barrier", "fence")


def render_program(program: Program, *, tile: str = "") -> RenderableType:
    """All sections, the synchronisation in numbers, how the program came about.

    ``tile`` is what to call its tile, by default its sizes.
    """
    rows = listing(program)
    parts: list[RenderableType] = [_headline(program, tile or tile_text(program)), Text()]
    for first, numbers in rows.sections():
        members = [rows.rows[n] for n in numbers]
        parts += [_section_table(program, rows, first, members), Text()]
    parts.append(_summary_table(program, rows))
    parts += [Text(f"note: {note}", style="yellow") for note in program.provenance.notes]
    return Group(*parts)


def _headline(program: Program, tile: str) -> Text:
    text = Text(program.name, style="bold")
    text.append(f"  {tile}; {program.target.arch}, {program.waves} waves", style="not bold")
    found = program.provenance.ordered
    if found is not None:
        text.append(f"; order {found.strategy}", style="not bold")
        if found.cycles is not None:
            state = "proved optimal" if found.proved else f"lower bound {found.bound}"
            text.append(f": {found.cycles} cycles ({state})", style="not bold")
    if sync_text(program):
        text.append(f"; {sync_text(program)}", style="not bold")
    return text


def _section_table(
    program: Program, found: Listing, first: StepRow, rows: Sequence[StepRow]
) -> Table:
    section = first.section
    title = f"{section.name}: {found.lengths(first.track, section.name)} steps"
    if section.trips is not None:
        title += f", {section.trips} times, advancing {section.advance}"
    elif section.first.constant or section.first.factors:
        title += f", iterations from {section.first}"
    waves = found.title(first.track)
    table = Table(
        title=f"{waves}, {title}" if waves else title,
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1),
        show_header=False,
    )
    table.add_column("block", justify="right", style="bright_black", no_wrap=True)
    table.add_column("slots", justify="right", style="bright_black", no_wrap=True)
    table.add_column("issue order", overflow="fold")
    for number, block in enumerate(_blocks(rows)):
        slots = f"{block[0].slot}-{block[-1].slot}" if len(block) > 1 else str(block[0].slot)
        table.add_row(str(number), slots, _IssueLine(tuple(_label(program, r) for r in block)))
    return table


def _label(program: Program, row: StepRow) -> Text:
    waves = f" ({row.waves})" if row.waves else ""
    return Text(f"{row.label}{offset_text(program, row.step)}{waves}", style=STYLES[row.role])


def _blocks(rows: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Split after each product and the priority drop, barrier and fence that trail it."""
    block: list[StepRow] = []
    closing = False
    for row in rows:
        if closing and row.role != "matrix" and row.role not in TRAILING:
            yield block
            block, closing = [], False
        block.append(row)
        closing = closing or row.role == "matrix"
    if block:
        yield block


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


def _summary_table(program: Program, found: Listing) -> Table:
    table = Table(title="synchronisation", title_justify="left", title_style="bold", box=None)
    counters = [counter.name for counter in program.target.counters]
    for column in ("section", "steps", *counters, "as instructions", "barriers", "fences"):
        table.add_column(column, justify="left" if column == "section" else "right")
    for first, _ in found.sections():
        c = counts(first.section)
        waits = [c.waits.get(name, 0) for name in counters]
        steps = found.lengths(first.track, first.section.name)
        values = (steps, *waits, c.coalesced_waits, c.barriers, c.fences)
        name = " ".join(filter(None, (found.title(first.track), first.section.name)))
        table.add_row(name, *(str(v) for v in values))
    return table


def render_graph(graph: Graph) -> RenderableType:
    """ASAP, ALAP and slack of every op, the edges, and the critical path."""
    critical = set(graph.critical)
    ops = Table(title="ops", title_justify="left", title_style="bold", box=None)
    for name in ("op", "label", "latency", "ASAP", "ALAP", "slack"):
        ops.add_column(name, justify="left" if name == "label" else "right")
    ops.add_column("needs (+d: from d iterations before)")
    for i, op in enumerate(graph.ops):
        needs = ", ".join(
            f"{e.producer}{'' if e.kind == FLOW else KINDS[e.kind][0]}"
            f"{f'+{e.distance}' if e.distance else ''}"
            for e in graph.edges
            if e.consumer == i
        )
        ops.add_row(
            str(i),
            Text(op.label + op.offset, style=STYLES[op.role]),
            str(op.latency),
            str(graph.asap[i]),
            str(graph.alap[i]),
            str(graph.slack[i]),
            needs,
            style="bold" if i in critical else "",
        )
    path = " -> ".join(graph.ops[i].label + graph.ops[i].offset for i in graph.critical)
    footer = Text(f"{len(graph.edges)} edges (a: anti, o: output). ")
    footer.append(f"Critical path, {graph.longest_path} cycles: {path}")
    return Group(ops, Text(), footer)


def graph_dot(graph: Graph) -> str:
    """The dependence graph for Graphviz; dashed edges are anti, labels are distances."""
    colours = {
        "load": "plum",
        "lds_read": "lightcyan",
        "matrix": "palegreen",
        "vector": "honeydew",
        "lds_write": "lightblue",
    }
    lines = [
        "digraph body {",
        "  rankdir=LR;",
        '  node [shape=box, style=filled, fillcolor="white"];',
    ]
    for i, op in enumerate(graph.ops):
        colour = colours.get(op.role, "white")
        label = f"{i}: {op.label}{op.offset}".replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{i} [label="{label}", fillcolor="{colour}"];')
    for e in graph.edges:
        style = "solid" if e.kind == FLOW else "dashed"
        distance = f', label="{e.distance}", constraint=false' if e.distance else ""
        lines.append(f"  n{e.producer} -> n{e.consumer} [style={style}{distance}];")
    return "\n".join([*lines, "}"]) + "\n"
