"""The kernels on which `check_mutants` judges both ways: ours, Triton's, AITER's, small ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from pipeloom.drive.kernel_files import Start
from pipeloom.judge.emulate import CodeKernel, load_code_object
from pipeloom.judge.emulate.arguments import Argument
from pipeloom.write import assemble_text

Made = tuple[CodeKernel, Start]

EXCHANGE = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl exchange
.p2align 8
.type exchange,@function
exchange:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v3, 0x100, v1
  v_mov_b32 v5, 0
  s_mov_b32 s8, 6
  s_mov_b32 s9, 0
  global_load_dword v2, v1, s[4:5]
.Lloop:
  s_add_u32 s4, s4, 0x200
  s_addc_u32 s5, s5, 0
  global_load_dword v8, v1, s[4:5]
  v_add_u32 v6, s9, v1
  v_add_u32 v7, s9, v3
  s_waitcnt vmcnt(1)
  ds_write_b32 v6, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v7
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v4, v5
{end}
  s_waitcnt vmcnt(0)
  v_mov_b32 v2, v8
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v5, s[6:7]
  s_endpgm
.Lend:
.size exchange, .Lend-exchange
.rodata
.p2align 6
.amdhsa_kernel exchange
  .amdhsa_group_segment_fixed_size 1024
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 16
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: exchange
    .symbol: exchange.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 16
    .max_flat_workgroup_size: 128
    .args:
      - {{.name: x, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}}
      - {{.name: y, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""
"""Two waves exchange numbers through LDS, in one buffer or in two by turns."""


def by_hand(end: str) -> Made:
    """A small loop; ``end`` is what keeps its trips apart."""
    code = load_code_object(assemble_text(EXCHANGE.format(end=end), "gfx950"))
    given = np.random.default_rng(1).integers(0, 1 << 20, 128 * 7, dtype=np.uint32)
    return code.kernel(), Start((1,), (128,), [given, np.zeros(128, np.uint32)])


def own(name: str, side: int, depth: int) -> Made:
    """A shipped schedule as emitted, one workgroup."""
    from pipeloom.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.hsaco"
        main(["emit", name, "--dtype", "bf16", "-o", str(path)])
        kernel = load_code_object(path.read_bytes()).kernel()
    rng = np.random.default_rng(0)

    def matrix() -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
        values = rng.integers(-3, 4, (side, depth)).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    out = np.zeros((side, side), np.uint16)
    sizes = {"m": side, "n": side, "k": depth, "ld_A": depth, "ld_B": depth, "ld_out": side}
    given: dict[str, Argument] = {"A": matrix(), "B": matrix(), "out": out, **sizes}
    args = [given[argument.name] for argument in kernel.explicit_arguments]
    block = kernel.metadata.max_work_items or 256
    return kernel, Start((1,), (block,), args)


def triton(family: str, name: str, arch: str = "gfx950") -> Made:
    """A case of the Triton corpus."""
    from evidence.triton_corpus.corpus import all_cases

    case = next(c for c in all_cases() if c.family == family and c.name == name)
    return _compiled(case, arch)


def _compiled(case: object, arch: str) -> Made:
    from evidence.triton_corpus.harness import Case, build

    assert isinstance(case, Case)
    built = build(case, arch)
    trial = case.prepare(np.random.default_rng(0))
    args = [*trial.args, None, None]
    kernel = built.code.kernel()
    return kernel, Start(case.grid, (64 * case.warps,), args, built.lds)


def triton_gemm(ping_pong: bool) -> Made:
    """A GEMM of eight warps with or without Triton's ping-pong pass."""
    from triton import knobs

    from evidence.triton_corpus.matmul import _gemm

    case = _gemm("fp16", (256, 256, 64), (256, 256, 256), layout="nt", warps=8, stages=2, side=16)
    with tempfile.TemporaryDirectory() as cache:
        before = os.environ.get("TRITON_CACHE_DIR")
        os.environ["TRITON_CACHE_DIR"] = cache
        knobs.amd.use_block_pingpong = ping_pong
        try:
            return _compiled(case, "gfx942")
        finally:
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before


def corpus(family: str, name: str) -> Made:
    """A hand-written kernel of ROCm/aiter, from the checkout that ``PIPELOOM_AITER`` names."""
    from evidence.aiter_corpus.case import corpus_root
    from evidence.aiter_corpus.run import cases

    root = corpus_root()
    assert root is not None, "skipped() says so"
    case = next(one for one in cases(family, root, only=name) if one.name == name)
    return case.kernel, Start(case.grid, case.block, case.arguments())


def skipped(name: str) -> str:
    """Why a case cannot be made here; empty where it can."""
    from evidence.aiter_corpus.case import VARIABLE, corpus_root

    if name.startswith("AITER") and corpus_root() is None:
        return f"{VARIABLE} names no checkout of ROCm/aiter"
    return ""


CASES: Mapping[str, Callable[[], Made]] = {
    "by hand, one buffer": partial(by_hand, "  s_barrier"),
    "by hand, two buffers": partial(by_hand, "  s_xor_b32 s9, s9, 0x200"),
    "own single_buffer": partial(own, "single_buffer", 128, 192),
    "own ping_pong": partial(own, "ping_pong", 256, 256),
    "own four_wave": partial(own, "four_wave", 256, 256),
    "Triton softmax": partial(triton, "softmax", "fp16, 2000 of 2048, 8 warps"),
    "Triton layer norm": partial(triton, "normalisation", "rms fp16, 512 by 512"),
    "Triton reduction with atomics": partial(triton, "histogram", "64 bins, small arrays"),
    "Triton split-K GEMM, atomics": partial(triton, "split-K GEMM", "fp16, 4 ways, atomic fp16"),
    "Triton attention": partial(triton, "flash attention", "fp16, D 32, 32x32, 2 warps, ragged"),
    "Triton attention, causal": partial(
        triton, "flash attention", "fp32, D 32, 32x32, 4 warps, causal"
    ),
    "Triton GEMM, thin": partial(triton, "thin GEMM", "bf16, nn, 4x64x64, 1 warps, 2 stages"),
    "Triton persistent GEMM": partial(
        triton, "persistent GEMM", "bf16, 64x64x32, 4 warps, 2 stages"
    ),
    "Triton convolution": partial(triton, "convolution", "3x3, bf16"),
    "Triton plain GEMM": partial(triton_gemm, ping_pong=False),
    "Triton ping-pong GEMM": partial(triton_gemm, ping_pong=True),
    "AITER bf16 GEMM, 32x64 split K": partial(
        corpus, "bf16gemm", "bf16gemm_fp32bf16_tn_32x64_bshuffle_splitk"
    ),
    "AITER int8 GEMM, 16x128": partial(
        corpus, "i8gemm", "I8gemm_bf16_perTokenI8_BpreShuffle_16x128"
    ),
    "AITER attention backward, dQ shuffle": partial(corpus, "fmha_v3_bwd", "bwd_hd128_dq_shuffle"),
}
