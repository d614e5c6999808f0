"""From declaration order to a good starting order, before any strategy.

Declarations group ops by kind because that is how people think; a pipeline wants loads spread
between MMAs. Each reorder here is a permutation of what was declared (barriers of the single
buffer aside), and raises rather than lose an op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeloom.errors import StructureError
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.edges import derive_edges_from_ops
from pipeloom.reference.graph import DepEdge, LoopBody, describe_op
from pipeloom.reference.ops import OpDesc, OpRole, OpTag
from pipeloom.reference.strategies.csp import optimal_schedule


def double_buffer_reorder(ops: Sequence[OpDesc], config: PipelineConfig) -> list[OpDesc]:
    """Interleave each half of the declared list around its MMAs.

    Args:
        ops: The annotated ops, half by half.
        config: The pipeline's shape.
    """
    half = len(ops) // 2
    return mma_block_interleave(ops[:half], config) + mma_block_interleave(ops[half:], config)


def mma_block_interleave(ops: Sequence[OpDesc], config: PipelineConfig) -> list[OpDesc]:
    """One half: each MMA preceded by the fragments it is first to need, then global loads.

    Loads fill the block up to its size (``heavy`` where the MMA opens an M row, else ``light``);
    with ``max_globals`` every block takes at least one and at most that many.

    Args:
        ops: The annotated ops of one half.
        config: The pipeline's shape.
    """
    mmas = [op for op in ops if op.role is OpRole.COMPUTE]
    loads = [op for op in ops if op.role is OpRole.GLOBAL_LOAD]
    fragments = [op for op in ops if op.role is OpRole.FRAGMENT_LOAD]
    sizing = config.block_sizing
    result: list[OpDesc] = []
    rows: set[int] = set()
    columns: set[int] = set()
    taken = 0
    for mma in mmas:
        new_row, new_column = mma.stage not in rows, mma.subtile not in columns
        rows.add(mma.stage)
        columns.add(mma.subtile)
        a = [f for f in fragments if new_row and f.channel == 0 and f.subtile == mma.stage]
        b = [f for f in fragments if new_column and f.channel == 1 and f.subtile == mma.subtile]
        brought = b + a if config.frag_order.b_before_a else a + b
        size = sizing.heavy if new_row else sizing.light
        available = max(size - len(brought) - 1, 0)
        if sizing.max_globals > 0:
            available = min(max(available, 1), sizing.max_globals)
        result.extend(brought)
        result.extend(loads[taken : taken + available])
        taken = min(taken + available, len(loads))
        result.append(mma)
    _check_all_placed(ops, result, len(loads) - taken, config)
    return result


def _check_all_placed(
    ops: Sequence[OpDesc], result: Sequence[OpDesc], unplaced: int, config: PipelineConfig
) -> None:
    sizing = config.block_sizing
    if unplaced:
        total = sum(op.role is OpRole.GLOBAL_LOAD for op in ops)
        blocks = sum(op.role is OpRole.COMPUTE for op in ops)
        larger = "raise block_sizing.heavy or light, or " if not sizing.max_globals else ""
        raise StructureError(
            f"block sizing (heavy {sizing.heavy}, light {sizing.light}, max_globals "
            f"{sizing.max_globals}) leaves {unplaced} of {total} global loads unplaced in a half",
            hint=(larger if total <= 2 * blocks else "") + sizing.advice(total, blocks),
            field="PipelineConfig.block_sizing",
        )
    if len(result) != len(ops):
        kept = {id(op) for op in result}
        lost = next(op for op in ops if id(op) not in kept)
        raise StructureError(
            f"{describe_op(lost)} has no place around the MMAs of its half",
            hint="it has no role yet: pass the body through annotate_ops(ops, cost_model) first"
            if lost.role is OpRole.NONE
            else "a fragment needs an MMA in its row (channel 0) or column (channel 1); only "
            "global loads, fragments and MMAs can be interleaved",
            field="body",
        )


def single_buffer_reorder(ops: Sequence[OpDesc], config: PipelineConfig) -> list[OpDesc]:
    """The order of a single-buffered loop, around two barriers.

    Non-carried fragments; carried MMAs; barrier; stores; global loads; the other MMAs; barrier;
    the loop-carried ops, which feed the next iteration. The declared barriers are replaced.

    Args:
        ops: The annotated ops.
        config: The pipeline's shape.
    """
    carried = config.loop_carried
    selector = carried.selector

    def of(role: OpRole) -> list[OpDesc]:
        return [op for op in ops if op.role is role]

    computes, fragments = of(OpRole.COMPUTE), of(OpRole.FRAGMENT_LOAD)
    result = [op for op in fragments if op.subtile != selector]
    result += [op for op in computes if op.subtile == selector]
    result.append(OpDesc.barrier())
    result += of(OpRole.SHARED_STORE) + of(OpRole.GLOBAL_LOAD)
    result += [op for op in computes if op.subtile != selector]
    result.append(OpDesc.barrier())
    result += [op for op in of(carried.role) if op.subtile == selector]
    declared = Counter(op for op in ops if op.tag != OpTag.BARRIER)
    placed = Counter(op for op in result if op.tag != OpTag.BARRIER)
    for op in [*declared, *placed]:
        if declared[op] == placed[op]:
            continue
        what = "no place" if placed[op] < declared[op] else "two places"
        raise StructureError(
            f"{describe_op(op)} has {what} in a single-buffered loop with loop_carried = "
            f"({carried.role.name}, {selector})",
            hint="set loop_carried to LoopCarriedSpec.fragment_zero(), and declare only loads, "
            "stores, fragments and MMAs",
            field="PipelineConfig.loop_carried",
        )
    return result


def optimize_within_barriers(ops: Sequence[OpDesc], config: PipelineConfig) -> list[OpDesc]:
    """Reorder each run of ops between barriers optimally; barriers stay where they are.

    Args:
        ops: The annotated ops with their barriers.
        config: The pipeline's shape.
    """
    edges = derive_edges_from_ops(ops, config)
    result: list[OpDesc] = []
    start = 0
    for end in [i for i, op in enumerate(ops) if op.role is OpRole.SYNC] + [len(ops)]:
        result += _optimized_segment(ops, edges, start, end)
        result += ops[end : end + 1]
        start = end + 1
    return result


def _optimized_segment(
    ops: Sequence[OpDesc], edges: Sequence[DepEdge], start: int, end: int
) -> list[OpDesc]:
    segment = list(ops[start:end])
    if len(segment) <= 1:
        return segment
    inside = [
        DepEdge(e.producer - start, e.consumer - start, e.kind)
        for e in edges
        if e.loop_distance == 0 and start <= e.producer < end and start <= e.consumer < end
    ]
    best = optimal_schedule(LoopBody(segment, inside))
    return [segment[i] for i in best.order]
