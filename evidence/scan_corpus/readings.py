"""What was seen when definite findings were read in the disassembly."""

from __future__ import annotations

Kind = tuple[str, str, str, str]
"""Family (any if empty), kind, first and second mnemonic."""

_READ_THEN_WRITE = (
    "the reads are waited for by `lgkmcnt(0)`, and the bytes are written again with no barrier "
    "behind "
    "the reads: a wave that is ahead overwrites what another has not read"
)
_NO_LGKM = (
    "no `lgkmcnt` small enough lies between the read and the instruction that uses its registers"
)
_OFF_BY_ONE = (
    "the last `vmcnt` leaves one entry more than were issued behind the load, which stays in flight"
)
_READ_THEN_DMA = (
    "the last reads of the stage are waited for behind the barrier, or no barrier follows them, "
    "before other waves' loads overwrite it"
)

READ: dict[Kind, tuple[str, str]] = {
    ("fmoe_2stages", "lds-waves", "ds_read_b32", "ds_write_b64"): ("true", _READ_THEN_WRITE),
    ("fmoe", "lds-waves", "ds_read_b32", "ds_write_b32"): ("true", _READ_THEN_WRITE),
    ("fmoe", "lds-waves", "ds_read_b64", "ds_write_b64"): ("true", _READ_THEN_WRITE),
    ("fmoe", "lds-waves", "ds_write_b128", "ds_read_b128"): (
        "true",
        "written by all waves, read by others, no barrier between: the form before #4995",
    ),
    ("fmha_v3_bwd", "lds-waves", "ds_read_b128", "ds_write_b32"): (
        "true",
        "up to four reads of a trip are in flight at the next trip's first barrier, behind "
        "`lgkmcnt(4)`, and their bytes are written behind it; `check` shows wrong numbers "
        "(aiter-corpus.md)",
    ),
    ("mla", "lds-waves", "ds_read_b128", "global_load_lds_dwordx4"): ("true", _READ_THEN_DMA),
    ("mla", "lds-waves", "ds_read_b128", "buffer_load_dwordx4"): ("true", _READ_THEN_DMA),
    ("mla", "lds-waves", "ds_read_b64_tr_b16", "global_load_lds_dwordx4"): (
        "true",
        _READ_THEN_DMA,
    ),
    ("pa", "register", "ds_read_b64", "v_mfma_i32_16x16x32_i8"): ("true", _NO_LGKM),
    ("fmoe", "register", "ds_read_b32", "global_atomic_pk_add_bf16"): ("true", _NO_LGKM),
    ("fmoe", "register", "ds_read_b32", "global_atomic_pk_add_f16"): ("true", _NO_LGKM),
    ("fmoe", "register", "buffer_load_dword", "v_lshrrev_b32"): (
        "true",
        "a temporary is written to a register for which a load is in flight; `check` says the same",
    ),
    ("mla", "register", "ds_read_b64_tr_b8", "v_mfma_f32_32x32x64_f8f6f4"): ("true", _NO_LGKM),
    ("mla", "register", "ds_read_b64_tr_b16", "v_mfma_f32_16x16x32_bf16"): ("true", _NO_LGKM),
    ("mla", "register", "ds_read_b128", "v_mfma_f32_16x16x32_bf16"): ("true", _NO_LGKM),
    ("mla", "register", "ds_read_b128", "v_mfma_f32_32x32x64_f8f6f4"): ("true", _NO_LGKM),
    ("mla", "register", "buffer_load_dword", "v_mul_lo_u32"): ("true", _OFF_BY_ONE),
    ("mla", "register", "buffer_load_dword", "v_mul_u32_u24"): ("true", _OFF_BY_ONE),
}
READ |= {
    ("mla", "lds", "ds_read_b128", "buffer_load_dword"): (
        "true",
        "nothing waits for the reads before the wave's own LDS-DMA into the same bytes",
    ),
    ("mla", "lds-waves", "ds_read_b128", "buffer_load_dword"): ("true", _READ_THEN_DMA),
    ("mla", "lds-waves", "ds_read_b128", "ds_write_b128"): ("true", _READ_THEN_WRITE),
    ("mla", "lds-waves", "ds_read_b128", "ds_write_b32"): ("true", _READ_THEN_WRITE),
    ("mla", "lds-waves", "ds_read_b32", "ds_write_b128"): ("true", _READ_THEN_WRITE),
    ("mla", "lds-waves", "ds_write_b128", "ds_read_b128"): (
        "true",
        "`lgkmcnt(8)` before the barrier leaves the last writes in flight, and other waves read "
        "them",
    ),
    ("mla", "lds-waves", "ds_write_b64", "ds_read_b64"): (
        "true",
        "`lgkmcnt(9)` before the barrier leaves the last writes in flight, and other waves read "
        "them",
    ),
    ("mla", "register", "ds_read_b128", "v_mfma_f32_16x16x128_f8f6f4"): ("true", _NO_LGKM),
    ("mla", "register", "ds_read_b128", "v_mfma_f32_16x16x16_bf16"): ("true", _NO_LGKM),
    ("mla", "register", "s_load_dword", "v_mov_b32"): (
        "true",
        "no `lgkmcnt(0)` stands anywhere between the scalar load and its use",
    ),
    ("mla", "register", "s_load_dword", "v_mul_f32"): (
        "true",
        "no `lgkmcnt(0)` stands anywhere between the scalar load and its use",
    ),
    ("pa", "register", "buffer_load_dword", "v_mov_b32"): ("true", _OFF_BY_ONE),
    ("pa", "register", "ds_read_b64", "v_mfma_f32_16x16x32_fp8_fp8"): ("true", _NO_LGKM),
    ("single files", "lds-waves", "ds_read_b64", "ds_write_b64"): ("true", _READ_THEN_WRITE),
    ("single files", "register", "buffer_load_dword", "v_mul_u32_u24"): ("true", _OFF_BY_ONE),
    ("f4gemm", "lds", "ds_read_b32", "buffer_load_dword"): (
        "true",
        "the read is waited for behind the wave's own LDS-DMA into the same bytes; `check` says "
        "the same",
    ),
    ("f4gemm", "lds-waves", "ds_read_b32", "buffer_load_dword"): (
        "true",
        "the same bytes, loaded by another wave; `check` shows wrong numbers (aiter-corpus.md)",
    ),
    ("fmha_v3_bwd", "register", "ds_read_b32", "buffer_store_dword"): (
        "true",
        "the registers are stored right behind `ds_read` and `s_barrier`, with no `lgkmcnt`",
    ),
}

