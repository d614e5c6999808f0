"""Wait states that no interlock provides: which pairs need them, and where s_nop goes.

CDNA's pipes are not fully interlocked. After an MFMA, say, its result may be read by a VALU only
some instructions later; in between something must issue, and if there is nothing, an ``s_nop``.
Each instruction is one wait state, ``s_nop n`` is n + 1.

    v_mfma_f32_16x16x32_bf16 a[0:3], ...
    s_nop 7                                  <- inserted: gfx950 wants 8 before the read
    v_accvgpr_read_b32 v0, a0

Rules and numbers: LLVM GCNHazardRecognizer (checkMAIHazards90A, checkMAIVALUHazards,
checkVALUHazards, checkVMEMHazards, checkRWLaneHazards, checkPermlaneHazards, checkDivFMasHazards,
checkReadM0Hazards), after the CDNA3/CDNA4 ISA's "Manually Inserted Wait States". Kept to what can
be written in our instruction layer or a small extension of it: no DPP, no f32 or f64 MFMA.
``hazard_check`` judges the result from a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeloom.machine.target import Target
from pipeloom.write.isa import (
    EXEC,
    M0,
    VCC,
    Bank,
    Instruction,
    Label,
    Line,
    Register,
    Unit,
    instruction,
)

MAX_WAIT_STATES = 20
MAX_NOP = 8
"""Wait states per s_nop; the field could hold 16 on gfx9, LLVM stays at 8."""

_MEMORY = (Unit.VMEM, Unit.LDS)
_PLAIN_VECTOR = (Unit.VALU, *_MEMORY)
_VECTOR = (Unit.VALU, Unit.MFMA)
_SRC_C = 3
_TRANSCENDENTAL = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_WIDE_STORES = {"buffer_store_dwordx": 0, "global_store_dwordx": 1, "flat_store_dwordx": 1}
"""Start of the name -> operand with the data."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """An instruction with what the rules ask about it, worked out once."""

    item: Instruction
    unit: Unit
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    vectors: tuple[Register, ...]
    """Those of ``writes`` that are held per lane."""
    scalars: tuple[Register, ...]

    @classmethod
    def of(cls, item: Instruction) -> _Facts:
        writes = item.writes
        vectors = tuple(r for r in writes if r.is_vector)
        scalars = tuple(r for r in writes if r.bank is Bank.SCALAR or r in (VCC, M0, EXEC))
        return cls(item, item.opcode.unit, item.reads, writes, vectors, scalars)


@dataclass(frozen=True, slots=True)
class Rule:
    """``needed(first, second, target)`` wait states between two instructions; 0 for none."""

    name: str
    first: tuple[Unit, ...]
    second: tuple[Unit, ...]
    needed: Callable[[_Facts, _Facts, Target], int]


def _meet(left: Sequence[Register], right: Sequence[Register]) -> bool:
    return any(a.overlaps(b) for a in left for b in right)


def _valu_then_mfma(first: _Facts, second: _Facts, target: Target) -> int:
    return 2 if _meet(first.vectors, second.reads) else 0


def _exec_then_mfma(first: _Facts, second: _Facts, target: Target) -> int:
    return 4 if EXEC in first.writes else 0


def _mfma_then_mfma(first: _Facts, second: _Facts, target: Target) -> int:
    """As A or B like any other read; as C less, and nothing along a chain of the same MFMA.

    The chain must be of one opcode and of exactly the same registers: only then is the result
    forwarded (LLVM pull request 218363).
    """
    passes, result = first.item.opcode.passes, first.writes[0]
    operands = second.item.operands
    factors = [r for r in operands[1:_SRC_C] if isinstance(r, Register)]
    if _meet([result], factors):
        return _result_latency(passes, target)
    addend = operands[_SRC_C]
    if not isinstance(addend, Register) or not addend.overlaps(result):
        return 0
    chained = addend == result and first.item.opcode is second.item.opcode
    if chained:
        return 2 if passes == 2 else 0
    return passes + target.mfma_result_states.value - 2


def _result_latency(passes: int, target: Target) -> int:
    """Of 2 passes 5 on every chip."""
    return passes + (3 if passes == 2 else target.mfma_result_states.value)


def _mfma_then_vector(first: _Facts, second: _Facts, target: Target) -> int:
    """Result read by VALU or memory, or overwritten by either."""
    touched = second.reads + second.writes
    if not _meet(first.writes, touched):
        return 0
    return _result_latency(first.item.opcode.passes, target)


def _mfma_addend_then_write(first: _Facts, second: _Facts, target: Target) -> int:
    addend = first.item.operands[_SRC_C]
    if isinstance(addend, Register) and _meet([addend], second.writes):
        return first.item.opcode.passes - 1
    return 0


def _m0_then_lds_dma(first: _Facts, second: _Facts, target: Target) -> int:
    """A scalar write; one by VALU is as far as any other scalar."""
    return 1 if M0 in first.writes and M0 in second.reads else 0


def _valu_scalar_then_vmem(first: _Facts, second: _Facts, target: Target) -> int:
    return 5 if _meet(first.scalars, second.reads) else 0


def _valu_scalar_then_valu(first: _Facts, second: _Facts, target: Target) -> int:
    return 2 if _meet(first.scalars, second.reads) else 0


def _valu_then_lane(first: _Facts, second: _Facts, target: Target) -> int:
    """What a lane instruction reads: a lane of a vector 1, the lane's number 4, exec 4."""
    name = second.item.opcode.name
    if not name.startswith(("v_readfirstlane", "v_readlane", "v_writelane")):
        return 0
    if EXEC in first.writes:
        return 4
    selects = second.item.operands[-1:] if "first" not in name else ()
    if _meet(first.scalars, [r for r in selects if isinstance(r, Register)]):
        return 4
    reads = not name.startswith("v_writelane")
    return 1 if reads and _meet(first.vectors, second.reads) else 0


