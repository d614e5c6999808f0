"""Every row of the judge's table, on text: how many wait states a pair lacks, by target."""

from __future__ import annotations

import pytest

from pipeloom.judge.wait_states import judge, read_assembly
from pipeloom.judge.wait_states.effects import effects, register_name
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.wait_rules import Danger
from pipeloom.write import HazardError, check_hazards, require_no_hazards

XDL4 = "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[0:3]"
XDL8 = "v_mfma_f32_32x32x8_f16 v[0:15], v[18:19], v[20:21], v[0:15]"
XDL16 = "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[38:39], v[40:41], v[0:31]"
XDL2 = "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]"
SGEMM8 = "v_mfma_f32_16x16x4_f32 v[0:3], v8, v10, v[0:3]"
SGEMM2 = "v_mfma_f32_4x4x1_16b_f32 v[0:3], v8, v10, v[0:3]"
DGEMM4 = "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[8:9], v[10:11], v[0:1]"
DGEMM16 = "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7]"
SMFMAC4 = "v_smfmac_f32_16x16x32_f16 v[0:3], v[8:9], v[12:15], v20"
F8 = "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], v[0:3]"
F4 = "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:11], v[16:19], v[0:3] cbsz:4 blgp:4"
READ, WRITE, STORE = "v_mov_b32_e32 v70, v1", "v_mov_b32_e32 v1, 0", "ds_write_b32 v70, v1"
SHIFTED = "v_mfma_f32_16x16x16_f16 v[60:63], v[50:51], v[52:53], v[2:5]"
FACTOR = "v_mfma_f32_16x16x16_f16 v[60:63], v[0:1], v[52:53], v[60:63]"
CMPX = "v_cmpx_gt_u32_e32 vcc, v1, v2"
DMA = "buffer_load_dword v1, s[8:11], 0 offen lds"

