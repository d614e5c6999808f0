"""By how many cycles a simulated machine keeps unordered accesses of a recorded workgroup apart.

clock = SimulatedClock(study.program, study.arch)
clock(group, pairs)                 # a margin for each pair, the least of all runs (margins)
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.drive.margins import BUDGET, traces
from pipeloom.errors import ScheduleError
from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.prepared import GroupStudy
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.happens_before.nominal_clock import Window, margin
from pipeloom.machine.chips import target_for
from pipeloom.machine_code.recorded import RecordedKernel


class SimulatedClock:
    """Margins of the pairs of recorded workgroups."""

    def __init__(self, program: Sequence[MicroOp], arch: str) -> None:
        self._program, self._machine = program, target_for(arch)

    def __call__(self, group: GroupStudy, pairs: Pairs) -> list[int] | None:
        """A margin for each pair; None where the run is too long, or is none of the model's."""
        length = sum(len(wave.steps) for wave in group.record.waves)
        if length > BUDGET:
            return None
        rows = pairs.rows().tolist()
        best: list[int] | None = None
        try:
            whole = RecordedKernel(self._program, group.record, self._machine).whole()
            for trace in traces(whole.programs, self._machine, 0, length):
                at = {
                    (one.wave, one.position): Window(one.start, one.done, one.done)
                    for one in trace.events
                }
                found = [
                    margin(at[v, x], at[w, y], second_writes=kind in (Conflict.WAR, Conflict.WAW))
                    for v, x, w, y, kind, *_ in rows
                ]
                best = found if best is None else list(map(min, best, found))
        except (ScheduleError, KeyError):
            return None
        return best
