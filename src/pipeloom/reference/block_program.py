"""Blocks from an order: which loads and fragments travel with which MMA, and their guards.

Walking the ordered ops, each COMPUTE closes a block. The flags of a block (entry waits, drains,
barriers) follow from its position in its half and from the configuration; see REFERENCE.md
section 6 of the specification, whose names are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.errors import StructureError
from pipeloom.reference.blocks import BLOCK_SLOTS, MMABlockSpec, PipelineProgram, is_prefetch_load
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.graph import describe_op
from pipeloom.reference.ops import OpDesc, OpRole
from pipeloom.reference.schedule_config import NO_LGKM_FIRST, ScheduleConfig
from pipeloom.reference.structure import check_complete, verify_schedule
from pipeloom.reference.waits import derive_drain_mask, derive_waits_from_blocks


def build_kernel_program(
    ordered: Sequence[OpDesc], config: PipelineConfig, schedule_config: ScheduleConfig
) -> PipelineProgram:
    """Split, flag, spread the loads, derive the waits, and verify the structure.

    Args:
        ordered: The annotated ops in the order chosen.
        config: The pipeline's shape.
        schedule_config: The scheduler's knobs.
    """
    groups = _split_at_computes(ordered, config)
    blocks = _flag_blocks(groups, config, schedule_config)
    blocks = _redistribute_globals(blocks, config, schedule_config)
    if schedule_config.auto_waits:
        if schedule_config.auto_drain:
            blocks = derive_drain_mask(blocks)
        blocks = derive_waits_from_blocks(blocks, config, schedule_config)
    program = PipelineProgram(tuple(blocks), config.blocks_per_partition())
    check_complete(program, config)
    verify_schedule(program, config, schedule_config)
    return program


def _split_at_computes(ordered: Sequence[OpDesc], config: PipelineConfig) -> list[MMABlockSpec]:
    blocks: list[MMABlockSpec] = []
    fragments: list[OpDesc] = []
    loads: list[OpDesc] = []
    for op in ordered:
        if op.role is OpRole.FRAGMENT_LOAD:
            fragments.append(op)
        elif op.role is OpRole.GLOBAL_LOAD:
            loads.append(op)
        elif op.role is OpRole.COMPUTE:
            _check_slots(len(blocks), fragments, loads, ordered, config)
            blocks.append(MMABlockSpec(mma=op, fragments=tuple(fragments), loads=tuple(loads)))
            fragments, loads = [], []
        else:
            raise StructureError(
                f"{describe_op(op)} has role {op.role.name}, which no block can hold",
                hint="it has no costs yet: pass the body through annotate_ops(ops, cost_model)"
                if op.role is OpRole.NONE
                else "a double-buffered body is made of GLOBAL_LOAD, FRAGMENT_LOAD and COMPUTE ops",
                field="body",
            )
    if fragments or loads:
        left = (fragments + loads)[0]
        raise StructureError(
            f"{len(fragments) + len(loads)} op(s) follow the last COMPUTE, from "
            f"{describe_op(left)} on: they belong to no block",
            hint="end the body with an MMA",
            field="body",
        )
    if len(blocks) != config.total_blocks():
        raise StructureError(
            f"the body has {len(blocks)} MMAs, but the configuration asks for "
            f"{config.num_partitions} partitions of {config.m_mmas}x{config.n_mmas} = "
            f"{config.total_blocks()}",
            hint="change m_mmas, n_mmas or num_partitions, or the declared grid",
            field="PipelineConfig.m_mmas",
        )
    return blocks


def _check_slots(
    number: int,
    fragments: list[OpDesc],
    loads: list[OpDesc],
    ordered: Sequence[OpDesc],
    config: PipelineConfig,
) -> None:
    for ops, kind in ((fragments, "fragment"), (loads, "global")):
        if len(ops) > BLOCK_SLOTS:
            total = sum(op.role is OpRole.GLOBAL_LOAD for op in ordered)
            per_half = -(-total // config.num_partitions)
            advice = config.block_sizing.advice(per_half, config.blocks_per_partition())
            raise StructureError(
                f"block {number} holds {len(ops)} {kind} loads, but has room for {BLOCK_SLOTS}: "
                f"{', '.join(describe_op(op) for op in ops)}",
                hint=_spread_hint(advice if kind == "global" else "", per_half, config),
                field="PipelineConfig.block_sizing",
            )


def _spread_hint(advice: str, per_half: int, config: PipelineConfig) -> str:
    """Sizing shapes the declared order; where it already has room, another order must help."""
    if per_half > BLOCK_SLOTS * config.blocks_per_partition():
        return advice or "declare more MMAs or fewer loads: the blocks have too little room for all"
    fit = "compile with strategy=CspStrategy(fit_blocks=True), which orders ops to fit the blocks"
    return f"{advice}, or {fit}" if advice else f"interleave with double_buffer_reorder, or {fit}"


def _flag_blocks(
    blocks: Sequence[MMABlockSpec], config: PipelineConfig, knobs: ScheduleConfig
) -> list[MMABlockSpec]:
    size = config.blocks_per_partition()
    main_wait_vm = _main_wait_vm(blocks, config)
    flagged: list[MMABlockSpec] = []
    for start in range(0, len(blocks), size):
        half = start // size
        members = blocks[start : start + size]
        cross = [any(f.stage != half for f in b.fragments) for b in members]
        for pos, block in enumerate(members):
            first_cross = cross[pos] and not any(cross[:pos])
            flagged.append(
                _flag_block(
                    block,
                    index=start + pos,
                    pos=pos,
                    last=pos == len(members) - 1,
                    first_cross=first_cross,
                    guarded=first_cross or (pos == 0 and any(cross)),
                    main_wait_vm=main_wait_vm,
                    knobs=knobs,
                )
            )
    return flagged


def _main_wait_vm(blocks: Sequence[MMABlockSpec], config: PipelineConfig) -> int:
    """V - V//num_partitions, V being the vm cost of the body's prefetch loads."""
    total = sum(
        config.vm_per_channel(load.channel)
        for block in blocks
        for load in block.loads
        if is_prefetch_load(load)
    )
    return total - total // config.num_partitions


