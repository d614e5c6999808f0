"""A sample of the Triton corpus: kernels nobody here wrote, against NumPy, without findings.

The whole corpus: ``python -m evidence.emulate_triton``; its results: evidence/emulated-triton.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
pytest.importorskip("triton", reason="the triton wheel is not installed")

from evidence.triton_corpus.corpus import all_cases
from evidence.triton_corpus.harness import Case, build, execute

SAMPLE = {
    "vector add": ["i8, block 1024, 4 warps", "bf16, block 2048, 8 warps, small arrays"],
    "math": ["exp fp64", "sin wide fp64", "gelu fp32", "log1p fp32", "black-scholes fp64"],
    "integers": ["floordiv i64", "mod u8", "umulhi u64", "popcount i32", "shr i16"],
    "float arithmetic": ["div fp64", "max nan fp16", "clamp fp16", "div fp16", "pow fp32"],
    "conversions": ["fp64 to i64", "bf16 to fp8e5", "fp8e4nv to bf16", "fp16 to fp8e4b8",
                    "fp32 to fp16, towards zero", "u32 to fp64"],
    "random numbers": ["dropout fp32"],
    "softmax": ["bf16, 2000 of 2048, 8 warps", "cross entropy fp32"],
    "normalisation": ["layer fp16, 700 by 256"],
    "reductions": ["max i8, 32x64, axis 1, 4 warps", "argmax fp32, 4x1024, axis 1, 8 warps"],
    "scans": ["cumsum fp16, 64x16, axis 0, reverse", "recurrence fp32, 8x128, axis 1"],
    "sort": ["i64, 4x128", "top 8 of 256 fp32"],
    "shapes": ["permute i8", "join fp16"],
    "gather": ["i16, 8x128, axis 1"],
    "histogram": ["64 bins"],
    "atomics": ["add fp64", "add bf16, old value kept", "min i64, old value kept, small arrays",
                "cas spin lock", "max fp32"],
    "convolution": ["3x3, fp32"],
    "GEMM": [
        "fp16, tn, 64x64x32, 4 warps, 2 stages, mfma 16",
        "bf16, nt, 128x128x64, 8 warps, 3 stages, mfma 16",
        "bf16, nt, 64x64x32, 4 warps, 2 stages, ragged, to bf16, small arrays",
        "fp8e4b8 x fp8e5b16, nn, 64x64x64, 4 warps, 2 stages, mfma 32",
        "fp8e5 x fp8e4nv, nt, 64x64x128, 4 warps, 2 stages, mfma 16",
        "i8, nn, 64x64x64, 4 warps, 2 stages, mfma 16",
        "i8, nn, 64x64x64, 4 warps, 2 stages, mfma 32",
        "fp32, nt, 64x64x32, 4 warps, 2 stages, mfma 32, tf32",
        "fp32, nn, 32x32x32, 4 warps, 2 stages, bf16x3",
        "fp64, nn, 32x32x16, 4 warps, 2 stages",
    ],
    "thin GEMM": ["fp16, nn, 64x4x64, 1 warps, 2 stages"],
    "scaled dot": ["e4m3 x e4m3, K 128", "e4m3 x e2m1, K 128", "e4m3 x e5m2, K 256, mfma 32",
                   "bf16 x e2m1, K 128"],
    "split-K GEMM": ["bf16, 4 ways, atomic bf16"],
    "persistent GEMM": ["fp16, 32x64x64, 4 warps, 3 stages, small arrays"],
    "flash attention": ["bf16, D 64, 64x64, 4 warps, causal, mfma 32"],
    "attention backward": ["fp16"],
    "quantised": ["fp16 x int4 GEMM", "rows to fp8e4nv"],
    "control flow": ["collatz i64"],
}  # fmt: skip
ELSEWHERE = {
    "gfx942": [
        "i8, block 1024, 4 warps", "bf16, block 2048, 8 warps, small arrays", "exp fp64",
        "gelu fp32", "log1p fp32", "fp8e4nv to bf16", "dropout fp32",
        "bf16, 2000 of 2048, 8 warps", "join fp16", "3x3, fp32",
        "fp8e5 x fp8e4nv, nt, 64x64x128, 4 warps, 2 stages, mfma 16", "e4m3 x e4m3, K 128",
        "e4m3 x e2m1, K 128",
    ],
    "gfx950": [
        "umulhi u64", "div fp64", "recurrence fp32, 8x128, axis 1", "top 8 of 256 fp32",
        "permute i8", "add bf16, old value kept",
        "fp16, tn, 64x64x32, 4 warps, 2 stages, mfma 16",
        "bf16, nt, 64x64x32, 4 warps, 2 stages, ragged, to bf16, small arrays",
        "fp32, nn, 32x32x32, 4 warps, 2 stages, bf16x3", "e4m3 x e5m2, K 256, mfma 32",
    ],
}  # fmt: skip
"""Left out on a chip: the rest of the sample executes each of their instructions there, too."""
CASES = {(case.family, case.name): case for case in all_cases()}
CHOSEN = [
    (CASES[family, name], arch)
    for family, names in SAMPLE.items()
    for name in names
    for arch in CASES[family, name].archs
    if name not in ELSEWHERE[arch]
]
TIMINGS = ("random", "late")


@pytest.fixture(scope="module", autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    yield
    patch.undo()


def _title(value: Any) -> str:
    return f"{value.family}-{value.name}" if isinstance(value, Case) else str(value)


@pytest.mark.parametrize(("case", "arch"), CHOSEN, ids=_title)
def test_agrees_with_numpy(case: Case, arch: str) -> None:
    """One made for two chips runs with another timing on each."""
    built = build(case, arch)
    seed = case.archs.index(arch)
    for timing in TIMINGS if len(case.archs) == 1 else TIMINGS[seed : seed + 1]:
        verdict = execute(case, built, seed, timing=timing)
        assert verdict.ok, f"seed {seed}, {timing}: {verdict.detail}"


def test_names_in_the_corpus_are_unique() -> None:
    assert len(CASES) == len(all_cases())