CASES: list[tuple[Danger, str, str, int, int]] = [
    # danger, first, second, wait states on gfx942, on gfx950
    (Danger.RESULT_TO_VALU, XDL2, READ, 5, 5),
    (Danger.RESULT_TO_VALU, XDL4, READ, 7, 8),
    (Danger.RESULT_TO_VALU, XDL8, READ, 11, 12),
    (Danger.RESULT_TO_VALU, XDL16, READ, 19, 20),
    (Danger.RESULT_TO_VALU, SGEMM2, READ, 4, 4),
    (Danger.RESULT_TO_VALU, SGEMM8, READ, 10, 10),
    (Danger.RESULT_TO_VALU, SMFMAC4, READ, 7, 8),
    (Danger.RESULT_TO_VALU, DGEMM4, READ, 6, 6),
    (Danger.RESULT_TO_VALU, DGEMM16, READ, 11, 19),
    (Danger.RESULT_TO_VALU, F8, READ, 11, 12),
    (Danger.RESULT_TO_VALU, F4, READ, 7, 8),
    (Danger.RESULT_TO_MEMORY, XDL4, STORE, 7, 8),
    (Danger.RESULT_TO_MEMORY, SGEMM8, STORE, 10, 10),
    (Danger.RESULT_TO_MEMORY, DGEMM4, STORE, 9, 9),
    (Danger.RESULT_TO_MEMORY, DGEMM16, STORE, 18, 18),
    (Danger.RESULT_TO_MEMORY, XDL4, "flat_store_dword v[0:1], v70", 7, 8),
    (Danger.RESULT_OVERWRITTEN, XDL4, WRITE, 7, 8),
    (Danger.RESULT_OVERWRITTEN, XDL16, "global_load_dword v1, v[70:71], off", 19, 20),
    (Danger.RESULT_OVERWRITTEN, DGEMM16, "ds_read_b32 v1, v70", 11, 19),
    (Danger.RESULT_TO_FACTOR, XDL4, FACTOR, 7, 8),
    (Danger.RESULT_TO_FACTOR, SGEMM8, FACTOR, 10, 10),
    (Danger.RESULT_TO_FACTOR, DGEMM4, FACTOR, 6, 6),
    (Danger.RESULT_TO_FACTOR, DGEMM16, FACTOR, 11, 19),
    (
        Danger.RESULT_TO_FACTOR,
        XDL4,
        "v_smfmac_f32_16x16x32_f16 v[60:63], v[50:51], v[52:55], v1",
        7,
        8,
    ),
    (
        Danger.RESULT_TO_FACTOR,
        XDL4,
        "v_mfma_scale_f32_16x16x128_f8f6f4 v[60:63], v[30:37], v[40:47], v[60:63], v1, v70",
        7,
        8,
    ),
    (Danger.RESULT_TO_XDL_ADDEND, XDL4, SHIFTED, 5, 6),
    (Danger.RESULT_TO_XDL_ADDEND, XDL16, SHIFTED, 17, 18),
    (Danger.RESULT_TO_XDL_ADDEND, SGEMM8, SHIFTED, 8, 8),
    (
        Danger.RESULT_TO_XDL_ADDEND,
        XDL4,
        "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
        5,
        6,
    ),
    (Danger.RESULT_TO_OTHER_ADDEND, XDL4, SGEMM8, 5, 6),
    (
        Danger.RESULT_TO_OTHER_ADDEND,
        XDL2,
        "v_mfma_f32_16x16x4_f32 v[60:63], v50, v52, v[2:5]",
        3,
        3,
    ),
    (
        Danger.RESULT_TO_OTHER_ADDEND,
        SGEMM8,
        "v_mfma_f32_16x16x4_f32 v[60:63], v50, v52, v[2:5]",
        8,
        8,
    ),
    (
        Danger.RESULT_TO_OTHER_ADDEND,
        DGEMM16,
        "v_mfma_f64_16x16x4_f64 v[60:67], v[50:51], v[52:53], v[2:9]",
        9,
        17,
    ),
    (Danger.RESULT_TO_CHAIN, XDL2, XDL2, 2, 2),
    (Danger.RESULT_TO_CHAIN, DGEMM4, DGEMM4, 4, 4),
    (
        Danger.ADDEND_OVERWRITTEN,
        "v_mfma_f32_32x32x8_f16 v[20:35], v[40:41], v[42:43], v[0:15]",
        WRITE,
        7,
        7,
    ),
    (
        Danger.ADDEND_OVERWRITTEN,
        "v_mfma_f32_16x16x16_f16 v[20:23], v[40:41], v[42:43], v[0:3]",
        "ds_read_b32 v1, v70",
        3,
        3,
    ),
    (Danger.VECTOR_TO_MATRIX, "v_mov_b32_e32 v8, 0", XDL4, 2, 2),
    (Danger.EXEC_TO_MATRIX, CMPX, "v_mfma_f32_16x16x16_f16 v[4:7], v[8:9], v[10:11], 0", 4, 4),
    (Danger.DGEMM_TO_FMA64, DGEMM16, "v_fma_f64 v[60:61], v[62:63], v[64:65], v[66:67]", 2, 2),
    (Danger.DOT_TO_FACTOR, "v_dot2_f32_f16 v1, v2, v3, v1", READ, 3, 3),
    (
        Danger.DOT_TO_FACTOR,
        "v_dot2_f32_f16 v1, v2, v3, v1",
        "v_dot2_f32_f16 v5, v1, v3, v5",
        3,
        3,
    ),
    (
        Danger.DOT_TO_ADDEND,
        "v_dot2_f32_f16 v1, v2, v3, v1",
        "v_dot4_i32_i8 v5, v2, v3, v1",
        3,
        3,
    ),
    (Danger.DOT_OVERWRITTEN, "v_dot2_f32_f16 v1, v2, v3, v1", WRITE, 3, 3),
    (Danger.TRANSCENDENTAL, "v_exp_f32_e32 v1, v2", READ, 1, 1),
    (Danger.PARTIAL, "v_fma_f16 v1, v2, v3, v4 op_sel:[0,0,0,1]", READ, 1, 1),
    (Danger.PARTIAL, "v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,0,1]", WRITE, 1, 1),
    (Danger.PARTIAL, "v_cvt_sr_fp8_f32 v1, v2, v3 op_sel:[0,0,1,0]", READ, 1, 1),
    (
        Danger.PARTIAL,
        "v_add_f16_sdwa v1, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
        READ,
        1,
        1,
    ),
    (Danger.SCALAR_TO_VALU, "v_cmp_gt_u32_e64 s[4:5], v1, v2", "v_mov_b32_e32 v3, s5", 2, 2),
    (
        Danger.SCALAR_TO_VALU,
        "v_add_co_u32_e32 v1, vcc, v2, v3",
        "v_addc_co_u32_e32 v4, vcc, v5, v6, vcc",
        2,
        2,
    ),
    (
        Danger.SCALAR_TO_MEMORY,
        "v_readfirstlane_b32 s4, v1",
        "global_load_dword v2, v3, s[4:5]",
        5,
        5,
    ),
    (Danger.SCALAR_TO_MEMORY, "v_readfirstlane_b32 m0, v1", DMA, 5, 5),
    (Danger.SCALAR_TO_MEMORY, CMPX, "global_load_dword v2, v3, s[4:5]", 5, 5),
    (
        Danger.SCALAR_TO_LANE_SELECT,
        "v_readfirstlane_b32 s4, v1",
        "v_readlane_b32 s5, v2, s4",
        4,
        4,
    ),
    (
        Danger.SCALAR_TO_LANE_SELECT,
        "v_readfirstlane_b32 s4, v1",
        "v_writelane_b32 v2, 1, s4",
        4,
        4,
    ),
    (Danger.VECTOR_TO_LANE, "v_mov_b32_e32 v1, 0", "v_readfirstlane_b32 s4, v1", 1, 1),
    (Danger.EXEC_TO_LANE, CMPX, "v_readlane_b32 s5, v2, 3", 4, 4),
    (Danger.EXEC_TO_LANE, CMPX, "v_writelane_b32 v2, s6, 3", 4, 4),
    (
        Danger.VCC_TO_DIV_FMAS,
        "v_div_scale_f32 v1, vcc, v2, v3, v2",
        "v_div_fmas_f32 v4, v5, v6, v7",
        4,
        4,
    ),
    (Danger.ZERO_FLAG, "v_cmp_gt_u32_e32 vcc, v1, v2", "v_mov_b32_e32 v3, src_vccz", 5, 5),
    *(
        row
        for half in ("vcc_lo", "vcc_hi")
        for row in (
            (
                Danger.VCC_TO_DIV_FMAS,
                f"v_readfirstlane_b32 {half}, v1",
                "v_div_fmas_f32 v4, v5, v6, v7",
                4,
                4,
            ),
            (
                Danger.ZERO_FLAG,
                f"v_readfirstlane_b32 {half}, v1",
                "v_mov_b32_e32 v3, src_vccz",
                5,
                5,
            ),
        )
    ),
    (
        Danger.VECTOR_TO_DPP,
        "v_mov_b32_e32 v1, 0",
        "v_mov_b32_dpp v3, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        2,
        2,
    ),
    (Danger.EXEC_TO_DPP, CMPX, "v_add_f32 v3, v4, v5 row_shr:1 row_mask:0xf bank_mask:0xf", 5, 5),
    (Danger.VECTOR_TO_PERMLANE, "v_mov_b32_e32 v1, 0", "v_permlane32_swap_b32_e32 v1, v3", 2, 2),
    (Danger.VECTOR_TO_PERMLANE, "v_mov_b32_e32 v3, 0", "v_permlane16_swap_b32_e32 v1, v3", 2, 2),
    (Danger.EXEC_TO_PERMLANE, CMPX, "v_permlane32_swap_b32_e32 v7, v8", 4, 4),
    (Danger.M0, "s_mov_b32 m0, s4", "global_load_lds_dwordx4 v[2:3], off", 1, 1),
    (Danger.M0, "s_mov_b32 m0, s4", "buffer_load_dwordx4 v1, s[4:7], 0 offen lds sc0", 1, 1),
    (Danger.M0, "s_add_u32 m0, s4, 64", "buffer_load_dwordx4 v1, s[4:7], 0 offen sc0 lds", 1, 1),
    (Danger.M0, "s_mov_b32 m0, s4", "s_sendmsg sendmsg(MSG_INTERRUPT)", 1, 1),
    (Danger.M0, "s_mov_b32 m0, s4", "ds_read_addtid_b32 v1 offset:8", 1, 1),
    (Danger.STORE_DATA, "buffer_store_dwordx3 v[0:2], v70, s[4:7], 0 offen", WRITE, 2, 2),
    (Danger.STORE_DATA, "global_store_dwordx4 v[70:71], v[0:3], off", WRITE, 2, 2),
    (Danger.STORE_DATA, "flat_store_dwordx4 v[70:71], v[0:3]", WRITE, 2, 2),
    (Danger.STORE_DATA, "scratch_store_dwordx4 off, v[0:3], off offset:16", WRITE, 2, 2),
    (
        Danger.STORE_DATA,
        "global_atomic_cmpswap_x2 v[70:71], v[72:73], v[0:3], off sc0",
        WRITE,
        2,
        2,
    ),
    (
        Danger.STORE_DATA,
        "global_store_dwordx4 v[70:71], v[0:3], off",
        "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], 0",
        2,
        2,
    ),
    (
        Danger.STORE_DATA_SCALAR_OFFSET,
        "buffer_store_dwordx4 v[0:3], v70, s[4:7], s9 offen",
        WRITE,
        1,
        1,
    ),
    (
        Danger.STORE_DATA_LOADED,
        "global_store_dwordx4 v[70:71], v[0:3], off",
        "ds_read_b32 v1, v70",
        1,
        1,
    ),
    (
        Danger.SETREG,
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0",
        "s_getreg_b32 s3, hwreg(HW_REG_MODE)",
        2,
        2,
    ),
]