def _flag_block(
    block: MMABlockSpec,
    *,
    index: int,
    pos: int,
    last: bool,
    first_cross: bool,
    guarded: bool,
    main_wait_vm: int,
    knobs: ScheduleConfig,
) -> MMABlockSpec:
    entry_wait = OpDesc.wait_vm(main_wait_vm) if guarded else None
    entry_wait_lgkm: OpDesc | None = None
    pre_sync: OpDesc | None = None
    post_barrier_lgkm = True
    drain_at_entry = entry_wait is not None and knobs.minimal_barriers
    if pos == 0 and knobs.wait_lgkm_first < NO_LGKM_FIRST:
        if drain_at_entry:
            entry_wait_lgkm = OpDesc.wait_lgkm(0)
        else:
            pre_sync = OpDesc.wait_lgkm(knobs.wait_lgkm_first)
    elif first_cross:
        if drain_at_entry:
            entry_wait_lgkm = OpDesc.wait_lgkm(0)
        else:
            pre_sync = OpDesc.wait_lgkm(0)
    elif last:
        pre_sync = OpDesc.wait_vm(knobs.wait_vm_last)
        post_barrier_lgkm = knobs.lgkm_after_last
    elif knobs.inter_block_lgkm_drain:
        entry_wait_lgkm = OpDesc.wait_lgkm(0)
    minimal = knobs.minimal_barriers
    prio_at_entry = not knobs.omit_mma_set_prio and (pos == 0 or first_cross)
    return replace(
        block,
        entry_wait=entry_wait,
        entry_wait_lgkm=entry_wait_lgkm,
        pre_sync=pre_sync,
        post_barrier_lgkm=post_barrier_lgkm and not minimal,
        drain_before_loads=_mask_drain(block, index, knobs),
        pre_mma_barrier=not minimal,
        pre_mma_set_prio=prio_at_entry if minimal else True,
        post_mma_barrier=not minimal,
        post_mma_set_prio=not minimal,
        trailing_sched_barrier=bool(knobs.sched_barrier_mask >> index & 1),
        wrap_waits=knobs.wrap_waits_with_sched_barrier,
        global_before_frag=knobs.global_before_frag,
        barrier_before_pre_ops=knobs.barrier_before_pre_ops,
    )


def _mask_drain(block: MMABlockSpec, index: int, knobs: ScheduleConfig) -> bool:
    chosen = bool(knobs.drain_lgkm_mask >> index & 1)
    return chosen and bool(block.fragments) and bool(block.loads)


def _redistribute_globals(
    blocks: Sequence[MMABlockSpec], config: PipelineConfig, knobs: ScheduleConfig
) -> list[MMABlockSpec]:
    """Move loads beyond ``max_globals`` to the first blocks with room, in order."""
    limit = config.block_sizing.max_globals
    result = list(blocks)
    if limit == 0:
        return result
    pool: list[OpDesc] = []
    for index, block in enumerate(result):
        if len(block.loads) > limit:
            pool.extend(reversed(block.loads[limit:]))
            result[index] = replace(block, loads=block.loads[:limit])
    for index, block in enumerate(result):
        if not pool:
            break
        room = max(limit - len(block.loads), 0)
        refilled = replace(block, loads=block.loads + tuple(pool[:room]))
        del pool[:room]
        result[index] = replace(refilled, drain_before_loads=_mask_drain(refilled, index, knobs))
    if pool:
        raise StructureError(
            f"max_globals {limit} leaves {len(pool)} global load(s) without a block, from "
            f"{describe_op(pool[0])} on",
            hint=f"{len(result)} blocks hold {limit * len(result)} loads: "
            + ("set max_globals=2" if limit < BLOCK_SLOTS else "declare more MMAs, or fewer loads"),
            field="PipelineConfig.block_sizing.max_globals",
        )
    return result