_TAIL = (
    "the last piece of one tile reaches into the next tile of LDS, where other waves' loads follow "
    "with no barrier between"
)
_LOOSE = (
    "the wait before the barrier leaves the operation in flight, and other waves go on behind it"
)

READ |= {
    ("fmha_v3_bwd", "register", "s_load_dword", "s_load_dword"): (
        "harmless",
        "the same address is loaded twice into the same register",
    ),
    ("fmha_v3_fwd", "lds-waves", "ds_read_b64_tr_b8", "buffer_load_dwordx4"): ("true", _LOOSE),
    ("fmha_v3_fwd", "register", "ds_read_b64_tr_b8", "v_mfma_f32_32x32x64_f8f6f4"): (
        "true",
        "`lgkmcnt(8)` in front of the product leaves the eight youngest, which it reads, in flight",
    ),
    ("i8gemm", "lds-waves", "ds_read_b64", "ds_write_b128"): ("true", _READ_THEN_WRITE),
    ("mla", "lds", "ds_read_b128", "buffer_load_dwordx4"): (
        "true",
        "nothing waits for the reads before the wave's own LDS-DMA into the same bytes",
    ),
    ("mla", "lds", "ds_read_b64_tr_b16", "buffer_load_dwordx4"): ("true", _LOOSE),
    ("mla", "lds", "ds_read_b64_tr_b8", "global_load_lds_dwordx4"): ("true", _LOOSE),
    ("mla", "lds-waves", "buffer_load_dword", "buffer_load_dword"): ("true", _TAIL),
    ("mla", "lds-waves", "buffer_load_dwordx4", "buffer_load_dwordx4"): ("true", _TAIL),
    ("mla", "lds-waves", "buffer_load_dwordx4", "ds_read_b64_tr_b16"): (
        "true",
        "the load is waited for behind the barrier, and other waves' bytes of it are read",
    ),
    ("mla", "lds-waves", "ds_read_b32", "ds_write_b32"): ("true", _READ_THEN_WRITE),
    ("mla", "lds-waves", "ds_read_b64", "ds_write_b32"): ("true", _READ_THEN_WRITE),
    ("mla", "lds-waves", "ds_read_b64_tr_b16", "buffer_load_dwordx4"): ("true", _LOOSE),
    ("mla", "lds-waves", "ds_read_b64_tr_b8", "global_load_lds_dwordx4"): ("true", _LOOSE),
    ("mla", "lds-waves", "ds_write_b128", "ds_write_b32"): (
        "true",
        "written twice with waits and no barrier between: which wave's data stay is open",
    ),
    ("mla", "lds-waves", "ds_write_b32", "ds_read_b128"): ("true", _LOOSE),
    ("mla", "register", "ds_read_b128", "v_mfma_f32_16x16x32_fp8_fp8"): ("true", _NO_LGKM),
    ("mla_v4", "register", "buffer_load_dword", "v_mov_b32"): ("true", _OFF_BY_ONE),
}

