"""How fast the emulator runs: GEMM workgroups, main loop and whole kernel.

    python -m benchmarks.bench_emulate [--seeds 5]

One kernel is written here in assembly (gfx950, 8 waves, LDS-DMA, one LDS buffer): every K tile of
64 is loaded by all waves, awaited, published by a barrier, read into fragments and multiplied. The
others are what ``pipeloom emit`` and Triton write. The rate of the main loop is that of the
instructions by which a deeper problem exceeds a shallower one. Every result is compared with NumPy.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import importlib.util
import platform
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from evidence.emit_cases import Case
from pipeloom.judge.emulate import CodeObject, load_code_object, run_kernel
from pipeloom.write import assemble, assemble_text

TILE = 256
WAVES = 8
MORE_DEPTH = 1024
TARGET_RATE = 100_000
TARGET_GIB = 2


def gemm_assembly(k: int) -> str:
    """C[256,256] f32 = A[256,k] B[256,k]^T in bf16, one workgroup of 8 waves (2 x 4)."""
    row = 2 * k
    body = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_load_dwordx2 s[8:9], s[0:1], 0x10",
        "s_waitcnt lgkmcnt(0)",
        # Descriptors: A in s[12:15], B in s[16:19], C in s[20:23].
        *_descriptor(12, 4, TILE * row),
        *_descriptor(16, 6, TILE * row),
        *_descriptor(20, 8, TILE * TILE * 4),
        "v_and_b32 v1, 63, v0",
        "v_lshrrev_b32 v2, 6, v0",
        "s_nop 4",
        "v_readfirstlane_b32 s24, v2",
        # Global offset of this lane's 16 bytes: row = wave*32 + lane/8, chunk = lane%8.
        "v_lshrrev_b32 v3, 3, v1",
        "v_lshl_add_u32 v3, v2, 5, v3",
        f"v_mul_u32_u24 v3, {row}, v3",
        "v_and_b32 v4, 7, v1",
        "v_lshl_add_u32 v3, v4, 4, v3",
        "s_lshl_b32 s25, s24, 12",
        # Fragment addresses: row = part + lane%16, bytes = (lane/16)*16.
        "v_and_b32 v5, 15, v1",
        "v_lshrrev_b32 v6, 4, v1",
        "v_lshlrev_b32 v7, 7, v5",
        "v_lshl_add_u32 v7, v6, 4, v7",
        "s_lshr_b32 s26, s24, 2",
        "s_and_b32 s27, s24, 3",
        "s_lshl_b32 s28, s26, 14",
        "v_add_u32 v8, s28, v7",
        "s_lshl_b32 s29, s27, 13",
        "s_add_u32 s29, s29, 0x8000",
        "v_add_u32 v9, s29, v7",
        f"s_mov_b32 s30, {k // 64}",
        "s_mov_b32 s31, 0",
    ]
    body += [f"v_accvgpr_write_b32 a{i}, 0" for i in range(128)]
    body.append("loop:")
    for operand, descriptor in ((0, 12), (1, 16)):
        for j in range(4):
            body.append(f"s_add_u32 m0, s25, {operand * 0x8000 + j * 1024}")
            body.append(f"s_add_u32 s34, s31, {j * 8 * row}")
            body.append(f"buffer_load_dwordx4 v3, s[{descriptor}:{descriptor + 3}], s34 offen lds")
    body += ["s_waitcnt vmcnt(0)", "s_barrier"]
    for kk in range(2):
        for i in range(8):
            at = 32 + 4 * (kk * 8 + i)
            body.append(f"ds_read_b128 v[{at}:{at + 3}], v8 offset:{i * 2048 + kk * 64}")
        for j in range(4):
            at = 96 + 4 * (kk * 4 + j)
            body.append(f"ds_read_b128 v[{at}:{at + 3}], v9 offset:{j * 2048 + kk * 64}")
    body.append("s_waitcnt lgkmcnt(0)")
    for kk in range(2):
        for i in range(8):
            for j in range(4):
                a, b, d = 32 + 4 * (kk * 8 + i), 96 + 4 * (kk * 4 + j), 4 * (i * 4 + j)
                body.append(
                    f"v_mfma_f32_16x16x32_bf16 a[{d}:{d + 3}], v[{a}:{a + 3}], "
                    f"v[{b}:{b + 3}], a[{d}:{d + 3}]"
                )
    body += [
        "s_barrier",
        "s_add_u32 s31, s31, 128",
        "s_sub_u32 s30, s30, 1",
        "s_cmp_lg_u32 s30, 0",
        "s_cbranch_scc1 loop",
        # C offset of this lane: row = wm*128 + (lane/16)*4, column = wn*64 + lane%16.
        "v_lshlrev_b32 v10, 12, v6",
        "v_lshl_add_u32 v10, v5, 2, v10",
        "s_lshl_b32 s35, s26, 17",
        "s_lshl_b32 s36, s27, 8",
        "s_add_u32 s35, s35, s36",
        "v_add_u32 v10, s35, v10",
        "s_nop 15",
    ]
    for i in range(8):
        body.append(f"s_mov_b32 s37, {i * 16 * 1024}")
        for j in range(4):
            for r in range(4):
                body.append(
                    f"buffer_store_dword a{4 * (i * 4 + j) + r}, v10, s[20:23], s37 offen "
                    f"offset:{r * 1024 + j * 64}"
                )
    body.append("s_endpgm")
    return KERNEL.format(body="\n  ".join(body))


def _descriptor(at: int, pointer: int, size: int) -> list[str]:
    return [
        f"s_mov_b32 s{at}, s{pointer}",
        f"s_and_b32 s{at + 1}, s{pointer + 1}, 0xffff",
        f"s_mov_b32 s{at + 2}, {size}",
        f"s_mov_b32 s{at + 3}, 0x20000",
    ]


KERNEL = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl gemm
.p2align 8
.type gemm,@function
gemm:
  {body}
.Lend:
.size gemm, .Lend-gemm
.rodata
.p2align 6
.amdhsa_kernel gemm
  .amdhsa_group_segment_fixed_size 65536
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 256
  .amdhsa_next_free_sgpr 48
  .amdhsa_accum_offset 128
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: gemm
    .symbol: gemm.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 65536
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 48
    .vgpr_count: 256
    .max_flat_workgroup_size: 512
    .args:
      - {{.name: a, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}}
      - {{.name: b, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: c, .size: 8, .offset: 16, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


@dataclass(frozen=True)
class Launch:
    """What ``run_kernel`` needs, the array of results, and what it must hold."""

    code: CodeObject
    args: list[Any]
    out: np.ndarray
    wanted: np.ndarray
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A GEMM of one workgroup, by depth; the deeper one only adds turns of the main loop."""

    name: str
    waves: int
    depths: tuple[int, int]
    launch: Callable[[int, int], Launch]
    """From a depth and a seed."""


