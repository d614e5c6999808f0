"""Programs side by side: one row per variant, the best of each column in bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import LoopPhase, Trace
from pipeloom.judge.verify.findings import Verdict
from pipeloom.program import Program
from pipeloom.show.headers import limit_text, tile_text
from pipeloom.show.segments import Rows, stalls_by_step
from pipeloom.show.step_rows import advance, listing, loop_counts

WIDE = 120
NOT_ASKED = "-"
"""The verdict of what was only timed."""
_CAUSES = 48
"""Characters that the columns of causes need to be readable."""
_FIRST_TO_GO = ("tile", "stalled", "waits", "barriers")
_STYLES = {"PROVED": "green", "TIMING": "yellow", "RACE": "red"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of one variant: of its steady loop, and of one wave's steps in it."""

    name: str
    """The variant as it was given."""
    cycles_per_trip: float
    """Cycles per trip of the steady loop."""
    matrix_efficiency: float
    """The share of them in which the matrix unit works."""
    limiting_unit: str
    """What keeps it from being faster."""
    total_cycles: int
    """Cycles of the whole run."""
    waits: int
    """Waits of a trip."""
    barriers: int
    """Barriers of a trip."""
    stall_cycles: float
    """Cycles that a wave stands still per trip, waits for the matrix unit apart; the mean of the
    waves."""
    top_stall: str
    """Where the waves lose most time, waits for the matrix unit apart."""
    verdict: str
    """The verdict's status."""
    tile: str
    """The tile type."""
    k_tiles_per_trip: int
    """K tiles that a trip computes; 0 where nobody knows."""

    @property
    def cycles(self) -> float:
        """Of one K tile; of one trip where nobody knows how many that is."""
        return self.cycles_per_trip / (self.k_tiles_per_trip or 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the field names."""
        return asdict(self)


def compare(
    name: str, program: Program, trace: Trace, verdict: Verdict, *, tile: str = ""
) -> Comparison:
    """The row of one variant; ``tile`` is what to call its tile, by default its sizes."""
    counts = loop_counts(program)
    return _row(
        name,
        trace,
        listing(program),
        waits=counts.coalesced_waits,
        barriers=counts.barriers,
        verdict=verdict.status.name,
        tile=tile or tile_text(program),
        k_tiles_per_trip=advance(program),
    )


def instruction_row(
    name: str, trace: Trace, rows: Rows, verdict: str = NOT_ASKED, trips: int = 1
) -> Comparison:
    """The row of instructions that are no program's; their work is the matrix unit's.

    An iteration of the trace is so many ``trips`` of the loop; 0 where there is none.
    """
    body, per = trace.programs[0].loop, max(trips, 1)
    flops = sum(
        one.matrix_op.flops for p in trace.programs for one in p.loop if one.matrix_op is not None
    )
    return _row(
        name,
        trace,
        rows,
        trips=trips,
        waits=sum(one.kind is Kind.WAIT for one in body) // per,
        barriers=sum(one.kind is Kind.BARRIER for one in body) // per,
        verdict=verdict,
        tile=f"{flops / per / 1e6:.2f} MFLOP",
        k_tiles_per_trip=0,
    )


def _row(name: str, trace: Trace, rows: Rows, *, trips: int = 1, **own: Any) -> Comparison:
    """What every trace tells, per trip; and what is the variant's own."""
    stalls = [row for row in stalls_by_step(trace, rows) if row.phase is LoopPhase.LOOP]
    per, top = max(trips, 1), "none"
    if stalls:
        worst = stalls[0]
        top = f"{worst.where} {worst.label}, {worst.mean / per:.0f}: {worst.cause.text}"
    cycles = trace.steady_cycles_per_iteration / per if trips else float(trace.total_cycles)
    busy = trace.steady_matrix_efficiency() if trips else trace.matrix_efficiency()
    return Comparison(
        name=name,
        cycles_per_trip=round(cycles, 2),
        matrix_efficiency=round(max(busy, default=0.0), 4),
        limiting_unit=trace.limiting_unit(),
        total_cycles=trace.total_cycles,
        stall_cycles=round(sum(row.mean for row in stalls) / per, 1),
        top_stall=top,
        **own,
    )


def render_comparison(rows: Sequence[Comparison], *, width: int = WIDE) -> RenderableType:
    """The table; names stay whole, and where it would not fit columns go, the least telling first.

    The verdict comes second so that a fast racing schedule is seen for what it is. A tile that all
    share is said once below; without room for causes they go below too, one line per variant.
    """
    tiles = sorted({row.tile for row in rows})
    columns = _columns(rows)
    if len(tiles) > 1:
        columns["tile"] = [Text(row.tile) for row in rows]
    left_out = []
    for name in _FIRST_TO_GO:
        if _width(columns) > width and name in columns:
            del columns[name]
            left_out.append(name)
    wide = width >= WIDE and width - _width(columns) >= _CAUSES
    table = Table(box=None, padding=(0, 1))
    for name in columns:
        justify: JustifyMethod = "left" if name in ("variant", "verdict", "tile") else "right"
        table.add_column(name, justify=justify, no_wrap=name != "variant", overflow="fold")
    if wide:
        table.add_column("limit", overflow="fold")
        table.add_column("top stall, cycles", overflow="fold")
    for index, row in enumerate(rows):
        cells = [column[index] for column in columns.values()]
        table.add_row(*cells, *((_limit(row), row.top_stall) if wide else ()))
    sums = sorted({row.k_tiles_per_trip for row in rows})
    text = Text("\nsteady loop: ", "bright_black")
    text.append("cycles per K tile, the rest per trip" if any(sums) else "per trip")
    if len(sums) == 1 and sums[0]:
        text.append(f" of {sums[0]} K tile{'' if sums[0] == 1 else 's'}")
    if any(sums) and not all(sums):
        text.append("; of streams and files, cycles per trip")
    if not _same_work(rows):
        text.append("; variants differ in work, so compare by MFMA, the matrix unit's busy share")
    if "stalled" in columns:
        text.append("; stalled: mean of the waves")
    if len(tiles) == 1:
        text.append(f"; tile: {tiles[0]}")
    told = [name for name in left_out if name != "tile"]
    if told:
        text.append(f"; left out for want of width: {', '.join(told)}")
    if not wide:
        for row in rows:
            tile = f"{row.tile}; " if len(tiles) > 1 and "tile" not in columns else ""
            text.append(f"\n{row.name}", "default")
            text.append(f": {tile}{_limit(row)}; most stalled at {row.top_stall}")
    return Group(table, text)


def _limit(row: Comparison) -> str:
    title, limit = limit_text(row.limiting_unit)
    return f"{title} {limit}" if title == "limited by" else f"{title}: {limit}"


def _same_work(rows: Sequence[Comparison]) -> bool:
    """Whether the cycles of every variant are of equally much work, so that they compare."""
    return len({(row.tile, row.k_tiles_per_trip > 0) for row in rows}) == 1


def _columns(rows: Sequence[Comparison]) -> dict[str, list[Text]]:
    best = min((row.cycles for row in rows), default=0.0)
    if not _same_work(rows):
        best = -1.0
    sums = [row.k_tiles_per_trip for row in rows]
    tiles = [Text(str(number) if number else "-") for number in sums]
    differ = {"K tiles a trip": tiles} if len(set(sums)) > 1 else {}
    return {
        "variant": [Text(row.name) for row in rows],
        "verdict": [Text(row.verdict, style=_STYLES.get(row.verdict, "")) for row in rows],
        "cycles": [
            Text(
                f"{row.cycles:.0f}",
                style="bold" if row.cycles == best else "",
            )
            for row in rows
        ],
        **differ,
        "MFMA": [Text(f"{row.matrix_efficiency:.1%}") for row in rows],
        "waits": [Text(str(row.waits)) for row in rows],
        "barriers": [Text(str(row.barriers)) for row in rows],
        "stalled": [Text(f"{row.stall_cycles:.0f}") for row in rows],
    }


def _width(columns: Mapping[str, Sequence[Text]]) -> int:
    """Characters of the table, each column with a space on both sides."""
    return sum(
        2 + max([len(name), *(cell.cell_len for cell in cells)]) for name, cells in columns.items()
    )