_COUNTS = "every `vmcnt` on the way leaves more entries than were issued behind the load"

READ |= {
    ("fmha_v3_fwd", "lds-waves", "ds_read_b128", "buffer_load_dwordx4"): ("true", _READ_THEN_DMA),
    ("fmha_v3_fwd", "lds-waves", "ds_read_b64_tr_b16", "buffer_load_dwordx4"): ("true", _LOOSE),
    ("fmoe", "register", "buffer_load_dword", "v_mul_f32"): ("true", _COUNTS),
    ("fmoe", "register", "buffer_load_dwordx4", "v_lshlrev_b32"): ("true", _COUNTS),
    ("fmoe", "register", "buffer_load_dwordx4", "v_mfma_f32_16x16x32_fp8_fp8"): ("true", _COUNTS),
    ("mla", "lds", "ds_read_b128", "global_load_lds_dwordx4"): ("true", _LOOSE),
    ("mla", "lds-waves", "ds_read_b32", "ds_write_b64"): ("true", _READ_THEN_WRITE),
    ("single files", "lds-waves", "ds_read_b32", "ds_write_b64"): ("true", _READ_THEN_WRITE),
}

READ |= {
    ("single files", "register", "ds_read_b32", "global_atomic_pk_add_bf16"): ("true", _NO_LGKM),
    ("single files", "register", "buffer_load_dword", "v_lshrrev_b32"): (
        "true",
        "no wait at all stands between the load and the temporary that overwrites its register",
    ),
}

READ |= {
    ("f4gemm", "lds-waves", "ds_read_b128", "buffer_load_dwordx4"): (
        "true",
        "`lgkmcnt(5)` before the barrier leaves the last reads, which are waited for behind it; "
        "`check` shows wrong numbers (aiter-corpus.md)",
    ),
    ("fmha_v4_fwd", "lds-waves", "ds_read_b64", "buffer_load_dwordx4"): ("true", _READ_THEN_DMA),
    ("fmha_v4_fwd", "lds-waves", "ds_read_b64_tr_b4", "buffer_load_dwordx4"): (
        "true",
        _READ_THEN_DMA,
    ),
    ("fmha_v4_fwd", "lds-waves", "ds_read_b64_tr_b8", "buffer_load_dwordx4"): (
        "true",
        _READ_THEN_DMA,
    ),
    ("fmha_v4_fwd", "register", "ds_read_b64_tr_b4", "v_mfma_scale_f32_32x32x64_f8f6f4"): (
        "true",
        "six reads, then `lgkmcnt(6)` and `lgkmcnt(8)`: all six are in flight at the product",
    ),
    ("fmha_v4_fwd", "register", "ds_read_b64_tr_b8", "v_mfma_f32_32x32x64_f8f6f4"): (
        "true",
        "five reads behind it, and `lgkmcnt(6)` at the product",
    ),
    ("mla", "lds-waves", "ds_read_b64_tr_b8", "buffer_load_dwordx4"): ("true", _READ_THEN_DMA),
    ("mla", "lds-waves", "ds_write_b32", "ds_read_b32"): (
        "true",
        "written by all waves, `lgkmcnt(0)`, read by others: no barrier between",
    ),
    ("mla", "lds-waves", "ds_write_b64", "ds_read_b128"): ("true", _LOOSE),
    ("single files", "lds-waves", "ds_read_b32", "ds_write_b32"): ("true", _READ_THEN_WRITE),
}

