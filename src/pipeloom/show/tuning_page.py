"""The page of a tuning run: throughput over shapes, where the time goes, how the search went.

One HTML file without scripts: pictures are SVG, made here, and details open by themselves. It may
fetch nothing. Rows are plain data, as ``pipeloom tune --json`` gives them, with ``trials`` (block,
bound, microseconds), a ``link`` to the kernel's report, and ``published`` where there is a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from pipeloom.show.page import asset

COLOURS: Mapping[str, str] = {
    "matrix unit": "var(--mma)",
    "power": "var(--mma)",
    "idle units and padding": "var(--scalar)",
    "order of the loop": "var(--vector)",
    "latency of loads": "var(--global)",
    "start and end of tiles": "var(--wait)",
    "HBM bandwidth": "var(--race)",
    "MALL bandwidth": "var(--barrier)",
    "split-K": "var(--accent)",
    "copies to aligned rows": "var(--needs)",
    "launch": "var(--quiet)",
}
"""Of limits and parts; those of other names are units that bind a loop."""
OTHER = "var(--lds)"
WIDTH, HEIGHT, LEFT, BOTTOM = 900, 380, 64, 40
BAR = 560

_STYLE = """
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .axis { stroke: var(--line); } svg .roof { stroke: var(--quiet); fill: none; }
.key i { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }
td, th { padding: 2px 8px; text-align: right; } td:first-child, th:first-child { text-align: left; }
.sideways td, .sideways th { white-space: nowrap; }
.sideways svg { min-width: 640px; }
details { margin: 4px 0; }
"""


def render_tuning(
    title: str, rows: Sequence[Mapping[str, Any]], *, peak_tflops: float, hbm_gb_per_s: float
) -> str:
    """The page; ``peak_tflops`` and ``hbm_gb_per_s`` are the roofs."""
    published = [row for row in rows if row.get("published")]
    error = ""
    if published:
        mean = sum(abs(r["tflops"] / r["published"] - 1) for r in published) / len(published)
        error = f"; {len(published)} published figures, mean error {100 * mean:.1f} %"
    cards = (
        ("Throughput", _roofline(rows, peak_tflops, hbm_gb_per_s)),
        ("Where the time goes", _parts(rows)),
        ("Shapes", _table(rows)),
        ("The search as it went", "".join(_search(row) for row in rows)),
    )
    body = "".join(
        f'<section class="card"><div class="head"><h2>{name}</h2></div>{content}</section>'
        for name, content in cards
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{asset('page.css')}{_STYLE}</style>\n</head>\n"
        f'<body>\n<header class="top"><div><h1>{escape(title)}</h1>'
        f'<p class="quiet">{len(rows)} shapes; predicted, not measured{error}</p></div></header>\n'
        f"<main>{body}</main>\n</body>\n</html>\n"
    )


def _shape(row: Mapping[str, Any]) -> str:
    return f"{row['m']}x{row['n']}x{row['k']}"


def _block(row: Mapping[str, Any]) -> str:
    block = row["block"]
    waves = block["waves_m"] * block["waves_n"]
    split = f", K in {row['split_k']}" if row["split_k"] > 1 else ""
    return f"{block['m']}x{block['n']}x{block['k']}, {waves} waves{split}"


def _colour(name: str) -> str:
    return COLOURS.get(name, OTHER)


def _key(names: Iterable[str]) -> str:
    found = "".join(
        f'<span><i style="background: {_colour(name)}"></i>{escape(name)}</span>' for name in names
    )
    return f'<p class="quiet key">{found}</p>'


class _Log:
    """An axis in powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        self.low, self.high = low, max(high, low + 1)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """With their halves and fifths."""
        steps = [f * 10.0**p for p in range(self.low, self.high) for f in (1, 2, 5)]
        return [*steps, 10.0**self.high]


def _intensity(row: Mapping[str, Any]) -> float:
    """Operations for each byte of A, B and C, read or written once."""
    m, n, k = row["m"], row["n"], row["k"]
    inputs = (1 if row["dtype"] == "fp8" else 2) * (m + n) * k
    return float(2 * m * n * k / (inputs + 2 * m * n))