def _valu_then_permlane(first: _Facts, second: _Facts, target: Target) -> int:
    if not second.item.opcode.name.startswith("v_permlane"):
        return 0
    if EXEC in first.writes:
        return 4
    return 2 if _meet(first.vectors, second.reads + second.writes) else 0


def _vcc_then_div_fmas(first: _Facts, second: _Facts, target: Target) -> int:
    return 4 if VCC in first.writes and second.item.opcode.name.startswith("v_div_fmas") else 0


def _exec_then_memory(first: _Facts, second: _Facts, target: Target) -> int:
    """Every memory instruction reads exec."""
    return 5 if EXEC in first.writes else 0


def is_transcendental(name: str) -> bool:
    """Whether an instruction goes through the slow pipe of the vector unit."""
    return name.startswith(_TRANSCENDENTAL)


def _transcendental_then_vector(first: _Facts, second: _Facts, target: Target) -> int:
    if not is_transcendental(first.item.opcode.name):
        return 0
    if is_transcendental(second.item.opcode.name):
        return 0
    return 1 if _meet(first.vectors, second.reads) else 0


def _half_then_vector(first: _Facts, second: _Facts, target: Target) -> int:
    """A result that op_sel or dst_sel puts into a part of a register."""
    for word in first.item.modifiers.split():
        packed = first.item.opcode.name.startswith(("v_pk_", "v_dot"))
        high = word.startswith("op_sel:[") and word.endswith(",1]") and not packed
        if high or (word.startswith("dst_sel:") and word != "dst_sel:DWORD"):
            return 1 if _meet(first.vectors, second.reads + second.writes) else 0
    return 0


def _dot_then_any(first: _Facts, second: _Facts, target: Target) -> int:
    """3, but nothing along a chain of the same dot product."""
    name, other = first.item.opcode.name, second.item.opcode.name
    if not name.startswith("v_dot"):
        return 0
    if name != other:
        return 3 if _meet(first.vectors, second.reads + second.writes) else 0
    factors = [r for r in second.item.operands[1:_SRC_C] if isinstance(r, Register)]
    return 3 if _meet(first.vectors, factors) else 0


def _wide_store_then_write(first: _Facts, second: _Facts, target: Target) -> int:
    """The data of a store of more than 8 bytes: 2, by a load 1, with an soffset register 1 less.

    The loads: CDNA3 ISA, table 11. The register: LLVM pull request 197267, found on gfx950.
    """
    name = first.item.opcode.name
    at = next((at for start, at in _WIDE_STORES.items() if name.startswith(start)), None)
    if at is None:
        return 0
    data = first.item.operands[at]
    if not isinstance(data, Register) or data.count <= 2 or not _meet([data], second.writes):
        return 0
    scalar_offset = at == 0 and isinstance(first.item.operands[-1], Register)
    if second.unit in _MEMORY:
        return 0 if scalar_offset else 1
    return 1 if scalar_offset else 2


