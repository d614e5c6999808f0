"""The scheduler's knobs: how ops are ordered, where barriers stand, how waits are counted.

``ScheduleConfig`` holds all 19 flat; three groups hold those of one concern, and spread into it:

    ScheduleConfig(scheduling=SchedulingStrategy.CSP, max_vgpr=256)
    ScheduleConfig.from_strategies(
        **BarrierStrategy.minimal_no_set_prio(), **WaitStrategy.default(), max_vgpr=256
    )

Values are checked on construction. A knob that is legal but changes nothing in its combination is
no error: ``compile_schedule`` says so in a note on the result (see ``notes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pipeloom.checks import check_fields, nearest
from pipeloom.errors import ConfigError

NO_LGKM_FIRST = 255
"""``ScheduleConfig.wait_lgkm_first`` value that means: emit no such wait."""

UNLIMITED_VGPR = 999999
"""``ScheduleConfig.max_vgpr`` value that means: no limit."""

ALTERNATE_BLOCKS = 0b01010101
"""Blocks 0, 2, 4 and 6: the ones that end in a compiler fence by default."""

P = ParamSpec("P")
C = TypeVar("C")
T = TypeVar("T")


class SchedulingStrategy(IntEnum):
    """How the ops of one iteration are ordered."""

    IDENTITY = 0
    """As ``build_body`` returns them. For orders written by hand."""
    GREEDY = 1
    """Half by half, always the first op whose dependences are placed. Fast, and not optimal."""
    CSP = 2
    """An exact search: the least makespan, then the fewest registers, with a proof."""


@dataclass(frozen=True, slots=True)
class _AnyGroup:
    """Some of ``ScheduleConfig``'s values, as a mapping under the names that they have there."""

    def __post_init__(self) -> None:
        check_fields(self, wait_lgkm_first=(0, NO_LGKM_FIRST))

    def to_fields(self) -> dict[str, Any]:
        """The group's values under the names that ``ScheduleConfig`` gives them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def keys(self) -> Iterator[str]:
        """The names of ``ScheduleConfig`` that the group sets; with this, ``**group`` spreads."""
        return iter(self.to_fields())

    def __getitem__(self, name: str) -> Any:
        """The value of one of ``keys``."""
        return self.to_fields()[name]


@dataclass(frozen=True, slots=True)
class BarrierStrategy(_AnyGroup):
    """Where barriers, priorities and compiler fences go."""

    minimal: bool = False
    """``ScheduleConfig.minimal_barriers``."""
    omit_set_prio: bool = False
    """``ScheduleConfig.omit_mma_set_prio``."""
    sched_barrier_mask: int = ALTERNATE_BLOCKS
    """``ScheduleConfig.sched_barrier_mask``, one bit per block."""
    wrap_waits_sched_barrier: bool = False
    """``ScheduleConfig.wrap_waits_with_sched_barrier``."""
    barrier_before_pre_ops: bool = False
    """``ScheduleConfig.barrier_before_pre_ops``."""

    @classmethod
    def default(cls) -> BarrierStrategy:
        """A barrier before and after every MMA."""
        return cls()

    @classmethod
    def minimal_no_set_prio(
        cls,
        sched_barrier_mask: int = 0,
        wrap_waits: bool = False,
        barrier_before_pre_ops: bool = False,
    ) -> BarrierStrategy:
        """Barriers only where an entry wait needs one, and no priorities.

        Args:
            sched_barrier_mask: blocks that end in a compiler fence, one bit each.
            wrap_waits: fence each group of waits and barriers on both sides.
            barrier_before_pre_ops: place a block's barrier before its loads and fragments.
        """
        return cls(True, True, sched_barrier_mask, wrap_waits, barrier_before_pre_ops)

    def to_fields(self) -> dict[str, Any]:
        """The group's values under the names that ``ScheduleConfig`` gives them."""
        return {
            "minimal_barriers": self.minimal,
            "omit_mma_set_prio": self.omit_set_prio,
            "sched_barrier_mask": self.sched_barrier_mask,
            "wrap_waits_with_sched_barrier": self.wrap_waits_sched_barrier,
            "barrier_before_pre_ops": self.barrier_before_pre_ops,
        }