def lacking(text: str, target: str) -> list[int]:
    return [f.missing for f in check_hazards(text, target_for(target))]


@pytest.mark.parametrize(("danger", "first", "second", "cdna3", "cdna4"), CASES)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_pair_lacks_what_the_table_says(
    danger: Danger, first: str, second: str, cdna3: int, cdna4: int, target: str
) -> None:
    needed = cdna4 if target == "gfx950" else cdna3
    (finding,) = check_hazards(f"{first}\n{second}\ns_endpgm", target_for(target))
    assert finding.missing == needed
    rule = target_for(target).wait_table.rules[danger]
    assert (finding.reason, finding.source) == (rule.reason, rule.source)
    for states in range(1, needed + 1):
        wait = "\n".join(["s_nop 0"] * states)
        left = [needed - states] if states < needed else []
        assert lacking(f"{first}\n{wait}\n{second}\ns_endpgm", target) == left


def test_gds_takes_its_base_from_m0() -> None:
    """Older chips have it; the assembler of these refuses it, so that no code object shows it."""
    assert lacking("s_mov_b32 m0, s4\nds_add_u32 v1, v2 offset:8 gds\ns_endpgm", "gfx950") == [1]


def test_every_row_has_a_case_and_a_source() -> None:
    for chip in TARGETS:
        assert sorted(rule.danger for rule in chip.wait_rules) == list(Danger)
        assert all(rule.source for rule in chip.wait_rules)
    assert {case[0] for case in CASES} == set(Danger)


