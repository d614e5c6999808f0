"""Kernel families beside published figures: the model of the whole GPU and its mean error.

    python -m evidence.family_figures --write      # evidence/family-figures.md

Products are the best plan of the tuner, blocks at their bounds and what derived ones usually lose
(``evidence.gemm_model``), with no constant fitted to any figure of this page. A convolution is the
product of its matrices: its loads go elsewhere, its loop is the same. Routed experts are two
batched products and a sum over slots, with equal rows for every expert that has any. Attention is
the emitted loop on all compute units (``evidence.attention_tflops``); its cycles are those of
docs/attention.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence import attention_tflops
from evidence.evidence_page import Table, write_page
from evidence.gemm_model import usual_costs
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.machine.gpus import gpu_for
from pipeloom.tuning.ranking import LIBRARIES, rank

PAGE = Path(__file__).with_name("family-figures.md")
CHIP = "MI355X"
SLOWER = -0.1
"""An error below which the page says why."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A published one, of MI355X: TFLOPS of a product of such sizes."""

    family: str
    problem: GemmProblem
    tflops: float
    source: str


def _timed(problem: GemmProblem, microseconds: float) -> float:
    return problem.flops / microseconds * 1e-6


_AITER = "ROCm/aiter@e404860 a4w4_blockscale_tuned_gemm.csv"
_CONV = "modular/modular@20ef20d68b"
_LARGE = (GemmProblem(16384, 8192, 28672, "mxfp4"), GemmProblem(16384, 9216, 7168, "mxfp4"))
_SKINNY = (GemmProblem(64, 16384, 53248, "mxfp4"), GemmProblem(16, 7168, 4608, "mxfp4"))
_CONVOLUTIONS = (
    # M, F, K, bf16 of the convolution, fp8 of the product of its matrices
    (4096, 128, 512, 60.1, 80.6),
    (2048, 256, 1024, 77.8, 123.6),
    (256, 512, 2048, 24.3, 88.1),
    (4096, 256, 2304, 171.7, 364.1),
    (1024, 512, 4608, 99.6, 234.0),
    (512, 512, 4608, 54.4, 246.9),
    (1024, 512, 2304, 89.5, 187.1),
    (4096, 128, 576, 46.6, 76.7),
    (2048, 64, 576, 15.2, 25.0),
    (1024, 128, 1152, 17.7, 31.7),
)
FIGURES = (
    Figure("mx product", _LARGE[0], 5806, _AITER),
    Figure("mx product", _LARGE[1], 4797, _AITER),
    Figure("mx product, few rows", _SKINNY[0], _timed(_SKINNY[0], 96.6), _AITER),
    Figure("mx product, few rows", _SKINNY[1], _timed(_SKINNY[1], 10.4), _AITER),
    *(
        Figure("convolution", GemmProblem(m, n, k, "bf16"), bf16, _CONV)
        for m, n, k, bf16, _ in _CONVOLUTIONS
    ),
    *(
        Figure("product of im2col", GemmProblem(m, n, k, "fp8"), fp8, _CONV)
        for m, n, k, _, fp8 in _CONVOLUTIONS
    ),
)
"""The better of two kernels where a source has both."""


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


_DEEPSEEK, _KIMI = Routed(257, 1, 9, 7168, 256), Routed(385, 1, 9, 7168, 512)
_FMOE = "ROCm/aiter@e404860 dsv3_fp4_tuned_fmoe.csv"
Layer = tuple[Routed, int, float, str]
EXPERTS: Sequence[Layer] = (
    (_DEEPSEEK, 1, 18.9, _FMOE),
    (_DEEPSEEK, 16, 65.5, _FMOE),
    (_DEEPSEEK, 128, 142.0, _FMOE),
    (_DEEPSEEK, 1024, 214.0, _FMOE),
    (_DEEPSEEK, 4096, 476.0, _FMOE),
    (_DEEPSEEK, 16384, 1453.0, _FMOE),
    (_DEEPSEEK, 32768, 2687.0, _FMOE),
    (_KIMI, 4, 41.0, "ROCm/aiter #3832"),
    (_KIMI, 64, 201.0, "ROCm/aiter #3832"),
    (_KIMI, 2048, 630.0, "ROCm/aiter #3832"),
)
"""Experts in mxfp4, tokens, and microseconds of both stages."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure and ours."""

    family: str
    what: str
    tflops: float
    published: float
    limit: str
    source: str

    @property
    def error(self) -> float:
        """Relative, with its sign."""
        return self.tflops / self.published - 1


def products(figures: Sequence[Figure] = FIGURES) -> list[Compared]:
    """By the model of the whole GPU."""
    gpu = gpu_for(CHIP)
    costs = {d: usual_costs(gpu.arch, d) for d in sorted({f.problem.dtype for f in figures})}
    found = []
    for figure in figures:
        problem = figure.problem
        best = rank(gpu, problem, costs[problem.dtype], LIBRARIES)[0].prediction
        what = f"{problem} {problem.dtype}"
        found.append(
            Compared(figure.family, what, best.tflops, figure.tflops, best.limit, figure.source)
        )
    return found


