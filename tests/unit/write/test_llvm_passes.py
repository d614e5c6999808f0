"""What benchmarks/llvm_passes.py reads and compares; with LLVM at hand, what its passes say.

The latter needs ``PIPELOOM_LLVM``, a folder with llvm-mc and llc of LLVM 22.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.llvm_kernels import Subject, tile, whole
from benchmarks.llvm_passes import (
    Added,
    Gap,
    Llvm,
    LlvmError,
    added,
    blocks_of,
    candidates,
    gaps_of,
    judged,
    successors,
)
from evidence.emit_cases import Case
from pipeloom.declare.gemm_problem import Finish
from pipeloom.drive.gemm import GemmSpec

pytestmark = pytest.mark.usefixtures("short_search")
LISTING = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
kernel:
\ts_add_u32 m0, s26, 0                    ; <MCInst #33271 S_ADD_U32_vi
                                        ;  <MCOperand Reg:M0_gfxpre11>
                                        ;  <MCOperand Reg:SGPR26>
                                        ;  <MCOperand Imm:0>>
\ts_barrier                               ; <MCInst #33742 S_BARRIER_vi>
.Lloop:
\ts_cbranch_scc1 .Lloop                   ; <MCInst #34410 S_CBRANCH_SCC1_vi
                                        ;  <MCOperand Expr:.Lloop>>
\ts_endpgm                                ; <MCInst #34700 S_ENDPGM_vi
                                        ;  <MCOperand Imm:0>>
"""


def test_the_assemblers_listing_becomes_blocks() -> None:
    blocks = blocks_of(LISTING)
    assert [block.labels for block in blocks] == [["kernel"], [".Lloop"], []]
    assert [[line.opcode for line in block.lines] for block in blocks] == [
        ["S_ADD_U32_vi", "S_BARRIER_vi"],
        ["S_CBRANCH_SCC1_vi"],
        ["S_ENDPGM_vi"],
    ]
    assert blocks[0].lines[0].operands == ("$m0", "$sgpr26", "0")
    labels = {"kernel": 0, ".Lloop": 1}
    assert [successors(block, n, labels) for n, block in enumerate(blocks)] == [[1], [1, 2], []]


def test_code_generator_names() -> None:
    assert "V_MFMA_F32_16X16X32_BF16_e64" in candidates("V_MFMA_F32_16X16X32_BF16_gfx940_acd")
    assert "V_MFMA_F32_4X4X4_F16_vgprcd_e64" in candidates("V_MFMA_F32_4X4X4_F16_gfx940_vcd")
    assert "DS_READ_B128_gfx9" in candidates("DS_READ_B128_vi")


def mir(*lines: str) -> str:
    return "\nbody:\n  bb.0:\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def test_only_what_waits_more_counts_as_added() -> None:
    # 0xc07f is lgkmcnt(0), 0xce7f lgkmcnt(14), 0x0f70 vmcnt(0) alone.
    use = "$vgpr0 = V_MOV_B32_e32 $vgpr1, implicit $exec"
    before = mir("S_WAITCNT 49279", "S_NOP 1", use)
    assert gaps_of(before) == [("V_MOV_B32_e32", Gap(lgkm=0, states=2))]
    assert added(before, mir("S_WAITCNT 52863", "S_NOP 1", use)) == Added(0, 0)
    assert added(before, mir("S_WAITCNT 3952", "S_NOP 3", use)) == Added(1, 2)
    with pytest.raises(LlvmError, match="more than waits and nops"):
        added(before, mir(use, use))


needs_llvm = pytest.mark.skipif(
    "PIPELOOM_LLVM" not in os.environ, reason="set PIPELOOM_LLVM to the tools of LLVM 22"
)


SUBJECTS = [
    tile(Case("single_buffer", "gfx950", "bf16", (64, 64, 64, 16, 32))),
    tile(Case("gemm_tile", "gfx942", "fp8", (64, 64, 64, 16, 32))),
    whole(
        GemmSpec(
            BM=128, BN=64, waves_m=2, waves_n=1, out="f32", finish=Finish(beta=True), search=False
        )
    ),
]
"""The last stores part of C, and loads the next."""


@needs_llvm
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.family)
def test_llvm_adds_nothing(subject: Subject, tmp_path: Path) -> None:
    llvm = Llvm(Path(os.environ["PIPELOOM_LLVM"]), tmp_path)
    for kernel in subject.emit():
        row = judged(kernel.text, subject.target, llvm)
        assert row.added == Added(0, 0)
        assert row.control.waits > 0
        assert row.control.states > 0
