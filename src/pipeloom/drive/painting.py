"""The course in time of whatever a notebook shows: a few trips, simulated and drawn.

``notebook.PAINTER`` names ``paint``. What cannot run has no drawing; that is no error, because a
prompt must show any value.
"""

from __future__ import annotations

from pipeloom.drive.programs import as_program
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.issued import simulate
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine_code import simulate_emitted
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.show.small_timeline import small_timeline
from pipeloom.show.step_rows import trip_counts
from pipeloom.write import EmittedKernel

TRIPS = 4
"""Of the loop; the last one is drawn, when it is steady."""


def paint(value: object) -> str:
    """A drawing as HTML; empty where there is nothing to draw.

    Args:
        value: A program, a schedule, a kernel or a trace.
    """
    try:
        found = _run(value)
    except ScheduleError:
        return ""
    return "" if found is None else small_timeline(found)


def _run(value: object) -> Trace | None:
    if isinstance(value, Trace):
        return value
    if isinstance(value, EmittedKernel):
        launch = value.launch
        tile = launch.tiles.get(launch.meaning.over, 1)
        return simulate_emitted(value, k_tiles=(value.k_min + TRIPS * value.k_step) // tile)
    if isinstance(value, CompiledSchedule | PipelineSchedule):
        value = as_program(value)
    if not isinstance(value, Program):
        return None
    least = max(value.trips[-1].least, TRIPS) if value.trips else 0
    return simulate(value, iterations=value.iterations.at(trip_counts(value, least)))
