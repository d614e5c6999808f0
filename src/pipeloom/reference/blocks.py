"""MMA-centred blocks: the unit in which a double-buffered program is written.

A block is one MMA with what must happen around it: up to two fragment loads (``pre_op_0/1``),
up to two global loads (``global_load``, ``global_load_1``), the waits and barriers that guard
them, and priorities. Expanded by the template, a plain block reads

    entry waits + barrier | fragments, drain, loads | pre_sync, barrier, lgkm drain |
    set_prio(1) MMA set_prio(0) | barrier, fence

``PipelineProgram`` is the list of blocks; a schedule may replace single blocks by explicit op
lists. Both are plain data: ``block_program`` decides what is in them, ``phases`` turns them into
entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.checks import check_int
from pipeloom.errors import StructureError
from pipeloom.reference.ops import OpDesc, OpRole

BLOCK_SLOTS = 2
"""A block holds up to two fragment loads and two global loads."""

EmittedOp = tuple[OpDesc, bool]
"""An op and whether it is a prefetch."""


def is_prefetch_load(op: OpDesc) -> bool:
    """Whether ``op`` is a global load that fetches for a later use."""
    return op.role is OpRole.GLOBAL_LOAD and op.k_offset.is_prefetch


@dataclass(frozen=True, slots=True, kw_only=True)
class MMABlockSpec:
    """One MMA and what happens around it; None stands for an absent op."""

    mma: OpDesc
    """The MMA."""
    fragments: tuple[OpDesc, ...] = ()
    """Fragment loads of the block, at most two."""
    loads: tuple[OpDesc, ...] = ()
    """Global loads of the block, at most two."""
    entry_wait: OpDesc | None = None
    """The ``vmcnt`` wait at the top; a barrier follows it, which publishes what it retired."""
    entry_wait_lgkm: OpDesc | None = None
    """The ``lgkmcnt`` wait at the top."""
    pre_sync: OpDesc | None = None
    """A wait between the loads and the MMA."""
    post_barrier_lgkm: bool = True
    """Whether ``lgkmcnt(0)`` follows the barrier before the MMA, so that its fragments are
    there."""
    drain_before_loads: bool = False
    """Whether ``lgkmcnt(0)`` stands between fragments and global loads."""
    pre_mma_barrier: bool = True
    """Whether a barrier stands before the MMA."""
    pre_mma_set_prio: bool = True
    """Whether the priority is raised before the MMA."""
    post_mma_barrier: bool = True
    """Whether a barrier stands after the MMA."""
    post_mma_set_prio: bool = True
    """Whether the priority is lowered after the MMA."""
    trailing_sched_barrier: bool = False
    """Whether a compiler fence ends the block; only with ``post_mma_barrier``."""
    wrap_waits: bool = False
    """Whether compiler fences stand around the waits."""
    global_before_frag: bool = False
    """Whether global loads come before fragment loads."""
    barrier_before_pre_ops: bool = False
    """Whether the waits and the barrier come before the loads, not after them."""
    fused_mma: OpDesc | None = None
    """A second MMA right behind the first, as in an epilogue."""

    def __post_init__(self) -> None:
        for kind, ops in (("fragment", self.fragments), ("global", self.loads)):
            if len(ops) > BLOCK_SLOTS:
                raise StructureError(
                    f"a block holds {len(ops)} {kind} loads, but has room for {BLOCK_SLOTS}",
                    hint="spread them over more blocks",
                    field="MMABlockSpec",
                )

    @property
    def pre_op_0(self) -> OpDesc | None:
        """The first fragment load."""
        return self.fragments[0] if self.fragments else None

    @property
    def pre_op_1(self) -> OpDesc | None:
        """The second fragment load."""
        return self.fragments[1] if len(self.fragments) > 1 else None

    @property
    def global_load(self) -> OpDesc | None:
        """The first global load."""
        return self.loads[0] if self.loads else None

    @property
    def global_load_1(self) -> OpDesc | None:
        """The second global load."""
        return self.loads[1] if len(self.loads) > 1 else None

    def entry_group(self) -> Iterator[OpDesc]:
        """The waits at the top, and the barrier that publishes what the vm wait retired."""
        waits = [w for w in (self.entry_wait, self.entry_wait_lgkm) if w is not None]
        wrap = self.wrap_waits and bool(waits)
        if wrap:
            yield OpDesc.schedule_barrier()
        yield from waits
        if self.entry_wait is not None:
            yield OpDesc.barrier()
        if wrap:
            yield OpDesc.schedule_barrier()

    def sync_group(self) -> Iterator[OpDesc]:
        """What stands between the loads and the MMA."""
        wrap = self.wrap_waits and (self.pre_sync is not None or self.pre_mma_barrier)
        if wrap:
            yield OpDesc.schedule_barrier()
        if self.pre_sync is not None:
            yield self.pre_sync
        if self.pre_mma_barrier:
            yield OpDesc.barrier()
            if self.post_barrier_lgkm:
                yield OpDesc.wait_lgkm(0)
        if wrap:
            yield OpDesc.schedule_barrier()

    def _load_group(self) -> Iterator[OpDesc]:
        first, second = self.fragments, self.loads
        if self.global_before_frag:
            first, second = second, first
        yield from first
        if self.drain_before_loads:
            yield OpDesc.wait_lgkm(0)
        yield from second

    def expand(self) -> Iterator[OpDesc]:
        """The block by the template."""
        yield from self.entry_group()
        if self.barrier_before_pre_ops:
            yield from self.sync_group()
            yield from self._load_group()
        else:
            yield from self._load_group()
            yield from self.sync_group()
        if self.pre_mma_set_prio:
            yield OpDesc.set_prio(1)
        yield self.mma
        if self.fused_mma is not None:
            yield self.fused_mma
        if self.post_mma_set_prio:
            yield OpDesc.set_prio(0)
        if self.post_mma_barrier:
            yield OpDesc.barrier()
            if self.trailing_sched_barrier:
                yield OpDesc.schedule_barrier()


def emit_minimal_barrier_block(block: MMABlockSpec) -> list[OpDesc]:
    """The block with fragments before loads and nothing after the MMA.

    Ignores global_before_frag, barrier_before_pre_ops, drain, priorities and trailing fences.

    Args:
        block: The block.
    """
    ops = list(block.entry_group())
    ops.extend(block.fragments)
    if block.fragments and block.loads:
        ops.append(OpDesc.schedule_barrier())
    ops.extend(block.loads)
    ops.extend(block.sync_group())
    ops.append(block.mma)
    return ops


@dataclass(frozen=True, slots=True)
class PipelineProgram:
    """All blocks of one iteration."""

    blocks: tuple[MMABlockSpec, ...]
    """The blocks in order."""
    blocks_per_partition: int
    """Blocks of one half."""
    explicit_blocks: tuple[tuple[OpDesc, ...], ...] = ()
    """Op lists that take the place of blocks: none, or one per block, of which an empty one keeps
    the template."""

    def __post_init__(self) -> None:
        check_int("PipelineProgram", "blocks_per_partition", self.blocks_per_partition, 1)
        if self.explicit_blocks and len(self.explicit_blocks) != len(self.blocks):
            raise StructureError(
                f"PipelineProgram.explicit_blocks has {len(self.explicit_blocks)} op lists for "
                f"{len(self.blocks)} blocks",
                hint="give one list per block; an empty one keeps the template",
                field="PipelineProgram.explicit_blocks",
            )

    def halves(self) -> Iterator[tuple[int, tuple[MMABlockSpec, ...]]]:
        """Each partition's number and blocks."""
        size = self.blocks_per_partition
        for number, start in enumerate(range(0, len(self.blocks), size)):
            yield number, self.blocks[start : start + size]

    def expand_block(self, index: int) -> list[EmittedOp]:
        """One block as ops; an explicit block carries no prefetch flags.

        Args:
            index: The block's number.
        """
        if self.explicit_blocks and self.explicit_blocks[index]:
            return [(op, False) for op in self.explicit_blocks[index]]
        return [(op, is_prefetch_load(op)) for op in self.blocks[index].expand()]

    def expand_to_list(self) -> list[EmittedOp]:
        """The whole iteration as ops, in issue order."""
        return [pair for index in range(len(self.blocks)) for pair in self.expand_block(index)]
