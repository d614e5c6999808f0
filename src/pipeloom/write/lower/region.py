"""Predicated regions: steps that run only where a condition holds, one after the other.

A condition is a register tile of truth values. Where none of a wave's holds, its steps are jumped
over; otherwise they run with the lanes off whose condition does not hold. A tile of several
registers has a mask for each, and every element of a result goes with the mask of its condition.
What only regions ask for is compared straight to masks; numbers are made of it inside a region, and
only where lanes hold parts of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeloom.program import Access, Program, Vocabulary, Work
from pipeloom.program.vocabulary import TRUTH
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.context import Context, place_name
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.lanes import LaneExchange, sharing_lanes
from pipeloom.write.lower.register_tiles import partial

EVERY_LANE = -1


def only_conditions(program: Program, ops: Vocabulary) -> frozenset[str]:
    """Places of comparisons that regions ask for, and nobody else."""
    asked: set[str] = set()
    others: set[str] = set()
    for _, _, work in program.works():
        asked |= {a.resource for a in work.reads[-1:] if work.when is not None}
        reads = work.reads[:-1] if work.when is not None else work.reads
        others |= {a.resource for a in (*reads, *work.accumulates)}
        compares = not work.is_copy and work.when is None and _compares(program, ops, work)
        if not compares:
            others |= {a.resource for a in work.writes}
    return frozenset(asked - others)


def _compares(program: Program, ops: Vocabulary, step: Work) -> bool:
    """Whether a step's one comparison is its result, and not what some other line makes of it."""
    op = ops[program.meaning[step.node].op]
    lowered = op.lowered()
    if not op.bool_result or op.reduce is not None or lowered is None:
        return False
    if len(lowered.instructions) != 2:
        return False
    compare, select = lowered.instructions
    return compare.startswith("v_cmp_") and select == TRUTH


def mask_names(frame: Frame, condition: Access, registers: int) -> list[str]:
    """Of a place of ``only_conditions``, lanes by register."""
    place = place_name(condition.resource, condition.copy)
    return [frame.scalar(f"{place} holds {n}", 2, 2) for n in range(registers)]


@dataclass
class PredicatedRegion:
    """Consecutive steps under one condition."""

    context: Context
    condition: Access
    holds: str
    masks: list[str] = field(default_factory=list)
    exchange: LaneExchange | None = None
    """Between lanes that hold parts of one condition."""
    _chosen: int | None = None
    _compared: bool = False
    """Whether masks hold the condition already."""

    @classmethod
    def of(cls, context: Context, work: Work) -> PredicatedRegion:
        """The region that a step opens."""
        condition = work.reads[-1]
        tile = context.tile(condition, work)
        region = cls(context, condition, work.when or "")
        if condition.resource in context.conditions:
            region.masks = mask_names(context.frame, condition, tile.registers)
            region._compared = True
        else:
            for number in range(tile.registers):
                region.masks.append(context.frame.scalar(f"mask {number}", 2, 2))
        context.frame.scalar("any mask", 2, 2)
        if partial(tile.resource) is not None:
            bits = sharing_lanes(tile.coordinates[0])
            region.exchange = LaneExchange.plan(context.frame, "v_or_b32", bits, tile.registers)
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
        if not self._compared:
            self._compare(code)
        code("s_or_b64", total, frame[self.masks[0]], frame[self.masks[-1]])
        for name in self.masks[1:-1]:
            code("s_or_b64", total, total, frame[name])
        code("s_cbranch_scc0", done)
        if self.exchange is not None and self.exchange.bits:
            parts = [registers.part(i) for i in range(len(self.masks))]
            if self._compared:
                for part, name in zip(parts, self.masks, strict=True):
                    code("v_cndmask_b32", part, 0, 1, frame[name])
            self.exchange.emit(code, parts)
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