RULES = (
    Rule("VALU result to MFMA", (Unit.VALU,), (Unit.MFMA,), _valu_then_mfma),
    Rule("VALU write of EXEC to MFMA", (Unit.VALU,), (Unit.MFMA,), _exec_then_mfma),
    Rule("MFMA result to MFMA", (Unit.MFMA,), (Unit.MFMA,), _mfma_then_mfma),
    Rule("MFMA result to VALU or memory", (Unit.MFMA,), _PLAIN_VECTOR, _mfma_then_vector),
    Rule("MFMA addend overwritten", (Unit.MFMA,), _PLAIN_VECTOR, _mfma_addend_then_write),
    Rule("m0 to LDS-DMA", (Unit.SALU,), (Unit.VMEM,), _m0_then_lds_dma),
    Rule("VALU scalar result to memory", (Unit.VALU,), (Unit.VMEM,), _valu_scalar_then_vmem),
    Rule("VALU scalar result to VALU", (Unit.VALU,), (Unit.VALU,), _valu_scalar_then_valu),
    Rule("VALU write of EXEC to memory", (Unit.VALU,), (Unit.VMEM,), _exec_then_memory),
    Rule("VALU result to lane access", (Unit.VALU,), (Unit.VALU,), _valu_then_lane),
    Rule("VALU result to permlane", (Unit.VALU,), (Unit.VALU,), _valu_then_permlane),
    Rule("VALU write of VCC to div_fmas", (Unit.VALU,), (Unit.VALU,), _vcc_then_div_fmas),
    Rule("transcendental to VALU", (Unit.VALU,), _VECTOR, _transcendental_then_vector),
    Rule("half of a register to VALU", (Unit.VALU,), _VECTOR, _half_then_vector),
    Rule("dot product to all", (Unit.VALU,), (*_VECTOR, *_MEMORY), _dot_then_any),
    Rule("store data overwritten", (Unit.VMEM,), (*_VECTOR, *_MEMORY), _wide_store_then_write),
)
_BY_PAIR = {
    second: {
        first: rules
        for first in Unit
        if (rules := tuple(r for r in RULES if first in r.first and second in r.second))
    }
    for second in Unit
}
_NEAR = 5
"""No rule but those of the matrix unit reaches further back."""


def insert_wait_states(lines: Sequence[Line], target: Target) -> list[Line]:
    """The lines with the ``s_nop`` they need along every path, each placed as late as it can be.

    Forward paths come first, where every s_nop is necessary; then, until nothing is missing, what
    the end of a loop asks of its start.
    """
    result = list(lines)
    backwards = False
    while True:
        missing = _missing(result, target, backwards)
        if not missing and backwards:
            return result
        backwards = True
        for at in sorted(missing, reverse=True):
            served = result[at]
            assert isinstance(served, Instruction)
            left = missing[at]
            while left > 0:
                states = min(left, MAX_NOP)
                nop = instruction("s_nop", states - 1, provenance=served.provenance)
                result.insert(at, nop)
                left -= states


def _missing(lines: Sequence[Line], target: Target, backwards: bool) -> dict[int, int]:
    """Position -> wait states lacking before it, counting what earlier positions will get.

    Branches back are followed only if ``backwards``, and then nothing else is looked at again.
    """
    kept = [at for at, line in enumerate(lines) if isinstance(line, Instruction | Label)]
    program = [lines[at] for at in kept]
    facts = [_Facts.of(line) if isinstance(line, Instruction) else None for line in program]
    before = _predecessors(program)
    missing: dict[int, int] = {}
    far = behind_loop = -1
    for at, second in enumerate(facts):
        if second is None:
            # Behind a label the path may come from anywhere.
            far = at + MAX_WAIT_STATES
            behind_loop = far if any(p > at for p in before[at]) else behind_loop
            continue
        rules = _BY_PAIR[second.unit]
        reach = MAX_WAIT_STATES if at <= far else _NEAR
        if second.unit is Unit.MFMA:
            far = at + MAX_WAIT_STATES
        if not rules or (backwards and at > behind_loop):
            continue
        lacking = 0
        seen: dict[int, int] = {}
        todo = [(at, 0)]
        while todo:
            place, distance = todo.pop()
            for other in before[place]:
                if other > place and not backwards:
                    continue
                if seen.get(other, MAX_WAIT_STATES) <= distance:
                    continue
                seen[other] = distance
                first, between = facts[other], distance
                if first is not None:
                    for rule in rules.get(first.unit, ()):
                        lacking = max(lacking, rule.needed(first, second, target) - distance)
                    between += first.item.wait_states + missing.get(other, 0)
                if between < reach:
                    todo.append((other, between))
        if lacking > 0:
            missing[at] = lacking
    return {kept[at]: states for at, states in missing.items()}


def _predecessors(program: Sequence[Line]) -> list[list[int]]:
    """For each line, the lines that control can come from."""
    sources: dict[str, list[int]] = {}
    for at, line in enumerate(program):
        if isinstance(line, Instruction) and line.opcode.unit is Unit.CONTROL:
            for operand in line.operands:
                if isinstance(operand, str):
                    sources.setdefault(operand, []).append(at)
    found = []
    falls_through = False
    for at, line in enumerate(program):
        here = list(sources.get(line.name, ())) if isinstance(line, Label) else []
        found.append([*here, at - 1] if falls_through else here)
        ends = isinstance(line, Instruction) and line.opcode.name in ("s_branch", "s_endpgm")
        falls_through = not ends
    return found
