"""Code objects as the assembler writes them: descriptor, arguments, code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import CodeObjectError, decode_kernel, load_code_object, run_kernel

BODY = "s_nop 1\ns_endpgm"


def test_descriptor_and_arguments(bench: Any) -> None:
    code = bench.code(BODY, "gfx942", pointers=3, lds=4096, scratch=64)
    kernel = code.kernel("kernel")
    assert code.arch == kernel.arch == "gfx942"
    assert code.kernel() is kernel
    assert kernel.group_segment_bytes == 4096
    assert kernel.private_segment_bytes == 64
    assert kernel.uses_private_segment
    assert [(a.offset, a.size, a.is_pointer) for a in kernel.arguments] == [
        (0, 8, True),
        (8, 8, True),
        (16, 8, True),
    ]
    assert [i.name for i in decode_kernel(kernel.code)] == ["s_nop", "s_endpgm"]


def test_from_a_file(bench: Any, tmp_path: Path) -> None:
    from_text = bench.binary(BODY)
    path = tmp_path / "k.hsaco"
    path.write_bytes(from_text)
    assert load_code_object(path).kernel().code == load_code_object(from_text).kernel().code


def test_unknown_kernel_lists_the_known(bench: Any) -> None:
    with pytest.raises(CodeObjectError, match=r"no kernel 'gemm'\n\nhint: name one of: kernel"):
        bench.code(BODY).kernel("gemm")


@pytest.mark.parametrize("keep", [70, 200, 1000])
def test_truncated_file(bench: Any, keep: int) -> None:
    with pytest.raises(CodeObjectError, match=r"cut short|holds no kernel|lies in no section"):
        load_code_object(bench.binary(BODY)[:keep])


def test_scaled_mfma_prefix_does_not_confuse_the_decoder(bench: Any) -> None:
    """An 8-byte instruction before an f8f6f4 MFMA is not the prefix of a scaled one."""
    body = """
      v_add3_u32 v1, v2, v3, v4
      v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0
      v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0, v24, v25
      s_endpgm"""
    names = [(i.name, i.size) for i in decode_kernel(bench.code(body).kernel().code)]
    assert names == [
        ("v_add3_u32", 8),
        ("v_mfma_f32_16x16x128_f8f6f4", 8),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", 16),
        ("s_endpgm", 4),
    ]


def test_preloaded_kernel_arguments(bench: Any) -> None:
    """With preload the entry is 256 bytes in and the arguments are already in SGPRs."""
    body = """
      s_trap 2
      .p2align 8
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, 7
      global_store_dword v1, v2, s[2:3]
      s_endpgm"""
    text = bench.text(body, pointers=1).replace(
        "  .amdhsa_next_free_vgpr",
        "  .amdhsa_user_sgpr_kernarg_preload_length 2\n  .amdhsa_next_free_vgpr",
    )
    code = load_code_object(bench.assemble(text, "gfx950"))
    assert code.kernel().preload_dwords == 2
    out = np.zeros(64, np.uint32)
    assert run_kernel(code, grid=(1,), block=(64,), args=[out]).ok
    assert (out == 7).all()


def test_partial_wave_and_scalar_arguments(bench: Any) -> None:
    """100 work-items are two waves, the second with 36 lanes; values are packed by size."""
    text = bench.text(
        """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      s_load_dword s6, s[0:1], 0x8
      s_load_dword s7, s[0:1], 0xc
      s_waitcnt lgkmcnt(0)
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, s6
      v_add_f32 v2, s7, v2
      global_store_dword v1, v2, s[4:5]
      s_endpgm""",
        pointers=2,
    ).replace(
        "- {.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}",
        "- {.size: 4, .offset: 8, .value_kind: by_value}\n"
        "      - {.size: 4, .offset: 12, .value_kind: by_value}",
    )
    code = load_code_object(bench.assemble(text, "gfx950"))
    out = np.zeros(128, np.float32)
    args: list[Any] = [out, np.float32(2.5), 0.25]
    assert run_kernel(code, grid=(1,), block=(100,), args=args).ok
    np.testing.assert_array_equal(out, [2.75] * 100 + [0] * 28)


def test_instructions_are_decoded_as_if_each_stood_alone(bench: Any) -> None:
    """The decoder remembers forms: literals, DPP and SDWA beside the plain form of an opcode."""
    body = """
      v_add_f32 v1, v2, v3
      v_add_f32 v1, 0x40490fdb, v3
      v_add_f32_dpp v1, v2, v3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
      v_add_f32_sdwa v1, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD
      v_add_f32_e64 v1, |v2|, -v3 clamp
      v_add_f32 v4, s2, v5
      s_add_u32 s4, s5, s6
      s_add_u32 s4, s5, 0x12345
      s_add_u32 s4, 0x12345, s6
      s_mov_b32 s7, 0x1234567
      s_mov_b32 s7, s8
      v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0
      v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0, v24, v25
      v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[8:15], v[16:23], 0, v24, v25
      global_load_dword v4, v1, s[4:5] offset:-16
      flat_load_dword v4, v[2:3] offset:16
      scratch_load_dword v4, off, s4
      ds_read_b32 v4, v1 offset:12
      s_endpgm"""
    code = bench.code(body).kernel().code
    for one in decode_kernel(code):
        (alone,) = decode_kernel(code[one.pc : one.pc + one.size])
        assert replace(alone, pc=one.pc) == one


def test_the_dispatch_has_a_number(bench: Any) -> None:
    """Kernels that ask for the dispatch id get one, behind the kernarg pointer."""
    body = """
      s_load_dwordx2 s[4:5], s[0:1], 0x0
      v_lshlrev_b32 v1, 2, v0
      v_mov_b32 v2, s2
      v_add_u32 v2, s3, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v2, s[4:5]
      s_endpgm"""
    text = bench.text(body, pointers=1).replace(
        "  .amdhsa_next_free_vgpr",
        "  .amdhsa_user_sgpr_dispatch_id 1\n  .amdhsa_next_free_vgpr",
    )
    out = np.zeros(64, np.uint32)
    code = load_code_object(bench.assemble(text, "gfx950"))
    run = run_kernel(code, grid=(1,), block=(64,), args=[out], check_wait_states=False)
    assert run.ok
    assert (out > 0).all()
