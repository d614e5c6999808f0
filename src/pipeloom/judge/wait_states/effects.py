"""What one instruction does to the dangers: which it runs into, which it starts.

v_exp_f32 v1, v2        starts TRANSCENDENTAL on v1
v_add_f32 v3, v1, v1    runs into TRANSCENDENTAL on v1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pipeloom.judge.wait_states.instruction_facts import (
    EXEC,
    EXECZ,
    M0,
    VCC,
    VCCZ,
    Issued,
    Registers,
    is_scalar,
    is_vector,
)
from pipeloom.judge.wait_states.mnemonics import MNEMONICS, Matrix, Target, Traits, Unit
from pipeloom.judge.wait_states.rules import MATRIX_UNITS, RULES, Danger

Chain = tuple[str, Registers]
"""An opcode and the registers it accumulates into."""

NO_REGISTER = -1
"""Stands for a register where a danger is not about one."""
_VCC_PAIR = (VCC, VCC + 1)
_EXEC_PAIR = (EXEC, EXEC + 1)
_WIDE = 2
"""Registers of data up to which a store is safe from what follows."""
_CHAINED = frozenset(
    (
        Danger.RESULT_TO_XDL_ADDEND,
        Danger.RESULT_TO_OTHER_ADDEND,
        Danger.DOT_TO_ADDEND,
        Danger.DOT_OVERWRITTEN,
    )
)
_F8_FORMATS = ("0", "1")


@dataclass(slots=True)
class Effects:
    """``meets`` are dangers it runs into; ``starts`` those it starts, with wait states."""

    meets: list[tuple[Danger, Sequence[int]]] = field(default_factory=list)
    starts: list[tuple[Danger, Sequence[int], int]] = field(default_factory=list)
    continues: Chain | None = None
    """As a consumer: the chain from which dangers do not hurt it."""
    chain: Chain | None = None
    """As a producer: the chain that may go on without waiting."""
    ends: bool = False
    unknown: str = ""

    def meet(self, danger: Danger, registers: Sequence[int]) -> None:
        """Run into ``danger`` if it is on one of the registers."""
        if registers:
            self.meets.append((danger, registers))

    def start(self, danger: Danger, registers: Sequence[int], states: int) -> None:
        """Put ``danger`` on the registers for that many wait states."""
        if states > 0 and registers:
            self.starts.append((danger, registers, states))

    def chain_of(self, danger: Danger) -> Chain | None:
        """The chain that a danger started here leaves alone."""
        return self.chain if self.chain and danger in _CHAINED else None


def effects(one: Issued, target: Target) -> Effects:
    """What the tables say of an instruction; ``unknown`` is set if they say nothing."""
    if one.problem:
        return Effects(unknown=one.problem)
    traits = MNEMONICS.get(one.name)
    if traits is None:
        return Effects(unknown=f"no wait-state rule known for {one.name}; add it to the table")
    traits = _of_this_form(one, traits, target)
    if traits.unit is Unit.MATRIX and len(one.operands) < 4:
        return Effects(unknown=f"{one.name} with {len(one.operands)} operands cannot be judged")
    found = Effects(ends=traits.ends)
    reads, writes = _registers(one, traits)
    if traits.unit is Unit.MATRIX:
        _matrix(found, one, traits, target)
    elif traits.unit is Unit.VALU:
        _valu(found, one, traits, reads, writes)
    elif traits.unit in (Unit.LDS, Unit.MEMORY):
        _memory(found, one, traits, reads, writes)
    elif traits.unit is Unit.SALU and M0 in writes:
        found.start(Danger.M0, (NO_REGISTER,), RULES[Danger.M0].after(traits, target))
    if traits.reads_m0:
        found.meet(Danger.M0, (NO_REGISTER,))
    if one.hardware_register is not None:
        found.meet(Danger.SETREG, (one.hardware_register,))
        if one.name.startswith("s_setreg"):
            states = RULES[Danger.SETREG].after(traits, target)
            found.start(Danger.SETREG, (one.hardware_register,), states)
    return found


def _of_this_form(one: Issued, traits: Traits, target: Target) -> Traits:
    """Traits that hang on modifiers or on the machine."""
    modifiers = one.modifiers
    if traits.unit is Unit.MEMORY:
        if "lds" in modifiers:
            return replace(traits, results=0, lds_dma=True, reads_m0=True)
        if traits.atomic and "sc0" in modifiers:
            # Buffer atomics return into their data; the others name a result in front.
            before = 0 if traits.data == 0 else 1
            return replace(traits, results=1, data=(traits.data or 0) + before)
    elif traits.unit is Unit.LDS and "gds" in modifiers:
        return replace(traits, reads_m0=True)
    elif traits.unit is Unit.MATRIX:
        if "f8f6f4" in one.name and not _has_f8(modifiers):
            # Without fp8 on either side an instruction takes half the passes (LLVM SISchedule.td).
            return replace(traits, passes=traits.passes // 2)
        if traits.matrix is Matrix.DGEMM and traits.passes == 8:
            return replace(traits, passes=MATRIX_UNITS[target].long_f64)
    return traits


def _has_f8(modifiers: frozenset[str]) -> bool:
    formats = [
        next((m.partition(":")[2] for m in modifiers if m.startswith(f"{name}:")), "0")
        for name in ("cbsz", "blgp")
    ]
    return any(value in _F8_FORMATS for value in formats)


def _registers(one: Issued, traits: Traits) -> tuple[Registers, Registers]:
    operands = one.operands
    writes = [r for operand in operands[: traits.results] for r in operand]
    reads = [r for operand in operands[traits.results :] for r in operand]
    if traits.accumulates and operands:
        reads += operands[0]
    if traits.swaps or (traits.atomic and traits.results and traits.data == 0):
        reads += writes
    if traits.writes_exec:
        writes += _EXEC_PAIR
    if traits.reads_vcc:
        reads += _VCC_PAIR
    return tuple(reads), tuple(writes)


def _matrix(found: Effects, one: Issued, traits: Traits, target: Target) -> None:
    result, first, second, third = one.operands[:4]
    addend = result if traits.accumulates else third
    factors = [*first, *second, *(r for operand in one.operands[4:] for r in operand)]
    if traits.accumulates:
        factors += third
    found.continues = (one.name, addend)
    found.chain = (one.name, result)
    found.meet(Danger.RESULT_TO_FACTOR, factors)
    found.meet(Danger.DOT_TO_FACTOR, (*factors, *addend))
    xdl = traits.matrix is Matrix.XDL
    found.meet(Danger.RESULT_TO_XDL_ADDEND if xdl else Danger.RESULT_TO_OTHER_ADDEND, addend)
    found.meet(Danger.RESULT_TO_CHAIN, addend)
    for danger in (Danger.VECTOR_TO_MATRIX, Danger.TRANSCENDENTAL, Danger.PARTIAL):
        found.meet(danger, (*factors, *addend))
    found.meet(Danger.PARTIAL, result)
    found.meet(Danger.EXEC_TO_MATRIX, (NO_REGISTER,))
    _overwrite_store_data(found, result)
    for danger in (
        Danger.RESULT_TO_FACTOR,
        Danger.RESULT_TO_XDL_ADDEND,
        Danger.RESULT_TO_OTHER_ADDEND,
        Danger.RESULT_TO_CHAIN,
        Danger.RESULT_TO_VALU,
        Danger.RESULT_TO_MEMORY,
        Danger.RESULT_OVERWRITTEN,
    ):
        found.start(danger, result, RULES[danger].after(traits, target))
    states = RULES[Danger.ADDEND_OVERWRITTEN].after(traits, target)
    found.start(Danger.ADDEND_OVERWRITTEN, addend, states)
    found.start(Danger.VECTOR_TO_DPP, result, RULES[Danger.VECTOR_TO_DPP].after(traits, target))
    if traits.matrix is Matrix.DGEMM:
        found.start(Danger.DGEMM_TO_FMA64, (NO_REGISTER,), _constant(Danger.DGEMM_TO_FMA64))


def _constant(danger: Danger) -> int:
    states = RULES[danger].states
    assert isinstance(states, int)
    return states


def _valu(found: Effects, one: Issued, traits: Traits, reads: Registers, writes: Registers) -> None:
    vectors = [r for r in reads if is_vector(r)]
    scalars = [r for r in reads if is_scalar(r)]
    written = [r for r in writes if is_vector(r)]
    found.meet(Danger.RESULT_TO_VALU, vectors)
    found.meet(Danger.RESULT_OVERWRITTEN, written)
    found.meet(Danger.ADDEND_OVERWRITTEN, written)
    found.meet(Danger.PARTIAL, (*vectors, *written))
    found.meet(Danger.SCALAR_TO_VALU, scalars)
    _overwrite_store_data(found, written)
    if not traits.transcendental:
        found.meet(Danger.TRANSCENDENTAL, vectors)
    _meet_dot(found, one, traits, vectors, written)
    if traits.fma64:
        found.meet(Danger.DGEMM_TO_FMA64, (NO_REGISTER,))
    if traits.reads_vcc:
        found.meet(Danger.VCC_TO_DIV_FMAS, (NO_REGISTER,))
    if VCCZ in reads or EXECZ in reads:
        found.meet(Danger.ZERO_FLAG, [r for r in reads if r in (VCCZ, EXECZ)])
    if traits.reads_lane:
        found.meet(Danger.VECTOR_TO_LANE, vectors)
    if traits.reads_lane or traits.lane_select:
        found.meet(Danger.EXEC_TO_LANE, (NO_REGISTER,))
    if traits.lane_select:
        selects = [r for r in one.operands[-1] if is_scalar(r)]
        found.meet(Danger.SCALAR_TO_LANE_SELECT, selects)
    if traits.permlane:
        found.meet(Danger.VECTOR_TO_PERMLANE, vectors)
        found.meet(Danger.EXEC_TO_PERMLANE, (NO_REGISTER,))
    if "dpp" in one.modifiers:
        found.meet(Danger.VECTOR_TO_DPP, vectors)
        found.meet(Danger.EXEC_TO_DPP, (NO_REGISTER,))
    _valu_starts(found, one, traits, written, [r for r in writes if is_scalar(r)])


def _meet_dot(
    found: Effects, one: Issued, traits: Traits, vectors: list[int], written: list[int]
) -> None:
    if traits.dot:
        addend = one.operands[0] if traits.accumulates else one.operands[-1]
        found.continues = found.chain = (one.name, ())
        found.meet(Danger.DOT_TO_ADDEND, addend)
        vectors = [r for operand in one.operands[1:3] for r in operand if is_vector(r)]
    found.meet(Danger.DOT_TO_FACTOR, vectors)
    found.meet(Danger.DOT_OVERWRITTEN, written)


def _valu_starts(
    found: Effects, one: Issued, traits: Traits, vectors: list[int], scalars: list[int]
) -> None:
    def start(danger: Danger, registers: Sequence[int]) -> None:
        found.start(danger, registers, _constant(danger))

    if traits.dot:
        for danger in (Danger.DOT_TO_FACTOR, Danger.DOT_TO_ADDEND, Danger.DOT_OVERWRITTEN):
            start(danger, vectors)
    else:
        start(Danger.VECTOR_TO_MATRIX, vectors)
    if traits.transcendental:
        start(Danger.TRANSCENDENTAL, vectors)
    if traits.partial == -1 or traits.partial & one.op_sel or "partial" in one.modifiers:
        start(Danger.PARTIAL, vectors)
    for danger in (Danger.VECTOR_TO_LANE, Danger.VECTOR_TO_DPP, Danger.VECTOR_TO_PERMLANE):
        start(danger, vectors)
    if not scalars:
        return
    for danger in (
        Danger.SCALAR_TO_VALU,
        Danger.SCALAR_TO_MEMORY,
        Danger.SCALAR_TO_LANE_SELECT,
    ):
        start(danger, scalars)
    if VCC in scalars or VCC + 1 in scalars:
        start(Danger.VCC_TO_DIV_FMAS, (NO_REGISTER,))
        start(Danger.ZERO_FLAG, (VCCZ,))
    if EXEC in scalars or EXEC + 1 in scalars:
        for danger in (
            Danger.EXEC_TO_MATRIX,
            Danger.EXEC_TO_LANE,
            Danger.EXEC_TO_DPP,
            Danger.EXEC_TO_PERMLANE,
        ):
            start(danger, (NO_REGISTER,))
        start(Danger.ZERO_FLAG, (EXECZ,))


def _memory(
    found: Effects, one: Issued, traits: Traits, reads: Registers, writes: Registers
) -> None:
    vectors = [r for r in reads if is_vector(r)]
    found.meet(Danger.RESULT_TO_MEMORY, vectors)
    found.meet(Danger.DOT_TO_FACTOR, vectors)
    for danger in (
        Danger.RESULT_OVERWRITTEN,
        Danger.ADDEND_OVERWRITTEN,
        Danger.DOT_OVERWRITTEN,
        Danger.STORE_DATA_LOADED,
    ):
        found.meet(danger, writes)
    found.start(Danger.VECTOR_TO_DPP, writes, _constant(Danger.VECTOR_TO_DPP))
    if traits.unit is not Unit.MEMORY:
        return
    scalars = [r for r in reads if is_scalar(r)]
    implied = (*_EXEC_PAIR, M0) if traits.reads_m0 else _EXEC_PAIR
    found.meet(Danger.SCALAR_TO_MEMORY, (*scalars, *implied))
    if traits.data is not None and traits.data < len(one.operands):
        data = one.operands[traits.data]
        if len(data) > _WIDE:
            buffer = traits.data == 0
            register_offset = buffer and any(is_scalar(r) for r in one.operands[-1])
            if register_offset:
                dangers = [Danger.STORE_DATA_SCALAR_OFFSET]
            else:
                dangers = [Danger.STORE_DATA, Danger.STORE_DATA_LOADED]
            for danger in dangers:
                found.start(danger, data, _constant(danger))


def _overwrite_store_data(found: Effects, written: Sequence[int]) -> None:
    found.meet(Danger.STORE_DATA, written)
    found.meet(Danger.STORE_DATA_SCALAR_OFFSET, written)
