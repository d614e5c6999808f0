"""Watching a run: who executes what, which bytes an operation touches, when it is retired.

    class Stores:
        def begin(self, group): ...
        def execute(self, wave, step): ...
        def issue(self, wave, pending):
            for touch in pending.touches:
                print(wave.index, pending.instruction, touch.space, touch.addresses)
        def retire(self, wave, pending): ...

    run_kernel(..., observer=Stores())

An observer only looks. Registers read and written are ``step.reads`` and ``step.writes``; a branch
was taken when the next ``execute`` of the wave is not the following step; ``wave.barriers`` counts
barriers. Vector registers may lag behind the run: what an operation does to memory is in its
``Pending``, not in ``wave.v``.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pipeloom.array_kinds import Indices, Places, Words

if TYPE_CHECKING:
    from pipeloom.judge.emulate.pending import Pending
    from pipeloom.judge.emulate.step import MicroOp
    from pipeloom.judge.emulate.wave import Wave
    from pipeloom.judge.emulate.workgroup import Workgroup


class AddressSpace(Enum):
    """The memory that an operation touches."""

    LDS = "LDS"
    GLOBAL = "global"


class Effect(Enum):
    """What it does there."""

    READ = "reads"
    WRITE = "writes"
    UPDATE = "updates"


class LaneAccess(NamedTuple):
    """``size`` bytes at each address, one address per lane that takes part.

    LDS addresses count from the workgroup's first byte; those outside LDS are left out. Global ones
    are absolute, without the lanes that a buffer descriptor cuts off.
    """

    space: AddressSpace
    effect: Effect
    lanes: Indices
    addresses: Places
    size: int
    values: Words | None = None
    """What a write stores, a row of words per address, where it is known at issue; for a copy into
    LDS, where each word comes from. Comparable between operations of one instruction."""


class Observer(Protocol):
    """Called as the run goes, in the order of the run."""

    def begin(self, group: Workgroup) -> None:
        """A workgroup starts: its waves have their launch registers."""

    def execute(self, wave: Wave, step: MicroOp) -> None:
        """The wave is about to execute the step."""

    def issue(self, wave: Wave, pending: Pending) -> None:
        """The step put an operation in flight."""

    def retire(self, wave: Wave, pending: Pending) -> None:
        """A wait of the wave covered the operation."""
