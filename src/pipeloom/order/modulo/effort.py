"""What a search may spend: seconds, deterministic work, and until Ctrl-C.

One ``Effort`` serves every phase of a call. CP-SAT reports the work of a solve itself; everything
else counts its steps here, so that a limit holds wherever the time goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

STEP_WORK = 2e-6
"""Work of one step: about the seconds of one question to a reservation table."""

CHECK_EVERY = 1000
"""Steps between two looks at the limits."""

SLOTS_PER_STEP = 4096
"""Slots of a reservation table that one step covers."""


class OutOfEffort(Exception):  # noqa: N818 - control flow, never seen by a user
    """A limit was reached in the middle of a search that is not CP-SAT's."""


@dataclass(slots=True)
class Effort:
    """How much a call may spend, and how it reports.

    ``work_left`` is in CP-SAT's deterministic time, about a second a unit: a search that it ends
    gives the same answer on every machine, unlike one that ``deadline`` ends.
    """

    deadline: float | None
    workers: int
    seed: int
    work_left: float | None = None
    interrupted: bool = False
    tick: Callable[[], None] | None = None
    steps: int = 0

    def remaining(self) -> float | None:
        """Seconds left, or None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def spent(self) -> bool:
        """Whether no further solve may start."""
        left = self.remaining()
        late = left is not None and left <= 0.0
        return self.interrupted or late or self.worked_out()

    def worked_out(self) -> bool:
        """Whether the work limit is used up."""
        return self.work_left is not None and self.work_left <= 0.0

    def share(self, work: float | None) -> float | None:
        """``work``, or what is left if that is less."""
        if self.work_left is None:
            return work
        left = max(0.0, self.work_left)
        return left if work is None else min(work, left)

    def charge(self, work: float) -> None:
        """Note what a solve took."""
        if self.work_left is not None:
            self.work_left -= work

    def step(self, count: int = 1) -> None:
        """Note ``count`` steps of a search; raises ``OutOfEffort`` when a limit is reached."""
        self.steps += count
        if self.steps >= CHECK_EVERY:
            self.charge(self.steps * STEP_WORK)
            self.steps = 0
            if self.spent():
                raise OutOfEffort
