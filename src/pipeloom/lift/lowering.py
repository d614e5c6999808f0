"""One line of an emitted kernel as the simulator's instruction.

    ds_read_b128 v[8:11], v2 offset:1024      ->  LDS read of 16 bytes per lane
    v_mfma_f32_16x16x32_bf16 a[0:3], ...      ->  MFMA of that shape, on the chain a[0:3]

An MFMA's accumulator is its chain, so real dependences count. ``section``, ``entry`` and ``label``
come from the line's provenance. A branch not taken costs a scalar slot, as does a scalar load: the
simulator has no scalar cache, and kernels read their arguments once.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate import Instruction, Kind
from pipeloom.lift.walk import Executed
from pipeloom.machine.target import Target
from pipeloom.write import isa

_MEMORY_BYTES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
_LDS_BITS = re.compile(r"ds_(read|write)_b(\d+)$")
_BUFFER = re.compile(r"(?:buffer|global)_(load|store)_(dwordx[234]|dword|short|byte)")
_COUNT = re.compile(r"(vm|lgkm)cnt\((\d+)\)")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_PACKED = re.compile(r"v_pk_\w+_f32$")


def lower_line(step: Executed, machine: Target) -> Instruction:
    """The instruction as the engine takes it; ``ConfigError`` for one that it does not model."""
    source = step.instruction.provenance
    section = "" if source is None else source.section
    return replace(_lowered(step, machine), section=section)


def _lowered(step: Executed, machine: Target) -> Instruction:
    line = step.instruction
    name, source = line.opcode.name, line.provenance
    label = name if source is None else source.what
    entry = None if source is None or source.slot < 0 else source.slot
    match line.opcode.unit:
        case isa.Unit.MFMA:
            op = machine.matrix_op(name)
            return Instruction.mfma(op, chain=str(line.operands[0]), label=label, entry=entry)
        case isa.Unit.VALU:
            kind = Kind.TRANS if _TRANSCENDENTAL.match(name) else Kind.VALU
            kind = Kind.PACKED if _PACKED.match(name) else kind
            return Instruction.valu(kind, label=label, entry=entry)
        case isa.Unit.LDS if found := _LDS_BITS.match(name):
            width = int(found[2]) // 8
            if found[1] == "read":
                return Instruction.lds_read(width, label=label, entry=entry)
            return Instruction.lds_write(width, label=label, entry=entry)
        case isa.Unit.VMEM if found := _BUFFER.match(name):
            width = _MEMORY_BYTES[found[2]]
            if found[1] == "store":
                return Instruction.global_store(width, label=label, entry=entry)
            return Instruction.global_load(
                width, to_lds="lds" in line.modifiers.split(), label=label, entry=entry
            )
        case isa.Unit.SALU | isa.Unit.SMEM:
            return Instruction.salu(label=str(line), entry=entry)
        case isa.Unit.CONTROL:
            return _control(step, label, entry)
    raise ConfigError(
        f"the simulator does not model {str(line)!r}",
        hint="it takes MFMA, VALU, ds_read, ds_write, buffer loads and stores, SALU and control",
        field="emitted",
    )


def _control(step: Executed, label: str, entry: int | None) -> Instruction:
    line = step.instruction
    name = line.opcode.name
    if name == "s_barrier":
        return Instruction.barrier(label=label, entry=entry)
    if name == "s_waitcnt":
        counts = {counter: int(count) for counter, count in _COUNT.findall(line.modifiers)}
        return Instruction.wait(vm=counts.get("vm"), lgkm=counts.get("lgkm"), entry=entry)
    amount = next((operand for operand in line.operands if isinstance(operand, int)), 0)
    if name == "s_setprio":
        return Instruction.set_prio(amount, entry=entry)
    if name == "s_nop":
        return Instruction.nop(amount, entry=entry)
    if step.jumped:
        return Instruction.branch(label=str(line), entry=entry)
    return Instruction.salu(label=str(line), entry=entry)
