"""The wait states that CDNA3 and CDNA4 ask of software, one row each, with its source.

A row says what starts a danger, what runs into it, and for how many wait states. Matrix
instructions differ in passes (of four cycles) and kind; "n" is the passes of the first.

Sources: [L] is LLVM's GCNHazardRecognizer.cpp (ROCm/llvm-project, read 2026-11) and the function
named after it; [P] an LLVM pull request; [R] AMD's rocRoller; [I] the ISA documents, read in
transcription: CDNA3 tables 11 and 37, CDNA4 tables 11 and 38. Where they differ, the stricter one
is here: LLVM asks for 2 wait states before a VALU takes vcc as a carry, [I] and [R] for none; [I]
asks for n between SGEMM and a shifted addend of XDL, LLVM for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType

from pipeloom.judge.wait_states.mnemonics import Matrix, Target, Traits


class Danger(IntEnum):
    """What can go wrong with a register."""

    RESULT_TO_FACTOR = 0
    RESULT_TO_XDL_ADDEND = 1
    RESULT_TO_OTHER_ADDEND = 2
    RESULT_TO_CHAIN = 3
    RESULT_TO_VALU = 4
    RESULT_TO_MEMORY = 5
    RESULT_OVERWRITTEN = 6
    ADDEND_OVERWRITTEN = 7
    VECTOR_TO_MATRIX = 8
    EXEC_TO_MATRIX = 9
    DGEMM_TO_FMA64 = 10
    DOT_TO_FACTOR = 11
    DOT_TO_ADDEND = 12
    DOT_OVERWRITTEN = 13
    TRANSCENDENTAL = 14
    PARTIAL = 15
    SCALAR_TO_VALU = 16
    SCALAR_TO_MEMORY = 17
    SCALAR_TO_LANE_SELECT = 18
    VECTOR_TO_LANE = 19
    EXEC_TO_LANE = 20
    VCC_TO_DIV_FMAS = 21
    ZERO_FLAG = 22
    VECTOR_TO_DPP = 23
    EXEC_TO_DPP = 24
    VECTOR_TO_PERMLANE = 25
    EXEC_TO_PERMLANE = 26
    M0 = 27
    STORE_DATA = 28
    STORE_DATA_SCALAR_OFFSET = 29
    SETREG = 30
    STORE_DATA_LOADED = 31


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """One chip's wait states after an XDL instruction, by its passes."""

    result: Mapping[int, int]
    """Until anything but an addend reads the result, or overwrites it."""
    xdl_addend: Mapping[int, int]
    other_addend: Mapping[int, int]
    long_f64: int
    """Passes of the f64 instruction of 16x16x4."""


MATRIX_UNITS: Mapping[Target, MatrixUnit] = MappingProxyType(
    {
        Target.GFX942: MatrixUnit(
            result={2: 5, 4: 7, 8: 11, 16: 19},
            xdl_addend={2: 3, 4: 5, 8: 9, 16: 17},
            other_addend={2: 3, 4: 5, 8: 9, 16: 17},
            long_f64=8,
        ),
        Target.GFX950: MatrixUnit(
            result={2: 5, 4: 8, 8: 12, 16: 20},
            xdl_addend={2: 4, 4: 6, 8: 10, 16: 18},
            other_addend={2: 3, 4: 6, 8: 10, 16: 18},
            long_f64=16,
        ),
    }
)

States = Callable[[Traits, MatrixUnit], int]
"""Wait states after a matrix instruction."""


class Basis(Enum):
    """Who asks for the wait states."""

    ISA = "required"
    """The ISA documents, or results that go wrong without them."""
    CUSTOM = "customary"
    """Compilers keep them, while kernels written by hand and shipped leave them out by the ten
    thousand (ROCm/aiter, hsa/gfx950): no reason to fail a kernel of others."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``states`` wait states from ``first`` to ``second``; for matrix units by passes and kind."""

    first: str
    second: str
    states: int | States
    reason: str
    source: str
    basis: Basis = Basis.ISA

    def after(self, first: Traits, target: Target) -> int:
        """Wait states that are needed after an instruction with these traits."""
        if isinstance(self.states, int):
            return self.states
        return self.states(first, MATRIX_UNITS[target])


def _result(first: Traits, unit: MatrixUnit) -> int:
    """SGEMM: 4, 6, 10, 18."""
    return unit.result[first.passes] if first.matrix is Matrix.XDL else first.passes + 2


def _to_factor(first: Traits, unit: MatrixUnit) -> int:
    """LLVM has 11 for overwriting f64 16x16x4 on both machines; the CDNA4 ISA has 19."""
    if first.matrix is Matrix.DGEMM:
        return {4: 6, 8: 11, 16: 19}[first.passes]
    return _result(first, unit)


def _to_memory(first: Traits, unit: MatrixUnit) -> int:
    if first.matrix is Matrix.DGEMM:
        return 9 if first.passes == 4 else 18
    return _result(first, unit)


