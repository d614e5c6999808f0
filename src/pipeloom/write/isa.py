"""The instructions that we emit: registers, operands, and what each one reads and writes.

An ``Instruction`` is checked when it is made: an opcode's signature says for each operand which
registers it takes and how wide. The same signature tells the hazard pass what an instruction reads
and writes, so neither is written down twice.

    load = instruction("ds_read_b128", vgpr(8, 4), vgpr(2), offset=1024)
    str(load)        # ds_read_b128 v[8:11], v2 offset:1024
    load.writes      # (v[8:11],)

Opcodes are named as LLVM 22 spells them. The table holds what the emitters use and their nearest
relatives; a kernel of your own may make an ``Opcode`` and pass it to ``instruction``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from types import MappingProxyType

from pipeloom.errors import InternalError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.mnemonics import MNEMONICS, Pipe, expand


class Bank(Enum):
    """Register files; the value is the letter in assembly."""

    SCALAR = "s"
    VECTOR = "v"
    ACCUMULATOR = "a"
    SPECIAL = ""
    __hash__ = object.__hash__  # that of Enum hashes a name, in Python


@dataclass(frozen=True, slots=True)
class Register:
    """``count`` consecutive registers of one file, from ``index``."""

    bank: Bank
    index: int
    count: int = 1
    name: str = ""

    def __str__(self) -> str:
        if self.bank is Bank.SPECIAL:
            return self.name
        if self.count == 1:
            return f"{self.bank.value}{self.index}"
        return f"{self.bank.value}[{self.index}:{self.index + self.count - 1}]"

    def part(self, start: int, count: int = 1) -> Register:
        """``count`` registers from the ``start``-th of this run."""
        if start < 0 or start + count > self.count:
            raise InternalError(f"{self} has no part {start}..{start + count - 1}")
        return Register(self.bank, self.index + start, count)

    def overlaps(self, other: Register) -> bool:
        """Whether the two share a register."""
        return (
            self.bank is other.bank
            and self.index < other.index + other.count
            and other.index < self.index + self.count
        )

    @property
    def is_vector(self) -> bool:
        """Whether it is held per lane."""
        return self.bank in (Bank.VECTOR, Bank.ACCUMULATOR)


@dataclass(frozen=True, slots=True)
class JoinedRegister(Register):
    """Two runs that count as one: its parts lie in the one or the other."""

    rest: Register | None = None

    def part(self, start: int, count: int = 1) -> Register:
        """``count`` registers from the ``start``-th; none may lie across."""
        assert self.rest is not None
        first = self.count - self.rest.count
        if start >= first:
            return self.rest.part(start - first, count)
        return Register(self.bank, self.index, first).part(start, count)


def joined(first: Register, rest: Register) -> Register:
    """Both, one behind the other."""
    return JoinedRegister(first.bank, first.index, first.count + rest.count, "", rest)


def vgpr(index: int, count: int = 1) -> Register:
    """Vector registers."""
    return Register(Bank.VECTOR, index, count)


def agpr(index: int, count: int = 1) -> Register:
    """Accumulation registers."""
    return Register(Bank.ACCUMULATOR, index, count)


def sgpr(index: int, count: int = 1) -> Register:
    """Scalar registers."""
    return Register(Bank.SCALAR, index, count)


VCC = Register(Bank.SPECIAL, 0, 2, "vcc")
M0 = Register(Bank.SPECIAL, 2, 1, "m0")
SCC = Register(Bank.SPECIAL, 3, 1, "scc")
EXEC = Register(Bank.SPECIAL, 4, 2, "exec")

Operand = Register | int | str
"""A register, an integer constant, or a label."""


@dataclass(frozen=True, slots=True)
class Opcode:
    """An instruction's signature.

    ``operands`` has one code per operand: ``=`` marks a result, then the kinds that fit (``s``,
    ``v``, ``a`` registers, ``m`` for m0, ``c`` for vcc, ``i`` integer, ``l`` label), then the
    width in registers. ``passes`` is the length of an MFMA in passes of 4 cycles.
    """

    name: str
    unit: Pipe
    operands: tuple[str, ...]
    reads: tuple[Register, ...] = ()
    writes: tuple[Register, ...] = ()
    passes: int = 0


_CODE = re.compile(r"(=?)([svamcil]+)(\d*)$")


def _table() -> dict[str, Opcode]:
    table: dict[str, Opcode] = {}

    def add(
        names: str,
        *operands: str,
        reads: tuple[Register, ...] = (),
        writes: tuple[Register, ...] = (),
    ) -> None:
        for name in names.split():
            table[name] = Opcode(name, MNEMONICS[name].unit, operands, reads, writes)

    add("s_mov_b32", "=sm1", "si1")
    add("s_mov_b64", "=sc2", "si2")
    add("s_or_b64", "=s2", "s2", "s2", writes=(SCC,))
    arithmetic = "s_add_u32 s_sub_u32 s_add_i32 s_sub_i32"
    add(arithmetic, "=sm1", "si1", "si1", writes=(SCC,))
    add("s_addc_u32 s_subb_u32", "=s1", "si1", "si1", reads=(SCC,), writes=(SCC,))
    bitwise = "s_and_b32 s_or_b32 s_xor_b32 s_lshl_b32 s_lshr_b32 s_bfe_u32 s_min_u32 s_max_u32 "
    bitwise += "s_max_i32 s_min_i32"
    add(bitwise, "=sm1", "si1", "si1", writes=(SCC,))
    add("s_mul_i32 s_mul_hi_u32", "=s1", "si1", "si1")
    add("s_cselect_b32", "=s1", "si1", "si1", reads=(SCC,))
    compares = "s_cmp_eq_u32 s_cmp_lg_u32 s_cmp_lt_u32 s_cmp_ge_u32 s_cmp_lt_i32 s_cmp_ge_i32"
    add(compares, "si1", "si1", writes=(SCC,))

    add("s_load_dword", "=s1", "s2", "i")
    add("s_load_dwordx2", "=s2", "s2", "i")
    add("s_load_dwordx4", "=s4", "s2", "i")
    for name, words in (("", 1), ("x2", 2), ("x4", 4), ("x8", 8)):
        add(f"s_buffer_load_dword{name}", f"=s{words}", "s4", "si1")

    add("s_barrier s_endpgm")
    add("s_nop s_setprio", "i")
    add("s_waitcnt")
    add("s_branch", "l")
    add("s_cbranch_scc0 s_cbranch_scc1", "l", reads=(SCC,))

    add("v_mov_b32", "=v1", "svi1")
    binary = (
        "v_add_f32 v_add_u32 v_sub_u32 v_and_b32 v_or_b32 v_xor_b32 v_lshlrev_b32 v_lshrrev_b32 "
        "v_mul_lo_u32 v_pack_b32_f16 v_cvt_pk_bf16_f32 v_max_f32 v_min_f32 v_mul_u32_u24 "
        "v_mul_f32 v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32 v_min_u32 v_mul_hi_u32 v_max_i32 v_min_i32"
    )
    add(binary, "=v1", "svi1", "svi1")
    ternary = (
        "v_lshl_add_u32 v_lshl_or_b32 v_and_or_b32 v_add3_u32 v_bfe_u32 v_perm_b32 v_add_lshl_u32 "
        "v_bfe_i32 v_max3_f32 v_min3_f32 v_fma_f32"
    )
    add(ternary, "=v1", "svi1", "svi1", "svi1")
    widening = " ".join(expand("v_cvt_scalef32_pk_{bf16|f16}_{fp8|bf8}"))
    add(widening, "=v1", "sv1", "svi1")
    add("v_dot2_f32_f16 v_dot2_f32_bf16", "=v1", "svi1", "svi1", "svi1")
    add("v_cvt_f16_f32 v_cvt_f32_f16 v_rcp_f32", "=v1", "svi1")
    add("v_cvt_f32_fp8 v_cvt_f32_bf8", "=v1", "svi1")
    add("v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_u32_f32", "=v1", "svi1")
    add(" ".join(f"v_cvt_f32_ubyte{byte}" for byte in range(4)), "=v1", "svi1")
    add("v_rndne_f32 v_cvt_i32_f32", "=v1", "svi1")
    add("v_readfirstlane_b32", "=s1", "v1")
    add(
        "v_cmp_gt_u32 v_cmp_lt_u32 v_cmp_le_u32 v_cmp_u_f32 v_cmp_ne_u32 v_cmp_le_i32 v_cmp_lt_i32",
        "=cs2",
        "svi1",
        "svi1",
    )
    add("v_cndmask_b32", "=v1", "svi1", "svi1", "cs2")
    # Both are read as well; the hazard pass looks at what permlanes read and write together.
    add("v_permlane16_swap_b32 v_permlane32_swap_b32", "=v1", "=v1")
    add("v_accvgpr_read_b32", "=v1", "a1")
    add("v_accvgpr_write_b32", "=a1", "vi1")

    for name, words in (("b32", 1), ("b64", 2), ("b128", 4)):
        add(f"ds_read_{name}", f"=va{words}", "v1")
        add(f"ds_write_{name}", "v1", f"va{words}")
    add("ds_read_b64_tr_b16 ds_read_b64_tr_b8", "=v2", "v1")
    add("ds_read_u16 ds_read_u8", "=v1", "v1")
    add("ds_swizzle_b32", "=v1", "v1")
    add("ds_bpermute_b32", "=v1", "v1", "v1")
    for name, words in (("dword", 1), ("dwordx2", 2), ("dwordx4", 4)):
        add(f"buffer_load_{name}", f"=va{words}", "v1", "s4", "si1")
        add(f"buffer_store_{name}", f"va{words}", "v1", "s4", "si1")
    add("buffer_atomic_add_f32", "va1", "v1", "s4", "si1")
    add("buffer_load_ushort buffer_load_ubyte", "=va1", "v1", "s4", "si1")
    for name in ("byte", "short"):
        stores = f"buffer_store_{name} buffer_store_{name}_d16_hi"
        add(stores, "va1", "v1", "s4", "si1")
    for key in LDS_DMA_BY_BYTES.values():
        name = key.split()[0]
        table[key] = Opcode(name, Pipe.MEMORY, ("v1", "s4", "si1"), reads=(M0,), writes=())

    # Moved by no pass: what stands behind it depends on it.
    table["s_mov_b64 exec"] = Opcode("s_mov_b64 exec,", Pipe.CONTROL, ("si2",), writes=(EXEC,))

    for pattern in MATRIX_OPCODES.split():
        for name in expand(pattern):
            table[name] = _matrix_opcode(name, narrow=False)
            if name.endswith("f8f6f4"):
                table[f"{name} {NARROW}"] = _matrix_opcode(name, narrow=True)
    return table


LDS_DMA = "buffer_load_dwordx4 lds"
"""Key of the LDS-DMA load: the same mnemonic with no result register and an ``lds`` modifier."""

LDS_DMA_BY_BYTES: Mapping[int, str] = MappingProxyType({4: "buffer_load_dword lds", 16: LDS_DMA})
"""The LDS-DMA load by the bytes that it moves per lane; gfx942 has the narrow one only."""

MATRIX_OPCODES = """
v_mfma_f32_16x16x{16|32}_{bf16|f16} v_mfma_f32_32x32x{8|16}_{bf16|f16}
v_mfma_f32_{16x16x32|32x32x16}_{fp8|bf8}_{fp8|bf8}
v_mfma_{|scale_}f32_{16x16x128|32x32x64}_f8f6f4
v_mfma_i32_{16x16x32|16x16x64|32x32x16|32x32x32}_i8 v_mfma_f32_{16x16x4|32x32x2}_f32
"""
_ELEMENT_BITS = {"bf16": 16, "f16": 16, "fp8": 8, "bf8": 8, "f8f6f4": 8, "i8": 8, "f32": 32}
NARROW = "fp4"
"""Behind the name of an f8f6f4 instruction: its form for 4-bit elements, of half the registers and
passes."""


def _matrix_opcode(name: str, narrow: bool) -> Opcode:
    """A and B by the bits of their elements, C and D in f32, shared out among the lanes."""
    shape = next(part for part in name.split("_") if "x" in part)
    m, n, k = (int(size) for size in shape.split("x"))
    bits, passes = _ELEMENT_BITS[name.rpartition("_")[2]], MNEMONICS[name].passes
    if narrow:
        bits, passes = bits // 2, passes // 2
    factor, result = m * k * bits // (WAVE_LANES * 32), m * n // WAVE_LANES
    scales = ("v1", "v1") if "_scale_" in name else ()
    operands = (f"=va{result}", f"va{factor}", f"va{factor}", f"vai{result}", *scales)
    return Opcode(name, Pipe.MATRIX, operands, passes=passes)


@dataclass(frozen=True, slots=True)
class ServedStep:
    """The step of a group that an instruction serves; ``slot`` is -1 for the kernel's own."""

    section: str
    slot: int
    what: str
    group: int = 0

    def __str__(self) -> str:
        place = f"{self.section}[{self.slot}]" if self.slot >= 0 else self.section
        return f"{place} {self.what}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One checked instruction. ``modifiers`` is what follows the operands, verbatim."""

    opcode: Opcode
    operands: tuple[Operand, ...]
    modifiers: str = ""
    provenance: ServedStep | None = None
    reads: tuple[Register, ...] = field(init=False, repr=False, compare=False)
    """Registers it reads, implicit ones included."""
    writes: tuple[Register, ...] = field(init=False, repr=False, compare=False)
    """Registers it writes, implicit ones included."""

    def __post_init__(self) -> None:
        reads: list[Register] = []
        writes: list[Register] = []
        for code, operand in zip(self.opcode.operands, self.operands, strict=True):
            if isinstance(operand, Register):
                (writes if code[0] == "=" else reads).append(operand)
        object.__setattr__(self, "reads", (*reads, *self.opcode.reads))
        object.__setattr__(self, "writes", (*writes, *self.opcode.writes))

    def __str__(self) -> str:
        text = self.opcode.name
        if self.operands:
            text += " " + ", ".join(_printed(operand) for operand in self.operands)
        return f"{text} {self.modifiers}" if self.modifiers else text

    @property
    def target(self) -> str | None:
        """The label that it may jump to."""
        return next((operand for operand in self.operands if isinstance(operand, str)), None)

    @property
    def wait_states(self) -> int:
        """How many wait states it provides: s_nop n gives n + 1, anything else 1."""
        if self.opcode.name == "s_nop":
            count = self.operands[0]
            assert isinstance(count, int)
            return count + 1
        return 1


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Comment:
    """A line for the reader, whatever is in the names that it quotes."""

    text: str

    def __str__(self) -> str:
        return f"// {' '.join(self.text.splitlines())}"


