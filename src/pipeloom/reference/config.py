"""Configuration values: what the pipeline looks like, and how it is scheduled.

``PipelineConfig`` describes the loop (depth, MMA grid, counter costs), ``ScheduleConfig`` the
choices of the scheduler (strategy, waits, barriers). All are immutable and validate on
construction. Settings that are legal but change nothing in their combination are not errors:
``compile_schedule`` reports them as notes on the result (see ``notes``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

from pipeloom.checks import check_bool, check_instance, check_int, nearest
from pipeloom.errors import ConfigError
from pipeloom.reference.ops import OpDesc, OpRole
from pipeloom.reference.tag_costs import TargetCostModel

NO_LGKM_FIRST = 255
"""``ScheduleConfig.wait_lgkm_first`` value that means: emit no such wait."""

UNLIMITED_VGPR = 999999
"""``ScheduleConfig.max_vgpr`` value that means: no limit."""


@dataclass(frozen=True, slots=True)
class LoopCarriedSpec:
    """Which ops cross the iteration boundary: those of ``role`` with subtile ``selector``."""

    role: OpRole
    selector: int

    def __post_init__(self) -> None:
        check_instance("LoopCarriedSpec", "role", self.role, OpRole)
        check_int("LoopCarriedSpec", "selector", self.selector, 0)

    @classmethod
    def fragment_zero(cls) -> LoopCarriedSpec:
        """Fragment 0 is loaded for the next iteration."""
        return cls(OpRole.FRAGMENT_LOAD, 0)

    @classmethod
    def none(cls) -> LoopCarriedSpec:
        """Nothing crosses."""
        return cls(OpRole.NONE, 0)


@dataclass(frozen=True, slots=True)
class BlockSizing:
    """How many ops a block holds: ``heavy`` in a block that opens an M row, else ``light``.

    ``max_globals`` > 0 caps (and spreads) the global loads of each block.
    """

    heavy: int
    light: int
    max_globals: int

    def __post_init__(self) -> None:
        check_int("BlockSizing", "heavy", self.heavy, 1)
        check_int("BlockSizing", "light", self.light, 1)
        check_int(
            "BlockSizing", "max_globals", self.max_globals, 0, 2, "a block has two load slots"
        )

    def advice(self, loads: int, blocks: int) -> str:
        """What to change so that ``loads`` global loads of a half fit its ``blocks``.

        Never what is set already: empty where this sizing has room, so that the cause is the order.
        """
        if loads > 2 * blocks:
            return f"{blocks} blocks hold at most {2 * blocks} loads: declare more MMAs per half"
        if loads <= blocks:
            return "" if self.max_globals == 1 else "set block_sizing.max_globals=1"
        roomy = BlockSizing(max(self.heavy, 5), max(self.light, 5), 2)
        if self == roomy:
            return ""
        return f"set block_sizing=BlockSizing({roomy.heavy}, {roomy.light}, max_globals=2)"

    @classmethod
    def default_2x2(cls) -> BlockSizing:
        """The sizing of a 2x2 MMA grid."""
        return cls(4, 2, 0)

    @classmethod
    def uniform(cls, n: int) -> BlockSizing:
        """Every block holds up to ``n`` ops."""
        return cls(n, n, 0)


@dataclass(frozen=True, slots=True)
class FragOrder:
    """Which operand's fragments a block loads first."""

    b_before_a: bool

    def __post_init__(self) -> None:
        check_bool("FragOrder", "b_before_a", self.b_before_a)

    @classmethod
    def b_first(cls) -> FragOrder:
        """B fragments before A fragments."""
        return cls(True)

    @classmethod
    def a_first(cls) -> FragOrder:
        """A fragments before B fragments."""
        return cls(False)


@dataclass(frozen=True, slots=True)
class WarpStaggerRule:
    """Where in the prologue the second wave group falls one barrier behind."""

    enabled: bool
    compute_from_body: bool
    fixed_amount: int

    def __post_init__(self) -> None:
        check_bool("WarpStaggerRule", "enabled", self.enabled)
        check_bool("WarpStaggerRule", "compute_from_body", self.compute_from_body)
        check_int("WarpStaggerRule", "fixed_amount", self.fixed_amount, 0)
        if self.fixed_amount and (self.compute_from_body or not self.enabled):
            raise ConfigError(
                f"WarpStaggerRule.fixed_amount is {self.fixed_amount}, but nothing uses it here",
                hint="build it with none(), auto() or fixed(n)",
                field="WarpStaggerRule.fixed_amount",
            )

    @classmethod
    def none(cls) -> WarpStaggerRule:
        """All waves in step."""
        return cls(False, False, 0)

    @classmethod
    def auto(cls) -> WarpStaggerRule:
        """After the stage-0 prefetch loads of the body."""
        return cls(True, True, 0)

    @classmethod
    def fixed(cls, n: int) -> WarpStaggerRule:
        """After the first ``n`` prologue entries."""
        return cls(True, False, n)


