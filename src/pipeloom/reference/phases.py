"""Prologue, kernel and epilogue from a program: the loop peeled at both ends.

The prologue is the loads that the first iteration expects to find done; the epilogue is the
kernel without its prefetches, drained step by step. REFERENCE.md sections 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeloom.errors import StructureError
from pipeloom.reference.blocks import EmittedOp, MMABlockSpec, PipelineProgram, is_prefetch_load
from pipeloom.reference.compiled import ScheduleEntry
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.graph import DepEdge, DepKind, describe_op
from pipeloom.reference.ops import KOffsetKind, OpDesc, OpRole, OpTag, Phase
from pipeloom.reference.schedule_config import ScheduleConfig


@dataclass(frozen=True, slots=True)
class EntryLists:
    """The three entry lists."""

    prologue: tuple[ScheduleEntry, ...]
    """What runs before the loop."""
    kernel: tuple[ScheduleEntry, ...]
    """The loop."""
    epilogue: tuple[ScheduleEntry, ...]
    """What runs after the loop."""

    def all(self) -> tuple[tuple[ScheduleEntry, ...], ...]:
        """The three, in order."""
        return self.prologue, self.kernel, self.epilogue


def number_entries(ops: Iterable[EmittedOp], phase: Phase) -> tuple[ScheduleEntry, ...]:
    """Entries with time slots 0, 1, 2, ..."""
    return tuple(
        ScheduleEntry(op, slot, phase, is_prefetch) for slot, (op, is_prefetch) in enumerate(ops)
    )


def derive_prologue_from_program(
    program: PipelineProgram,
    config: PipelineConfig,
    schedule_config: ScheduleConfig,
    bootstrap: Sequence[OpDesc] = (),
) -> list[EmittedOp]:
    """The loads of stage 0, then of stage 1, each drained; or, partially drained, bootstrapped.

    With ``partial_prologue_drain`` each bootstrap fragment waits only for the loads up to its
    own, so that the rest stays in flight into the loop.

    Args:
        program: The blocks.
        config: The pipeline's shape.
        schedule_config: The scheduler's knobs.
        bootstrap: Fragments that the first MMA expects in registers.
    """
    prefetches = [op for block in program.blocks for op in block.loads if is_prefetch_load(op)]
    for op in prefetches:
        if op.stage > 1:
            raise StructureError(
                f"{describe_op(op)} prefetches into stage {op.stage}, but the prologue fills only "
                "stages 0 and 1",
                hint="double-buffered loads alternate between stages 0 and 1",
                field="body",
            )
    stages = [
        [_prologue_load(op, config, k) for op in prefetches if op.stage == stage]
        for stage, k in ((0, KOffsetKind.K0), (1, KOffsetKind.K1))
    ]
    if not schedule_config.partial_prologue_drain:
        if bootstrap:
            raise StructureError(
                f"bootstrap_frags() gives {len(bootstrap)} fragments, from "
                f"{describe_op(bootstrap[0])} on, but the drained prologue loads none",
                hint="set partial_prologue_drain=True, or return no bootstrap fragments",
                field="ScheduleConfig.partial_prologue_drain",
            )
        ops = [*stages[0], OpDesc.wait_vm(0), OpDesc.barrier(), *stages[1], OpDesc.wait_vm(0)]
        return [(op, False) for op in ops]
    loads = stages[0] + stages[1]
    in_flight = sum(op.vm_cost for op in loads)
    ops = list(loads)
    for i, fragment in enumerate(bootstrap):
        in_flight -= loads[i].vm_cost if i < len(loads) else 0
        ops += [OpDesc.wait_vm(in_flight), OpDesc.barrier(), fragment]
    return [(op, False) for op in ops]


def _prologue_load(op: OpDesc, config: PipelineConfig, k_offset: KOffsetKind) -> OpDesc:
    return OpDesc(
        op.tag,
        op.stage,
        op.subtile,
        k_offset,
        vm_cost=config.vm_per_channel(op.channel),
        resource=op.resource,
        latency=op.latency,
        role=op.role,
    )


def derive_epilogue_from_program(program: PipelineProgram) -> list[EmittedOp]:
    """The kernel's blocks without prefetches; an MMA with nothing to wait for is fused.

    Args:
        program: The blocks.
    """
    rebuilt: list[MMABlockSpec] = []
    for _, members in program.halves():
        drain_start = next(
            (i for i, b in enumerate(members) if any(is_prefetch_load(op) for op in b.loads)),
            len(members),
        )
        pos = 0
        while pos < len(members):
            block = _epilogue_block(members[pos], drains=pos >= drain_start)
            follower = members[pos + 1] if pos + 1 < len(members) else None
            if follower is not None and not follower.fragments and not _completions(follower):
                block = replace(block, fused_mma=follower.mma)
                pos += 1
            rebuilt.append(block)
            pos += 1
    rebuilt[-1] = replace(rebuilt[-1], pre_sync=None)
    ops = [(op, False) for block in rebuilt for op in block.expand()]
    return [*ops, (OpDesc.barrier(), False)]


def _completions(block: MMABlockSpec) -> tuple[OpDesc, ...]:
    return tuple(op for op in block.loads if not is_prefetch_load(op))


def _epilogue_block(block: MMABlockSpec, *, drains: bool) -> MMABlockSpec:
    return MMABlockSpec(
        mma=block.mma,
        fragments=block.fragments,
        loads=_completions(block),
        entry_wait_lgkm=OpDesc.wait_lgkm(0),
        pre_sync=OpDesc.wait_vm(0) if drains else None,
        post_barrier_lgkm=block.post_barrier_lgkm,
        pre_mma_barrier=block.pre_mma_barrier,
        pre_mma_set_prio=block.pre_mma_set_prio,
        post_mma_barrier=block.post_mma_barrier,
        post_mma_set_prio=block.post_mma_set_prio,
    )


def derive_double_buffer_phases(
    program: PipelineProgram,
    config: PipelineConfig,
    schedule_config: ScheduleConfig,
    bootstrap: Sequence[OpDesc],
) -> EntryLists:
    """All three phases of a double-buffered program."""
    prologue = derive_prologue_from_program(program, config, schedule_config, bootstrap)
    return EntryLists(
        number_entries(prologue, Phase.PROLOGUE),
        number_entries(program.expand_to_list(), Phase.KERNEL),
        number_entries(derive_epilogue_from_program(program), Phase.EPILOGUE),
    )


def derive_single_buffer_phases(body: Sequence[OpDesc], config: PipelineConfig) -> EntryLists:
    """Fill, loop, and the two drain passes of a single-buffered body."""

    def of(role: OpRole) -> list[OpDesc]:
        return [op for op in body if op.role is role]

    loads, stores = of(OpRole.GLOBAL_LOAD), of(OpRole.SHARED_STORE)
    fragments, computes = of(OpRole.FRAGMENT_LOAD), of(OpRole.COMPUTE)
    selector = config.loop_carried.selector
    carried = [op for op in fragments if op.subtile == selector]
    local = [op for op in fragments if op.subtile != selector]
    for ops, what in (
        (loads, "global load"),
        (stores, "shared store"),
        (carried, "carried fragment"),
    ):
        if len(ops) != 1:
            raise StructureError(
                f"a single-buffered body needs exactly one {what}, but has {len(ops)}",
                hint="one load and one store cover the tile; fragment subtile "
                f"{selector} (loop_carried.selector) is the carried one",
                field="body",
            )
    placed = (OpRole.GLOBAL_LOAD, OpRole.SHARED_STORE, OpRole.FRAGMENT_LOAD, OpRole.COMPUTE)
    for op in body:
        if op.role not in placed and not op.is_framework:
            raise StructureError(
                f"{describe_op(op)} has role {op.role.name}, which the drain passes would lose",
                hint="a single-buffered body is made of GLOBAL_LOAD, SHARED_STORE, FRAGMENT_LOAD "
                "and COMPUTE ops, and barriers",
                field="body",
            )
    fence, barrier = OpDesc.schedule_barrier(), OpDesc.barrier()
    prologue = [loads[0], stores[0], barrier, loads[0], carried[0], fence]
    epilogue = [
        *(fence, *local, barrier, stores[0], *computes),
        *(fence, barrier, *fragments, *computes, fence),
    ]
    return EntryLists(
        number_entries(((op, False) for op in prologue), Phase.PROLOGUE),
        number_entries(((op, False) for op in body), Phase.KERNEL),
        number_entries(((op, False) for op in epilogue), Phase.EPILOGUE),
    )


def derive_kernel_deps(kernel: Sequence[ScheduleEntry], num_partitions: int) -> list[DepEdge]:
    """What the kernel itself shows: first sync and first lgkm wait to the first MMA, MMA chain."""
    size = len(kernel) // num_partitions
    deps: list[DepEdge] = []
    for part in range(num_partitions):
        entries = kernel[part * size : (part + 1) * size]
        base = part * size
        mmas = [base + i for i, e in enumerate(entries) if e.op.role is OpRole.COMPUTE]
        syncs = [base + i for i, e in enumerate(entries) if e.op.role is OpRole.SYNC]
        lgkms = [base + i for i, e in enumerate(entries) if e.op.tag == OpTag.WAIT_LGKM]
        if not mmas:
            continue
        if syncs and syncs[0] < mmas[0]:
            deps.append(DepEdge(syncs[0], mmas[0], DepKind.FLOW))
        if lgkms:
            deps.append(DepEdge(lgkms[0], mmas[0], DepKind.FLOW))
        if len(mmas) >= 3:
            deps.append(DepEdge(mmas[0], mmas[1], DepKind.FLOW))
            deps.append(DepEdge(mmas[1], mmas[2], DepKind.FLOW))
    return deps


def derive_warp_stagger_index(
    config: PipelineConfig, body: Sequence[OpDesc], prologue_length: int
) -> int:
    """How many prologue entries run before the second wave group drops one barrier behind."""
    rule = config.warp_stagger
    if not rule.enabled:
        return prologue_length + 1
    if rule.compute_from_body:
        return sum(is_prefetch_load(op) and op.stage == 0 for op in body)
    if rule.fixed_amount > prologue_length:
        raise StructureError(
            f"warp_stagger is fixed at {rule.fixed_amount}, but the prologue has only "
            f"{prologue_length} entries",
            hint=f"use an amount from 0 to {prologue_length}, auto(), or none() for no stagger",
            field="PipelineConfig.warp_stagger",
        )
    return rule.fixed_amount