S_NOP = 0xBF800000
"""``s_nop 0`` in machine code, for padding that may be executed."""
CACHE_LINE = 64
"""Bytes of an instruction cache line, as LLVM pads code for gfx90a and later."""


@dataclass(frozen=True, slots=True)
class Align:
    """The next instruction starts a cache line; what is skipped are ``s_nop``."""

    def __str__(self) -> str:
        return f".p2alignl {CACHE_LINE.bit_length() - 1}, {S_NOP:#x}"


Line = Instruction | Label | Comment | Align


def _printed(operand: Operand) -> str:
    if isinstance(operand, int):
        return str(operand) if -16 <= operand <= 64 else f"0x{operand & 0xFFFFFFFF:x}"
    return str(operand)


@cache
def _kinds(code: str) -> tuple[str, int]:
    """Of a signature's code: the kinds that fit, and the width in registers."""
    match = _CODE.match(code)
    assert match is not None
    return match[2], int(match[3] or 1)


def _fits(code: str, operand: Operand) -> bool:
    kinds, width = _kinds(code)
    if isinstance(operand, int):
        return "i" in kinds
    if isinstance(operand, str):
        return "l" in kinds
    if operand.bank is Bank.SPECIAL:
        return (operand == M0 and "m" in kinds) or (operand == VCC and "c" in kinds)
    if operand.bank.value not in kinds or operand.count != width:
        return False
    # gfx90a and later want vector tuples even-aligned (LLVM AMDGPU: needsAlignedVGPRs).
    return not (operand.is_vector and width > 1 and operand.index % 2)