@pytest.mark.parametrize("text", [
    # The same matrix instruction on the same accumulator forwards it.
    f"{XDL4}\n{XDL4}",
    f"{XDL16}\n{XDL16}",
    # Nothing between DGEMM and the addend of an XDL instruction.
    f"{DGEMM16}\n{SHIFTED}",
    # A load into data of a store with a register as soffset.
    "buffer_store_dwordx4 v[0:3], v70, s[4:7], s9 offen\nds_read_b32 v1, v70",
    # A dot product goes on where it was.
    "v_dot2_f32_f16 v1, v2, v3, v1\nv_dot2_f32_f16 v1, v4, v5, v1",
    # Transcendental to transcendental.
    "v_exp_f32_e32 v1, v2\nv_rcp_f32_e32 v3, v1",
    # op_sel of sources only.
    "v_fma_f16 v1, v2, v3, v4 op_sel:[1,1,1,0]\nv_mov_b32_e32 v5, v1",
    "v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]\nv_mov_b32_e32 v5, v1",
    # Another register, or a scalar instruction, which is interlocked.
    "v_cmp_gt_u32_e64 s[4:5], v1, v2\ns_and_b64 s[6:7], s[4:5], exec",
    "v_readfirstlane_b32 s4, v1\ns_load_dword s5, s[4:5], 0x0",
    "v_cmp_gt_u32_e64 s[10:11], v1, v2\nv_div_fmas_f32 v1, v2, v3, v4",
    "buffer_store_dwordx2 v[0:1], v70, s[4:7], 0 offen\nv_mov_b32_e32 v1, 0",
    "s_mov_b32 m0, s4\nbuffer_load_dword v2, v1, s[8:11], 0 offen",
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\ns_getreg_b32 s3, hwreg(HW_REG_XCC_ID)",
])  # fmt: skip
def test_pairs_that_need_nothing(text: str) -> None:
    assert lacking(f"{text}\ns_endpgm", "gfx950") == []


