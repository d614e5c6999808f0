"""Kernel families beside published figures: the model of the whole GPU and its mean error.

    python -m evidence.family_figures --write      # evidence/family-figures.md

Products are the best plan of the tuner, blocks at their bounds and what derived ones usually lose
(``evidence.gemm_model``), with no constant fitted to any figure of this page; where a source says
which tile ran, the model of that tile stands beside it. A convolution is the product of its
matrices: its loads go elsewhere, its loop is the same. Routed experts are two batched products and
a sum over slots, with equal rows for every expert that has any. Attention is the emitted loop on
all compute units (``evidence.attention_tflops``), decode what its bytes take; their cycles are
those of docs/attention.md and docs/decode.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import ceil
from pathlib import Path

from evidence import attention_tflops
from evidence.evidence_page import Table, write_page
from evidence.gemm_model import USUAL_ENDS, USUAL_LOSS, USUAL_ROOM, usual_costs
from evidence.published_families import (
    BACKWARD,
    CHIP,
    DECODES,
    EXPERTS,
    INT4,
    PRODUCTS,
    UNMODELLED,
    Backward,
    Decode,
    Figure,
    Layer,
)
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.declare.kernels import gemm_weights
from pipeloom.judge.simulate.whole_gpu import (
    PARTIAL_BYTES,
    Block,
    BlockCost,
    Plan,
    Prediction,
    predict,
    traffic,
)
from pipeloom.machine.gpus import Gpu, gpu_for
from pipeloom.order.node_tasks import lower
from pipeloom.tuning.candidates import block_spec, least_cost, lowered
from pipeloom.tuning.ranking import LIBRARIES, SPLITS, rank

PAGE = Path(__file__).with_name("family-figures.md")
DECODE_PAGE = Path(__file__).parents[1] / "docs" / "decode.md"
SLOWER = -0.1
"""An error below which the row says why."""
GPU = gpu_for(CHIP)
HBM = GPU.hbm_gb_per_s.value * GPU.memory.hbm_share.value
ANOTHER_US = GPU.start_us.value + GPU.gap_us.value
"""Microseconds that one more kernel takes."""
TWICE = "7 products where theirs are 5: causal, our kernel with 5 takes too many registers"
ENDS = "start and end of blocks, and dQ in f32, which is set to 0 before and converted after"
DQ_BYTES = 10
"""Of an element of dQ that is added up in f32: zeros, and once more when it is rounded."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure, what ours comes to, and, where it is known, what the plan that ran comes to."""

    family: str
    what: str
    ours: float
    published: float
    limit: str
    source: str
    ran: float | None = None
    reason: str = ""
    unit: str = ""

    @property
    def modelled(self) -> float:
        """What the model says of what was measured, as far as that is known."""
        return self.ours if self.ran is None else self.ran

    @property
    def error(self) -> float:
        """Of the model, relative, with its sign."""
        return self.modelled / self.published - 1

    @property
    def faster(self) -> float:
        """Ours beside the published one."""
        return self.ours / self.published - 1


def why(prediction: Prediction, microseconds: float) -> str:
    """What takes most of the time of ours, and how much."""
    apart = dict(prediction.parts)
    outside = apart["launch"] + apart["start and end of tiles"]
    most, us = max(list(apart.items())[1:], key=lambda part: part[1])
    name, us = ("launch, start and end of tiles", outside) if outside > us else (most, us)
    return f"{name}: {us:.1f} us, where the published one takes {microseconds:.1f} in all"


def products(figures: Sequence[Figure] = PRODUCTS) -> list[Compared]:
    """By the model of the whole GPU."""
    costs = {d: usual_costs(GPU.arch, d) for d in sorted({f.problem.dtype for f in figures})}
    found = []
    for figure in figures:
        problem, tile = figure.problem, figure.ran
        gpu = GPU if tile is None else launched_again(problem)
        best = rank(gpu, problem, costs[problem.dtype], LIBRARIES)[0].prediction
        ours, ran = best.tflops, None
        if tile is not None:
            cost = block_cost(problem.dtype, tile)
            ours, ran = best.in_stream, predict(gpu, problem, Plan(tile), cost).in_stream
        found.append(
            Compared(
                figure.family,
                figure.what or f"{problem} {problem.dtype}",
                ours,
                figure.tflops,
                best.limit,
                figure.source,
                ran,
                why(best, problem.flops / figure.tflops * 1e-6),
            )
        )
    return found


