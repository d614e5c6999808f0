"""Predicated regions: steps that run only where a condition holds, one after the other.

A condition is a register tile of truth values. Where none of a wave's holds, its steps are jumped
over; otherwise they run with the lanes off whose condition does not hold. A tile of several
registers has a mask for each, and every element of a result goes with the mask of its condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeloom.program import Access, Work
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.context import Context, place_name
from pipeloom.write.lower.lanes import combine_lanes, plan_exchange, sharing_lanes
from pipeloom.write.lower.tiles import partial

EVERY_LANE = -1


@dataclass
class Region:
    """Consecutive steps under one condition."""

    context: Context
    condition: Access
    holds: str
    masks: list[str] = field(default_factory=list)
    bits: tuple[int, ...] = ()
    """Lanes that differ in these hold parts of one condition."""
    _other: str = ""
    _half: str | None = None
    _chosen: int | None = None

    @classmethod
    def of(cls, context: Context, work: Work) -> Region:
        """The region that a step opens."""
        condition = work.reads[-1]
        tile = context.tile(condition, work)
        region = cls(context, condition, work.when or "")
        for number in range(tile.registers):
            region.masks.append(context.frame.scalar(f"mask {number}", 2, 2))
        context.frame.scalar("any mask", 2, 2)
        if partial(tile.resource) is not None:
            region.bits = sharing_lanes(tile.coordinates[0])
            region._other = context.frame.scratch("exchanged", tile.registers)
            region._half = plan_exchange(context.frame, context.target, region.bits)
        return region

    def goes_on(self, work: Work) -> bool:
        """Whether a step runs under the same condition."""
        return work.when is not None and work.reads[-1] == self.condition

    def begin(self, code: Code) -> str:
        """Jump over the region if no condition of the wave holds; the label to jump to."""
        truth = self.context.program.meaning[self.holds].type
        if not truth.dtype.is_bool:
            raise EmitError(
                f"{self.holds!r}, by which steps are skipped, is {truth}",
                hint="a condition is what a comparison gives",
                field=self.holds,
            )
        frame = self.context.frame
        registers = frame[place_name(self.condition.resource, self.condition.copy)]
        done = self.context.label("skipped")
        total = frame["any mask"]
        self._compare(code)
        code("s_or_b64", total, frame[self.masks[0]], frame[self.masks[-1]])
        for name in self.masks[1:-1]:
            code("s_or_b64", total, total, frame[name])
        code("s_cbranch_scc0", done)
        if self.bits:
            parts = [registers.part(i) for i in range(len(self.masks))]
            others = [frame[self._other].part(i) for i in range(len(self.masks))]
            half = None if self._half is None else frame[self._half]
            combine_lanes(code, self.context.target, "v_or_b32", self.bits, parts, others, half)
            self._compare(code)
        self._chosen = None
        return done

    def _compare(self, code: Code) -> None:
        frame = self.context.frame
        registers = frame[place_name(self.condition.resource, self.condition.copy)]
        for number, name in enumerate(self.masks):
            code("v_cmp_ne_u32", frame[name], 0, registers.part(number))

    def choose(self, code: Code, number: int) -> None:
        """Only lanes whose ``number``-th condition holds, from here on."""
        if self._chosen != number:
            self._chosen = number
            code("s_mov_b64 exec", self.context.frame[self.masks[number]])

    def end(self, code: Code, done: str) -> None:
        """All lanes again."""
        code("s_mov_b64 exec", EVERY_LANE)
        code.label(done)