@pytest.mark.parametrize(("line", "bits"), [
    ("v_fma_f16 v1, v2, v3, v4", 0),
    ("v_fma_f16 v1, v2, v3, v4 op_sel:[0,0,0,0]", 0),
    ("v_fma_f16 v1, v2, v3, v4 op_sel:[1,0,1,0]", 0b0101),
    ("v_fma_f16 v1, v2, v3, v4 op_sel:[0,0,0,1]", 0b1000),
    ("v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,0,0]", 0),
    ("v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,1,1]", 0b1010),
    ("v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]", 0b0010),
])  # fmt: skip
def test_selects_are_three_of_the_sources_and_one_of_the_result(line: str, bits: int) -> None:
    assert read_assembly(f"{line}\n")[0][0].op_sel == bits


@pytest.mark.parametrize(("line", "message"), [
    ("v_frobnicate_b32 v1, v2", "no wait-state rule known for v_frobnicate_b32; add it to the tab"),
    ("s_setpc_b64 s[4:5]", "no wait-state rule known for s_setpc_b64"),
    ("image_load v[0:3], v[4:5], s[8:15] dmask:0xf", "no wait-state rule known for image_load"),
    ("MY_MACRO v1", "no wait-state rule known for MY_MACRO"),
    ("v_mov_b32 v[vgprBase+1], 0", "operand 'v[vgprBase+1]' of 'v_mov_b32 v[vgprBase+1], 0' is"),
    ("s_branch 12", "the target of 's_branch 12' is not known"),
    ("s_nop many", "'s_nop many' has no number"),
    ("s_getreg_b32 s1, hwreg(HW_REG_ODD)", "the hardware register of"),
    ("v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11]", "with 3 operands cannot be judged"),
])  # fmt: skip
def test_what_is_not_known_is_a_finding(line: str, message: str) -> None:
    (finding,) = check_hazards(f"s_nop 0\n{line}\ns_endpgm", "gfx942")
    assert message in str(finding)
    assert finding.line == 2
    assert finding.missing == 0
    with pytest.raises(HazardError, match="line 2"):
        require_no_hazards(f"s_nop 0\n{line}\ns_endpgm", "gfx942")


