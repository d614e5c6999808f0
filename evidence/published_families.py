"""Published figures of kernel families on MI355X, as data: sizes, figures, sources, what ran.

Those of convolutions ran ``amd_4wave_conv`` of modular/modular, whose tiles are in its launcher:
128x128x128 in four waves, in fp8 64x64x128 up to 512 rows, in three dimensions 64 or 32 along K.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.judge.simulate.whole_gpu import Block

CHIP = "MI355X"


@dataclass(frozen=True, slots=True)
class Figure:
    """TFLOPS of a product of such sizes, and the block that ran, where that is known."""

    family: str
    problem: GemmProblem
    tflops: float
    source: str
    what: str = ""
    ran: Block | None = None


def _timed(problem: GemmProblem, microseconds: float) -> float:
    return problem.flops / microseconds * 1e-6


_AITER = "ROCm/aiter@e404860 a4w4_blockscale_tuned_gemm.csv"
_CONV = "modular/modular@20ef20d68b"
_LARGE = (GemmProblem(16384, 8192, 28672, "mxfp4"), GemmProblem(16384, 9216, 7168, "mxfp4"))
_SKINNY = (GemmProblem(64, 16384, 53248, "mxfp4"), GemmProblem(16, 7168, 4608, "mxfp4"))
_CONVOLUTIONS = (
    # M, F, K, convolution in bf16, in fp8, fp8 product of the matrices; of the same kernels
    (4096, 128, 512, 60.1, 79.3, 80.6),
    (2048, 256, 1024, 77.8, 120.6, 123.6),
    (256, 512, 2048, 24.3, 88.0, 88.1),
    (4096, 256, 2304, 171.7, 316.6, 364.1),
    (1024, 512, 4608, 99.6, 188.3, 234.0),
    (512, 512, 4608, 51.0, 193.3, 246.9),
    (1024, 512, 2304, 89.5, 163.5, 187.1),
    (4096, 128, 576, 46.6, 69.1, 76.7),
    (2048, 64, 576, 15.2, 21.5, 25.0),
    (1024, 128, 1152, 16.4, 26.4, 31.7),
)
_DEEP = (
    # image of so many channels, 3x3x3 taps, pad 1: frames, height, width, channels, TFLOPS
    (23, 30, 52, 384, 723.0),
    (19, 240, 416, 96, 545.0),
    (44, 120, 208, 192, 558.0),
)


def _tile(rows: int, dtype: str, deep: int = 128) -> Block:
    side = 64 if dtype == "fp8" and rows <= 512 else 128
    return Block(side, side, deep)


def _flat() -> list[Figure]:
    found = []
    for name, dtype, column in (
        ("convolution, bf16", "bf16", 3),
        ("convolution, fp8", "fp8", 4),
        ("product of im2col, fp8", "fp8", 5),
    ):
        for row in _CONVOLUTIONS:
            m, n, k = row[:3]
            problem = GemmProblem(m, n, k, dtype)
            found.append(Figure(name, problem, row[column], _CONV, ran=_tile(m, dtype)))
    return found


def _volumes() -> list[Figure]:
    found = []
    for frames, height, width, channels, tflops in _DEEP:
        problem = GemmProblem(frames * height * width, channels, 27 * channels)
        what = f"{frames}x{height}x{width}, {channels} to {channels}, 3x3x3"
        tile = _tile(problem.m, "bf16", 32 if channels % 64 else 64)
        found.append(Figure("convolution, 3-D", problem, tflops, _CONV, what, tile))
    return found


PRODUCTS = (
    Figure("mx product", _LARGE[0], 5806, _AITER),
    Figure("mx product", _LARGE[1], 4797, _AITER),
    Figure("mx product, few rows", _SKINNY[0], _timed(_SKINNY[0], 96.6), _AITER),
    Figure("mx product, few rows", _SKINNY[1], _timed(_SKINNY[1], 10.4), _AITER),
    *_flat(),
    *_volumes(),
)


@dataclass(frozen=True, slots=True)
class Routed:
    """A model's experts on one GPU: ``shared`` of them see every token, the others some."""

    experts: int
    shared: int
    chosen: int
    hidden: int
    inner: int

    def rows(self, tokens: int) -> tuple[int, int]:
        """Experts that have any row, and rows of each, if tokens choose evenly."""
        routed = self.experts - self.shared
        idle = (1 - (self.chosen - self.shared) / routed) ** tokens
        busy = round(routed * (1 - idle)) + self.shared
        return busy, max(1, round(tokens * self.chosen / busy))


