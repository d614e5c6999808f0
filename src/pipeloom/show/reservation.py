"""A modulo schedule in the terminal: bounds, the reservation table, what rotates.

The table has one line per unit and one column per run of slots modulo II, compressed to the width
of the terminal. A column shows the op that holds the unit for most of its slots, by a letter that
the legend explains; a unit with room for several shows how many hold it. A dot is an idle slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.order.modulo import Explanation, ModuloResult
from pipeloom.order.modulo.measure import UnitTable

SYMBOLS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
IDLE = "."


def render_solution(
    result: ModuloResult,
    *,
    width: int = 100,
    quantum: int = 1,
    explanation: Explanation | None = None,
) -> RenderableType:
    """II against its bounds, the table, the ops, buffers, and why II is not smaller."""
    parts: list[RenderableType] = [_bounds(result, quantum), Text()]
    parts += [*_reservations(result, width, quantum), Text(), _legend(result, quantum)]
    parts += [Text(), _needs(result)]
    parts.append(Text(f"why: {result.certificate.why}"))
    if explanation is not None:
        parts.append(_explained(explanation))
    return Group(*parts)


def _bounds(result: ModuloResult, quantum: int) -> Text:
    text = Text()
    text.append(result.problem, style="bold")
    text.append(f"\nII {result.ii}", style="bold green" if result.proved else "bold yellow")
    if quantum > 1:
        text.append(f" steps of {quantum} cycles = {result.ii * quantum} cycles")
    optimal = "proved optimal" if quantum == 1 else "no order of tiles in such steps is faster"
    state = optimal if result.proved else f"lower bound {result.lower_bound}"
    text.append(f" ({state}); ResMII {result.res_mii}, RecMII {result.rec_mii}")
    if result.recurrence:
        path = " -> ".join((*result.recurrence, result.recurrence[0]))
        text.append(f"\ncritical recurrence: {path}")
    return text


def _reservations(result: ModuloResult, width: int, quantum: int) -> list[RenderableType]:
    names = max((len(table.unit) for table in result.unit_tables), default=4)
    columns = max(8, min(result.ii, width - names - 12))
    per_column = -(-result.ii // columns)
    scale = f"1 column = {per_column} slot(s)"
    if quantum > 1:
        scale += f" of {quantum} cycles"
    title = Text(f"reservation table modulo {result.ii}: {scale}", style="bold")
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column("unit", no_wrap=True)
    table.add_column("slots", no_wrap=True)
    table.add_column("busy", justify="right", no_wrap=True)
    for row in result.unit_tables:
        capacity = row.capacity or 1
        busy = f"{100 * row.busy / (capacity * result.ii):.0f}%"
        table.add_row(row.unit, _slots(row, per_column), busy)
    return [title, table]


def _slots(row: UnitTable, per_column: int) -> Text:
    text = Text()
    for first in range(0, len(row.slots), per_column):
        window = row.slots[first : first + per_column]
        if row.capacity != 1:
            most = max(len(holders) for holders in window)
            text.append(str(min(most, 9)) if most else IDLE)
            continue
        text.append_text(_symbol(_chief(window)))
    return text


def _chief(window: Sequence[tuple[int, ...]]) -> int | None:
    """The op that holds most of these slots, if any holds one."""
    held = Counter(op for holders in window for op in holders)
    return min(held, key=lambda op: (-held[op], op)) if held else None


def _symbol(op: int | None) -> Text:
    if op is None:
        return Text(IDLE, style="bright_black")
    symbol = SYMBOLS[op] if op < len(SYMBOLS) else "#"
    return Text(symbol, style=COLOURS[op % len(COLOURS)])


def _legend(result: ModuloResult, quantum: int) -> Table:
    table = Table(box=None, padding=(0, 1))
    for name in ("", "op", "start", "stage", "slot"):
        table.add_column(name, justify="left" if name in ("", "op") else "right")
    if quantum > 1:
        table.add_column("cycle", justify="right")
    for op in sorted(range(len(result.ops)), key=lambda i: (result.starts[i], i)):
        cells = [str(result.starts[op]), str(result.stage(op)), str(result.slot(op))]
        if quantum > 1:
            cells.append(str(result.starts[op] * quantum))
        table.add_row(_symbol(op), result.ops[op], *cells)
    return table


def _needs(result: ModuloResult) -> Text:
    text = Text(f"stages {result.stages}")
    if result.buffers:
        text.append("; buffers: " + ", ".join(f"{name} {count}" for name, count in result.buffers))
    if result.lds_bytes:
        text.append(f"; LDS {result.lds_bytes} bytes")
    if result.register_peak:
        text.append(f"; registers at most {result.register_peak} live")
    for item in result.objectives:
        if not item.proved:
            text.append(f"\n{item.objective} {item.value} is not proved least", style="yellow")
    return text


def _explained(explanation: Explanation) -> Text:
    kind = "minimal" if explanation.minimal else "not shrunk to the end"
    text = Text(f"II {explanation.ii} is impossible; these conflict ({kind}):", style="bold")
    for line in explanation.words:
        text.append(f"\n  {line}", style="not bold")
    return text
