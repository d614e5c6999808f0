"""What is left along a dimension, as an operand of vector instructions.

An element's coordinate is a part of the lane, a part of the wave and a constant of the register.
So one register per pattern of lanes is computed in front of a step, from the scalar unit's count of
what is left behind the tile's first element, and a constant is taken off for each element.

Masks of what lies past the end (``Meaning.masks``), in two instructions per register.

An element is kept if what is left at its place is not less than a bound: 1, or what is left of
another dimension. Both are whole numbers, and what is left is a lane's number less a constant of
the register. So lanes hold the difference once:

    v_sub_u32 v9, left, bound
    v_cmp_le_i32 s[8:9], 17, v9             the register whose elements lie 17 behind the first
    v_cndmask_b32 v40, lowest, v40, s[8:9]

Some comparisons come before their selections, which may not follow at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.errors import InternalError
from pipeloom.program import Access, Node, Work
from pipeloom.write.code import Code
from pipeloom.write.isa import VCC, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.linear import LaneNumber, PlannedNumber, lane_number
from pipeloom.write.lower.register_tiles import Coordinates
from pipeloom.write.lower.templates import INLINE, float_bits

TOGETHER, MORE = 2, 6
"""Comparisons before the first selection, and where scalar registers allow."""
LOWEST = float_bits(float("-inf"))


Job = tuple[int, Sequence[int | None]]
"""A slot of the result, and those of the source, what is left, and the bound."""


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


@dataclass(frozen=True, slots=True)
class Masked:
    """What a mask is made of; without ``bound`` that is 1."""

    target: Access
    source: Access
    left: Left
    bound: Access | None
    clears: bool
    """Whether what is not kept becomes 0, and not minus infinity."""


def plan_mask(context: Context, masked: Masked, jobs: Sequence[Job]) -> Write:
    """The mask of 32-bit registers."""
    frame, left = context.frame, masked.left
    pairs = {(left.pattern(slots[1] or 0), slots[2] or 0): 0 for _, slots in jobs}
    lowest = None if masked.clears else frame.prepared("lowest", "lowest", _fill, late=True)
    edges = frame.scratch("edges", len(pairs))
    kept = [frame.scalar(f"kept {n}", 2, 2) for n in range(TOGETHER)]
    more = [frame.spare(f"kept {n}", 2, 2) for n in range(TOGETHER, TOGETHER + MORE)]

    def emit(code: Code) -> None:
        left.begin(code, whole=True)
        edge: dict[tuple[int, int], Register] = {}
        for at, (pattern, slot) in enumerate(pairs):
            edge[pattern, slot] = left.base(pattern)
            if masked.bound is not None:
                into = edge[pattern, slot] = frame[edges].part(at)
                code("v_cvt_u32_f32", into, context.registers(masked.bound).part(slot))
                code("v_sub_u32", into, left.base(pattern), into)
        result, source = context.registers(masked.target), context.registers(masked.source)
        masks = [*kept, *(name for name in more if name in frame)]
        rest = 0 if lowest is None else frame[lowest]
        for at in range(0, len(jobs), len(masks)):
            chosen = []
            for (place, (value, number, bound)), name in zip(
                jobs[at : at + len(masks)], masks, strict=False
            ):
                behind = left.behind(number or 0) + (masked.bound is None)
                mask = frame[name] if behind in INLINE else VCC
                code("v_cmp_le_i32", mask, behind, edge[left.pattern(number or 0), bound or 0])
                chosen.append((result.part(place), source.part(value or 0), mask))
                if mask == VCC:
                    _select(code, rest, *chosen.pop())
            for one in chosen:
                _select(code, rest, *one)

    return emit


def _fill(code: Code, register: Register) -> None:
    code("v_mov_b32", register, LOWEST)


def _select(
    code: Code, rest: Register | int, place: Register, value: Register, mask: Register
) -> None:
    code("v_cndmask_b32", place, rest, value, mask)