def _to_xdl_addend(first: Traits, unit: MatrixUnit) -> int:
    """SGEMM 2, 8, 16; nothing after DGEMM."""
    if first.matrix is Matrix.XDL:
        return unit.xdl_addend[first.passes]
    return first.passes if first.matrix is Matrix.SGEMM else 0


def _to_other_addend(first: Traits, unit: MatrixUnit) -> int:
    if first.matrix is Matrix.XDL:
        return unit.other_addend[first.passes]
    if first.matrix is Matrix.SGEMM:
        return first.passes
    return {4: 4, 8: 9, 16: 17}[first.passes]


def _chained(first: Traits, unit: MatrixUnit) -> int:
    if first.matrix is Matrix.DGEMM:
        return 4 if first.passes == 4 else 0
    return 2 if first.passes == 2 else 0


def _addend_read(first: Traits, unit: MatrixUnit) -> int:
    return first.passes - 1 if first.matrix is Matrix.XDL else 0


_MAI = "[L] checkMAIHazards90A"
_MAI_VALU = "[L] checkMAIVALUHazards"
_VALU = "[L] checkVALUHazards"

RULES: MappingProxyType[Danger, Rule] = MappingProxyType(
    {
        Danger.RESULT_TO_FACTOR: Rule(
            "matrix result",
            "matrix A, B, index or scale",
            _to_factor,
            "the result of a matrix instruction is not there yet",
            f"{_MAI}; gfx950: [P] 126132; f64: [P] 117262",
        ),
        Danger.RESULT_TO_XDL_ADDEND: Rule(
            "matrix result",
            "C of an XDL instruction, unless the same opcode on exactly the same registers",
            _to_xdl_addend,
            "the result of a matrix instruction is the addend of another kind, or taken shifted",
            f"{_MAI}; the same opcode: [P] 218363; after SGEMM: [I]",
        ),
        Danger.RESULT_TO_OTHER_ADDEND: Rule(
            "matrix result",
            "C of SGEMM or DGEMM, unless the same opcode on exactly the same registers",
            _to_other_addend,
            "the result of a matrix instruction is the addend of another kind, or taken shifted",
            f"{_MAI}; f64 on gfx950: [P] 117283",
        ),
        Danger.RESULT_TO_CHAIN: Rule(
            "result of 2 passes, or of f64 4x4x4",
            "C, even along a chain",
            _chained,
            "a short matrix instruction does not forward its result at once",
            f"{_MAI}; [I]",
        ),
        Danger.RESULT_TO_VALU: Rule(
            "matrix result",
            "VALU read",
            _to_factor,
            "the result of a matrix instruction is not there yet",
            f"{_MAI_VALU}; [I]; gfx950: [P] 126727; f64 on gfx950: [P] 117262; "
            "garbage without them on gfx950: facebookexperimental/triton 3168",
        ),
        Danger.RESULT_TO_MEMORY: Rule(
            "matrix result",
            "LDS or memory read",
            _to_memory,
            "the result of a matrix instruction is not there yet",
            f"{_MAI_VALU}; [I]",
        ),
        Danger.RESULT_OVERWRITTEN: Rule(
            "matrix result",
            "VALU, LDS or memory write",
            _to_factor,
            "the result of a matrix instruction is not there yet and would win",
            f"{_MAI_VALU}; gfx950: [P] 126132; f64 on gfx950: [I]",
        ),
        Danger.ADDEND_OVERWRITTEN: Rule(
            "XDL reads C",
            "VALU, LDS or memory write",
            _addend_read,
            "a matrix instruction still reads its addend",
            f"{_MAI_VALU}; [I]",
        ),
        Danger.VECTOR_TO_MATRIX: Rule(
            "VALU write (not dot)",
            "matrix read",
            2,
            "a VALU result is not yet visible to the matrix unit",
            f"{_MAI}; [I]",
        ),
        Danger.EXEC_TO_MATRIX: Rule(
            "VALU write of exec",
            "matrix instruction",
            4,
            "a VALU write of exec is not yet visible to the matrix unit",
            f"{_MAI}; [I]",
        ),
        Danger.DGEMM_TO_FMA64: Rule(
            "DGEMM",
            "v_fma_f64, v_fmac_f64",
            2,
            "the f64 unit is still in use by a matrix instruction",
            f"{_MAI_VALU}; [I]",
        ),
        Danger.DOT_TO_FACTOR: Rule(
            "dot result",
            "read, but as the addend",
            3,
            "the result of a dot product is not there yet",
            f"{_MAI_VALU}; by matrix instructions: [I]",
        ),
        Danger.DOT_TO_ADDEND: Rule(
            "dot result",
            "addend of another opcode",
            3,
            "the result of a dot product is not there yet",
            f"{_MAI_VALU}; [I]",
        ),
        Danger.DOT_OVERWRITTEN: Rule(
            "dot result",
            "write by another opcode",
            3,
            "the result of a dot product is not there yet and would win",
            f"{_MAI_VALU}; [I]",
        ),
        Danger.TRANSCENDENTAL: Rule(
            "transcendental result",
            "read by any other VALU or matrix instruction",
            1,
            "the result of a transcendental instruction is not forwarded to other VALU",
            f"{_VALU}, hasTransForwardingHazard; [I]; [R] VALUTransWrite94x",
        ),
        Danger.PARTIAL: Rule(
            "result in a part of a register (op_sel, dst_sel, fp4 conversions)",
            "VALU or matrix read or write",
            1,
            "a result that fills a part of a register is not forwarded",
            f"{_VALU}, hasDstSelForwardingHazard; [I]; [P] 100276",
        ),
        Danger.SCALAR_TO_VALU: Rule(
            "VALU write of an SGPR or vcc",
            "VALU read, as constant or carry",
            2,
            "a scalar written by VALU is not yet visible to VALU",
            f"{_VALU}, hasVDecCoExecHazard; [R] VALUWriteSGPRVCC94x (0 as a carry)",
            Basis.CUSTOM,
        ),
        Danger.SCALAR_TO_MEMORY: Rule(
            "VALU write of an SGPR, m0 or exec",
            "memory instruction that reads it",
            5,
            "a scalar written by VALU is not yet visible to memory instructions",
            "[L] checkVMEMHazards; [I]; exec: [L] only",
        ),
        Danger.SCALAR_TO_LANE_SELECT: Rule(
            "VALU write of an SGPR",
            "lane select of v_readlane, v_writelane",
            4,
            "a scalar written by VALU is not yet visible as a lane select",
            "[L] checkRWLaneHazards; [I]; [R] VALUWriteSGPRVCC94x",
        ),
        Danger.VECTOR_TO_LANE: Rule(
            "VALU write",
            "v_readlane, v_readfirstlane read",
            1,
            "a VALU result is not yet visible to v_readlane",
            f"{_VALU}; [R] VALUWriteReadlane94x",
        ),
        Danger.EXEC_TO_LANE: Rule(
            "VALU write of exec",
            "v_readlane, v_readfirstlane, v_writelane",
            4,
            "a VALU write of exec is not yet visible to lane instructions",
            f"{_VALU}; [I]",
        ),
        Danger.VCC_TO_DIV_FMAS: Rule(
            "VALU write of vcc",
            "v_div_fmas",
            4,
            "vcc written by VALU is not yet visible to v_div_fmas",
            "[L] checkDivFMasHazards; [I]",
        ),
        Danger.ZERO_FLAG: Rule(
            "VALU write of vcc or exec",
            "VALU read of vccz, execz",
            5,
            "a flag of a mask written by VALU is not yet up to date",
            "[I]",
        ),
        Danger.VECTOR_TO_DPP: Rule(
            "write of a VGPR",
            "DPP read",
            2,
            "a vector register is not yet visible to DPP",
            "[L] checkDPPHazards; [I]",
        ),
        Danger.EXEC_TO_DPP: Rule(
            "VALU write of exec",
            "DPP instruction",
            5,
            "a VALU write of exec is not yet visible to DPP",
            "[L] checkDPPHazards; [I]",
        ),
        Danger.VECTOR_TO_PERMLANE: Rule(
            "VALU write",
            "v_permlane*_swap",
            2,
            "a VALU result is not yet visible to v_permlane",
            "[L] checkPermlaneHazards; [P] 117287; [I]; [R] VALUWriteReadlane94x",
            Basis.CUSTOM,
        ),
        Danger.EXEC_TO_PERMLANE: Rule(
            "VALU write of exec",
            "v_permlane*_swap",
            4,
            "a VALU write of exec is not yet visible to v_permlane",
            "[L] checkPermlaneHazards; [P] 117286; [I]",
        ),
        Danger.M0: Rule(
            "SALU write of m0",
            "LDS-DMA, GDS, add-TID, s_sendmsg, s_movrel",
            1,
            "m0 is not yet visible",
            "[L] checkReadM0Hazards; [I]",
            Basis.CUSTOM,
        ),
        Danger.STORE_DATA: Rule(
            "store or atomic with more than 8 bytes of data",
            "VALU or matrix write of the data",
            2,
            "a store still reads its data",
            "[L] createsVALUHazard; [I]",
        ),
        Danger.STORE_DATA_SCALAR_OFFSET: Rule(
            "buffer store of more than 8 bytes with a register as soffset",
            "VALU or matrix write of the data",
            1,
            "a store still reads its data",
            "[P] 197267",
            Basis.CUSTOM,
        ),
        Danger.STORE_DATA_LOADED: Rule(
            "store or atomic with more than 8 bytes of data, no register as soffset",
            "LDS or memory write of the data",
            1,
            "a store still reads its data",
            "[I]",
        ),
        Danger.SETREG: Rule(
            "s_setreg",
            "s_setreg, s_getreg of the same hardware register",
            2,
            "a hardware register is not yet written",
            "[L] checkGetRegHazards, checkSetRegHazards; [I]",
        ),
    }
)
