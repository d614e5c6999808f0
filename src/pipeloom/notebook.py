"""What a notebook shows of a result: a title, a sentence, a drawing and a small table as HTML.

Values call this from ``_repr_html_``. It lies below all of them, so that none has to know ``show``;
what draws them lies above and is loaded by its name when a notebook asks (``PAINTER``). The
fragment takes fonts and the colour of text from the notebook, holds no script and asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module

SHOWN = 8
"""Rows of a table; the rest is counted."""
PAINTER = "pipeloom.drive.painting:paint"
"""``module:function`` of what draws a value: a name, as of an entry point, and no import."""


def fragment(
    title: str,
    text: str,
    columns: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
    *,
    drawn: object = None,
) -> str:
    """A ``<div>`` with the title in bold; texts and cells are escaped, floats have one decimal.

    Where ``drawn`` has a course in time, such as a program, that is drawn between text and table.

    Args:
        title: What it is.
        text: A sentence about it.
        columns: The head of the table.
        rows: The rows of the table, if any.
        drawn: The value itself.
    """
    found = list(rows)
    parts = [f"<div><b>{escape(title)}</b> {escape(text)}"]
    if drawn is not None:
        parts.append(_drawing(drawn))
    if found:
        parts.append(_table(columns, found[:SHOWN]))
    if len(found) > SHOWN:
        parts.append(f"and {len(found) - SHOWN} more")
    return "".join([*parts, "</div>"])


def story(title: str, waves: Sequence[int], steps: Iterable[tuple[int, str]]) -> str:
    """What waves do one after the other, a column for each, as HTML; empty without steps.

    Args:
        title: What the story is about.
        waves: The columns.
        steps: Wave and text, in order.
    """
    told = list(steps)
    if not told:
        return ""
    columns = ["", *(f"wave {wave}" for wave in waves)]
    rows = [
        [number, *(text if wave == own else "" for wave in waves)]
        for number, (own, text) in enumerate(told, start=1)
    ]
    return f"<div><b>{escape(title)}</b>{_table(columns, rows)}</div>"


def _drawing(value: object) -> str:
    module, _, name = PAINTER.partition(":")
    return str(getattr(import_module(module), name)(value))


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_row("th", columns), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    texts = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
