"""A trip of a trace as one SVG for notebooks: a lane per wave and per matrix unit.

Solid is issuing, pale is standing, as on the report page. Bars of one colour are one path, so that
thousands of instructions stay below ``MOST_BYTES``. There is no script, nothing is fetched, texts
are escaped, and colours follow light and dark; text has the colour of the notebook.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Trace
from pipeloom.show.segments import drawn_as, matrix_end, segments

MOST_BYTES = 90_000
WIDTH, LEFT, LANE, TOP = 960, 92, 18, 16
LEAST = 26
"""Pixels of a bar that has its name on it."""
_COLOURS = {
    "mma": ("matrix", "#3f8f63", "#4e9f73"),
    "second": ("matrix, second group", "#8dc4a7", "#2d6b4b"),
    "lds": ("LDS", "#2f86b4", "#4a9cc9"),
    "global": ("global memory", "#8660b0", "#a07fcb"),
    "wait": ("wait", "#c58a1c", "#d6a23c"),
    "barrier": ("barrier", "#c2554a", "#d8756a"),
    "scalar": ("scalar", "#9aa3af", "#6d7787"),
    "vector": ("vector", "#7f9a38", "#a3bf5c"),
}
"""Kind -> its name, and its colour in light and dark."""


class _Bar(NamedTuple):
    lane: int
    kind: str
    left: float
    right: float
    label: str = ""


def small_timeline(trace: Trace) -> str:
    """The last whole trip of a run, or all of a run without a loop, as a ``<div>`` with an SVG."""
    marks = trace.marks[0]
    first, last = 0, trace.total_cycles
    where = "the whole run"
    if trace.iterations:
        number = trace.iterations - 1
        first, last = marks[number], marks[number + 1]
        where = f"trip {number} of the simulated loop"
    lanes, axis = _SimdLanes(trace), _Axis(first, last)
    found = [s for s in segments(trace) if s.free > first and s.ready < last]
    stood = [axis.bar(lanes.wave[s.wave], drawn_as(trace, s), s.ready, s.start) for s in found]
    issued = [
        axis.bar(lanes.wave[s.wave], drawn_as(trace, s), s.start, s.free, s.label) for s in found
    ]
    busy = [
        axis.bar(lanes.matrix[program.simd], "second" if program.group else "mma", e.start, end)
        for e in trace.events
        for program in (trace.programs[e.wave],)
        if trace.instruction(e).kind is Kind.MFMA
        for end in (matrix_end(trace, e),)
        if end > first and e.start < last
    ]
    height = TOP + LANE * len(lanes.names)
    bars = [*issued, *busy]
    parts = [
        *_names(lanes.names),
        *_paths(_joined(stood), "pale"),
        *_paths(_joined(bars), ""),
        *axis.ticks(height),
    ]
    left = MOST_BYTES - sum(map(len, parts))
    for bar in issued:
        if bar.right - bar.left >= max(LEAST, 6 * len(bar.label)) and left > 0:
            parts.append(_caption(bar))
            left -= len(parts[-1])
    used = [kind for kind in _COLOURS if any(bar.kind == kind for bar in bars)]
    chip = f"{trace.machine.chip} ({trace.machine.arch})"
    told = f"{where}, {last - first} cycles on {chip}; solid: issuing, pale: standing"
    return (
        f'<div class="pipeloom-timeline">{_style()}'
        f'<svg viewBox="0 0 {WIDTH} {height + 18}" role="img" aria-label="{escape(told)}">'
        f"{''.join(parts)}</svg><p>{escape(told)}{_legend(used)}</p></div>"
    )


class _Axis:
    """Cycles on pixels."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self._scale = (WIDTH - LEFT - 4) / max(last - first, 1)

    def __call__(self, cycle: float) -> float:
        inside = min(max(cycle, self.first), self.last)
        return round(LEFT + (inside - self.first) * self._scale, 1)

    def bar(self, lane: int, kind: str, start: int, end: int, label: str = "") -> _Bar:
        return _Bar(lane, kind, self(start), self(end), label)

    def ticks(self, height: int) -> Iterator[str]:
        wanted = max((self.last - self.first) / 8, 1)
        power = 10 ** (len(str(int(wanted))) - 1)
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= wanted)
        for cycle in range(-(-self.first // step) * step, self.last + 1, step):
            x = self(cycle)
            yield f'<path class="grid" d="M{x:g} {TOP}V{height + 3}"/>'
            yield f'<text x="{x:g}" y="{height + 14}" class="tick">{cycle}</text>'


class _SimdLanes:
    """Per SIMD its waves, then its matrix unit, from the top."""

    def __init__(self, trace: Trace) -> None:
        self.names: list[str] = []
        self.wave: dict[int, int] = {}
        self.matrix: dict[int, int] = {}
        for simd in sorted({program.simd for program in trace.programs}):
            for number, program in enumerate(trace.programs):
                if program.simd == simd:
                    self.wave[number] = len(self.names)
                    self.names.append(f"wave {number}")
            self.matrix[simd] = len(self.names)
            self.names.append(f"SIMD {simd} MFMA")


def _joined(bars: Sequence[_Bar]) -> Iterator[_Bar]:
    """Bars without those that are too narrow to be seen; neighbours of one kind are one."""
    held: dict[int, _Bar] = {}
    for bar in sorted(bars, key=lambda one: (one.lane, one.left)):
        before = held.get(bar.lane)
        if before is not None and before.kind == bar.kind and bar.left - before.right < 0.3:
            held[bar.lane] = before._replace(right=max(before.right, bar.right))
            continue
        if before is not None:
            yield before
        held[bar.lane] = bar
    yield from held.values()


def _paths(bars: Iterator[_Bar], more: str) -> Iterator[str]:
    """All bars of a kind as one path."""
    by_kind: dict[str, list[str]] = {}
    for bar in bars:
        width = round(bar.right - bar.left, 1)
        if width > 0:
            top, tall = TOP + bar.lane * LANE + 2, LANE - 4
            path = f"M{bar.left:g} {top}h{width:g}v{tall}h{-width:g}z"
            by_kind.setdefault(bar.kind, []).append(path)
    for kind, found in by_kind.items():
        yield f'<path class="{f"{kind} {more}".strip()}" d="{"".join(found)}"/>'


def _names(names: Sequence[str]) -> Iterator[str]:
    for lane, name in enumerate(names):
        yield f'<text x="{LEFT - 6}" y="{TOP + lane * LANE + 13}" class="lane">{name}</text>'


def _caption(bar: _Bar) -> str:
    x, y = round((bar.left + bar.right) / 2, 1), TOP + bar.lane * LANE + 13
    return f'<text x="{x:g}" y="{y}" class="name">{escape(bar.label)}</text>'


def _legend(used: Sequence[str]) -> str:
    return "".join(f'<span><i class="{kind}"></i>{_COLOURS[kind][0]}</span>' for kind in used)


def _style() -> str:
    """Of this drawing alone: every rule begins with its class."""
    own = ".pipeloom-timeline"
    light = "".join(f"--{kind}:{colours[1]};" for kind, colours in _COLOURS.items())
    dark = "".join(f"--{kind}:{colours[2]};" for kind, colours in _COLOURS.items())
    fills = "".join(
        f"{own} path.{kind}{{fill:var(--{kind})}}{own} i.{kind}{{background:var(--{kind})}}"
        for kind in _COLOURS
    )
    return (
        f"<style>{own}{{{light}max-width:{WIDTH}px}}"
        f"@media (prefers-color-scheme:dark){{{own}{{{dark}}}}}{fills}"
        f"{own} svg{{width:100%;height:auto;display:block}}"
        f"{own} text{{font:10px sans-serif;fill:currentColor}}"
        f"{own} text.lane{{text-anchor:end}}{own} text.tick,{own} text.name{{text-anchor:middle}}"
        f"{own} text.name{{fill:#fff;pointer-events:none}}"
        f"{own} path.pale{{opacity:.3}}{own} path.grid{{stroke:currentColor;opacity:.2}}"
        f"{own} p{{font-size:12px;margin:4px 0}}"
        f"{own} i{{display:inline-block;width:10px;height:10px;margin:0 4px 0 12px}}</style>"
    )
