"""What one instruction does to the dangers: which it runs into, which it starts.

v_exp_f32 v1, v2        starts TRANSCENDENTAL on v1
v_add_f32 v3, v1, v1    runs into TRANSCENDENTAL on v1

The rules say which ways of touching registers start and meet a danger (``pipeloom.machine``); which
registers an instruction touches in which way is said here, from its text or its encoding alone.

What the judge is told of an instruction, whichever front end read it.

Registers are the numbers of the ISA's operand encoding, with accumulators behind the rest:
SGPRs from 0, vcc 106, m0 124, exec 126, vccz 251, execz 252, VGPRs from 256, AGPRs from 512.

    v_mfma_f32_16x16x32_bf16 a[0:3], v[8:11], v[12:15], a[0:3]
    -> Issued(place=7, text=..., name="v_mfma_f32_16x16x32_bf16",
              operands=((512, ...), (264, ...), (268, ...), (512, ...)))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeloom.machine.matrix_ops import F8F6F4
from pipeloom.machine.mnemonics import MNEMONICS, Matrix, Pipe, Traits, passes_of
from pipeloom.machine.target import Target
from pipeloom.machine.wait_rules import Use, WaitRule, WaitTable

VCC = 106
M0 = 124
EXEC = 126
VCCZ = 251
EXECZ = 252
VGPR = 256
AGPR = 512
FLAT_SCRATCH = 102
XNACK_MASK = 104
TRAP_TEMPORARY = 108

Registers = tuple[int, ...]

_NAMES = {
    FLAT_SCRATCH: "flat_scratch",
    XNACK_MASK: "xnack_mask",
    VCC: "vcc",
    M0: "m0",
    EXEC: "exec",
    VCCZ: "vccz",
    EXECZ: "execz",
}

DST_SELECT = 8
"""Bit of ``op_sel`` that selects a part of the destination (bits 0 to 2 are the sources')."""


@dataclass(frozen=True, slots=True)
class Issued:
    """One instruction, operands in the order in which LLVM prints them.

    ``targets`` are positions in the program, not addresses. ``problem`` is set where the front end
    could not read the instruction to its end; the judge then reports that.
    """

    place: int
    """Line or byte offset: the front end's own."""
    text: str
    name: str
    """Mnemonic without the suffix for the encoding."""
    operands: tuple[Registers, ...] = ()
    """Registers of each operand; empty for a constant."""
    modifiers: frozenset[str] = frozenset()
    op_sel: int = 0
    wait_states: int = 1
    hardware_register: int | None = None
    """Which one s_setreg and s_getreg name."""
    targets: tuple[int, ...] = ()
    problem: str = ""


def register_name(number: int) -> str:
    """``v3``, ``a7``, ``s12``, ``vcc``: as in assembly."""
    if number >= AGPR:
        return f"a{number - AGPR}"
    if number >= VGPR:
        return f"v{number - VGPR}"
    if number in _NAMES:
        return _NAMES[number]
    if number - 1 in _NAMES and number != M0 + 1:
        return f"{_NAMES[number - 1]}_hi"
    if TRAP_TEMPORARY <= number < M0:
        return f"ttmp{number - TRAP_TEMPORARY}"
    return f"s{number}"


def is_vector(register: int) -> bool:
    """Whether it is held per lane."""
    return register >= VGPR


def is_scalar(register: int) -> bool:
    """Whether it is an SGPR, vcc, m0 or exec."""
    return 0 <= register < 128


Chain = tuple[str, Registers]
"""An opcode and the registers it accumulates into."""

NO_REGISTER = -1
"""Stands for a register where a danger is not about one."""
_WHOLE = (NO_REGISTER,)
_VCC_PAIR = (VCC, VCC + 1)
_EXEC_PAIR = (EXEC, EXEC + 1)
_WIDE = 2
"""Registers of data up to which a store is safe from what follows."""
_FORMAT_BITS = {str(code): narrow.bits for code, narrow in enumerate(F8F6F4)}

Touched = Iterator[tuple[Use, Sequence[int]]]


@dataclass(slots=True)
class Effects:
    """``meets`` are dangers it runs into; ``starts`` those it starts, with wait states."""

    meets: list[tuple[WaitRule, Sequence[int]]] = field(default_factory=list)
    starts: list[tuple[WaitRule, Sequence[int], int]] = field(default_factory=list)
    continues: Chain | None = None
    """As a consumer: the chain from which dangers do not hurt it."""
    chain: Chain | None = None
    """As a producer: the chain that may go on without waiting."""
    ends: bool = False
    unknown: str = ""

    def chain_of(self, rule: WaitRule) -> Chain | None:
        """The chain that a danger started here leaves alone."""
        return self.chain if rule.chains else None


def effects(one: Issued, target: Target, table: WaitTable) -> Effects:
    """What a target's rules say of an instruction; ``unknown`` is set if they say nothing."""
    if one.problem:
        return Effects(unknown=one.problem)
    traits = MNEMONICS.get(one.name)
    if traits is None:
        return Effects(unknown=f"no wait-state rule known for {one.name}; add it to the table")
    traits = _of_this_form(one, traits, target)
    if traits.unit is Pipe.MATRIX and len(one.operands) < 4:
        return Effects(unknown=f"{one.name} with {len(one.operands)} operands cannot be judged")
    found = Effects(ends=traits.ends)
    if traits.unit is Pipe.MATRIX:
        found.continues = (one.name, _addend(one, traits))
        found.chain = (one.name, one.operands[0])
    elif traits.dot:
        found.continues = found.chain = (one.name, ())
    for use, registers in _touched(one, traits):
        if registers:
            found.meets += [(rule, registers) for rule in table.meets[use]]
            for rule in table.starts[use]:
                states = table.after(rule, traits)
                if states > 0:
                    found.starts.append((rule, registers, states))
    return found


def _of_this_form(one: Issued, traits: Traits, target: Target) -> Traits:
    """Traits that hang on modifiers or on the machine."""
    modifiers = one.modifiers
    if traits.unit is Pipe.MEMORY:
        if "lds" in modifiers:
            return replace(traits, results=0, lds_dma=True, reads_m0=True)
        if traits.atomic and "sc0" in modifiers:
            # Buffer atomics return into their data; the others name a result in front.
            before = 0 if traits.data == 0 else 1
            return replace(traits, results=1, data=(traits.data or 0) + before)
    elif traits.unit is Pipe.SMEM and traits.accumulates and "glc" not in modifiers:
        # A scalar atomic brings back what was there only if asked to.
        return replace(traits, results=0, accumulates=False)
    elif traits.unit is Pipe.LDS and "gds" in modifiers:
        return replace(traits, reads_m0=True)
    elif traits.unit is Pipe.MATRIX:
        widest = _widest(modifiers)
        return replace(traits, passes=passes_of(one.name, widest, target.encoded_as))
    return traits


def _widest(modifiers: frozenset[str]) -> int:
    """Bits of the wider operand of an f8f6f4 instruction."""
    codes = (
        next((m.partition(":")[2] for m in modifiers if m.startswith(f"{name}:")), "0")
        for name in ("cbsz", "blgp")
    )
    return max(_FORMAT_BITS.get(code, 8) for code in codes)


def registers_of(one: Issued, target: Target) -> tuple[Registers, Registers]:
    """Registers that an instruction reads and writes; none where it is not known."""
    traits = MNEMONICS.get(one.name)
    if traits is None or one.problem:
        return (), ()
    return _registers(one, _of_this_form(one, traits, target))


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


def _touched(one: Issued, traits: Traits) -> Touched:
    """The registers that an instruction touches, by the way it does."""
    reads, writes = _registers(one, traits)
    if traits.unit is Pipe.MATRIX:
        yield from _matrix(one, traits)
    elif traits.unit is Pipe.VALU:
        yield from _valu(one, traits, reads, writes)
    elif traits.unit in (Pipe.LDS, Pipe.MEMORY):
        yield from _memory(one, traits, reads, writes)
    elif traits.unit is Pipe.SALU and M0 in writes:
        yield Use.SALU_M0_WRITE, _WHOLE
    if traits.reads_m0:
        yield Use.M0_READ, _WHOLE
    if one.hardware_register is not None:
        yield Use.HARDWARE_REGISTER, (one.hardware_register,)
        if one.name.startswith("s_setreg"):
            yield Use.SETREG, (one.hardware_register,)


def _addend(one: Issued, traits: Traits) -> Registers:
    return one.operands[0 if traits.accumulates else 3]


def _matrix(one: Issued, traits: Traits) -> Touched:
    result, first, second, third = one.operands[:4]
    factors = [*first, *second, *(r for operand in one.operands[4:] for r in operand)]
    yield Use.MATRIX_FACTOR, (*factors, *third) if traits.accumulates else factors
    xdl = traits.matrix is Matrix.XDL
    yield (Use.XDL_ADDEND if xdl else Use.OTHER_ADDEND), _addend(one, traits)
    yield Use.MATRIX_RESULT, result
    yield Use.MATRIX, _WHOLE
    if traits.matrix is Matrix.DGEMM:
        yield Use.DGEMM, _WHOLE


def _valu(one: Issued, traits: Traits, reads: Registers, writes: Registers) -> Touched:
    vectors = [r for r in reads if is_vector(r)]
    written = [r for r in writes if is_vector(r)]
    scalars = [r for r in writes if is_scalar(r)]
    yield Use.VALU_READ, vectors
    yield Use.VALU_WRITE, written
    yield Use.VALU_SCALAR_READ, [r for r in reads if is_scalar(r)]
    yield Use.VALU_SCALAR_WRITE, scalars
    yield Use.FLAG_READ, [r for r in reads if r in (VCCZ, EXECZ)]
    yield (Use.DOT_RESULT if traits.dot else Use.PLAIN_RESULT), written
    if traits.transcendental:
        yield Use.SLOW_RESULT, written
    else:
        yield Use.QUICK_READ, vectors
    if traits.dot:
        yield Use.DOT_ADDEND, one.operands[0 if traits.accumulates else -1]
        factors = [r for operand in one.operands[1:3] for r in operand if is_vector(r)]
        yield Use.DOT_FACTOR, factors
    else:
        yield Use.NO_DOT_READ, vectors
    if traits.partial == -1 or traits.partial & one.op_sel or "partial" in one.modifiers:
        yield Use.PARTIAL_RESULT, written
    if traits.reads_lane:
        yield Use.LANE_READ, vectors
    if traits.lane_select:
        yield Use.LANE_SELECT, [r for r in one.operands[-1] if is_scalar(r)]
    if traits.permlane:
        yield Use.PERMLANE_READ, vectors
    if "dpp" in one.modifiers:
        yield Use.DPP_READ, vectors
    if VCC in scalars or VCC + 1 in scalars:
        yield Use.VALU_VCC_WRITE, _WHOLE
        yield Use.FLAG_WRITE, (VCCZ,)
    if EXEC in scalars or EXEC + 1 in scalars:
        yield Use.VALU_EXEC_WRITE, _WHOLE
        yield Use.FLAG_WRITE, (EXECZ,)
    for use, so in (
        (Use.LANE, traits.reads_lane or traits.lane_select),
        (Use.PERMLANE, traits.permlane),
        (Use.DPP, "dpp" in one.modifiers),
        (Use.FMA64, traits.fma64),
        (Use.DIV_FMAS, traits.reads_vcc),
    ):
        if so:
            yield use, _WHOLE


def _memory(one: Issued, traits: Traits, reads: Registers, writes: Registers) -> Touched:
    yield Use.MEMORY_READ, [r for r in reads if is_vector(r)]
    yield Use.MEMORY_WRITE, writes
    if traits.unit is not Pipe.MEMORY:
        return
    scalars = [r for r in reads if is_scalar(r)]
    implied = (*_EXEC_PAIR, M0) if traits.reads_m0 else _EXEC_PAIR
    yield Use.MEMORY_SCALAR_READ, (*scalars, *implied)
    if traits.data is not None and traits.data < len(one.operands):
        data = one.operands[traits.data]
        if len(data) > _WIDE:
            by_register = traits.data == 0 and any(is_scalar(r) for r in one.operands[-1])
            yield (Use.STORE_DATA_SCALAR_OFFSET if by_register else Use.STORE_DATA), data
