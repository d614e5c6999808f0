"""What is left along a dimension, as an operand of vector instructions.

An element's coordinate is a part of the lane, a part of the wave and a constant of the register.
So one register per pattern of lanes is computed in front of a step, from the scalar unit's count of
what is left behind the tile's first element, and a constant is taken off for each element.
"""

from __future__ import annotations

import numpy as np

from pipeloom.errors import InternalError
from pipeloom.program import Access, Node, Work
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.linear import LaneNumber, PlannedNumber, lane_number
from pipeloom.write.lower.register_tiles import Coordinates
from pipeloom.write.lower.templates import float_bits


class Left:
    """A LEFT node read by one step."""

    def __init__(self, context: Context, work: Work, access: Access, node: Node) -> None:
        self._context, self._work, self._node = context, work, node
        self._dim = node.type.dims[0]
        self._starts = np.array([box[0][0] for box in context.boxes(access, work.parts)])
        self._patterns: dict[LaneNumber, int] = {}
        self._lanes: list[str] = []
        """What lanes take off, by pattern."""
        self._slots: list[tuple[int, int]] = []
        self._base = ""
        if self._moves:
            context.clock.follow_elements()

    @property
    def _moves(self) -> bool:
        return self._dim == self._context.clock.over

    def slot(self, coordinates: Coordinates) -> int:
        """The number under which a register's elements are asked for: coordinates in the part."""
        table = coordinates[None, :] + self._starts[:, None]
        least = int(table.min())
        number = lane_number(table - least, f"the place of a lane along {self._dim}")
        if number not in self._patterns:
            self._patterns[number] = len(self._patterns)
            context = self._context
            self._lanes.append(self._prepared(number))
            self._base = context.frame.scratch(f"left {self._dim}", len(self._patterns))
        self._slots.append((self._patterns[number], least))
        return len(self._slots) - 1

    def _prepared(self, number: LaneNumber) -> str:
        frame = self._context.frame
        planned = PlannedNumber.of(frame, self._context.group.waves, number)
        work = frame.work(0)

        def make(code: Code, result: Register) -> None:
            planned.write(code, result, frame[work])

        return frame.prepared(("left", number), "place of a lane", make, late=True)

    def begin(self, code: Code, *, whole: bool = False) -> None:
        """Compute what all registers of the step have in common; as integers if ``whole``."""
        context, frame = self._context, self._context.frame
        if self._moves:
            if self._work.iteration is None:
                raise InternalError(f"{self._work.label} has no iteration")
            first = context.clock.elements_left(code, self._work.iteration)
        else:
            first = context.memory.bound(self._dim)
        for at in range(len(self._lanes)):
            base = frame[self._base].part(at)
            code("v_sub_u32", base, first, frame[self._lanes[at]])
            if not whole:
                code("v_cvt_f32_i32", base, base)

    def pattern(self, slot: int) -> int:
        """Which pattern of lanes a register's elements have."""
        return self._slots[slot][0]

    def behind(self, slot: int) -> int:
        """By how much less is left for a register's elements than its pattern's base says."""
        return self._slots[slot][1]

    def base(self, pattern: int) -> Register:
        """What ``begin`` computed."""
        return self._context.frame[self._base].part(pattern)

    def operand(self, code: Code, slot: int, into: Register) -> Register:
        """The value for a register; in ``into``, unless it is there already."""
        pattern, constant = self._slots[slot]
        base = self.base(pattern)
        if not constant:
            return base
        code("v_add_f32", into, float_bits(-float(constant)), base)
        return into