class SchedulingStrategy(IntEnum):
    """How the ops of one iteration are ordered."""

    IDENTITY = 0
    GREEDY = 1
    CSP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """The shape of the software pipeline on one target.

    ``prefetch``, ``drain_passes``, ``prologue_fill`` and ``mma_latency`` describe the pipeline; the
    double- and single-buffer passes derive what they say from the body and the cost model.
    """

    depth: int
    prefetch: int
    drain_passes: int
    prologue_fill: int
    loop_carried: LoopCarriedSpec
    block_sizing: BlockSizing
    frag_order: FragOrder
    m_mmas: int
    n_mmas: int
    num_partitions: int
    mma_serial: bool
    mma_latency: int
    vm_per_load_a: int
    vm_per_load_b: int
    ch0_match_field: int
    ch1_match_field: int
    warp_stagger: WarpStaggerRule
    lgkm_per_load_a: int = 0
    lgkm_per_load_b: int = 0
    cross_stage_rotation: bool = False

    def __post_init__(self) -> None:
        for name, low in (
            ("depth", 1),
            ("prefetch", 0),
            ("drain_passes", 0),
            ("prologue_fill", 0),
            ("m_mmas", 1),
            ("n_mmas", 1),
            ("num_partitions", 1),
            ("mma_latency", 0),
            ("vm_per_load_a", 1),
            ("vm_per_load_b", 1),
            ("lgkm_per_load_a", 0),
            ("lgkm_per_load_b", 0),
        ):
            check_int("PipelineConfig", name, getattr(self, name), low)
        for name in ("ch0_match_field", "ch1_match_field"):
            hint = "0 matches the MMA's row (stage), 1 its column (subtile)"
            check_int("PipelineConfig", name, getattr(self, name), 0, 1, hint)
        check_bool("PipelineConfig", "mma_serial", self.mma_serial)
        check_bool("PipelineConfig", "cross_stage_rotation", self.cross_stage_rotation)
        check_instance("PipelineConfig", "loop_carried", self.loop_carried, LoopCarriedSpec)
        check_instance("PipelineConfig", "block_sizing", self.block_sizing, BlockSizing)
        check_instance("PipelineConfig", "frag_order", self.frag_order, FragOrder)
        check_instance("PipelineConfig", "warp_stagger", self.warp_stagger, WarpStaggerRule)
        if self.cross_stage_rotation and self.depth < 2:
            raise ConfigError(
                f"PipelineConfig.cross_stage_rotation is True, but depth is {self.depth}",
                hint="rotation reads the other stage: use depth >= 2 or turn it off",
                field="PipelineConfig.cross_stage_rotation",
            )

    @property
    def mmas_per_partition(self) -> int:
        """m * n."""
        return self.m_mmas * self.n_mmas

    @property
    def globals_per_partition(self) -> int:
        """m + n."""
        return self.m_mmas + self.n_mmas

    @property
    def frags_per_partition(self) -> int:
        """m + n."""
        return self.m_mmas + self.n_mmas

    @property
    def ops_per_partition(self) -> int:
        """MMAs, global loads and fragment loads of one partition."""
        return self.mmas_per_partition + self.globals_per_partition + self.frags_per_partition

    @property
    def total_ops(self) -> int:
        """Ops of the whole body."""
        return self.num_partitions * self.ops_per_partition

    @property
    def blocks_per_partition(self) -> int:
        """One block per MMA."""
        return self.m_mmas * self.n_mmas

    @property
    def total_blocks(self) -> int:
        """Blocks of the whole body."""
        return self.num_partitions * self.blocks_per_partition

    @property
    def total_edges(self) -> int:
        """p*2*m*n + 2*m*n + p*g*2 + (2g-1)*2 with g = globals_per_partition."""
        grid, g = 2 * self.mmas_per_partition, self.globals_per_partition
        return self.num_partitions * (grid + 2 * g) + grid + (2 * g - 1) * 2

    def compute_match_key(self, op: OpDesc, channel: int) -> int:
        """The row or column of an MMA that a fragment of ``channel`` must match."""
        field = self.ch0_match_field if channel == 0 else self.ch1_match_field
        return op.stage if field == 0 else op.subtile

    def vm_per_channel(self, channel: int) -> int:
        """vmcnt entries of one global load of ``channel``."""
        return self.vm_per_load_a if channel == 0 else self.vm_per_load_b

    def lgkm_per_channel(self, channel: int) -> int:
        """lgkmcnt entries of one fragment load of ``channel``; 0 where unset."""
        return self.lgkm_per_load_a if channel == 0 else self.lgkm_per_load_b