WORST: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "gfx942/fmha_v3_bwd/bwd_hd192_dq_convert_fp16_group: stored before it is read",
        (
            "0x304 ds_read_b32 v20, v26",
            "0x30c ds_read_b32 v21, v27",
            "0x314 s_barrier",
            "0x330 buffer_store_dword v20, v7, s[16:19], 0",
        ),
        "No `lgkmcnt` stands between. A dozen instructions and the barrier are all that lets the "
        "data come back.",
    ),
    (
        "gfx942/mla/mla_a8w8_qh16_qseqlen4_gqaratio16_ps: scales used without a wait",
        (
            "0x22c s_load_dword s96, s[92:93], 0x0",
            "0x6d4 s_waitcnt vmcnt(0)",
            "0x790 v_mov_b32 v20, s96",
        ),
        "Scalar loads need `lgkmcnt(0)`; there is none on the way. vmcnt says nothing about them.",
    ),
    (
        "gfx942/fmoe/silu/fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_16x256: the form before "
        "#4995",
        (
            "0x1258 ds_write_b128 v52, v[128:131]",
            "0x12f8 s_waitcnt vmcnt(16)",
            "0x1338 ds_read_b128 a[144:147], v2 offset:5248",
        ),
        "All waves write, all waves read what the others wrote, and there is neither `lgkmcnt` "
        "nor barrier. "
        "With it a model's accuracy fell from 0.95 to 0 (issue #4995).",
    ),
    (
        "gfx942/mla/mla_dec_stage1_bf16_a16w16_subQ16_mqa16: the wait before the barrier is too "
        "loose",
        (
            "0x2f70 ds_write_b128 v20, v[240:243] offset:1024",
            "0x3008 s_waitcnt lgkmcnt(8)",
            "0x300c s_barrier",
            "0x3098 ds_read_b128 a[104:107], v22 offset:512",
        ),
        "Seven entries lie behind the write, so `lgkmcnt(8)` does not cover it. Other waves read "
        "it behind the barrier.",
    ),
    (
        "gfx942/pa/pa_fp16_noquant_gqa8_1tg_4w: off by one",
        (
            "0xb70 buffer_load_dword v16, v1, s[24:27], 0",
            "      (23 loads)",
            "0x132c s_waitcnt vmcnt(24)",
            "0x1580 v_mov_b32 v38, v16",
        ),
        "23 loads were issued behind it: `vmcnt(23)` would cover it, `vmcnt(24)` does not. The "
        "same in "
        "mla_a16w16_qh16_m32x4_n16x1_coex0_mask1 (18 behind, `vmcnt(19)`) and "
        "..._qh64_qseqlen1_..._v3_ps (9, `vmcnt(10)`).",
    ),
    (
        "gfx950/pa/pa_bf16_pertokenInt8_gqa8_1tg_4w_mtp_msk0: fragments without a wait",
        (
            "0xacf0 ds_read_b64 v[144:145], v12 offset:29184",
            "0xad30 s_waitcnt vmcnt(15)",
            "0xae14 v_mfma_i32_16x16x32_i8 v[200:203], a[64:65], v[144:145], 0",
        ),
        "16 MFMAs lie between, and no `lgkmcnt`. 96 such reads in this kernel.",
    ),
    (
        "gfx942/mla/mla_a8w8_qh16_qseqlen4_gqaratio16_ps: LDS-DMA over bytes that are still "
        "being read",
        (
            "0x6dc ds_read_b128 a[0:3], v29",
            "0x7f8 s_waitcnt vmcnt(0)",
            "0x818 buffer_load_dword v18, s[20:23], 0 lds",
        ),
        "The wave's own reads are not waited for, and the other waves' are not either.",
    ),
    (
        "gfx942/fmoe/gelu/fmoe_bf16_pertokenFp8_g1u1_vs_gelu_1tg_32x320: added to memory before "
        "it is read",
        (
            "0x2b40 ds_read_b32 v73, v4 offset:31744",
            "0x3504 global_atomic_pk_add_bf16 v88, v73, s[8:9] offset:256",
        ),
        "Only `vmcnt` waits lie between. The atomics stand under `s_setvskip`.",
    ),
    (
        "gfx942/fmoe_2stages/fmoe_stage1_bf16_pertokenFp8_g1u1_32x256_2tg_pf3: one buffer, used "
        "twice",
        (
            "0x311c ds_read_b32 v48, v21",
            "0x319c s_waitcnt lgkmcnt(0)",
            "0x3330 ds_write_b64 v20, v[50:51]",
        ),
        "The second half of the results goes through the same bytes of LDS with no barrier "
        "behind the reads of the first. "
        "All kernels of the family have it.",
    ),
    (
        "gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_192x256: the next stage over this one",
        (
            "0x109c ds_read_b32 v173, v188 offset:1280",
            "0x10a4 s_barrier",
            "0x10a8 s_waitcnt lgkmcnt(5)",
            "0x1120 buffer_load_dword v187, s[20:23], 0 lds",
        ),
        "The read is the youngest entry: neither the barrier nor `lgkmcnt(5)` covers it. Held "
        "back as "
        "long as the waits allow, it gives thousands of wrong numbers (aiter-corpus.md).",
    ),
)

