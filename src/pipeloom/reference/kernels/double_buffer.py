"""What the double-buffered matmuls share: operands, stages, halves, counters, the K loop.

C[M,N] = A[M,K] x B[N,K]^T, each operand in two LDS stages of two halves. One trip of the loop sums
two K tiles and loads two more, so with T = trips the kernel sums 2T + 2 tiles: the loop runs at
k_base = 2, 4, ..., 2T (in tiles) and the epilogue at k_base = 2T + 2. Trip count 0 is legal.

The kernels differ in how a wave cuts its fragments from the halves (``fragment_source``) and in
whether there are two groups of waves. Those add barriers of their own: the second group executes
one more inside the prologue (the stagger), so from there on it is one barrier behind, and the first
makes up for it with one at the end.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.interface import (
    NO_EFFECT,
    Accumulator,
    Counter,
    Effect,
    Kernel,
    LdsRead,
    Part,
    Region,
    Register,
    Step,
    WalkBuilder,
)
from pipeloom.reference.ops import OpDesc, Phase

LOAD_TAGS = {0: "A", 1: "B"}
FRAGMENT_TAGS = {3: "A", 4: "B"}
MMA_TAGS = (2, 5)
STAGES = 2
CHANNEL = {"A": 0, "B": 1}
UNSET_LGKM_ENTRIES = 1
"""What a proof takes for a fragment whose lgkm cost is unset (specification, KERNELS.md 4.2)."""


@dataclass(frozen=True, slots=True)
class OperandCosts:
    """Counter entries per op and wave, for A and B."""

    vm: tuple[int, int]
    lgkm: tuple[int, int]

    @classmethod
    def of(cls, compiled: CompiledSchedule) -> OperandCosts:
        """The pipeline's costs; an lgkm cost unset there is the scheduler's, else one entry."""
        config, knobs = compiled.config, compiled.schedule_config
        return cls(
            vm=(config.vm_per_load_a, config.vm_per_load_b),
            lgkm=(
                config.lgkm_per_load_a or knobs.lgkm_per_load_a or UNSET_LGKM_ENTRIES,
                config.lgkm_per_load_b or knobs.lgkm_per_load_b or UNSET_LGKM_ENTRIES,
            ),
        )


class DoubleBufferKernel(Kernel):
    """A matmul with two LDS stages per operand and a 2 x 2 grid of MMAs per wave."""

    def __init__(self, costs: OperandCosts) -> None:
        self.costs = costs
        self._known = lru_cache(maxsize=None)(self._effect)

    @classmethod
    def for_schedule(cls, compiled: CompiledSchedule) -> DoubleBufferKernel:
        """The kernel with the counter costs that ``compiled`` was made for."""
        return cls(OperandCosts.of(compiled))

    @property
    def tiles_per_iteration(self) -> int:
        """Two: one per stage."""
        return STAGES

    def tiles(self, trips: int) -> int:
        """2 trips + 2."""
        return STAGES * (trips + 1)

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The four quadrants."""
        return tuple(Accumulator(i, j) for i in range(2) for j in range(2))

    @abstractmethod
    def fragment_source(self, operand: str, quadrant: int, wave: int) -> tuple[int, Part]:
        """Which half, and which of its rows, hold fragment ``quadrant`` of ``wave``."""

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        """Prologue, loop, epilogue; of two groups, with the stagger and the barriers it needs.

        A ``warp_stagger_index`` past the prologue means no stagger: neither the extra barrier nor
        the closing one is executed.
        """
        walk = WalkBuilder()
        prologue, at = compiled.prologue, compiled.warp_stagger_index
        two_groups = len(self.groups) > 1
        staggered = two_groups and at <= len(prologue)
        lags = self.group_of(wave) == 1
        walk.entries(prologue[:at], 0)
        if staggered and lags:
            walk.own_barrier("stagger", Phase.PROLOGUE, 0)
        walk.entries(prologue[at:], 0, first_slot=at)
        if two_groups:
            walk.own_barrier("after the prologue", Phase.PROLOGUE, 0)
        for trip in range(trips):
            walk.entries(compiled.kernel, STAGES * (trip + 1), trip)
        last = STAGES * (trips + 1)
        walk.entries(compiled.epilogue, last)
        if staggered and not lags:
            walk.own_barrier("closing", Phase.EPILOGUE, last)
        return walk.done()

    def effect(self, step: Step, wave: int) -> Effect:
        """Loads fill halves, fragments read them, MMAs read fragments."""
        if step.op.is_framework:
            return NO_EFFECT
        return self._known(step.op, step.tile, wave)

    def _effect(self, op: OpDesc, tile: int | None, wave: int) -> Effect:
        if op.stage > 1 or op.subtile > 1:
            raise ConfigError(
                f"the {self.name} kernel has no place for {describe_op(op)}",
                hint="stages, halves and the MMA grid all count 0 and 1",
                field="OpDesc.stage" if op.stage > 1 else "OpDesc.subtile",
            )
        if op.tag in LOAD_TAGS:
            return self._load(op, LOAD_TAGS[op.tag], tile)
        if op.tag in FRAGMENT_TAGS:
            return self._fragment(op, FRAGMENT_TAGS[op.tag], wave)
        if op.tag in MMA_TAGS:
            return self._mma(op)
        raise ConfigError(
            f"the {self.name} kernel does not know op tag {op.tag}",
            hint="tags: 0, 1 load A, B; 3, 4 fragment A, B; 2 or 5 MMA",
            field="OpDesc.tag",
        )

    def _load(self, op: OpDesc, operand: str, tile: int | None) -> Effect:
        if tile is None:
            raise ConfigError(
                f"the {self.name} kernel cannot tell which K tile {describe_op(op)} brings",
                hint="give the load a k_offset of K_PREV, K0, K1 or K_NEXT",
                field="OpDesc.k_offset",
            )
        return Effect(
            Counter.VM,
            op.vm_cost or self.costs.vm[CHANNEL[operand]],
            tile=tile,
            lds_writes=(Region(operand, op.stage, op.subtile),),
        )

    def _fragment(self, op: OpDesc, operand: str, wave: int) -> Effect:
        half, part = self.fragment_source(operand, op.subtile, wave)
        return Effect(
            Counter.LGKM,
            op.lgkm_cost or self.costs.lgkm[CHANNEL[operand]],
            lds_reads=(LdsRead(Region(operand, op.stage, half), part),),
            register_writes=(Register(operand, op.subtile),),
        )

    @staticmethod
    def _mma(op: OpDesc) -> Effect:
        return Effect(
            register_reads=(Register("A", op.stage), Register("B", op.subtile)),
            accumulator=Accumulator(op.stage, op.subtile),
        )