def experts(layers: Sequence[Layer] = EXPERTS) -> list[Compared]:
    """Both stages, one behind the other, and the sum over the slots of a token."""
    gpu = gpu_for(CHIP)
    costs = usual_costs(gpu.arch, "mxfp4")
    hbm = gpu.hbm_gb_per_s.value * gpu.memory.hbm_share.value
    found = []
    for model, tokens, microseconds, source in layers:
        busy, rows = model.rows(tokens)
        stages = [
            rank(gpu, GemmProblem(rows, n, k, "mxfp4", batches=busy), costs, LIBRARIES)[0]
            for n, k in ((2 * model.inner, model.hidden), (model.hidden, model.inner))
        ]
        summed = (model.chosen + 1) * tokens * model.hidden * 2 / hbm * 1e-3
        ours = sum(s.prediction.seconds * 1e6 for s in stages) + summed + 2 * gpu.gap_us.value
        flops = 6 * tokens * model.chosen * model.hidden * model.inner
        longest = max(stages, key=lambda stage: stage.prediction.seconds).prediction
        what = f"{tokens} tokens, {model.experts} experts, {model.hidden}, {model.inner} mxfp4"
        rate = flops / ours * 1e-6
        stated = flops / microseconds * 1e-6
        found.append(Compared("routed experts", what, rate, stated, longest.limit, source))
    return found


def attention(page: str) -> list[Compared]:
    """From the cycles that docs/attention.md states, which ``attention_tflops`` writes there."""
    numbers = re.search(
        r"loop: (\d+) cycles per tile and (\d+) per block; causal (\d+) per plain tile,\n"
        r"(\d+) per masked one and (\d+) per block",
        page,
    )
    if numbers is None:
        raise SystemExit("docs/attention.md states no cycles: python -m evidence.attention_tflops")
    plain, fixed, causal_plain, masked, causal_fixed = map(float, numbers.groups())
    blocks = {
        "full": attention_tflops.Block(fixed, plain, plain),
        "causal": attention_tflops.Block(causal_fixed, causal_plain, masked),
    }
    found = []
    for one in attention_tflops.PUBLISHED:
        for mask, block in blocks.items():
            figure = one.full if mask == "full" else one.causal
            if figure is not None:
                ours, _ = attention_tflops.tflops(one, block, causal=mask == "causal")
                what = f"{one.batch}, {one.heads}, {one.length} {mask}"
                found.append(
                    Compared("attention forward", what, ours, figure, "matrix unit", one.kernel)
                )
    return found


def page(compared: Sequence[Compared]) -> str:
    """All of it."""
    means = Table(("family", "figures", "mean error", "least", "most"), 1)
    for family in dict.fromkeys(one.family for one in compared):
        errors = [one.error for one in compared if one.family == family]
        mean = sum(map(abs, errors)) / len(errors)
        means.rows.append(
            (family, str(len(errors)), f"{mean:.1%}", f"{min(errors):+.0%}", f"{max(errors):+.0%}")
        )
    every = [abs(one.error) for one in compared]
    each = Table(("family", "problem", "model", "published", "error", "limit", "source"), 2)
    for one in compared:
        figures = f"{one.tflops:.0f}", f"{one.published:.0f}", f"{one.error:+.0%}"
        each.rows.append((one.family, one.what, *figures, one.limit, one.source))
    slower = sum(one.error < SLOWER for one in compared)
    return "\n".join(
        [
            "# Families beside published figures",
            "",
            "What the model of the whole GPU says of MI355X, beside figures that others measured;"
            " no constant of it was",
            "fitted to these. `python -m evidence.family_figures --write` writes this page, a test"
            " compares.",
            "",
            f"{len(compared)} figures, mean error {sum(every) / len(every):.1%}. The model is"
            f" slower by more than a tenth in {slower}.",
            "",
            *means.lines(),
            "",
            "TFLOPS. Products are M x N x K; attention is batch, heads, length, d = 128, at 1.5"
            " GHz.",
            "",
            *each.lines(),
            "",
            "Slower than published are products of 4 to 7 us: start of the kernel, start and end of"
            " its tiles take 5.6 us of them in the",
            "model, more than in a loop that launches one product again and again with its operands"
            " in L2. Convolutions ran one shape",
            "of tile without slices of K, where the model takes the best plan. Of few rows, the"
            " smallest block has 32. Of few tokens, each",
            "expert's second product is one iteration of K long, and the model lets no workgroup"
            " start while another ends on its unit.",
            "",
        ]
    )


def main() -> None:
    """Write or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    found = [*products(), *experts(), *attention(attention_tflops.PAGE.read_text("utf-8"))]
    write_page(PAGE if parser.parse_args().write else None, lambda: page(found))


if __name__ == "__main__":
    main()
