"""What a notebook shows of a result: a title, a sentence and a small table as an HTML fragment.

Values call this from ``_repr_html_``. It lies below all of them, so that none has to know ``show``.
The fragment takes colours and fonts from the notebook and holds no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 8
"""Rows of a table; the rest is counted."""


def fragment(
    title: str, text: str, columns: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()
) -> str:
    """A ``<div>`` with the title in bold; texts and cells are escaped, floats have one decimal."""
    found = list(rows)
    parts = [f"<div><b>{escape(title)}</b> {escape(text)}"]
    if found:
        lines = [_row("th", columns), *(_row("td", row) for row in found[:SHOWN])]
        parts.append(f"<table>{''.join(lines)}</table>")
    if len(found) > SHOWN:
        parts.append(f"and {len(found) - SHOWN} more")
    return "".join([*parts, "</div>"])


def _row(tag: str, cells: Sequence[object]) -> str:
    texts = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