@dataclass(frozen=True, slots=True)
class WaitStrategy(_AnyGroup):
    """How wait counts are chosen."""

    auto_waits: bool = True
    """``ScheduleConfig.auto_waits``."""
    drain_lgkm_mask: int = 0
    """``ScheduleConfig.drain_lgkm_mask``, one bit per block."""
    auto_drain: bool = False
    """``ScheduleConfig.auto_drain``."""
    wait_lgkm_first: int = 8
    """``ScheduleConfig.wait_lgkm_first``, in lgkmcnt entries; 255 is no wait."""
    wait_vm_last: int = 6
    """``ScheduleConfig.wait_vm_last``, in vmcnt entries."""
    lgkm_after_last: bool = False
    """``ScheduleConfig.lgkm_after_last``."""
    inter_block_lgkm_drain: bool = False
    """``ScheduleConfig.inter_block_lgkm_drain``."""
    partial_prologue_drain: bool = False
    """``ScheduleConfig.partial_prologue_drain``."""

    @classmethod
    def default(cls) -> WaitStrategy:
        """Derived from the finished blocks."""
        return cls()

    @classmethod
    def auto_with_inter_block_drain(cls, partial_prologue_drain: bool = False) -> WaitStrategy:
        """Derived, and every interior block drains its fragments on entry.

        Args:
            partial_prologue_drain: leave the prologue's loads in flight into the loop.
        """
        return cls(inter_block_lgkm_drain=True, partial_prologue_drain=partial_prologue_drain)


@dataclass(frozen=True, slots=True)
class LoadStrategy(_AnyGroup):
    """Where loads sit in a block, and what they count."""

    global_before_frag: bool = False
    """``ScheduleConfig.global_before_frag``."""
    lgkm_per_load_a: int = 0
    """``ScheduleConfig.lgkm_per_load_a``, in lgkmcnt entries; 0 is unset."""
    lgkm_per_load_b: int = 0
    """``ScheduleConfig.lgkm_per_load_b``, in lgkmcnt entries; 0 is unset."""

    @classmethod
    def default(cls) -> LoadStrategy:
        """Fragments before global loads."""
        return cls()


StrategyGroup = BarrierStrategy | WaitStrategy | LoadStrategy
_GROUPS = (BarrierStrategy, WaitStrategy, LoadStrategy)
_GROUP_NAMES = ("barriers", "waits", "loads")


