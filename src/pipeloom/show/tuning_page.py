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

from pipeloom.machine.dtypes import dtype_for
from pipeloom.show.page import asset

COLOURS: Mapping[str, tuple[str, str]] = {
    "matrix unit": ("#2f8f5b", "#3fa56d"),
    "power": ("#e3b505", "#e9c53d"),
    "idle units and padding": ("#a9b1bc", "#8a94a3"),
    "order of the loop": ("#e072b8", "#ef8fcb"),
    "latency of loads": ("#7a4fb3", "#8f63d6"),
    "start and end of tiles": ("#e0701f", "#f08a3c"),
    "HBM bandwidth": ("#a3170f", "#c22f26"),
    "MALL bandwidth": ("#7b5334", "#96704f"),
    "split-K": ("#12a5b0", "#35cdd8"),
    "copies to aligned rows": ("#173a86", "#2f55b8"),
    "launch": ("#454f5c", "#cfd6df"),
}
"""Of limits and parts, in light and dark."""
OTHERS = (("#3b8fd0", "#63b0ee"), ("#b9d94a", "#c9e66a"), ("#f0a3a0", "#f5b7b3"))
"""Of what has another name: units that bind a loop, in the order in which they come."""
NAMED = 14
"""Shapes whose names stand beside their circles; more would hide each other."""


def render_tuning(
    title: str, rows: Sequence[Mapping[str, Any]], *, peak_tflops: float, hbm_gb_per_s: float
) -> str:
    """The page; ``peak_tflops`` and ``hbm_gb_per_s`` are the roofs."""
    published = [row for row in rows if row.get("published")]
    error = ""
    if published:
        mean = sum(abs(r["tflops"] / r["published"] - 1) for r in published) / len(published)
        figures = f"published figure{'' if len(published) == 1 else 's'}"
        error = f"; {len(published)} {figures}, mean error {100 * mean:.1f} %"
    palette = _Palette(rows)
    cards = (
        ("Throughput", _roofline(rows, peak_tflops, hbm_gb_per_s, palette)),
        ("Where the time goes", _parts(rows, palette)),
        ("Shapes", _table(rows)),
        ("The search as it went", "".join(_search(row) for row in rows)),
    )
    quiet = f"{len(rows)} shapes; predicted, not measured{error}"
    return framed_page(title, quiet, cards, asset("tuning.css") + palette.style)


def framed_page(title: str, quiet: str, cards: Sequence[tuple[str, str]], style: str) -> str:
    """A page of cards, each with its title and what is in it, without any script."""
    body = "".join(
        f'<section class="card"><div class="head"><h2>{escape(name)}</h2></div>{content}</section>'
        for name, content in cards
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{asset('page.css')}{style}</style>\n</head>\n"
        f'<body>\n<header class="top"><div><h1>{escape(title)}</h1>'
        f'<p class="quiet">{escape(quiet)}</p></div></header>\n'
        f"<main>{body}</main>\n</body>\n</html>\n"
    )


def _shape(row: Mapping[str, Any]) -> str:
    return f"{row['m']}x{row['n']}x{row['k']}"


def _block(row: Mapping[str, Any]) -> str:
    block = row["block"]
    waves = block["waves_m"] * block["waves_n"]
    split = f", K in {row['split_k']}" if row["split_k"] > 1 else ""
    return f"{block['m']}x{block['n']}x{block['k']}, {waves} waves{split}"