@dataclass(frozen=True, slots=True)
class _AnyGroup:
    """A group of ``ScheduleConfig`` values that belong to one concern."""

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for f in fields(self):
            if f.type == "bool":
                check_bool(owner, f.name, getattr(self, f.name))
            else:
                high = NO_LGKM_FIRST if f.name == "wait_lgkm_first" else None
                check_int(owner, f.name, getattr(self, f.name), 0, high)

    def to_fields(self) -> dict[str, Any]:
        """The group's values under the names that ``ScheduleConfig`` gives them."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BarrierStrategy(_AnyGroup):
    """Where barriers, priorities and compiler fences go."""

    minimal: bool = False
    omit_set_prio: bool = False
    sched_barrier_mask: int = 0b01010101
    wrap_waits_sched_barrier: bool = False
    barrier_before_pre_ops: bool = False

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
        """Barriers only where an entry wait needs one, and no priorities."""
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
    drain_lgkm_mask: int = 0
    auto_drain: bool = False
    wait_lgkm_first: int = 8
    wait_vm_last: int = 6
    lgkm_after_last: bool = False
    inter_block_lgkm_drain: bool = False
    partial_prologue_drain: bool = False

    @classmethod
    def default(cls) -> WaitStrategy:
        """Derived from the finished blocks."""
        return cls()

    @classmethod
    def auto_with_inter_block_drain(cls, partial_prologue_drain: bool = False) -> WaitStrategy:
        """Derived, and every interior block drains its fragments on entry."""
        return cls(inter_block_lgkm_drain=True, partial_prologue_drain=partial_prologue_drain)

    def to_fields(self) -> dict[str, Any]:
        """The group's values under the names that ``ScheduleConfig`` gives them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class LoadStrategy(_AnyGroup):
    """Where loads sit in a block, and what they count."""

    global_before_frag: bool = False
    lgkm_per_load_a: int = 0
    lgkm_per_load_b: int = 0

    @classmethod
    def default(cls) -> LoadStrategy:
        """Fragments before global loads."""
        return cls()

    def to_fields(self) -> dict[str, Any]:
        """The group's values under the names that ``ScheduleConfig`` gives them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


StrategyGroup = BarrierStrategy | WaitStrategy | LoadStrategy
_GROUPS = (BarrierStrategy, WaitStrategy, LoadStrategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """The scheduler's knobs. The two masks have one bit per block of the program."""

    scheduling: SchedulingStrategy = SchedulingStrategy.IDENTITY
    sched_barrier_mask: int = 0b01010101
    auto_waits: bool = True
    drain_lgkm_mask: int = 0
    auto_drain: bool = False
    lds_contention_penalty: int = 0
    wait_lgkm_first: int = 8
    wait_vm_last: int = 6
    lgkm_per_load_a: int = 0
    lgkm_per_load_b: int = 0
    lgkm_after_last: bool = False
    minimal_barriers: bool = False
    omit_mma_set_prio: bool = False
    max_vgpr: int = UNLIMITED_VGPR
    global_before_frag: bool = False
    barrier_before_pre_ops: bool = False
    inter_block_lgkm_drain: bool = False
    partial_prologue_drain: bool = False
    wrap_waits_with_sched_barrier: bool = False

    def __post_init__(self) -> None:
        check_instance("ScheduleConfig", "scheduling", self.scheduling, SchedulingStrategy)
        for name in _SCHEDULE_INTS:
            check_int("ScheduleConfig", name, getattr(self, name), 0)
        check_int("ScheduleConfig", "max_vgpr", self.max_vgpr, 1)
        hint = f"a count, or {NO_LGKM_FIRST} for no such wait"
        check_int("ScheduleConfig", "wait_lgkm_first", self.wait_lgkm_first, 0, 255, hint)
        for name in _SCHEDULE_BOOLS:
            check_bool("ScheduleConfig", name, getattr(self, name))

    @classmethod
    def from_strategies(cls, *groups: StrategyGroup, **values: Any) -> ScheduleConfig:
        """Build from groups by concern, plain field values, or both (a plain value wins).

        A group is recognised by its type, by position or under a keyword:

            ScheduleConfig.from_strategies(BarrierStrategy.minimal_no_set_prio(), max_vgpr=256)
            ScheduleConfig.from_strategies(waits=WaitStrategy(auto_drain=True))
        """
        given = [*groups, *(v for v in values.values() if isinstance(v, _GROUPS))]
        plain = {k: v for k, v in values.items() if not isinstance(v, _GROUPS)}
        merged: dict[str, Any] = {}
        for group in given:
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
        known = [f.name for f in fields(cls)]
        for name in plain:
            if name not in known:
                raise ConfigError(
                    f"ScheduleConfig.from_strategies has no value named {name!r}",
                    hint=nearest(name, known),
                    field=f"ScheduleConfig.{name}",
                )
        return cls(**{**merged, **plain})


_SCHEDULE_INTS = (
    "sched_barrier_mask",
    "drain_lgkm_mask",
    "lds_contention_penalty",
    "wait_vm_last",
    "lgkm_per_load_a",
    "lgkm_per_load_b",
)
_SCHEDULE_BOOLS = tuple(f.name for f in fields(ScheduleConfig) if f.type == "bool")


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """A machine for one kind of loop: what ops cost, and the pipeline that suits it."""

    cost_model: TargetCostModel
    pipeline: PipelineConfig

    def __post_init__(self) -> None:
        check_instance("TargetProfile", "cost_model", self.cost_model, TargetCostModel)
        check_instance("TargetProfile", "pipeline", self.pipeline, PipelineConfig)

    def with_pipeline(self, **changes: object) -> TargetProfile:
        """A copy with fields of ``pipeline`` replaced."""
        return TargetProfile(self.cost_model, replace(self.pipeline, **changes))  # type: ignore[arg-type]