@dataclass(frozen=True, slots=True)
class Layer:
    """Both stages of some experts, for so many tokens, in so many microseconds."""

    model: Routed
    dtype: str
    tokens: int
    microseconds: float
    source: str


_DEEPSEEK, _KIMI = Routed(257, 1, 9, 7168, 256), Routed(385, 1, 9, 7168, 512)
_MINIMAX, _KIMI_WHOLE = Routed(128, 0, 4, 6144, 768), Routed(384, 0, 8, 7168, 256)
_FMOE, _FOUR = "ROCm/aiter@e404860 dsv3_fp4_tuned_fmoe.csv", "ROCm/aiter #3832"
INT4 = "bf16 x int4"
EXPERTS = (
    Layer(_DEEPSEEK, "mxfp4", 1, 18.9, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 16, 65.5, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 128, 142.0, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 1024, 214.0, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 4096, 476.0, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 16384, 1453.0, _FMOE),
    Layer(_DEEPSEEK, "mxfp4", 32768, 2687.0, _FMOE),
    Layer(_KIMI, "mxfp4", 4, 41.0, _FOUR),
    Layer(_KIMI, "mxfp4", 64, 201.0, _FOUR),
    Layer(_KIMI, "mxfp4", 2048, 630.0, _FOUR),
    Layer(_MINIMAX, "mxfp8", 16384, 1770.0, "ROCm/aiter #5462"),
    Layer(_KIMI_WHOLE, INT4, 1, 26.0, "ROCm/aiter@e404860"),
    Layer(_KIMI_WHOLE, INT4, 4, 39.0, "ROCm/aiter@e404860"),
)


@dataclass(frozen=True, slots=True)
class Decode:
    """New tokens of ``batch`` sequences with so many keys of ``key_bytes`` each, K and V."""

    what: str
    batch: int
    keys: int
    key_bytes: int
    rows: int
    columns: int
    """Of the result."""
    microseconds: float
    source: str
    splits: bool = True


_LATENT = 576
_MLA = "modular/modular, ROCm/aiter asm"
DECODES = (
    *(
        Decode(f"MLA fp8, 16 heads, 16 x {keys} keys", 16, keys, _LATENT, 16, 512, us, _MLA)
        for keys, us in ((8192, 32), (32768, 69), (65536, 119), (131072, 216))
    ),
    Decode(
        "pages of 16 in fp8, 16 heads of 1, 4 tokens, 200 x 200000 keys",
        200, 200_000, 256, 64, 128, 2300, "ROCm/aiter #5593",
    ),
    Decode(
        "bf16, one head of keys, 1 x 32768 keys, no splits",
        1, 32768, 512, 16, 128, 169, "ROCm/aiter #4794", splits=False,
    ),
)  # fmt: skip
"""The better of two where a source has both."""


@dataclass(frozen=True, slots=True)
class Backward:
    """TFLOPS of one mask, at d = 128."""

    batch: int
    heads: int
    group: int
    length: int
    causal: bool
    tflops: float
    source: str


def _backward() -> list[Backward]:
    found = []
    for source, group, heads, figures in (
        ("AITER a16", 8, 64, ((8, 2048, 1045, 817), (8, 8192, 1183, 1068), (1, 16384, 1213, 1163))),
        ("AITER a32", 8, 64, ((8, 2048, 765, 630), (8, 8192, 807, 773), (1, 16384, 844, 809))),
        (
            "HipKittens", 8, 64,
            ((16, 2048, 1007, 753), (16, 8192, 1156, 933), (16, 16384, 1176, 995)),
        ),
        (
            "AITER, by HipKittens", 1, 16,
            ((16, 2048, 868, 673), (16, 8192, 1167, 1034), (16, 16384, 1201, 1109)),
        ),
        (
            "HipKittens", 1, 16,
            ((16, 2048, 914, 658), (16, 8192, 1104, 941), (16, 16384, 1119, 1028)),
        ),
    ):  # fmt: skip
        for batch, length, full, causal in figures:
            one = batch, heads, group, length
            found += [Backward(*one, False, full, source), Backward(*one, True, causal, source)]
    return found


BACKWARD = tuple(_backward())
UNMODELLED = (
    ("attention backward on MI300X", "`attention_backward_keys` with d = 128 is refused there"),
    (
        "MLA with 128 heads, prefill MLA in fp8",
        "ours takes 16 rows in a workgroup; more were not tried",
    ),
    ("mxfp8 products of FlyDSL #872", "their sizes are not published"),
    ("fused convolutions", "published as a factor of the plain one"),
)
"""Published figures without a row, and why."""
