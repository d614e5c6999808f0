"""Measured over simulated in the terminal: two rows per wave, then the instructions that differ."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.simulate.trace import LoopPhase
from pipeloom.show.timeline import add_wave
from pipeloom.thread_trace import Overlay

_SHOWN = 12
_MARGIN = 18
_LEGEND = (
    "M R G W v: issues MFMA, LDS read, load, LDS write, vector.  m g r: waits for matrix unit, "
    "loads, LDS.  |: barrier.  -: stands, why is not recorded or other.  .: nothing."
)


def render_overlay(overlay: Overlay, rows: int = _SHOWN, *, width: int = 118) -> RenderableType:
    """The cycles of both, a trip of one SIMD's waves, and the largest differences."""
    parts: list[RenderableType] = [overlay_summary(overlay), Text()]
    if overlay.trips:
        parts += [_lanes(overlay, width - _MARGIN), Text()]
    return Group(*parts, _table(overlay, rows))


def overlay_summary(overlay: Overlay) -> Text:
    """One line of figures, and where they are from."""
    unit = "cycles per trip" if overlay.trips else "cycles"
    text = Text()
    text.append(f"{overlay.measured_cycles:.0f} {unit} measured", "bold")
    text.append(f", {overlay.simulated_cycles:.0f} simulated: {overlay.error:+.1%}\n", "bold")
    text.append(
        f"{overlay.kernel}, {len(overlay.measured.programs)} waves, {overlay.trips} trips, "
        f"simulated for {overlay.simulated.machine.arch}"
    )
    if overlay.capture.clock_mhz is not None:
        text.append(f", traced at {overlay.capture.clock_mhz:.0f} MHz")
    if len(overlay.others) > 1:
        low, high = min(overlay.others), max(overlay.others)
        text.append(
            f"\nthe median of {len(overlay.others)} workgroups, which took {low:.0f} to {high:.0f}"
        )
    return text


def _lanes(overlay: Overlay, columns: int) -> Text:
    simulated, measured = overlay.aligned()
    first, _ = simulated.steady_window
    begin = min(simulated.marks[0][first], measured.marks[0][first])
    end = max(simulated.marks[0][first + 1], measured.marks[0][first + 1])
    step = max((end - begin) / max(columns, 20), 1.0)
    text = Text(f"trip {first}, {step:.0f} cycles per character, waves of one SIMD\n", "bold")
    simd = simulated.programs[0].simd
    for wave, program in enumerate(simulated.programs):
        if program.simd == simd:
            add_wave(text, f"{wave} simulated", simulated, wave, begin, end, step)
            add_wave(text, f"{wave} measured", measured, wave, begin, end, step)
    text.append(_LEGEND, "bright_black")
    return text


def _table(overlay: Overlay, most: int) -> RenderableType:
    where = "cycles per trip in the loop" if overlay.trips else "cycles"
    table = Table(
        title=f"the largest differences, {where}, mean of its waves",
        title_justify="left",
        title_style="bold",
        box=None,
    )
    table.add_column("pc")
    table.add_column("instruction", no_wrap=True, overflow="ellipsis", min_width=24)
    for name in ("stall", "simulated", "issue", "simulated", "idle", "more"):
        table.add_column(name, justify="right")
    phase = LoopPhase.LOOP if overlay.trips else None
    rows = [row for row in overlay.rows if phase is None or row.phase is phase]
    for row in rows[:most]:
        m, s = row.measured, row.simulated
        table.add_row(
            f"{row.row.pc:#x}",
            row.row.text,
            *(f"{cycles:.0f}" for cycles in (m.stall, s.stall, m.issue, s.issue, m.idle)),
            f"{row.difference:+.0f}",
        )
    return table