PAIRS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "AITER #3633 (f1077c48c7)",
        "gfx950/fmha_v3_fwd/fwd_hd192_hd128_bf16, _causal, _group, _causal_group",
        "scan",
        "32 possible register (reads with 15 and more entries behind them), 2 definite and 4 "
        "possible lds, in each",
        "no register, no lds",
    ),
    (
        "",
        "the first, 128 queries, 1024 keys (examples/aiter_fmha_forward.json)",
        "check",
        "4 register findings, 32 pairs, from 447 cycles on; 14 war",
        "no register; the same 14 war",
    ),
    (
        "AITER #1926 (f58c21f6e3)",
        "gfx950/mla/mla_a8w8_qh64_qseqlen4_gqaratio16, _ps",
        "scan",
        "105 possible lds, 143 possible lds-waves, among them 48 of LDS-DMA and `ds_read_b128`; 14 "
        "definite lds-waves",
        "54 possible lds, 72 possible lds-waves, none of LDS-DMA and `ds_read_b128`; the same 14 "
        "definite",
    ),
    (
        "",
        "the first, 970 keys (evidence/aiter_corpus/mla.py)",
        "check",
        "5 raw findings, 100 pairs; 23 war, 13 register",
        "no raw; 21 war, 13 register",
    ),
    (
        "Triton #11696 (3.8.0 to 3.9.0)",
        "fp32 GEMM 128x128x64, 8 warps, 2 stages, gfx942",
        "scan",
        "1 definite and 1 possible lds-waves: the waves that are one barrier behind may still be "
        "reading",
        "nothing",
    ),
    ("", "examples/triton_matmul.py", "check", "5 war findings, 192 pairs", "PROVED"),
    (
        "Modular's ping-pong",
        "`pipeloom emit ping_pong --tile bf16 --allow-timing`, `--sync reference` and `--sync "
        "repaired --reorder`",
        "scan",
        "2 definite and 2 possible lds, 2 definite lds-waves",
        "nothing",
    ),
    ("", "the same", "check", "8 war findings, 48 pairs", "PROVED"),
    (
        "AITER #4995",
        "gfx942/fmoe/silu/fmoe_bf16_a16_blockscaleFp8_g1u1_vs_silu_1tg_16x256, _ps (the old form)",
        "scan",
        "4 definite lds-waves of the kind that was fixed (`ds_write_b128`, then `ds_read_b128` "
        "by others)",
        "not in the repository",
    ),
)
PAIRS_NOTE = (
    "What is left of #1926 in the scan are paths that no launch takes: the loop is left after any "
    "of four trips, and a branch on the remainder of the number of keys leads to one of four "
    "tails. The scan follows every exit into every tail. The 14 definite ones are pairs that the "
    "fix does not touch; `check` has war findings after it, too."
)
