"""What the simulator's instructions cost: ``program/costs.py``, by their kind.

The engine lowers instructions with these and the trace measures utilisation with them, so both
speak of the same cycles.
"""

from __future__ import annotations

from pipeloom.judge.simulate.instruction import Kind, WaveOp
from pipeloom.machine.target import Target
from pipeloom.program.costs import Cost, cost_of
from pipeloom.program.steps import Unit

KINDS = {
    Unit.MATRIX: Kind.MFMA,
    Unit.VECTOR: Kind.VALU,
    Unit.TRANS: Kind.TRANS,
    Unit.PACKED: Kind.PACKED,
    Unit.LDS_READ: Kind.LDS_READ,
    Unit.LDS_WRITE: Kind.LDS_WRITE,
    Unit.LOAD_LDS: Kind.GLOBAL_TO_LDS,
    Unit.LOAD: Kind.GLOBAL_TO_VGPR,
    Unit.STORE: Kind.GLOBAL_STORE,
    Unit.SCALAR: Kind.SALU,
}
_UNITS = {kind: unit for unit, kind in KINDS.items()}


def cost(instruction: WaveOp, machine: Target) -> Cost:
    """Cycles of every unit; of what needs none, an issue slot."""
    return cost_of(
        _UNITS.get(instruction.kind, Unit.SCALAR),
        machine,
        op=instruction.matrix_op,
        bytes_per_lane=instruction.bytes_per_lane,
        conflict=instruction.conflict,
    )


def matrix_cycles(instruction: WaveOp) -> int:
    """Cycles the SIMD's matrix unit is busy."""
    op = instruction.matrix_op
    return 0 if op is None else op.cycles.value
