"""Registers that may hold something else for a given reason, step by step along a path.

Three questions are of this kind, and differ in what a load brings: which registers depend on data
in memory (``register_flow``), on how often a loop ran (``drift``), on which wave it is
(``store_sources``). Only registers are followed: a value that goes through memory is answered by
``loaded``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.check.static import EXEC_BITS, SCALARS, Static
from pipeloom.judge.emulate.register_numbers import ALL_LANES

Loaded = Callable[[int, bool], bool]
"""Whether what the load at a time brings is meant, given whether its operands are."""


class Taint:
    """The registers meant, before the next step of a wave."""

    def __init__(
        self,
        trace: WaveTrace,
        steps: Sequence[Static],
        lanes: Sequence[int],
        loaded: Loaded,
        held: int = 0,
    ) -> None:
        self.held = held
        self._trace, self._steps, self._lanes, self._loaded = trace, steps, lanes, loaded
        self._loads = {time for time, _, _, _ in trace.loads}

    @property
    def masked(self) -> bool:
        """Whether EXEC is meant: other lanes might be active."""
        return bool(self.held & EXEC_BITS)

    def step(self, time: int) -> Static:
        """The step at a time."""
        return self._steps[time]

    def advance(self, time: int) -> None:
        """Execute the step at ``time``."""
        step = self.step(time)
        if not step.writes:
            return
        asked = bool(step.reads & self.held)
        if time in self._loads:
            hit = self._loaded(time, asked)
        else:
            hit = asked or (self.masked and not step.scalar)
        if step.joins and self._all_on(time, step):
            self.held &= ~step.writes
            return
        saves = step.saves if self.masked else 0
        if hit:
            self.held = self.held & ~step.saves | step.writes & ~step.saves | saves
        elif step.clean:
            every = step.whole or (self._lanes[time] == ALL_LANES and not self.masked)
            self.held &= ~(step.writes if every else step.writes & SCALARS)
            self.held |= saves

    def _all_on(self, time: int, step: Static) -> bool:
        """EXEC |= the mask that the wave began with, which is not meant itself."""
        added = self._trace.joined.get(time)
        return added == self._lanes[0] and not step.reads & ~EXEC_BITS & self.held
