"""The report page: data, styles and scripts filled into one HTML file.

The file needs nothing from outside and may not fetch anything: its content security policy forbids
every request. Names from specs reach the page only as JSON text, which scripts put into text nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pipeloom.errors import InternalError

SCRIPTS = (
    "types.js",
    "dom.js",
    "theme.js",
    "range.js",
    "timeline_draw.js",
    "timeline.js",
    "graph_groups.js",
    "graph.js",
    "tables.js",
    "assembly.js",
    "search.js",
    "verdict.js",
    "main.js",
)
"""In order: each may use what stands before it."""


def fill_page(data: Mapping[str, Any], *others: Mapping[str, Any]) -> str:
    """The whole page as text; with others of the same kind, all are in it, side by side.

    Each of several says in ``meta.variant`` what it is called.
    """
    whole = _compact(data)
    if others:
        whole = {"variants": [whole, *(_compact(other) for other in others)]}
    parts = {
        "TITLE": _html(f"{_title(data, *others)} - pipeloom report"),
        "STYLE": asset("page.css"),
        "DATA": embedded_json(whole),
        "SCRIPT": "\n".join(asset(name) for name in SCRIPTS),
    }
    if "</script" in parts["SCRIPT"].lower():
        raise InternalError("a script would close its own element")
    page = []
    for piece in asset("page.html").split("%%"):
        page.append(parts.get(piece, piece))
    return "".join(page)


def _title(*pages: Mapping[str, Any]) -> str:
    """What a page is of; of several, their names."""
    metas = [page["meta"] for page in pages]
    if len(metas) > 1:
        return " vs ".join(meta["variant"] for meta in metas)
    return ", ".join(filter(None, (metas[0]["program"], metas[0]["shape"])))


_WAVE, _LABEL, _READY, _DONE, _PULSES = 0, 2, 5, 8, 13
"""Columns of a segment (``page_timeline``); between ready and done stand start and free."""


def _compact(data: Mapping[str, Any]) -> dict[str, Any]:
    """The segments of the timeline in less space, until the page is read (``types.js``).

    Every label is there once. A time is what has passed since the one before it, the first of a row
    since the wave was free; pulses of a single instruction follow from its times and are left out.
    """
    if data["timeline"] is None:
        return dict(data)
    run = data["timeline"]
    labels = sorted({row[_LABEL] for row in run["segments"]})
    numbers = {label: number for number, label in enumerate(labels)}
    free: dict[int, int] = {}
    rows = []
    for full in run["segments"]:
        row = list(full)
        ready, start, end, done = full[_READY : _DONE + 1]
        row[_READY : _DONE + 1] = (
            ready - free.get(row[_WAVE], 0),
            start - ready,
            end - start,
            done - end,
        )
        free[row[_WAVE]] = end
        row[_LABEL] = numbers[row[_LABEL]]
        if row[_PULSES] == [start - ready, end - start]:
            row[_PULSES] = 0
        rows.append(row)
    return {**data, "timeline": {**run, "labels": labels, "segments": rows}}


def embedded_json(data: Mapping[str, Any]) -> str:
    """Compact JSON that no browser can take for markup, whatever strings it holds."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def asset(name: str) -> str:
    """A file of ``show/assets``."""
    return (files("pipeloom.show") / "assets" / name).read_text(encoding="utf-8")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