def instruction(
    opcode: str | Opcode,
    *operands: Operand,
    provenance: ServedStep | None = None,
    modifiers: Iterable[str] = (),
    **fields: int,
) -> Instruction:
    """Make an instruction; ``fields`` become ``name:value`` modifiers, zero ones are left out.

    Raises ``InternalError`` where an operand does not fit the signature: emitters, not users,
    choose operands.
    """
    known = OPCODES[opcode] if isinstance(opcode, str) else opcode
    if len(operands) != len(known.operands) or not all(
        _fits(code, operand) for code, operand in zip(known.operands, operands, strict=True)
    ):
        given = ", ".join(_printed(operand) for operand in operands)
        raise InternalError(f"{known.name} takes ({', '.join(known.operands)}), got ({given})")
    words = [*modifiers, *(f"{name}:{value}" for name, value in fields.items() if value)]
    return Instruction(known, operands, " ".join(words), provenance)


def waitcnt(
    vm: int | None = None, lgkm: int | None = None, provenance: ServedStep | None = None
) -> Instruction:
    """``s_waitcnt`` on one or both counters; a counter left out is not waited for."""
    words = [f"vmcnt({vm})"] if vm is not None else []
    words += [f"lgkmcnt({lgkm})"] if lgkm is not None else []
    return Instruction(OPCODES["s_waitcnt"], (), " ".join(words), provenance)


OPCODES: Mapping[str, Opcode] = _table()
