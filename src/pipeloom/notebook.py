"""What a notebook shows of a result: a title, a sentence, a drawing and a small table as HTML.

Values call this from ``_repr_html_``. It lies below all of them, so that none has to know ``show``;
what draws them lies above and is loaded by its name when a notebook asks (``PAINTER``). The
fragment takes fonts and the colour of text from the notebook, holds no script and asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Protocol

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


class Told(Protocol):
    """A line of a story: what a wave does next."""

    @property
    def wave(self) -> int: ...
    @property
    def text(self) -> str: ...


def story(where: str, lines: Sequence[Told]) -> str:
    """How it can go wrong: a column for each wave, as HTML; empty without lines.

    Args:
        where: What the waves disagree about.
        lines: What they do, in order.
    """
    if not lines:
        return ""
    waves = sorted({line.wave for line in lines})
    columns = ["", *(f"wave {wave}" for wave in waves)]
    rows = [
        [number, *(line.text if wave == line.wave else "" for wave in waves)]
        for number, line in enumerate(lines, start=1)
    ]
    title = escape(f"How it can go wrong, from the top: {where}")
    return f"<div><b>{title}</b>{_table(columns, rows)}</div>"


def _drawing(value: object) -> str:
    module, _, name = PAINTER.partition(":")
    return str(getattr(import_module(module), name)(value))


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_row("th", columns), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    texts = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