class _Palette:
    """A colour for every name on the page, as a variable that follows light and dark."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        names = [name for row in rows for name in (row["limit"], *row["parts_us"])]
        others = [name for name in dict.fromkeys(names) if name not in COLOURS]
        found = dict(COLOURS)
        found |= {name: OTHERS[n % len(OTHERS)] for n, name in enumerate(others)}
        self._numbers = {name: n for n, name in enumerate(found)}
        light, dark = (
            "".join(f"--part-{n}: {pair[scheme]}; " for n, pair in enumerate(found.values()))
            for scheme in (0, 1)
        )
        self.style = (
            f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
        )

    def __getitem__(self, name: str) -> str:
        return f"var(--part-{self._numbers[name]})"

    def key(self, names: Iterable[str]) -> str:
        """Which colour is what."""
        found = "".join(
            f'<span><i style="background: {self[name]}"></i>{escape(name)}</span>' for name in names
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
    dtype = dtype_for(row["dtype"])
    inputs = (m + n) * k * (dtype.bits / 8 + (1 / dtype.scale.size if dtype.scale else 0))
    return float(2 * m * n * k / (inputs + 2 * m * n))


def _roofline(rows: Sequence[Mapping[str, Any]], peak: float, hbm: float, palette: _Palette) -> str:
    """Throughput over operations per byte, under the roofs of HBM and of the matrix units."""
    limits = sorted({row["limit"] for row in rows})
    about = (
        "Circles are predicted, coloured by what binds"
        + (", squares published" if any(row.get("published") for row in rows) else "")
        + ". The line: HBM bandwidth, then the matrix units at the peak clock."
    )
    wide = _Chart(rows, peak, hbm, palette, 960, 400).svg("wide", named=len(rows) <= NAMED)
    narrow = _Chart(rows, peak, hbm, palette, 350, 340).svg("narrow", named=False)
    return f'<p class="quiet">{about}</p>{wide}{narrow}{palette.key(limits)}'


class _Chart:
    """The roofline at one width; text keeps its size, so that a telephone has one of its own."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        peak: float,
        hbm: float,
        palette: _Palette,
        width: int,
        height: int,
    ) -> None:
        self.rows, self.peak, self.hbm, self.palette = rows, peak, hbm, palette
        self.width, self.height = width, height
        self.across = _Log([_intensity(row) for row in rows], 58, width - 16)
        speeds = [row["tflops"] for row in rows]
        speeds += [row["published"] for row in rows if row.get("published")]
        self.up = _Log([*speeds, peak], height - 44, 12)

    def svg(self, kind: str, *, named: bool) -> str:
        parts = [*self._axes(), *self._roof(), *self._points()]
        if named:
            parts += self._names()
        return (
            f'<svg class="roofline {kind}" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="TFLOPS over operations per byte">{"".join(parts)}</svg>'
        )

    def _axes(self) -> Iterable[str]:
        across, up = self.across, self.up
        last = -1e9
        for tick in across.ticks:
            x = across(tick)
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{up.end}" y2="{up.start}"/>'
            if x - last >= 34:
                last = x
                end, below = "end" if x > across.end - 18 else "middle", up.start + 16
                yield f'<text x="{x:.1f}" y="{below}" text-anchor="{end}">{tick:g}</text>'
        last = 1e9
        for tick in up.ticks:
            y = up(tick)
            yield (
                f'<line class="axis" x1="{across.start}" x2="{across.end}" y1="{y:.1f}" '
                f'y2="{y:.1f}"/>'
            )
            if last - y >= 15:
                last = y
                x, below = across.start - 6, y + 4
                yield f'<text x="{x}" y="{below:.1f}" text-anchor="end">{tick:g}</text>'
        middle, low = (across.start + across.end) / 2, self.height - 8
        yield (
            f'<text class="title" x="{middle}" y="{low}" text-anchor="middle">'
            "operations per byte of A, B and C</text>"
        )
        centre = (up.start + up.end) / 2
        yield (
            f'<text class="title" x="12" y="{centre}" text-anchor="middle" '
            f'transform="rotate(-90 12 {centre})">TFLOPS</text>'
        )

    def _roof(self) -> Iterable[str]:
        across, up = self.across, self.up
        ends = [10.0**across.low, 10.0**across.high]
        knee = self.peak * 1e3 / self.hbm
        inside = [knee] if ends[0] < knee < ends[1] else []
        path = [(x, min(self.peak, x * self.hbm / 1e3)) for x in sorted({*ends, *inside})]
        points = " ".join(f"{across(x):.1f},{up(max(y, 10.0**up.low)):.1f}" for x, y in path)
        yield f'<polyline class="roof" points="{points}"/>'
        if path[-1][1] == self.peak:
            x, y, text = across.end - 4, up(self.peak) - 6, f"{self.peak:.0f} TFLOPS"
            yield f'<text class="named" x="{x}" y="{y:.1f}" text-anchor="end">{text}</text>'

    def _points(self) -> Iterable[str]:
        for row in self.rows:
            x, y = self.across(_intensity(row)), self.up(row["tflops"])
            told = f"{_shape(row)}: {row['tflops']:.0f} TFLOPS, {_block(row)}"
            told += f"; limit: {row['limit']}"
            if row.get("published"):
                other = self.up(row["published"])
                told += f"; published {row['published']:.0f}"
                yield (
                    f'<line class="roof" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{other:.1f}"/>'
                )
                yield (
                    f'<rect x="{x - 4:.1f}" y="{other - 4:.1f}" width="8" height="8" fill="none" '
                    'stroke="var(--ink)"/>'
                )
            circle = (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{self.palette[row["limit"]]}">'
                f"<title>{escape(told)}</title></circle>"
            )
            yield _linked(row, circle)

    def _names(self) -> Iterable[str]:
        """Names beside circles, moved down where another is in the way."""
        taken: list[tuple[float, float]] = []
        for row in sorted(self.rows, key=_intensity):
            text = escape(_shape(row))
            x, y = self.across(_intensity(row)), self.up(row["tflops"]) + 4
            while any(abs(y - other) < 12 and abs(x - left) < 110 for left, other in taken):
                y += 12
            taken.append((x, y))
            right = x > self.across.end - 110
            side = 'text-anchor="end"' if right else 'text-anchor="start"'
            place = x - 10 if right else x + 10
            yield f'<text class="named" x="{place:.1f}" y="{y:.1f}" {side}>{text}</text>'