def launched_again(problem: GemmProblem) -> Gpu:
    """The GPU as a benchmark has it that launches one product again and again.

    Where B and its share of A fit an XCD's L2, they are there from the launch before.
    """
    of_a, of_b = problem.in_bytes
    share = problem.m / GPU.target.xcds.value * of_a + problem.n * of_b
    if share * problem.k > GPU.target.l2_mib_per_xcd.value * 2**20:
        return GPU
    nothing = {
        name: replace(getattr(GPU.memory, name), value=0.0) for name in ("mall_ns", "hbm_ns")
    }
    return replace(GPU, memory=replace(GPU.memory, **nothing))


@cache
def block_cost(dtype: str, block: Block) -> BlockCost:
    """What a block costs that has two tiles along K in LDS, and computes both in a trip."""
    job = block_spec(GPU.arch, dtype, block)
    staged = 2 * (block.m + block.n) * job.element.bytes(block.k)
    cost = least_cost(lowered(job), block, int(staged))
    return replace(_usual(cost), least=2, step=2, resident=cost.resident)


def _usual(cost: BlockCost) -> BlockCost:
    fits = max(1, cost.resident // USUAL_ROOM)
    return replace(cost, cycles=cost.cycles * USUAL_LOSS, ends=USUAL_ENDS, resident=fits)


@dataclass(frozen=True, slots=True)
class SmallWeights(GemmProblem):
    """B of 4 bits, with a scale of 16 bits for 32 of K."""

    @property
    def in_bytes(self) -> tuple[float, float]:
        """Of A, and of B."""
        return 2.0, 0.5 + 2 / 32


@cache
def small_weight_costs() -> Mapping[Block, BlockCost]:
    """Of blocks of 16 rows: integers become bf16 between the loads and the products."""
    found = {}
    for n, k in product((64, 128), (64, 128, 256)):
        loop = gemm_weights(16, n, k, "i4", group=32, scales="bf16")
        block = Block(16, n, k, 1, 4)
        waves = {"m": block.waves_m, "n": block.waves_n}
        tasks = lower(loop.meaning, GPU.target, loop.ops, loop.staged, waves)
        found[block] = _usual(least_cost(tasks, block, 2 * (16 * 2 * k + n * k // 2)))
    return found


def stage(problem: GemmProblem) -> tuple[Prediction, float]:
    """The best plan of one stage, and the bytes that it moves from HBM."""
    if not isinstance(problem, SmallWeights):
        best = rank(GPU, problem, usual_costs(GPU.arch, problem.dtype), LIBRARIES)[0]
        return best.prediction, traffic(GPU, problem, best.plan).hbm
    each = [
        (predict(GPU, problem, plan, cost), plan)
        for block, cost in small_weight_costs().items()
        for plan in (Plan(block, split) for split in SPLITS)
    ]
    guess, plan = min(each, key=lambda one: one[0].seconds)
    return guess, traffic(GPU, problem, plan).hbm


def experts(layers: Sequence[Layer] = EXPERTS) -> list[Compared]:
    """Both stages, one behind the other, and the sum over the slots of a token."""
    found = []
    for layer in layers:
        model, tokens = layer.model, layer.tokens
        busy, rows = model.rows(tokens)
        sizes = (2 * model.inner, model.hidden), (model.hidden, model.inner)
        small = layer.dtype == INT4
        problems = [
            SmallWeights(rows, n, k, batches=busy)
            if small
            else GemmProblem(rows, n, k, layer.dtype, batches=busy)
            for n, k in sizes
        ]
        (first, second), moved = zip(*map(stage, problems), strict=True)
        summed = (model.chosen + 1) * tokens * model.hidden * 2 / HBM * 1e-3
        ours = (first.seconds + second.seconds) * 1e6 + summed + 2 * GPU.gap_us.value
        flops = 6 * tokens * model.chosen * model.hidden * model.inner
        longest = max(first, second, key=lambda guess: guess.seconds)
        rate = sum(moved) / layer.microseconds * 1e-6
        reason = (
            f"if tokens chose evenly, the published one would read {rate:.1f} TB/s from HBM, which"
            f" gives {GPU.hbm_gb_per_s.value / 1000:.0f} at its peak"
            if rate > HBM / 1000
            else why(longest, layer.microseconds)
        )
        what = f"{tokens} tokens, {model.experts} experts, {model.hidden}, {model.inner}"
        family = "routed experts, int4 weights" if small else "routed experts"
        figures = flops / ours * 1e-6, flops / layer.microseconds * 1e-6
        found.append(
            Compared(
                family,
                f"{what} {layer.dtype}",
                *figures,
                longest.limit,
                layer.source,
                reason=reason,
            )
        )
    return found


def attention(page: str) -> list[Compared]:
    """From the cycles that docs/attention.md states, which ``attention_tflops`` writes there."""
    found = []
    for one in attention_tflops.PUBLISHED:
        for mask, block in forward_blocks(page).items():
            figure = one.full if mask == "full" else one.causal
            if figure is not None:
                ours, _ = attention_tflops.tflops(one, block, causal=mask == "causal")
                what = f"{one.batch}, {one.heads}, {one.length} {mask}"
                found.append(
                    Compared("attention forward", what, ours, figure, "matrix unit", one.kernel)
                )
    return found


def forward_blocks(page: str) -> dict[str, attention_tflops.Block]:
    """By mask, as docs/attention.md states them."""
    numbers = re.search(
        r"loop: (\d+) cycles per tile and (\d+) per block; causal (\d+) per plain tile,\n"
        r"(\d+) per masked one and (\d+) per block",
        page,
    )
    if numbers is None:
        raise SystemExit("docs/attention.md states no cycles: python -m evidence.attention_tflops")
    plain, fixed, causal_plain, masked, causal_fixed = map(float, numbers.groups())
    return {
        "full": attention_tflops.Block(fixed, plain, plain),
        "causal": attention_tflops.Block(causal_fixed, causal_plain, masked),
    }


def backward(page: str, figures: Sequence[Backward] = BACKWARD) -> list[Compared]:
    """Both phases of docs/attention.md; a block has the ends of one of the forward pass."""
    rows = re.findall(
        r"`attention_backward_(\w+)`, d = 128 \| (\d+), \d+ \| (\d+) \|", page
    )  # of each phase: which, rows of a block, cycles per tile of 32
    phases = {name: (int(block), float(cycles)) for name, block, cycles in rows}
    if phases.keys() != {"keys", "queries", "added"}:
        raise SystemExit("docs/attention.md states no cycles of the backward pass")
    ends, target = forward_blocks(page)["full"].fixed, GPU.target
    clock = target.clock_sustained_ghz.value
    found = []
    added = phases.pop("added")

    def blocks(one: Backward, block: int, cycles: float, heads: int, tiles: int) -> float:
        """Cycles until all blocks of a kernel have ended, each of which takes so many tiles."""
        count = one.length // block
        lengths = [tiles] * count
        if one.causal:
            lengths = [tiles * (n + 1) // count for n in reversed(range(count))]
        each = [ends + n * cycles for n in lengths for _ in range(heads)]
        return attention_tflops.finished(each, target.cus.value, target.xcds.value)

    for one in figures:
        heads, tiles = one.batch * one.heads, one.length // attention_tflops.BACKWARD_TILE
        total = sum(blocks(one, *phase, heads, tiles) for phase in phases.values())
        delta = 2 * heads * one.length * 128 * 2 / HBM * 1e-3  # O and dO, by row
        microseconds = total / clock * 1e-3 + delta + 2 * ANOTHER_US
        if not one.causal:  # a group's queries follow each other
            total = blocks(one, *added, heads // one.group, tiles * one.group)
            sums = heads * one.length * 128 * DQ_BYTES / HBM * 1e-3
            microseconds = min(microseconds, total / clock * 1e-3 + delta + sums + 3 * ANOTHER_US)
        flops = 10 * heads * one.length**2 * 128 / (2 if one.causal else 1)
        mask = "causal" if one.causal else "full"
        what = f"{one.batch}, {one.heads}/{one.heads // one.group}, {one.length} {mask}"
        ours = flops / microseconds * 1e-6
        found.append(
            Compared(
                "attention backward",
                what,
                ours,
                one.tflops,
                "matrix unit",
                one.source,
                reason=TWICE if one.causal else ENDS,
            )
        )
    return found


def decode(page: str, figures: Sequence[Decode] = DECODES) -> list[Compared]:
    """Bytes of keys and values at what HBM gives, and a second kernel that adds up splits."""
    alone = re.search(r"\| d = 128 \| (\d+) \| \d+ \| \d+ \| (\d+) \|", page)
    if alone is None:
        raise SystemExit("docs/decode.md states no cycles of one workgroup alone")
    tile, cycles = map(float, alone.groups())
    found = []
    for one in figures:
        read = one.batch * one.keys * one.key_bytes
        ours = read / HBM * 1e-3 + GPU.start_us.value
        parts = one.rows * one.columns * PARTIAL_BYTES * GPU.target.cus.value
        ours += 2 * parts / GPU.memory.mall_gb_per_s.value * 1e-3 + ANOTHER_US
        ran = None
        if not one.splits:
            clock = GPU.clock_peak_ghz.value
            ran = ceil(one.keys / tile) * cycles / clock * 1e-3 + GPU.start_us.value
        rates = read / ours * 1e-6, read / one.microseconds * 1e-6
        limit = "HBM bandwidth"
        slow = None if ran is None else read / ran * 1e-6
        found.append(Compared("decode", one.what, *rates, limit, one.source, slow, limit, " TB/s"))
    return found


def page(compared: Sequence[Compared]) -> str:
    """All of it."""
    heads = ("family", "figures", "mean error", "least", "most", "ours, least", "ours, most")
    means = Table(heads, 1)
    for family in dict.fromkeys(one.family for one in compared):
        mine = [one for one in compared if one.family == family]
        errors = sorted(one.error for one in mine)
        faster = sorted(one.faster for one in mine)
        mean = sum(map(abs, errors)) / len(errors)
        ends = errors[0], errors[-1], faster[0], faster[-1]
        means.rows.append((family, str(len(mine)), f"{mean:.1%}", *(f"{e:+.0%}" for e in ends)))
    every = [abs(one.error) for one in compared]
    each = Table(
        (
            "family",
            "problem",
            "published",
            "as it ran",
            "error",
            "ours",
            "beside published",
            "limit of ours",
            "source",
            "where ours is slower by more than 10 %, why",
        ),
        2,
    )
    for one in compared:
        digits = 1 if one.unit else 0
        shown = f"{one.published:.{digits}f}{one.unit}"
        ran = "" if one.ran is None else f"{one.ran:.{digits}f}"
        ours = f"{one.ours:.{digits}f}", f"{one.faster:+.0%}"
        reason = one.reason if one.faster < SLOWER else ""
        row = one.family, one.what, shown, ran, f"{one.error:+.0%}", *ours, one.limit, one.source
        each.rows.append((*row, reason))
    slower = sum(one.faster < SLOWER for one in compared)
    return "\n".join(
        [
            "# Families beside published figures",
            "",
            "What the model of the whole GPU says of MI355X, beside figures that others measured;"
            " no constant of it was",
            "fitted to these. `python -m evidence.family_figures --write` writes this page, a test"
            " compares.",
            "",
            f"{len(compared)} figures, mean error {sum(every) / len(every):.1%}. Ours is slower by"
            f" more than a tenth in {slower}, whose rows say why.",
            "",
            *means.lines(),
            "",
            "TFLOPS, of decode TB/s. *As it ran* is the model of the tile that the source names,"
            " without slices of K, in a stream of launches",
            "of one product, whose operands are in L2 where they fit; the error is of that, and of"
            " ours where no tile is named. *Ours* is the",
            "best plan of the tuner under the same conditions, or our loop. Products are M x N x"
            " K;",
            "attention is batch, heads, length, d = 128, at 1.5 GHz, and of the backward pass heads"
            " of queries and of keys.",
            "",
            *each.lines(),
            "",
            "- **Convolutions** in bf16 ran tiles of 128x128x128, four waves: of 256 rows and 512"
            " channels 8 workgroups, on 256 compute",
            "  units. Ours has smaller tiles and slices of K. 3-D ones are taken to have as many"
            " results as inputs.",
            "- **Decode** is the memory's time. [decode.md](../docs/decode.md) says which of our"
            " loops reach that rate, and which caches they",
            "  read; ours has the 512 latent columns of MLA at that rate in bf16 only, so those"
            " rows say what one in fp8 could reach.",
            "- **The backward pass** has the cycles of [attention.md](../docs/attention.md) by tile"
            " and the ends of a block of the forward pass;",
            "  masked tiles of causal ones are taken to cost as plain ones. Ours is the faster"
            " of two kernels without atomic sums and of one",
            "  with them, which are taken to pass at 8 bytes per cycle and compute unit, as"
            " stores of a GEMM do. AITER's a32 passes no more",
            "  than 3.4, so a GPU may well not bear this out: nobody measured sums in f32 alone.",
            "- **int4 weights** are bounds of `gemm_weights` with a scale for 32 of K.",
            "",
            "Published, and without a row:",
            "",
            *(f"- {what}: {reason}." for what, reason in UNMODELLED),
            "",
        ]
    )


def main() -> None:
    """Write or print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    docs = attention_tflops.PAGE.read_text("utf-8")
    found = [
        *products(),
        *experts(),
        *attention(docs),
        *backward(docs),
        *decode(DECODE_PAGE.read_text("utf-8")),
    ]
    write_page(PAGE if parser.parse_args().write else None, lambda: page(found))


if __name__ == "__main__":
    main()
