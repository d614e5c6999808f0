"""What one instruction costs each unit, from the machine's constants.

The engine lowers instructions with these and the trace measures utilisation with them, so both
speak of the same cycles.
"""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.instruction import Instruction, Kind
from pipeloom.machine.target import Target

LDS_KINDS = (Kind.LDS_READ, Kind.LDS_WRITE)
LOAD_KINDS = (Kind.GLOBAL_TO_LDS, Kind.GLOBAL_TO_VGPR)
GLOBAL_KINDS = (*LOAD_KINDS, Kind.GLOBAL_STORE)
VALU_KINDS = (Kind.VALU, Kind.TRANS, Kind.PACKED)


def matrix_cycles(instruction: Instruction) -> int:
    """Cycles the SIMD's matrix unit is busy."""
    op = instruction.matrix_op
    return op.cycles.value if instruction.kind is Kind.MFMA and op is not None else 0


def operand_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles after an MFMA in which its wave issues nothing."""
    op = instruction.matrix_op
    if op is None:
        raise ConfigError(
            "an MFMA without its matrix_op", hint="build it with Instruction.mfma", field="mfma"
        )
    scale = machine.mfma_scale_cycles.value if op.scaled else 0
    return machine.mfma_operand_cycles.value + scale


def lds_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles the LDS array is busy: bytes over bandwidth, times the bank conflict."""
    return round(lds_cycles_conflict_free(instruction, machine) * instruction.conflict)


def lds_cycles_conflict_free(instruction: Instruction, machine: Target) -> int:
    """The same without bank conflicts."""
    if instruction.kind in LDS_KINDS or instruction.kind is Kind.GLOBAL_TO_LDS:
        return _ceil_div(instruction.bytes, machine.lds_bytes_per_clk.value)
    return 0


def lds_return_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles the path from LDS to the SIMD's registers is busy."""
    if instruction.kind is not Kind.LDS_READ:
        return 0
    return _ceil_div(instruction.bytes, machine.lds_return_bytes_per_clk.value)


def lds_write_issue_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles a ds_write keeps its wave: one issue slot and its data, dword by dword."""
    dwords = _ceil_div(instruction.bytes_per_lane, 4)
    return machine.issue_cycles.value + machine.lds_write_cycles_per_dword.value * dwords


def vmem_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles the compute unit's texture path is busy."""
    if instruction.kind not in GLOBAL_KINDS:
        return 0
    moved = _ceil_div(instruction.bytes, machine.vmem_bytes_per_clk.value)
    return max(machine.vmem_min_cycles.value, moved)


def memory_cycles(instruction: Instruction, machine: Target) -> float:
    """Cycles of the compute unit's share of the memory bandwidth, of which a store takes more."""
    if instruction.kind is Kind.GLOBAL_STORE:
        return instruction.bytes / machine.store_bytes_per_clk.value
    if instruction.kind in LOAD_KINDS:
        return instruction.bytes / machine.global_bytes_per_clk.value
    return 0.0


def bytes_in_flight(instruction: Instruction) -> int:
    """Bytes under the cap of what a compute unit may have in flight: those of loads."""
    return instruction.bytes if instruction.kind in LOAD_KINDS else 0


def valu_issue_cycles(instruction: Instruction, machine: Target) -> int:
    """Cycles of the SIMD's vector issue port."""
    if instruction.kind is Kind.TRANS:
        return machine.trans_cycles.value
    if instruction.kind in (Kind.VALU, Kind.PACKED):
        return machine.valu_cycles.value
    if instruction.kind is Kind.MFMA:
        return machine.issue_cycles.value
    return 0


def _ceil_div(value: int, by: int) -> int:
    return -(-value // by)