def bf16(values: np.ndarray) -> np.ndarray:
    """Small integers as bf16 bit patterns (exact)."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _plain(
    tile: tuple[int, int], code: Callable[[int], tuple[CodeObject, list[int]]]
) -> Callable[[int, int], Launch]:
    """C = A B^T; ``code`` gives the arguments behind C, too."""

    def launch(k: int, seed: int) -> Launch:
        loaded, numbers = code(k)
        rng = np.random.default_rng(seed)
        a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float32) for rows in tile)
        out = np.zeros(tile, np.float32)
        return Launch(loaded, [bf16(a), bf16(b), out, *numbers], out, a @ b.T)

    return launch


def _emitted(case: Case) -> Subject:
    emitted = case.emit()
    code = load_code_object(assemble(emitted).data)
    m, n = case.shape[:2]
    short = emitted.k_min + emitted.k_step
    deep = short + -(-MORE_DEPTH // emitted.k_step) * emitted.k_step

    def numbers(k: int) -> tuple[CodeObject, list[int]]:
        sizes = {"m": m, "n": n, "k": k, "ld_A": k, "ld_B": k, "ld_out": n}
        return code, [sizes[one.name] for one in emitted.arguments if one.name in sizes]

    launch = _plain((m, n), numbers)
    name = f"{case.schedule} {m}x{n}, {case.target}"
    return Subject(name, emitted.waves, (short, deep), launch)


def _triton(arch: str) -> Callable[[int, int], Launch]:
    from evidence.triton_corpus.harness import build
    from evidence.triton_corpus.matmul import _gemm

    tile = (128, 128, 64)
    built = build(_gemm("bf16", tile, tile, layout="nt", stages=3, warps=8, side=16), arch)

    def launch(k: int, seed: int) -> Launch:
        case = _gemm("bf16", tile, (128, 128, k), layout="nt", stages=3, warps=8, side=16)
        trial = case.prepare(np.random.default_rng(seed))
        (result,) = trial.expected
        out = trial.args[result.position]
        args = [*trial.args, None, None]
        return Launch(built.code, args, out, result.wanted, {"dynamic_lds": built.lds})

    return launch


def subjects() -> list[Subject]:
    """Hand-written, emitted, and compiled where Triton is installed."""
    by_depth: dict[int, CodeObject] = {}

    def hand_written(k: int) -> tuple[CodeObject, list[int]]:
        if k not in by_depth:
            by_depth[k] = load_code_object(assemble_text(gemm_assembly(k), "gfx950"))
        return by_depth[k], []

    tile = (TILE, TILE)
    rows = [
        Subject(
            "hand-written 256x256, gfx950",
            WAVES,
            (256, 256 + MORE_DEPTH),
            _plain(tile, hand_written),
        )
    ]
    for schedule, target, shape in (
        ("ping_pong", "gfx950", (256, 256, 64, 16, 32)),
        ("four_wave", "gfx950", (256, 256, 64, 16, 32)),
        ("gemm_tile", "gfx950", (128, 256, 64, 32, 16)),
        ("gemm_tile_ping_pong", "gfx942", (128, 128, 32, 16, 16)),
    ):
        rows.append(_emitted(Case(schedule, target, "bf16", shape, out="f32")))
    if importlib.util.find_spec("triton") is not None:
        for arch in ("gfx942", "gfx950"):
            rows.append(
                Subject(f"Triton 128x128, {arch}", 8, (512, 512 + MORE_DEPTH), _triton(arch))
            )
    return rows


def run(subject: Subject, depth: int, seed: int) -> tuple[float, int]:
    """(CPU seconds, instructions) of one run, whose result must be right."""
    launch = subject.launch(depth, seed)
    block = (64 * subject.waves,)
    start = time.process_time()
    result = run_kernel(
        launch.code, grid=(1,), block=block, args=launch.args, seed=seed, **launch.options
    )
    seconds = time.process_time() - start
    if not result.ok or not np.array_equal(launch.out, launch.wanted):
        raise SystemExit(f"{subject.name}: WRONG RESULT {result.findings[:3]}")
    return seconds, result.executed


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the emulator on GEMM workgroups.")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--seeds", type=int, default=5, help="runs, each with its own timing")
    options = parser.parse_args()
    print(
        f"machine: {platform.processor() or platform.machine()}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}; CPU time of one core"
    )
    print(f"wave-instructions per second, slowest and median of {options.seeds} seeds")
    print(f"{'kernel':<36}{'main loop':>20}{'whole kernel':>20}")
    slowest = float("inf")
    for subject in subjects():
        if options.only not in subject.name:
            continue
        short, deep = subject.depths
        run(subject, short, 0)
        loop, whole = [], []
        for seed in range(options.seeds):
            few = min(run(subject, short, seed) for _ in range(2))
            many = min(run(subject, deep, seed) for _ in range(2))
            loop.append((many[1] - few[1]) / (many[0] - few[0]))
            whole.append(many[1] / many[0])
        slowest = min(slowest, median(loop))
        cells = "".join(f"{min(rates):>10,.0f}{median(rates):>10,.0f}" for rates in (loop, whole))
        print(f"{subject.name:<36}{cells}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    met = slowest >= TARGET_RATE and peak < TARGET_GIB
    print(
        f"peak memory {peak:.2f} GiB; target {TARGET_RATE:,} in every main loop (median) and "
        f"{TARGET_GIB} GiB: {'met' if met else 'MISSED'}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
