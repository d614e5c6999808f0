"""Masks of what lies past the end (``Meaning.masks``), in two instructions per register.

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

from pipeloom.program import Access
from pipeloom.write.code import Code
from pipeloom.write.isa import VCC, Register
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.left import Left
from pipeloom.write.lower.templates import INLINE, float_bits

TOGETHER, MORE = 2, 6
"""Comparisons before the first selection, and where scalar registers allow."""
LOWEST = float_bits(float("-inf"))


@dataclass(frozen=True, slots=True)
class Masked:
    """What a mask is made of; without ``bound`` that is 1."""

    target: Access
    source: Access
    left: Left
    bound: Access | None
    clears: bool
    """Whether what is not kept becomes 0, and not minus infinity."""


Job = tuple[int, Sequence[int | None]]
"""A slot of the result, and those of the source, what is left, and the bound."""


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
