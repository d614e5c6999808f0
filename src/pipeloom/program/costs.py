"""What instructions cost: cycles of every unit of the machine, from the target's facts.

The one statement of it. The simulator runs instructions with these numbers; bounds, timetables and
the modulo problems of ``order/`` count with them: a plan and its simulation mean the same cycles.

    mfma        matrix unit, the vector port for its issue; its wave is held for the operands
    valu, exp   the vector port
    ds_read     the LDS array, times its bank conflict; the return path of the SIMD
    load        the texture path, a share of memory, the array where its data lands there
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from pipeloom.errors import ConfigError
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import REGISTER_BYTES, Target
from pipeloom.program.steps import Issue, Unit


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one wave's instructions; 0 of what they do not need.

    ``held`` is for how long the wave issues nothing else, ``vector`` its SIMD's vector port,
    ``array`` the LDS array, ``back`` the path from LDS to the SIMD, ``texture`` the texture path,
    ``memory`` the compute unit's share of bandwidth, of which ``loaded`` bytes count as in flight.
    """

    held: int
    matrix: int = 0
    vector: int = 0
    array: int = 0
    back: int = 0
    texture: int = 0
    memory: float = 0.0
    loaded: int = 0


def cost_of(
    unit: Unit,
    target: Target,
    *,
    op: MatrixOp | None = None,
    bytes_per_lane: int = 0,
    conflict: float = 1.0,
) -> Cost:
    """Of one instruction; ``op`` is which, of matrix instructions."""
    issue, moved = target.issue_cycles.value, bytes_per_lane * target.wave_lanes.value
    match unit:
        case Unit.MATRIX:
            if op is None:
                raise ConfigError(
                    "an MFMA without its matrix_op", hint="say which it is", field="mfma"
                )
            scale = target.mfma_scale_cycles.value if op.scaled else 0
            held = target.mfma_operand_cycles.value + scale
            return Cost(held, matrix=op.cycles.value, vector=issue)
        case Unit.VECTOR | Unit.PACKED:
            return Cost(target.valu_cycles.value, vector=target.valu_cycles.value)
        case Unit.TRANS:
            return Cost(target.trans_cycles.value, vector=target.trans_cycles.value)
        case Unit.LDS_READ | Unit.LDS_WRITE:
            array = round(_over(moved, target.lds_bytes_per_clk.value) * conflict)
            if unit is Unit.LDS_READ:
                back = _over(moved, target.lds_return_bytes_per_clk.value)
                return Cost(issue, array=array, back=back)
            dwords = _over(bytes_per_lane, REGISTER_BYTES)
            return Cost(issue + target.lds_write_cycles_per_dword.value * dwords, array=array)
        case Unit.LOAD | Unit.LOAD_LDS | Unit.STORE:
            texture = _over(moved, target.vmem_bytes_per_clk.value)
            stores, lands = unit is Unit.STORE, unit is Unit.LOAD_LDS
            rate = target.store_bytes_per_clk if stores else target.global_bytes_per_clk
            return Cost(
                issue,
                array=_over(moved, target.lds_bytes_per_clk.value) if lands else 0,
                texture=max(target.vmem_min_cycles.value, texture),
                memory=moved / rate.value,
                loaded=0 if stores else moved,
            )
        case Unit.SCALAR:
            return Cost(issue)


def total_cost(issues: Iterable[Issue], target: Target) -> Cost:
    """Of all instructions of a step, one after the other."""
    found = [(issue.count, _of(issue, target)) for issue in issues]
    return Cost(*(sum(n * getattr(cost, x.name) for n, cost in found) for x in fields(Cost)))


def skipped_cost(target: Target) -> Cost:
    """Of steps under a condition that no lane meets, the usual case: the condition, its lanes and a
    branch around them."""
    tested = total_cost((Issue(Unit.VECTOR), Issue(Unit.SCALAR)), target)
    return replace(tested, held=tested.held + target.branch_cycles.value)


def loop_end_cycles(target: Target) -> int:
    """For which a wave issues the end of a loop: its counter, the comparison, the branch back."""
    return 2 * cost_of(Unit.SCALAR, target).held + target.branch_cycles.value


def barrier_cycles(target: Target, per_simd: int) -> int:
    """From a barrier's release until a wave issues again: dear where its SIMD has no other to run
    meanwhile."""
    alone = per_simd == 1
    return (target.barrier_alone_cycles if alone else target.barrier_shared_cycles).value


def _of(issue: Issue, target: Target) -> Cost:
    op = target.matrix_op(issue.shape) if issue.unit is Unit.MATRIX else None
    return cost_of(issue.unit, target, op=op, bytes_per_lane=issue.bytes, conflict=issue.conflict)


def _over(amount: int, rate: int) -> int:
    return -(-amount // rate)
