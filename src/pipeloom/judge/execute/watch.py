"""Whoever reads the wrong thing: every operand compared with the value that its step names.

Costs as much as the run itself, so a run is watched only when somebody wants to know why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeloom.array_kinds import Array, Flags
from pipeloom.judge.execute.actions import Action, Side
from pipeloom.judge.execute.outcome import Fault, StepAt, Suspect
from pipeloom.judge.execute.truth import Truth
from pipeloom.program.tiles import project

if TYPE_CHECKING:
    from pipeloom.judge.execute.unrolled import Line


class Watch:
    """Collects suspects."""

    def __init__(self, truth: Truth, size: int) -> None:
        self._truth = truth
        self._suspects: dict[tuple[object, int], Suspect] = {}
        self._touched: Flags = np.zeros(size, bool)
        self._flying: dict[Line, None] = {}

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """In the order in which they were met."""
        return tuple(self._suspects.values())

    def issued(self, line: Line) -> None:
        """``line`` issues."""
        write = line.action.write
        if write.side in (Side.LDS, Side.REGISTERS):
            self._touched[write.index] = True
            if line.counted:
                self._flying[line] = None

    def wrote(self, line: Line) -> None:
        """A counted ``line`` has written."""
        self._flying.pop(line, None)

    def read(self, line: Line, number: int, value: Array) -> None:
        """``line`` reads ``value`` ([elements, set]) as its operand of that number."""
        action = line.action
        place = action.reads[number]
        if place.side is Side.INPUT and action.work.is_copy:
            return
        undefined = np.isnan(value).any(axis=-1)
        causes: list[StepAt] = []
        if undefined.any():
            fault = Fault.UNDEFINED
            if place.side is not Side.INPUT:
                touched = place.index[undefined]
                causes = self._on_the_way(line, place.side, touched)
                if causes:
                    fault = Fault.IN_FLIGHT
                elif not self._touched[touched].all():
                    fault = Fault.UNWRITTEN
        elif place.side is Side.REGISTERS and (
            causes := self._on_the_way(line, place.side, place.index)
        ):
            fault = Fault.IN_FLIGHT  # whatever lies there: an old number may equal the new one
        else:
            wanted = self._wanted(line, action, number)
            if wanted is not None and wanted[0].shape == value.shape:
                low, high = wanted
                if ((value >= low) & (value <= high) | np.isnan(low)).all():
                    return
            fault = Fault.OTHER
        self._suspects.setdefault(
            (line, number),
            Suspect(fault, line.place, action.work.label, place.name, tuple(causes)),
        )

    def _on_the_way(self, line: Line, side: Side, touched: Array) -> list[StepAt]:
        """Which writes to ``touched`` have been issued and have not landed."""
        return [
            other.place
            for other in self._flying
            if other is not line
            and other.action.write.side is side
            and np.isin(touched, other.action.write.index).any()
        ]

    def _wanted(self, line: Line, action: Action, number: int) -> tuple[Array, Array] | None:
        """The least and the largest that the operand may be, of the part that the step works on,
        flat; None if it has no value."""
        meaning = self._truth.meaning
        name = action.operands[number]
        work, node = action.work, action.node
        loop = work.iteration is not None
        allowed = self._truth.value(name, line.iteration if loop else None)
        if allowed is None:
            return None
        domain = meaning.domain(node) if action.op is not None else node.type
        box = work.part(line.local) or domain.whole
        dims = meaning[name].type.dims
        slices = tuple(slice(a, b) for a, b in project(box, domain.dims, dims))
        count = len(node.uses) if action.op is not None else 1
        onto = list(domain.dims if number < count else node.type.dims)
        order = [*sorted(range(len(dims)), key=lambda i: onto.index(dims[i])), len(dims)]
        sets = allowed.value.shape[-1]
        low, high = (
            end[slices].transpose(order).reshape(-1, sets) for end in (allowed.low, allowed.high)
        )
        return low, high