def _sideways(wide: str) -> str:
    """What scrolls where the screen is narrower than it."""
    return f'<div class="sideways">{wide}</div>'


def _linked(row: Mapping[str, Any], content: str) -> str:
    link = row.get("link")
    return content if not link else f'<a href="{escape(link, quote=True)}">{content}</a>'


def _parts(rows: Sequence[Mapping[str, Any]], palette: _Palette) -> str:
    """A bar for each shape: shares of its time."""
    lines = []
    seen: dict[str, None] = {}
    for row in rows:
        whole = sum(row["parts_us"].values()) or 1.0
        shares = []
        for name, us in row["parts_us"].items():
            if us <= 0:
                continue
            seen.setdefault(name)
            told = escape(f"{name}: {us:.1f} us, {us / whole:.0%}", quote=True)
            style = f"width: {100 * us / whole:.2f}%; background: {palette[name]}"
            shares.append(f'<i style="{style}" title="{told}"></i>')
        text = f"{row['microseconds']:.1f} us, {row['tflops']:.0f} TFLOPS; {row['limit']}"
        lines.append(
            f"<span>{_linked(row, escape(_shape(row)))}</span>"
            f'<span class="share" role="img" aria-label="{escape(text, quote=True)}">'
            f'{"".join(shares)}</span><span class="quiet">{escape(text)}</span>'
        )
    return f'<div class="shares">{"".join(lines)}</div>{palette.key(seen)}'


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row for each shape; a column that nothing would stand in is left out."""
    columns = (
        ("M x N x K", "words", [_linked(row, escape(_shape(row))) for row in rows]),
        ("block", "words", [escape(_block(row)) for row in rows]),
        ("TFLOPS", "", [f"{row['tflops']:.0f}" for row in rows]),
        ("published", "", [_published(row) for row in rows]),
        ("time, us", "", [f"{row['microseconds']:.1f}" for row in rows]),
        ("clock, MHz", "", [f"{row['clock_ghz'] * 1000:.0f}" for row in rows]),
        ("matrix unit busy", "", [f"{row['efficiency']:.0%}" for row in rows]),
        ("limit", "words", [escape(row["limit"]) for row in rows]),
    )
    filled = [(name, kind, cells) for name, kind, cells in columns if any(cells)]
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind, _ in filled)
    lines = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{cells[n]}</td>' for _, kind, cells in filled)
        + "</tr>"
        for n in range(len(rows))
    )
    return _tabled(head, lines)


def _published(row: Mapping[str, Any]) -> str:
    figure = row.get("published")
    return f"{figure:.0f} ({100 * (row['tflops'] / figure - 1):+.0f} %)" if figure else ""


def _tabled(head: str, body: str) -> str:
    return _sideways(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _search(row: Mapping[str, Any]) -> str:
    """The blocks of a shape in the order in which they were timed."""
    lines = "".join(
        f'<tr><td class="words">{escape(block)}</td>'
        f"<td>{bound:.2f}</td>"
        f"<td>{'no order fits' if us is None else f'{us:.2f}'}</td></tr>"
        for block, bound, us in row["trials"]
    )
    others = row["candidates"] - len(row["trials"])
    rest = f"the best of the {others} others takes at least {row['open_us']:.2f} us"
    head = '<th class="words">block</th>' + "<th>bound, us</th><th>derived, us</th>"
    return (
        f"<details><summary>{escape(_shape(row))}: {len(row['trials'])} of {row['candidates']} "
        f"blocks timed</summary>{_tabled(head, lines)}"
        f'<p class="quiet">{rest if row["open_us"] else ""}</p></details>'
    )
