"""What the descriptor allows is all that a kernel may use, and the metadata must agree with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import CodeObjectError, LaunchError, load_code_object, run_kernel
from pipeloom.judge.emulate.limits import Limits, check_descriptor

BODY = """
      s_load_dwordx2 s[20:21], s[0:1], 0x0
      v_lshlrev_b32 v30, 2, v0
      v_mov_b32 v31, 7
      s_waitcnt lgkmcnt(0)
      v_accvgpr_write_b32 a11, v31
      s_nop 3
      v_accvgpr_read_b32 v31, a11
      s_nop 3
      global_store_dword v30, v31, s[20:21]
      s_endpgm"""
FITTING = {"vgpr": "44", "accum": "32", "sgpr": "22"}


def text_with(bench: Any, *changes: tuple[str, str], vgpr: str, accum: str, sgpr: str) -> str:
    """The kernel with these limits; ``changes`` are regular expressions and what replaces them."""
    text: str = bench.text(BODY, pointers=1)
    for pattern, new in (
        (r"next_free_vgpr \d+", f"next_free_vgpr {vgpr}"),
        (r"accum_offset \d+", f"accum_offset {accum}"),
        (r"next_free_sgpr \d+", f"next_free_sgpr {sgpr}"),
        (r"vgpr_count: \d+", "vgpr_count: 8"),
        (r"sgpr_count: \d+", "sgpr_count: 8"),
        *changes,
    ):
        text, done = re.subn(pattern, new, text)
        assert done, pattern
    return text


def run(bench: Any, text: str, block: tuple[int, ...] = (64,), **options: Any) -> None:
    out = np.zeros(64, np.uint32)
    code = load_code_object(bench.assemble(text, "gfx950"))
    assert run_kernel(code, grid=(1,), block=block, args=[out], **options).ok
    assert (out == 7).all()


def test_what_fits_runs(bench: Any) -> None:
    text = text_with(bench, **FITTING)
    run(bench, text)
    kernel = load_code_object(bench.assemble(text, "gfx950")).kernel()
    # 44 registers in granules of 8; 22 SGPRs and the 6 special ones in granules of 16.
    assert Limits.of(kernel) == Limits(
        vgprs=32, agprs=16, sgprs=26, registers=48, scalars=32, accum_offset=32
    )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"vgpr": "24", "accum": "24"}, r"v_lshlrev_b32 at pc 0x8 uses v30, but .* 24 VGPRs"),
        ({"vgpr": "44", "accum": "28"}, "uses v30, but .* 28 VGPRs .accum_offset 28 of 48"),
        ({"vgpr": "40"}, r"v_accvgpr_write_b32 .* uses a11, but .* 8 AGPRs"),
        ({"vgpr": "32"}, "uses a11, but .* 0 AGPRs"),
        ({"sgpr": "10"}, "s_load_dwordx2 at pc 0x0 uses s21, but .* 10 SGPRs"),
    ],
)
def test_registers_beyond_the_descriptor(bench: Any, limits: dict[str, str], message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        run(bench, text_with(bench, **{**FITTING, **limits}))


@pytest.mark.parametrize(
    ("pattern", "new", "message"),
    [
        (
            r"    .group_segment_fixed_size: \d+",
            "    .group_segment_fixed_size: 64",
            "group_segment_fixed_size is 0 in the descriptor and 64 in the metadata",
        ),
        (
            r"    .private_segment_fixed_size: \d+",
            "    .private_segment_fixed_size: 64",
            "private_segment_fixed_size is 0 in the descriptor and 64 in the metadata",
        ),
        (
            "  .amdhsa_next_free_vgpr",
            "  .amdhsa_kernarg_size 16\n  .amdhsa_next_free_vgpr",
            "kernarg_size is 16 in the descriptor and 8 in the metadata",
        ),
        (
            r"    .kernarg_segment_size: \d+",
            "    .kernarg_segment_size: 4",
            "argument 0 ends at byte 8 of a kernarg segment of 4 bytes",
        ),
        (r"wavefront_size: 64", "wavefront_size: 32", "is for wavefronts of 32, but gfx950 has 64"),
        (r"vgpr_count: 8", "vgpr_count: 49", "vgpr_count needs 49 registers, .* allocates 48"),
        (
            r"vgpr_count: 8",
            "vgpr_count: 8\n    .agpr_count: 17",
            "agpr_count needs 49 registers, .* allocates 48",
        ),
        (r"sgpr_count: 8", "sgpr_count: 33", "sgpr_count needs 33 registers, .* allocates 32"),
    ],
)
def test_descriptor_and_metadata_disagree(bench: Any, pattern: str, new: str, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        run(bench, text_with(bench, (pattern, new), **FITTING))


def test_padding_may_lie_behind_the_segment(bench: Any) -> None:
    pad = "    .args:\n      - {.size: 4, .offset: 8, .value_kind: by_value, .name: _pad1}"
    kernel = load_code_object(
        bench.assemble(text_with(bench, ("    .args:", pad), **FITTING), "gfx950")
    ).kernel()
    assert kernel.kernarg_size == 8
    check_descriptor(kernel)


def test_counts_are_in_granules(bench: Any) -> None:
    """102 SGPRs and VCC and kin are 108, which the hardware gives as 112."""
    text = text_with(bench, ("sgpr_count: 8", "sgpr_count: 112"), **{**FITTING, "sgpr": "102"})
    run(bench, text)


def test_vgprs_behind_accum_offset_without_agprs(bench: Any) -> None:
    text = re.sub(r"v_accvgpr\w+ .*\n", "s_nop 0\n", text_with(bench, **FITTING))
    run(bench, text.replace("accum_offset 32", "accum_offset 4"))
    with pytest.raises(CodeObjectError, match="uses v30"):
        run(bench, text.replace("vgpr 44", "vgpr 24").replace("offset 32", "offset 4"))


def test_the_block_that_the_kernel_requires(bench: Any) -> None:
    required = "group_size: 1024\n    .reqd_workgroup_size: [64, 1, 1]"
    text = text_with(bench, ("group_size: 1024", required), **FITTING)
    run(bench, text)
    with pytest.raises(LaunchError, match=r"block is \(128, 1, 1\), but kernel kernel requires"):
        run(bench, text, block=(128,))
    text = text_with(bench, ("group_size: 1024", "group_size: 64"), **FITTING)
    with pytest.raises(LaunchError, match="has 65 work-items; the limit is 64"):
        run(bench, text, block=(65,))


def test_a_workgroup_must_fit_a_compute_unit(bench: Any) -> None:
    text = text_with(bench, vgpr="264", accum="128", sgpr="22")
    run(bench, text)
    with pytest.raises(LaunchError, match=r"5 waves puts 2 on a SIMD.* ask for 264 each"):
        run(bench, text, block=(320,))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1 << 32, "n is 4294967296, which its 4 bytes do not hold"),
        (-(1 << 31) - 1, "n is -2147483649, which its 4 bytes do not hold"),
        (1e300, "n is 1e.300, which a float of 4 bytes does not hold"),
    ],
)
def test_values_are_not_cut_to_fit(bench: Any, value: float, message: str) -> None:
    text = bench.text("s_endpgm", pointers=1).replace(
        "- {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}",
        "- {.name: n, .size: 4, .offset: 0, .value_kind: by_value}",
    )
    code = load_code_object(bench.assemble(text, "gfx950"))
    with pytest.raises(LaunchError, match=message):
        run_kernel(code, grid=(1,), block=(64,), args=[value])
    for fitting in (0xFFFFFFFF, -(1 << 31), 2.5):
        assert run_kernel(code, grid=(1,), block=(64,), args=[fitting]).ok
