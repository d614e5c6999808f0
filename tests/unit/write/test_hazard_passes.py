"""Wait states: inserted where the tables ask for them, and missed by the judge when gone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.machine.chips import target_for
from pipeloom.machine.mnemonics import Pipe
from pipeloom.write import Code, HazardError, check_hazards, insert_wait_states, require_no_hazards
from pipeloom.write.isa import (
    EXEC,
    LDS_DMA,
    M0,
    VCC,
    Instruction,
    Line,
    Opcode,
    Register,
    agpr,
    instruction,
    sgpr,
    vgpr,
)


def text_of(lines: list[Line]) -> str:
    return "\n".join(str(line) for line in lines)


def mfma(code: Code, d: int, a: int = 0, b: int = 8, c: int | None = None) -> None:
    addend = agpr(d if c is None else c, 4)
    code("v_mfma_f32_16x16x32_bf16", agpr(d, 4), vgpr(a, 4), vgpr(b, 4), addend)


def result_then_read(code: Code) -> None:
    mfma(code, 0)
    code("v_accvgpr_read_b32", vgpr(20), agpr(0))


def result_then_store(code: Code) -> None:
    mfma(code, 0)
    code("buffer_store_dwordx4", agpr(0, 4), vgpr(30), sgpr(4, 4), 0, modifiers=["offen"])


def result_overwritten(code: Code) -> None:
    mfma(code, 0)
    code("v_accvgpr_write_b32", agpr(3), 0)


def result_as_shifted_addend(code: Code) -> None:
    mfma(code, 0)
    mfma(code, 2, c=2)


def result_as_addend_of_another_kind(code: Code) -> None:
    mfma(code, 0)
    code("v_mfma_f32_16x16x16_bf16", agpr(0, 4), vgpr(0, 2), vgpr(8, 2), agpr(0, 4))


def result_as_factor(code: Code) -> None:
    code("v_mfma_f32_16x16x32_bf16", vgpr(4, 4), vgpr(12, 4), vgpr(16, 4), vgpr(4, 4))
    code("v_mfma_f32_16x16x32_bf16", vgpr(20, 4), vgpr(4, 4), vgpr(16, 4), vgpr(20, 4))


def wide_result_then_read(code: Code) -> None:
    d = agpr(0, 16)
    code("v_mfma_f32_32x32x64_f8f6f4", d, vgpr(0, 8), vgpr(8, 8), d)
    code("v_accvgpr_read_b32", vgpr(20), agpr(9))


def valu_then_factor(code: Code) -> None:
    code("v_mov_b32", vgpr(1), 0)
    mfma(code, 0)


def m0_then_dma(code: Code) -> None:
    code("s_add_u32", M0, sgpr(4), 64)
    code(LDS_DMA, vgpr(1), sgpr(4, 4), sgpr(9), modifiers=["offen", "lds"])


def vcc_then_select(code: Code) -> None:
    code("v_cmp_gt_u32", VCC, sgpr(3), vgpr(1))
    code("v_cndmask_b32", vgpr(2), vgpr(3), vgpr(4), VCC)


def lane_then_buffer(code: Code) -> None:
    code("v_readfirstlane_b32", sgpr(9), vgpr(1))
    code("buffer_load_dword", vgpr(2), vgpr(3), sgpr(4, 4), sgpr(9), modifiers=["offen"])


def valu_then_readlane(code: Code) -> None:
    code("v_mov_b32", vgpr(1), 5)
    code("v_readfirstlane_b32", sgpr(9), vgpr(1))


def store_data_overwritten(code: Code) -> None:
    code("buffer_store_dwordx4", vgpr(4, 4), vgpr(1), sgpr(4, 4), 0, modifiers=["offen"])
    code("v_mov_b32", vgpr(5), 0)


def store_data_overwritten_with_scalar_offset(code: Code) -> None:
    code("buffer_store_dwordx4", vgpr(4, 4), vgpr(1), sgpr(4, 4), sgpr(9), modifiers=["offen"])
    code("v_mov_b32", vgpr(5), 0)


def store_data_overwritten_by_mfma(code: Code) -> None:
    code("buffer_store_dwordx4", agpr(0, 4), vgpr(30), sgpr(4, 4), 0, modifiers=["offen"])
    code("v_mfma_f32_16x16x32_bf16", agpr(0, 4), vgpr(0, 4), vgpr(8, 4), 0)


def store_data_loaded_over(code: Code) -> None:
    code("buffer_store_dwordx4", vgpr(4, 4), vgpr(1), sgpr(4, 4), 0, modifiers=["offen"])
    code("ds_read_b32", vgpr(5), vgpr(1))


CASES: list[tuple[Callable[[Code], None], int, int]] = [
    # sequence, wait states on gfx942, on gfx950 (LLVM GCNHazardRecognizer)
    (result_then_read, 7, 8),
    (result_then_store, 7, 8),
    (result_overwritten, 7, 8),
    (result_as_shifted_addend, 5, 6),
    (result_as_addend_of_another_kind, 5, 6),
    (result_as_factor, 7, 8),
    (wide_result_then_read, 19, 20),
    (valu_then_factor, 2, 2),
    (m0_then_dma, 1, 1),
    (vcc_then_select, 2, 2),
    (lane_then_buffer, 5, 5),
    (valu_then_readlane, 1, 1),
    (store_data_overwritten, 2, 2),
    (store_data_overwritten_with_scalar_offset, 1, 1),
    (store_data_overwritten_by_mfma, 2, 2),
    (store_data_loaded_over, 1, 1),
]


@pytest.mark.parametrize(
    ("build", "cdna3", "cdna4"), CASES, ids=lambda c: getattr(c, "__name__", c)
)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_each_rule(build: Callable[[Code], None], cdna3: int, cdna4: int, target: str) -> None:
    code = Code()
    build(code)
    needed = cdna4 if target == "gfx950" else cdna3
    (finding,) = check_hazards(text_of(code.lines), target)
    assert finding.missing == needed
    filled = insert_wait_states(code.lines, target_for(target))
    inserted = [line for line in filled if isinstance(line, Instruction)][1:-1]
    assert sum(line.wait_states for line in inserted) == needed
    assert check_hazards(text_of(filled), target) == ()


def _op(name: str, unit: Pipe, *operands: str, **implied: tuple[Register, ...]) -> Opcode:
    return Opcode(name, unit, operands, implied.get("reads", ()), implied.get("writes", ()))


EXP = _op("v_exp_f32", Pipe.VALU, "=v1", "v1")
DOT = _op("v_dot2_f32_f16", Pipe.VALU, "=v1", "v1", "v1", "v1")
PERMLANE = _op("v_permlane32_swap_b32", Pipe.VALU, "=v1", "=v1")
READLANE = _op("v_readlane_b32", Pipe.VALU, "=s1", "v1", "s1")
WRITELANE = _op("v_writelane_b32", Pipe.VALU, "=v1", "s1", "s1")
CMPX = _op("v_cmpx_gt_u32", Pipe.VALU, "=c2", "v1", "v1", writes=(EXEC,))
DIV_FMAS = _op("v_div_fmas_f32", Pipe.VALU, "=v1", "v1", "v1", "v1", reads=(VCC,))
GLOBAL_STORE = _op("global_store_dwordx4", Pipe.MEMORY, "v2", "v4", "s2")
FMA16 = _op("v_fma_f16", Pipe.VALU, "=v1", "v1", "v1", "v1")
FP4 = _op("v_cvt_scalef32_pk_fp4_f32", Pipe.VALU, "=v1", "v1", "v1", "v1")
MOVE, FIRST_LANE = "v_mov_b32", "v_readfirstlane_b32"
HIGH = ["op_sel:[0,0,0,1]"]
EXTENSIONS: list[tuple[Instruction, Instruction, int]] = [
    # What the instruction layer does not have, but a kernel of one's own may bring along.
    (instruction(EXP, vgpr(1), vgpr(2)), instruction(MOVE, vgpr(3), vgpr(1)), 1),
    (instruction(MOVE, vgpr(1), 0), instruction(PERMLANE, vgpr(1), vgpr(3)), 2),
    (instruction(MOVE, vgpr(3), 0), instruction(PERMLANE, vgpr(1), vgpr(3)), 2),
    (instruction(CMPX, VCC, vgpr(1), vgpr(2)), instruction(PERMLANE, vgpr(5), vgpr(6)), 4),
    (
        instruction(FIRST_LANE, sgpr(4), vgpr(1)),
        instruction(READLANE, sgpr(5), vgpr(2), sgpr(4)),
        4,
    ),
    (
        instruction(FIRST_LANE, sgpr(4), vgpr(1)),
        instruction(WRITELANE, vgpr(2), sgpr(5), sgpr(4)),
        4,
    ),
    # Its data is a scalar like any other, and the vector that it changes is not read.
    (
        instruction(FIRST_LANE, sgpr(5), vgpr(1)),
        instruction(WRITELANE, vgpr(2), sgpr(5), sgpr(4)),
        2,
    ),
    (instruction(MOVE, vgpr(2), 0), instruction(WRITELANE, vgpr(2), sgpr(5), sgpr(4)), 0),
    (instruction(MOVE, vgpr(2), 0), instruction(READLANE, sgpr(5), vgpr(2), sgpr(4)), 1),
    (instruction(CMPX, VCC, vgpr(1), vgpr(2)), instruction(FIRST_LANE, sgpr(9), vgpr(3)), 4),
    (
        instruction(CMPX, VCC, vgpr(1), vgpr(2)),
        instruction(READLANE, sgpr(5), vgpr(3), sgpr(4)),
        4,
    ),
    (
        instruction(CMPX, VCC, vgpr(1), vgpr(2)),
        instruction(WRITELANE, vgpr(3), sgpr(5), sgpr(4)),
        4,
    ),
    (
        instruction(CMPX, VCC, vgpr(1), vgpr(2)),
        instruction("buffer_load_dword", vgpr(2), vgpr(3), sgpr(4, 4), 0, modifiers=["offen"]),
        5,
    ),
    (
        instruction("v_cmp_gt_u32", VCC, vgpr(1), vgpr(2)),
        instruction(DIV_FMAS, vgpr(3), vgpr(4), vgpr(5), vgpr(6)),
        4,
    ),
    # An instruction that does not read VCC need not wait for it.
    (instruction("v_cmp_gt_u32", VCC, vgpr(1), vgpr(2)), instruction(MOVE, vgpr(3), vgpr(4)), 0),
    # A byte of its result is written, whatever its modifiers say.
    (
        instruction(FP4, vgpr(1), vgpr(2), vgpr(3), vgpr(4)),
        instruction(MOVE, vgpr(1), 0),
        1,
    ),
    (
        instruction(DOT, vgpr(1), vgpr(2), vgpr(3), vgpr(1)),
        instruction("ds_write_b32", vgpr(8), vgpr(1)),
        3,
    ),
    (
        instruction(DOT, vgpr(1), vgpr(2), vgpr(3), vgpr(1)),
        instruction(DOT, vgpr(1), vgpr(2), vgpr(3), vgpr(1)),
        0,
    ),
    (
        instruction(FMA16, vgpr(1), vgpr(2), vgpr(3), vgpr(4), modifiers=HIGH),
        instruction(MOVE, vgpr(1), 0),
        1,
    ),
    (
        instruction(GLOBAL_STORE, vgpr(8, 2), vgpr(0, 4), sgpr(2, 2)),
        instruction(MOVE, vgpr(1), 0),
        2,
    ),
]


@pytest.mark.parametrize(("first", "second", "needed"), EXTENSIONS, ids=str)
def test_rules_beyond_the_instruction_layer(
    first: Instruction, second: Instruction, needed: int
) -> None:
    """The pass and the judge agree on them, too, from tables written apart."""
    lines: list[Line] = [first, second]
    assert [f.missing for f in check_hazards(text_of(lines), "gfx950")] == [needed] * (needed > 0)
    filled = insert_wait_states(lines, target_for("gfx950"))
    added = [line for line in filled[1:-1] if isinstance(line, Instruction)]
    assert sum(line.wait_states for line in added) == needed
    assert check_hazards(text_of(filled), "gfx950") == ()


def test_same_accumulator_needs_nothing() -> None:
    code = Code()
    mfma(code, 0)
    mfma(code, 0)
    assert insert_wait_states(code.lines, target_for("gfx950")) == code.lines
    assert check_hazards(text_of(code.lines), "gfx950") == ()


def test_the_end_of_a_loop_is_seen_from_its_start() -> None:
    code = Code()
    code("v_mov_b32", vgpr(0), 0)
    code("s_nop", 7)
    code.label(".Lloop")
    code("v_accvgpr_read_b32", vgpr(20), agpr(0))
    mfma(code, 0)
    code("s_cbranch_scc1", ".Lloop")
    code("s_endpgm")
    (finding,) = check_hazards(text_of(code.lines), "gfx950")
    assert "v_accvgpr_read_b32" in finding.text
    assert finding.missing == 7, "the branch is one wait state"
    filled = insert_wait_states(code.lines, target_for("gfx950"))
    assert check_hazards(text_of(filled), "gfx950") == ()


def test_code_behind_an_unconditional_branch_is_another_path() -> None:
    code = Code()
    mfma(code, 0)
    code("s_branch", ".Lfar")
    code.label(".Lnear")
    code("v_accvgpr_read_b32", vgpr(20), agpr(0))
    code("s_endpgm")
    code.label(".Lfar")
    code("s_nop", 7)
    code("s_branch", ".Lnear")
    assert insert_wait_states(code.lines, target_for("gfx950")) == code.lines
    assert check_hazards(text_of(code.lines), "gfx950") == ()


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_an_emitted_kernel_without_one_of_its_nops_is_rejected(
    built: Callable[..., Launchable], name: str
) -> None:
    emitted = built(name, "bf16", (128, 128, 64, 16, 32)).emitted
    lines = emitted.text.splitlines()
    nops = [at for at, line in enumerate(lines) if re.match(r"\s+s_nop", line)]
    assert nops
    require_no_hazards(emitted.text, emitted.target)
    for at in nops:
        with pytest.raises(HazardError, match=r"lacks \d+ wait state"):
            require_no_hazards("\n".join(lines[:at] + lines[at + 1 :]), emitted.target)
