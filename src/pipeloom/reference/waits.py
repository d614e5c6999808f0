"""Wait counts from finished blocks: how much may still be in flight when an MMA issues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.reference.blocks import MMABlockSpec, PipelineProgram
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.ops import OpDesc
from pipeloom.reference.schedule_config import ScheduleConfig


def lgkm_cost(config: PipelineConfig, schedule_config: ScheduleConfig, channel: int) -> int:
    """lgkmcnt entries per load of a channel: the pipeline's, else the schedule's."""
    own = config.lgkm_per_channel(channel)
    if own:
        return own
    knobs = schedule_config
    return knobs.lgkm_per_load_a if channel == 0 else knobs.lgkm_per_load_b


def derive_waits_from_blocks(
    blocks: Sequence[MMABlockSpec], config: PipelineConfig, schedule_config: ScheduleConfig
) -> list[MMABlockSpec]:
    """Set the first and last wait of each half from what the blocks actually issue.

    wait_lgkm_first = max over halves of the lgkm cost of block 0's loads; wait_vm_last = min over
    halves of the vm cost of the half's own-stage loads, so that the other stage's loads (the
    completion loads) have landed at the half's end.

    Args:
        blocks: The blocks of all halves.
        config: The pipeline's shape.
        schedule_config: The scheduler's knobs.
    """
    program = PipelineProgram(tuple(blocks), config.blocks_per_partition())
    first, last = 0, None
    for half, members in program.halves():
        cost = sum(lgkm_cost(config, schedule_config, op.channel) for op in members[0].loads)
        first = max(first, cost)
        own = sum(
            config.vm_per_channel(op.channel)
            for block in members
            for op in block.loads
            if op.stage == half
        )
        last = own if last is None else min(last, own)
    result = list(blocks)
    size = config.blocks_per_partition()
    for start in range(0, len(result), size):
        head, tail = result[start], start + size - 1
        wait = OpDesc.wait_lgkm(0 if schedule_config.barrier_before_pre_ops else first)
        if schedule_config.minimal_barriers and head.entry_wait is not None:
            result[start] = replace(head, entry_wait_lgkm=wait, pre_sync=None)
        else:
            result[start] = replace(head, pre_sync=wait)
        result[tail] = replace(result[tail], pre_sync=OpDesc.wait_vm(last or 0))
    return result


def derive_drain_mask(blocks: Sequence[MMABlockSpec]) -> list[MMABlockSpec]:
    """Drain before loads exactly where a fragment and the first load are of different operands.

    Args:
        blocks: The blocks of all halves.
    """
    return [
        replace(
            block,
            drain_before_loads=bool(block.loads)
            and any(f.channel != block.loads[0].channel for f in block.fragments),
        )
        for block in blocks
    ]
