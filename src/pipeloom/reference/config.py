"""What the pipeline looks like: its depth, its grid of MMAs, what its loads count.

``PipelineConfig`` describes the loop; ``ScheduleConfig`` (in ``schedule_config``) says how it is
scheduled. All are immutable and checked on construction. A setting that is legal but changes
nothing in its combination is no error: ``compile_schedule`` says so in a note on the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeloom.checks import check_fields
from pipeloom.errors import ConfigError
from pipeloom.reference.ops import OpDesc, OpRole
from pipeloom.reference.tag_costs import TargetCostModel


@dataclass(frozen=True, slots=True)
class LoopCarriedSpec:
    """Which ops cross the iteration boundary: those of ``role`` with subtile ``selector``."""

    role: OpRole
    """The role of the ops that are carried; NONE where nothing is."""
    selector: int
    """Their subtile, from 0."""

    def __post_init__(self) -> None:
        check_fields(self)

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
    """How many ops ``double_buffer_reorder`` puts into a block, its MMA included.

    Fragments go where they are needed first; global loads fill what is left. Make blocks larger
    where loads find no place, or cap them with ``max_globals``, which spreads them evenly.
    """

    heavy: int
    """Ops of a block that opens an M row, and so brings an A fragment; at least 1."""
    light: int
    """Ops of every other block; at least 1."""
    max_globals: int
    """The most global loads of one block: 1 or 2, or 0 for no cap and no spreading. 1 leaves most
    time for each load's address arithmetic, and leaves ``heavy`` and ``light`` nothing to say."""

    def __post_init__(self) -> None:
        check_fields(self, 1, max_globals=(0, 2, "a block has two load slots"))

    def advice(self, loads: int, blocks: int) -> str:
        """What to change so that ``loads`` global loads of a half fit its ``blocks``.

        Never what is set already: empty where this sizing has room, so that the cause is the order.

        Args:
            loads: global loads of one half.
            blocks: MMAs of one half.
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
        """Every block holds up to ``n`` ops.

        Args:
            n: ops of a block, its MMA included.
        """
        return cls(n, n, 0)


@dataclass(frozen=True, slots=True)
class FragOrder:
    """Which operand's fragments a block loads first."""

    b_before_a: bool
    """B before A where an MMA brings both; else A before B."""

    def __post_init__(self) -> None:
        check_fields(self)

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
    """Whether there are two wave groups, of which the second runs one barrier behind."""
    compute_from_body: bool
    """Whether the second group falls behind after the stage-0 prefetches of the body."""
    fixed_amount: int
    """The prologue entries before it, where not computed from the body; else 0."""

    def __post_init__(self) -> None:
        check_fields(self)
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
        """After the first ``n`` prologue entries.

        Args:
            n: entries, from 0 to the length of the prologue.
        """
        return cls(True, False, n)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """The shape of the software pipeline on one target.

    The body has ``num_partitions`` halves, each of which multiplies a grid of ``m_mmas`` by
    ``n_mmas`` on one K tile. Profiles such as ``mi355x_double_buffer()`` hold tuned values; replace
    single fields of one rather than write all twenty.

    ``prefetch``, ``drain_passes``, ``prologue_fill`` and ``mma_latency`` describe a pipeline to its
    readers. What they say follows from the body's K offsets, the depth and the cost model, and a
    value that says otherwise is noted on the result.
    """

    depth: int
    """LDS stages: 1 for a single buffer, where registers hold the next tile, 2 for a double buffer.
    It decides which edge rules, phases and kernel model apply."""
    prefetch: int
    """K tiles that loads run ahead, usually 1. Descriptive: ``OpDesc.k_offset`` of each load says
    it to the framework."""
    drain_passes: int
    """K tiles that the epilogue computes after the loop. Descriptive: one per stage at depth 2, two
    at depth 1."""
    prologue_fill: int
    """Rounds of loads that the prologue adds. Descriptive: the body's prefetch loads decide."""
    loop_carried: LoopCarriedSpec
    """The ops that cross the iteration boundary in registers. Decides order and phases at depth 1;
    at depth 2 the two stages carry everything."""
    block_sizing: BlockSizing
    """How loads and fragments are spread over MMAs at depth 2. Change it where compiling says that
    a load finds no block."""
    frag_order: FragOrder
    """Which operand's fragment comes first where an MMA brings both; read by
    ``double_buffer_reorder``."""
    m_mmas: int
    """MMAs of one partition along M: rows of the grid, and fragments of A."""
    n_mmas: int
    """MMAs of one partition along N: columns of the grid, and fragments of B."""
    num_partitions: int
    """Parts of the body, one K tile each: 2 for a double buffer. The main loop's vm wait leaves the
    loads of all parts but one in flight."""
    mma_serial: bool
    """Whether the cost model's matrix unit takes one MMA at a time. True on every chip we know;
    False lets CSP overlap them, as a bound."""
    mma_latency: int
    """Cycles of one MMA. Descriptive: the cost model's ``OpCost.latency`` is what counts."""
    vm_per_load_a: int
    """vmcnt entries of one global load of A and wave, which follow from the tile; at least 1. Every
    vm wait is a multiple of these."""
    vm_per_load_b: int
    """vmcnt entries of one global load of B and wave; at least 1."""
    ch0_match_field: int
    """Which field of an MMA names the A fragment it reads: 0 its row (stage), 1 its column
    (subtile)."""
    ch1_match_field: int
    """Which field of an MMA names the B fragment it reads: 0 its row, 1 its column."""
    warp_stagger: WarpStaggerRule
    """Where in the prologue the second wave group falls one barrier behind, so that one group
    multiplies while the other loads; ``WarpStaggerRule.none()`` keeps all waves in step."""
    lgkm_per_load_a: int = 0
    """lgkmcnt entries of one fragment load of A and wave, as the tile has them; 0 falls back to
    ``ScheduleConfig.lgkm_per_load_a``."""
    lgkm_per_load_b: int = 0
    """lgkmcnt entries of one fragment load of B and wave; 0 falls back to ``ScheduleConfig``."""
    cross_stage_rotation: bool = False
    """Whether a partition also loads fragments of the other stage, for the partition that follows,
    as the four-wave schedule does. Without it such a fragment is an error."""

    def __post_init__(self) -> None:
        key = (0, 1, "0 matches the MMA's row (stage), 1 its column (subtile)")
        ones = dict.fromkeys(("depth", "m_mmas", "n_mmas", "num_partitions"), 1)
        loads = {"vm_per_load_a": 1, "vm_per_load_b": 1}
        check_fields(self, ch0_match_field=key, ch1_match_field=key, **ones, **loads)
        if self.cross_stage_rotation and self.depth < 2:
            raise ConfigError(
                f"PipelineConfig.cross_stage_rotation is True, but depth is {self.depth}",
                hint="rotation reads the other stage: use depth >= 2 or turn it off",
                field="PipelineConfig.cross_stage_rotation",
            )

    def mmas_per_partition(self) -> int:
        """MMAs of one partition: m * n."""
        return self.m_mmas * self.n_mmas

    def globals_per_partition(self) -> int:
        """Global loads of one partition: m of A and n of B."""
        return self.m_mmas + self.n_mmas

    def frags_per_partition(self) -> int:
        """Fragment loads of one partition: m of A and n of B."""
        return self.m_mmas + self.n_mmas

    def ops_per_partition(self) -> int:
        """MMAs, global loads and fragment loads of one partition."""
        return self.mmas_per_partition() + self.globals_per_partition() + self.frags_per_partition()

    def total_ops(self) -> int:
        """Ops of the whole body."""
        return self.num_partitions * self.ops_per_partition()

    def blocks_per_partition(self) -> int:
        """One block per MMA."""
        return self.m_mmas * self.n_mmas

    def total_blocks(self) -> int:
        """Blocks of the whole body."""
        return self.num_partitions * self.blocks_per_partition()

    def total_edges(self) -> int:
        """Dependence edges of a double-buffered body, as the specification counts them.

        With p partitions of an m x n grid and g = m + n loads each: p*2*m*n from fragments to MMAs,
        2*m*n between MMAs of one accumulator, p*g*2 from loads to the fragments that read them, and
        (2g-1)*2 from fragments to the loads that overwrite them. ``derive_edges`` gives the edges
        themselves; a body that is not the full table has other counts.
        """
        grid, g = 2 * self.mmas_per_partition(), self.globals_per_partition()
        return self.num_partitions * (grid + 2 * g) + grid + (2 * g - 1) * 2

    def compute_match_key(self, compute_op: OpDesc, channel: int) -> int:
        """The row or column of an MMA that a fragment of ``channel`` must match with its subtile.

        Args:
            compute_op: the MMA; ``stage`` is its row, ``subtile`` its column.
            channel: 0 for A, anything else for B.
        """
        field = self.ch0_match_field if channel == 0 else self.ch1_match_field
        return compute_op.stage if field == 0 else compute_op.subtile

    def vm_per_channel(self, channel: int) -> int:
        """vmcnt entries of one global load of ``channel``.

        Args:
            channel: 0 for A, anything else for B.
        """
        return self.vm_per_load_a if channel == 0 else self.vm_per_load_b

    def lgkm_per_channel(self, channel: int) -> int:
        """lgkmcnt entries of one fragment load of ``channel``; 0 where unset.

        Args:
            channel: 0 for A, anything else for B.
        """
        return self.lgkm_per_load_a if channel == 0 else self.lgkm_per_load_b


@dataclass(frozen=True, slots=True)
class TargetProfile:
    """A machine for one kind of loop: what ops cost, and the pipeline that suits it."""

    cost_model: TargetCostModel
    """What each kernel tag costs; ``annotate_ops`` stamps it on the declared ops."""
    pipeline: PipelineConfig
    """The pipeline's shape; ``PipelineSchedule.config`` returns it."""

    def __post_init__(self) -> None:
        check_fields(self)

    def with_pipeline(self, **changes: object) -> TargetProfile:
        """A copy with fields of ``pipeline`` replaced.

        Args:
            changes: fields of ``PipelineConfig`` by name.
        """
        return TargetProfile(self.cost_model, replace(self.pipeline, **changes))  # type: ignore[arg-type]
