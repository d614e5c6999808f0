"""The instruction table: every opcode assembles as it is printed, on the chips that have it."""

from __future__ import annotations

import re

from pipeloom.machine.chips import TARGETS
from pipeloom.write import Code, assemble_text
from pipeloom.write.isa import (
    LDS_DMA,
    LDS_DMA_BY_BYTES,
    OPCODES,
    VCC,
    Operand,
    ServedStep,
    agpr,
    instruction,
    sgpr,
    vgpr,
    waitcnt,
)

GFX950_ONLY = re.compile(
    r"v_dot2_f32_bf16|permlane|v_mfma_f32_(16x16x32|32x32x16)_(bf16|f16)|f8f6f4|v_cvt_pk_bf16|"
    r"v_cvt_scalef32|"
    r"v_mfma_i32_(16x16x64|32x32x32)_i8|ds_read_b64_tr|buffer_load_dwordx4 .* lds"
)


def sample_operand(code: str, number: int) -> Operand:
    """The first kind of operand that a signature allows, at a legal register number."""
    kinds, width = code.strip("=0123456789"), int(re.sub(r"\D", "", code) or 1)
    index = 8 * (number + 1) if width < 16 else 16 * (number + 1)
    if kinds.startswith("l"):
        return ".Lhere"
    if kinds.startswith("i"):
        return 3
    if "v" in kinds:
        return vgpr(index, width)
    if kinds.startswith("c"):
        return VCC
    return agpr(index, width) if kinds.startswith("a") else sgpr(index, width)


def sample_lines() -> list[str]:
    lines = []
    for name, opcode in OPCODES.items():
        if name == "s_waitcnt":
            continue
        operands = [sample_operand(code, at) for at, code in enumerate(opcode.operands)]
        modifiers = ["offen"] if name.startswith("buffer") else []
        modifiers += ["cbsz:4", "blgp:4"] if name.endswith(" fp4") else []
        modifiers += ["lds"] if name in LDS_DMA_BY_BYTES.values() else []
        lines.append(str(instruction(opcode, *operands, modifiers=modifiers)))
    return [*lines, str(waitcnt(vm=3)), str(waitcnt(lgkm=2)), str(waitcnt(0, 0))]


def test_every_opcode_assembles() -> None:
    lines = sample_lines()
    for target in (t.arch for t in TARGETS):
        kept = [line for line in lines if target == "gfx950" or not GFX950_ONLY.search(line)]
        assemble_text("\n".join([".Lhere:", *kept, "s_endpgm", ""]), target)


def test_what_an_instruction_reads_and_writes() -> None:
    mfma = instruction("v_mfma_f32_16x16x32_bf16", agpr(0, 4), vgpr(0, 4), vgpr(4, 4), agpr(0, 4))
    assert mfma.writes == (agpr(0, 4),)
    assert mfma.reads == (vgpr(0, 4), vgpr(4, 4), agpr(0, 4))
    load = instruction(LDS_DMA, vgpr(1), sgpr(4, 4), sgpr(9), modifiers=["offen", "lds"])
    assert load.writes == ()
    assert [str(r) for r in load.reads] == ["v1", "s[4:7]", "s9", "m0"]
    assert str(load) == "buffer_load_dwordx4 v1, s[4:7], s9 offen lds"
    narrow = instruction(
        LDS_DMA_BY_BYTES[4], vgpr(1), sgpr(4, 4), sgpr(9), modifiers=["offen", "lds"]
    )
    assert narrow.writes == ()
    assert str(narrow) == "buffer_load_dword v1, s[4:7], s9 offen lds"
    assert str(instruction("s_mov_b32", sgpr(3), 0x12345)) == "s_mov_b32 s3, 0x12345"


def test_instructions_remember_whom_they_serve() -> None:
    code = Code()
    entry = ServedStep("kernel", 7, "MMA(0, 0)")
    with code.serving(entry):
        made = code("s_nop", 0)
    assert made.provenance == entry
    assert str(entry) == "kernel[7] MMA(0, 0)"
    assert code("s_nop", 1).provenance is None