def _roofline(rows: Sequence[Mapping[str, Any]], peak: float, hbm: float) -> str:
    """Throughput over operations per byte, under the roofs of HBM and of the matrix units."""
    across = _Log([_intensity(row) for row in rows], LEFT, WIDTH - 30)
    speeds = [row["tflops"] for row in rows] + [r["published"] for r in rows if r.get("published")]
    up = _Log([*speeds, peak], HEIGHT - BOTTOM, 10)
    parts = []
    for tick in across.ticks:
        x = across(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{up.start}"/>')
        parts.append(f'<text x="{x:.1f}" y="{up.start + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in up.ticks:
        y = up(tick)
        parts.append(
            f'<line class="axis" x1="{LEFT}" x2="{across.end}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    ends = [10.0**across.low, 10.0**across.high]
    knee = peak * 1e3 / hbm
    path = [
        (x, min(peak, x * hbm / 1e3))
        for x in sorted({*ends, *([knee] if ends[0] < knee < ends[1] else [])})
    ]
    path = [(x, max(y, 10.0**up.low)) for x, y in path]
    points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in path)
    parts.append(f'<polyline class="roof" points="{points}"/>')
    for row in rows:
        x, y = across(_intensity(row)), up(row["tflops"])
        told = f"{_shape(row)}: {row['tflops']:.0f} TFLOPS, {_block(row)}; limit: {row['limit']}"
        if row.get("published"):
            other = up(row["published"])
            told += f"; published {row['published']:.0f}"
            parts.append(
                f'<line class="roof" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{other:.1f}"/>'
            )
            parts.append(
                f'<rect x="{x - 4:.1f}" y="{other - 4:.1f}" width="8" height="8" fill="none" '
                'stroke="var(--ink)"/>'
            )
        parts.append(
            _linked(
                row,
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{_colour(row["limit"])}">'
                f"<title>{escape(told)}</title></circle>",
            )
        )
    limits = sorted({row["limit"] for row in rows})
    about = (
        "TFLOPS over operations per byte of A, B and C; circles are predicted, coloured by what "
        "binds, squares published. The line: HBM, then the matrix units at the peak clock."
    )
    picture = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Roofline">{"".join(parts)}'
        "</svg>"
    )
    return f'<p class="quiet">{about}</p>{_sideways(picture)}{_key(limits)}'


def _sideways(wide: str) -> str:
    """What scrolls where the screen is narrower than it."""
    return f'<div class="sideways">{wide}</div>'


def _linked(row: Mapping[str, Any], content: str) -> str:
    link = row.get("link")
    return content if not link else f'<a href="{escape(link, quote=True)}">{content}</a>'


def _parts(rows: Sequence[Mapping[str, Any]]) -> str:
    """A bar for each shape: shares of its time."""
    height, parts = 18, []
    seen: dict[str, None] = {}
    for number, row in enumerate(rows):
        x, y = 170.0, number * height
        whole = sum(row["parts_us"].values()) or 1.0
        parts.append(f'<text x="164" y="{y + 13}" text-anchor="end">{escape(_shape(row))}</text>')
        for name, us in row["parts_us"].items():
            if us <= 0:
                continue
            seen.setdefault(name)
            wide = BAR * us / whole
            told = escape(f"{name}: {us:.1f} us, {us / whole:.0%}")
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 2}" width="{wide:.1f}" height="{height - 4}" '
                f'fill="{_colour(name)}"><title>{told}</title></rect>'
            )
            x += wide
        text = f"{row['tflops']:.0f} TFLOPS, {row['limit']}"
        parts.append(f'<text x="{BAR + 178}" y="{y + 13}">{escape(text)}</text>')
    picture = (
        f'<svg viewBox="0 0 {WIDTH + 60} {len(rows) * height}" role="img" aria-label="Where the '
        f'time of each shape goes">{"".join(parts)}</svg>'
    )
    return _sideways(picture) + _key(seen)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for row in rows:
        figure = row.get("published")
        cells = (
            _linked(row, escape(_shape(row))),
            escape(_block(row)),
            f"{row['tflops']:.0f}",
            f"{figure:.0f} ({100 * (row['tflops'] / figure - 1):+.0f} %)" if figure else "",
            f"{row['microseconds']:.1f}",
            f"{row['clock_ghz']:.2f}",
            f"{row['efficiency']:.0%}",
            escape(row["limit"]),
        )
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = ("M x N x K", "block", "TFLOPS", "published", "us", "GHz", "busy", "limit")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return _tabled(head, "".join(lines))


def _tabled(head: str, body: str) -> str:
    return _sideways(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _search(row: Mapping[str, Any]) -> str:
    """The blocks of a shape in the order in which they were timed."""
    lines = "".join(
        f"<tr><td>{escape(block)}</td><td>{bound:.2f}</td>"
        f"<td>{'no order fits' if us is None else f'{us:.2f}'}</td></tr>"
        for block, bound, us in row["trials"]
    )
    others = row["candidates"] - len(row["trials"])
    rest = f"the best of the {others} others takes at least {row['open_us']:.2f} us"
    head = "<th>block</th><th>bound, us</th><th>derived, us</th>"
    return (
        f"<details><summary>{escape(_shape(row))}: {len(row['trials'])} of {row['candidates']} "
        f"blocks timed</summary>{_tabled(head, lines)}"
        f'<p class="quiet">{rest if row["open_us"] else ""}</p></details>'
    )