def _spreading_groups(make: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """``make`` for callers who pass whole groups: their values become its keywords.

    A keyword that the caller wrote wins over its group even where it equals the default, which
    ``make`` itself could not tell.
    """

    @wraps(make)
    def called(cls: C, /, *args: P.args, **keywords: P.kwargs) -> T:
        named = [keywords.get(name) for name in _GROUP_NAMES]
        groups = [*args, *(group for group in named if group is not None)]
        plain = {k: v for k, v in keywords.items() if k not in _GROUP_NAMES}
        merged: dict[str, Any] = {}
        for group in groups:
            if not isinstance(group, _GROUPS):
                raise ConfigError(
                    f"ScheduleConfig.from_strategies got {group!r}, which is not a strategy group",
                    hint=f"pass one of {', '.join(g.__name__ for g in _GROUPS)}, or plain values "
                    "by name",
                    field="ScheduleConfig.from_strategies",
                )
            grouped = group.to_fields()
            if grouped.keys() & merged.keys():
                raise ConfigError(
                    f"ScheduleConfig.from_strategies got two {type(group).__name__} groups",
                    hint="pass each group once",
                    field="ScheduleConfig.from_strategies",
                )
            merged.update(grouped)
        known = [f.name for f in fields(ScheduleConfig)]
        for name in plain:
            if name not in known:
                raise ConfigError(
                    f"ScheduleConfig.from_strategies has no value named {name!r}",
                    hint=nearest(name, [*known, *_GROUP_NAMES]),
                    field=f"ScheduleConfig.{name}",
                )
        spread: Any = make
        made: T = spread(cls, **{**merged, **plain})
        return made

    return called


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """What the scheduler may decide: order, barriers, waits, fences.

    By default waits are derived from the finished blocks; a schedule then says what it wants, and
    not what to count. A *block* is one MMA with its loads, fragments and guards; blocks are
    numbered through the whole body, so a 2x2 grid in two halves has blocks 0 to 7. The two masks
    have one bit per block, the lowest for block 0.

    A body of depth 1 has no blocks and keeps the order of ``build_body``: there every knob is idle,
    and the result says so.
    """

    scheduling: SchedulingStrategy = SchedulingStrategy.IDENTITY
    """Who orders the ops of one iteration. IDENTITY keeps the order of ``build_body``, GREEDY is
    quick, CSP searches for the least makespan under the cost model and proves it."""
    sched_barrier_mask: int = ALTERNATE_BLOCKS
    """Bit i puts a compiler fence after block i's closing barrier, which keeps LLVM from moving
    instructions across it. It is no instruction, and needs the barrier that ``minimal_barriers``
    drops. The default fences blocks 0, 2, 4 and 6."""
    auto_waits: bool = True
    """Count the first lgkm wait and the last vm wait of each half from the loads that the blocks
    hold. Turn it off to set ``wait_lgkm_first`` and ``wait_vm_last`` by hand, as an experiment:
    hand-set counts are not checked, so verify the result."""
    drain_lgkm_mask: int = 0
    """Bit i makes block i wait for all its fragments (``lgkmcnt(0)``) before its global loads, if
    it has both. Use it where a load overwrites what a fragment is still reading."""
    auto_drain: bool = False
    """Decide the drains from channels instead: a block drains where a fragment and its first load
    are of different operands. Replaces ``drain_lgkm_mask``; needs ``auto_waits``."""
    lds_contention_penalty: int = 0
    """Cycles for which an LDS or global access keeps the LDS port busy in CSP's cost model; 0 is
    no contention. Raise it to have the search spread such ops. Other strategies only report it."""
    wait_lgkm_first: int = 8
    """lgkmcnt entries that may be in flight before the first MMA of a half; 255 emits no such
    wait. Used as it stands where ``auto_waits`` is off. The counter holds at most 15 on gfx9."""
    wait_vm_last: int = 6
    """vmcnt entries that may be in flight before the last MMA of a half: the half's own prefetches.
    Used as it stands where ``auto_waits`` is off. The counter holds at most 63 on gfx9."""
    lgkm_per_load_a: int = 0
    """lgkmcnt entries of one fragment load of A, which follow from the tile; 0 is unset, and a
    proof then takes 1. ``PipelineConfig.lgkm_per_load_a`` wins where it is set."""
    lgkm_per_load_b: int = 0
    """lgkmcnt entries of one fragment load of B; as ``lgkm_per_load_a``."""
    lgkm_after_last: bool = False
    """Wait for all fragments (``lgkmcnt(0)``) after the barrier of the last block of each half
    too, as the other blocks do."""
    minimal_barriers: bool = False
    """Drop the barriers and priorities of every block, and keep a barrier only at the top of a half
    and at its first fragment of the other stage. For kernels whose register rotation orders the
    blocks, like the four-wave one; a ping-pong sets its pace by the barriers it would lose."""
    omit_mma_set_prio: bool = False
    """With ``minimal_barriers``, drop the priority before an MMA as well. ``s_setprio`` also stops
    LLVM from reusing registers across it, so dropping it lowers register pressure. Leave it on
    where two wave groups compete for the matrix unit."""
    max_vgpr: int = UNLIMITED_VGPR
    """The registers per lane that CSP's order may hold at once, by ``OpDesc.vgpr_def`` and
    ``vgpr_kill``; no order within it is an error. The default is no limit."""
    global_before_frag: bool = False
    """Emit a block's global loads before its fragment loads. Set it where both touch the same LDS
    stage, so that the load's address arithmetic runs while the LDS port is free. The default is
    fragments first."""
    barrier_before_pre_ops: bool = False
    """Place a block's waits and barrier before its loads and fragments instead of between those and
    the MMA. The barrier then closes the previous half, and derived first waits become 0."""
    inter_block_lgkm_drain: bool = False
    """Wait for all fragments (``lgkmcnt(0)``) on entry to every interior block: not the first or
    last of a half, nor one that first reads the other stage. For kernels without barriers between
    blocks."""
    partial_prologue_drain: bool = False
    """Leave the prologue's loads in flight into the loop: no ``vmcnt(0)`` and no barrier between
    the stages. ``PipelineSchedule.bootstrap_frags`` then waits for its own loads only."""
    wrap_waits_with_sched_barrier: bool = False
    """Put a compiler fence on both sides of each group of waits and barriers, so that LLVM moves
    nothing into or out of it. It is no instruction."""

    def __post_init__(self) -> None:
        first = (0, NO_LGKM_FIRST, f"a count, or {NO_LGKM_FIRST} for no such wait")
        check_fields(self, max_vgpr=1, wait_lgkm_first=first)

    @classmethod
    @_spreading_groups
    def from_strategies(
        cls,
        *groups: StrategyGroup,
        barriers: BarrierStrategy | None = None,
        waits: WaitStrategy | None = None,
        loads: LoadStrategy | None = None,
        scheduling: SchedulingStrategy = SchedulingStrategy.IDENTITY,
        max_vgpr: int = UNLIMITED_VGPR,
        lds_contention_penalty: int = 0,
        minimal_barriers: bool = False,
        omit_mma_set_prio: bool = False,
        sched_barrier_mask: int = ALTERNATE_BLOCKS,
        wrap_waits_with_sched_barrier: bool = False,
        barrier_before_pre_ops: bool = False,
        auto_waits: bool = True,
        drain_lgkm_mask: int = 0,
        auto_drain: bool = False,
        wait_lgkm_first: int = 8,
        wait_vm_last: int = 6,
        lgkm_after_last: bool = False,
        inter_block_lgkm_drain: bool = False,
        partial_prologue_drain: bool = False,
        global_before_frag: bool = False,
        lgkm_per_load_a: int = 0,
        lgkm_per_load_b: int = 0,
    ) -> ScheduleConfig:
        """The same configuration, its values ordered by concern, or whole groups of them.

        A group spreads into keywords, or is passed as it is; a value given by name wins over one
        of a group that was passed.

            ScheduleConfig.from_strategies(**BarrierStrategy.minimal_no_set_prio(), max_vgpr=256)
            ScheduleConfig.from_strategies(BarrierStrategy.minimal_no_set_prio(), max_vgpr=256)
            ScheduleConfig.from_strategies(waits=WaitStrategy(auto_drain=True))

        Args:
            groups: at most one of each kind.
            barriers: the group of barriers, by name.
            waits: the group of waits, by name.
            loads: the group of loads, by name.
            scheduling: who orders the ops.
            max_vgpr: registers per lane that CSP's order may hold at once.
            lds_contention_penalty: cycles for which an access keeps the LDS port busy, for CSP.
            minimal_barriers: drop the barriers and priorities of every block.
            omit_mma_set_prio: with ``minimal_barriers``, no priority before an MMA.
            sched_barrier_mask: blocks that end in a compiler fence, one bit each.
            wrap_waits_with_sched_barrier: fence each group of waits and barriers on both sides.
            barrier_before_pre_ops: place a block's barrier before its loads and fragments.
            auto_waits: derive the wait counts from the blocks.
            drain_lgkm_mask: blocks that drain their fragments before their loads, one bit each.
            auto_drain: derive that mask from channels.
            wait_lgkm_first: lgkmcnt entries left before a half's first MMA, where not derived.
            wait_vm_last: vmcnt entries left before a half's last MMA, where not derived.
            lgkm_after_last: drain the fragments after the last block's barrier.
            inter_block_lgkm_drain: drain the fragments on entry to interior blocks.
            partial_prologue_drain: leave the prologue's loads in flight into the loop.
            global_before_frag: a block's global loads before its fragments.
            lgkm_per_load_a: lgkmcnt entries of a fragment load of A.
            lgkm_per_load_b: lgkmcnt entries of a fragment load of B.
        """
        given = locals()
        return cls(**{f.name: given[f.name] for f in fields(ScheduleConfig)})