def test_unreachable_code_is_not_judged_and_every_kernel_is() -> None:
    text = "s_endpgm\nv_frobnicate_b32 v1, v2\n"
    assert check_hazards(text, "gfx950") == ()
    text = f".globl one\n.globl two\none:\n s_endpgm\ntwo: {CMPX}\n{DMA}\ns_endpgm"
    assert lacking(text, "gfx950") == [5]


def test_both_ways_into_a_join_count() -> None:
    """A short way round with the danger, a long one without: the short one is reported."""
    text = """
        v_readfirstlane_b32 s4, v1
        s_cbranch_scc1 .Lnear
        s_nop 7
    .Lnear:
        global_load_dword v2, v3, s[4:5]
        s_endpgm
    """
    assert lacking(text, "gfx950") == [4]


def test_chains_that_meet_are_judged_apart() -> None:
    """After a join each way is held against the instruction by itself."""
    other = "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]"
    text = f"""
        s_cbranch_scc1 .Lother
        {XDL4}
        s_branch .Ljoin
    .Lother:
        {other}
    .Ljoin:
        {XDL4}
        s_endpgm
    """
    assert lacking(text, "gfx950") == [6]
    assert lacking(text.replace(other, XDL4), "gfx950") == []
    waited = text.replace(other, f"{other}\ns_nop 3")
    assert lacking(waited, "gfx950") == [2], "the chain's own way, 6 long, does not count"


def test_the_allowlist_covers_the_decoders_tables() -> None:
    """Every CDNA mnemonic that the decoder knows has rules, or is left out by name."""
    enums = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.enum")
    renamed = {"v_accvgpr_read": "v_accvgpr_read_b32", "v_accvgpr_write": "v_accvgpr_write_b32"}
    names = set()
    for kind, table in vars(enums).items():
        if kind.endswith("Op"):
            names |= {op.name.lower().removesuffix("_e32").removesuffix("_e64") for op in table}
    left_out = {
        name
        for name in names
        if effects(
            read_assembly(f"{renamed.get(name, name)} v0")[0][0], GFX950, GFX950.wait_table
        ).unknown
        and not name.startswith(("v_mfma", "v_smfmac", "s_cbranch_", "s_branch", "s_nop"))
        and not name.startswith(("s_setreg", "s_getreg"))
    }
    scalar_memory = tuple(f"s_{kind}" for kind in ("atomic", "store", "buffer_atomic"))
    scalar_memory += ("s_buffer_store", "s_scratch_store", "s_atc_probe", "s_dcache_discard")
    assert {name for name in left_out if not name.startswith(scalar_memory)} == {
        "s_call_b64",
        "s_endpgm_ordered_ps_done",
        "s_rfe_b64",
        "s_rfe_restore_b64",
        "s_set_gpr_idx_idx",
        "s_set_gpr_idx_mode",
        "s_set_gpr_idx_off",
        "s_set_gpr_idx_on",
        "s_set_valu_coexec_mode",
        "s_setpc_b64",
        "s_setvskip",
        "s_swappc_b64",
    }


def test_an_empty_program_has_no_hazards() -> None:
    assert judge([], target_for("gfx942")) == ()
    assert check_hazards("// nothing", "gfx942") == ()


@pytest.mark.parametrize(
    ("pair", "number"),
    [("flat_scratch", 102), ("xnack_mask", 104), ("vcc", 106), ("exec", 126), ("s[4:5]", 4)],
)
def test_scalar_pairs_have_the_numbers_of_their_encoding(pair: str, number: int) -> None:
    """CDNA 3 ISA, table of scalar operands; neighbours must not overlap."""
    (one,), _ = read_assembly(f"s_mov_b64 {pair}, 0")
    assert one.operands[0] == (number, number + 1)
    if "[" not in pair:
        assert register_name(number) == pair
        assert register_name(number + 1) == f"{pair}_hi"
