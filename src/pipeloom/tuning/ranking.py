"""Plans of a problem, the most promising first, by what their blocks cost at least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec
from pipeloom.judge.simulate.whole_gpu import BlockCost, Plan, Prediction, fastest, predict
from pipeloom.machine.gpus import Gpu


@dataclass(frozen=True, slots=True)
class Ways:
    """How a block may be used: parts of K, and whether an XCD has the best rectangle of C."""

    splits: tuple[int, ...]
    blocked: bool


SPLITS = (1, 2, 3, 4, 6, 8, 16)
WRITTEN = Ways(SPLITS, blocked=False)
"""As our kernels are written: XCDs have blocks as ``TileOrder`` deals them."""
LIBRARIES = Ways(SPLITS, blocked=True)
"""As those are that others published figures of."""
LEAST_ITERATIONS = 4
"""Of a part of K: fewer are not worth a workgroup."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A block with the best way to use it for the problem; ``seconds`` as predicted."""

    job: GemmSpec
    plan: Plan
    prediction: Prediction

    @property
    def order(self) -> tuple[float, int, Plan]:
        """Fastest first; of equals more waves, which reach their bound sooner."""
        return self.prediction.seconds, -self.plan.block.waves, self.plan

    @property
    def waits(self) -> bool:
        """Whether loads set the time of an iteration."""
        return dict(self.prediction.parts)["latency of loads"] > 0


def plans(gpu: Gpu, problem: GemmProblem, job: GemmSpec, ways: Ways) -> Iterator[Plan]:
    """Ways to use a block: K in parts only where compute units would be idle."""
    block, cus = job.block, gpu.target.cus.value
    tiles = ceil(problem.m / block.m) * ceil(problem.n / block.n) * problem.batches
    for split in ways.splits:
        if split > 1 and (
            tiles * (split - 1) >= 2 * cus or problem.k < split * LEAST_ITERATIONS * block.k
        ):
            break
        yield Plan(block, split, ways.blocked)


def best_use(
    gpu: Gpu, problem: GemmProblem, job: GemmSpec, cost: BlockCost, ways: Ways = WRITTEN
) -> Ranked:
    """The fastest of a block's plans."""
    best: Ranked | None = None
    for plan in plans(gpu, problem, job, ways):
        if best is not None and fastest(gpu, problem, plan, cost) >= best.prediction.seconds:
            continue
        found = Ranked(job, plan, predict(gpu, problem, plan, cost))
        if best is None or found.order < best.order:
            best = found
    assert best is not None  # a split of 1 is always a plan
    return best


def rank(
    gpu: Gpu, problem: GemmProblem, costs: Mapping[GemmSpec, BlockCost], ways: Ways = WRITTEN
) -> list[Ranked]:
    """One plan for every block, the fastest first."""
    found = [best_use(gpu, problem, job, cost, ways) for job, cost in costs.items()]
    return sorted(found, key=lambda ranked: ranked.order)
