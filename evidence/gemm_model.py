"""Whole matrix products: what the model of the GPU predicts beside what others published.

The figures are not part of this repository: ``bench/gemm_tflops.jsonl`` of the shared data has the
throughput of shapes, types and libraries. ``published`` rows are of products that follow each other
in a stream, gaps and all; ``tuned`` ones come from tables of kernels, each timed by itself. Their
kernels run workgroups in blocks and split K, so the model's may too (``LIBRARIES``), whether ours
can or not. A shape's best figure is compared with the best plan of the search.
``python -m evidence.gemm_model`` prints the table of docs/tuning.md, ``--shapes`` every shape,
``--unseen`` those that the fit did not see, ``--bounds`` takes bounds for derived blocks, which is
quick. ``evidence.gemm_fit`` finds the constants.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evidence.cms_loops import shared_file
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import BlockCost, Plan, Prediction
from pipeloom.machine.gpus import GPUS, Gpu, gpu_for
from pipeloom.tuning.candidates import bounds
from pipeloom.tuning.engines import Processes
from pipeloom.tuning.ranking import LIBRARIES, rank
from pipeloom.tuning.search import tune

LEAST = 256
FITTED, OTHERS = ("bf16", "fp16", "fp8"), ("mxfp4",)
"""Types that constants are fitted to, and those that they are not."""
SEEN = 6
"""Of the tuned shapes every so many-th is in the fit."""
FEW = 6
"""Shapes of a group whose order says little."""
USUAL_ENDS, USUAL_LOSS, USUAL_ROOM = 1900.0, 1.002, 2
"""Of derived blocks: cycles of their ends, what they take more than their bound, and of how many
that LDS could hold one does: they have more than two tiles there."""


@dataclass(frozen=True, slots=True)
class Case:
    """The best figure of one shape."""

    kind: str
    chip: str
    problem: GemmProblem
    tflops: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A case and what the model says."""

    case: Case
    plan: Plan
    prediction: Prediction

    @property
    def error(self) -> float:
        """Relative, with its sign."""
        return self.tflops / self.case.tflops - 1

    @property
    def tflops(self) -> float:
        """As the figure was taken: in a stream, or of the kernel by itself."""
        guess = self.prediction
        return guess.in_stream if self.case.kind == "published" else guess.tflops


def cases(
    types: Sequence[str] = FITTED, *, only: str | None = None, without: str | None = None
) -> list[Case]:
    """Of some types, and no side short; of one source only, or without it."""
    best: dict[tuple[str, str, GemmProblem], tuple[float, str]] = {}
    for line in shared_file("gemm_tflops.jsonl").read_text("utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        source = publisher(row["source"])
        if (only is not None and source != only) or source == without:
            continue
        if row["dtype"] in types and min(row["m"], row["n"], row["k"]) >= LEAST:
            key = row["kind"], row["chip"], GemmProblem(row["m"], row["n"], row["k"], row["dtype"])
            best[key] = max(best.get(key, (0.0, "")), (row["tflops"], source))
    return [Case(*key, *figure) for key, figure in sorted(best.items())]


def seen_by_fit(found: Sequence[Case]) -> list[Case]:
    """Those that the shipped constants were fitted to."""
    tuned = [case for case in found if case.kind == "tuned" and case.problem.dtype in FITTED]
    published = [c for c in found if c.kind == "published" and c.problem.dtype in FITTED]
    return published + tuned[::SEEN]


def publisher(source: str) -> str:
    """The repository of a figure."""
    if source.startswith("https://"):
        return "/".join(source.split("/")[3:5])
    return source.partition(":")[0]


def by_bounds(found: Iterable[Case], chip: Callable[[str], Gpu] = gpu_for) -> list[Compared]:
    """Every case, with what blocks usually take beyond their bounds; ``chip`` has constants."""
    costs = {}
    compared = []
    for case in found:
        gpu, dtype = chip(case.chip), case.problem.dtype
        if (gpu.arch, dtype) not in costs:
            costs[gpu.arch, dtype] = usual_costs(gpu.arch, dtype)
        best = rank(gpu, case.problem, costs[gpu.arch, dtype], LIBRARIES)[0]
        compared.append(Compared(case, best.plan, best.prediction))
    return compared


def usual_costs(arch: str, dtype: str) -> dict[GemmSpec, BlockCost]:
    """Bounds, and what is usually lost."""
    return {
        job: replace(
            cost,
            cycles=cost.cycles * USUAL_LOSS,
            ends=USUAL_ENDS,
            resident=max(1, cost.resident // USUAL_ROOM),
        )
        for job, cost in bounds(arch, dtype).items()
    }


def by_search(found: Sequence[Case], jobs: int) -> list[Compared]:
    """Every case as ``pipeloom tune`` finds it."""
    compared = []
    store = Store.usual()
    for chip in sorted({case.chip for case in found}):
        mine = [case for case in found if case.chip == chip]
        tuned = tune(
            [case.problem for case in mine],
            gpu_for(chip),
            engine=lambda: Processes(store, jobs),
            ways=LIBRARIES,
        )
        compared += [
            Compared(case, one.plan, one.prediction) for case, one in zip(mine, tuned, strict=True)
        ]
    return compared


def kendall(pairs: Sequence[tuple[float, float]]) -> float:
    """Tau-a: concordant less discordant pairs, over all."""
    found = [
        math.copysign(1, (a - c) * (b - d)) if (a - c) * (b - d) else 0.0
        for i, (a, b) in enumerate(pairs)
        for c, d in pairs[:i]
    ]
    return sum(found) / len(found) if found else math.nan


def table(compared: Sequence[Compared]) -> str:
    """Errors and order, by kind, chip and type: nothing of the data itself.

    Tau comes with the number of shapes; where there are few, with a word that they are.
    """
    lines = [
        "| | chip | type | shapes | mean error | worst | Kendall's tau of how many |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for kind in sorted({c.case.kind for c in compared}):
        mine = [c for c in compared if c.case.kind == kind]
        for chip, dtype in sorted({(c.case.chip, c.case.problem.dtype) for c in mine}):
            group = [c for c in mine if (c.case.chip, c.case.problem.dtype) == (chip, dtype)]
            tau = kendall([(c.tflops, c.case.tflops) for c in group])
            few = ", few" if len(group) < FEW else ""
            shown = "" if math.isnan(tau) else f"{tau:.2f} of {len(group)}{few}"
            lines.append(f"| {kind} | {chip} | {dtype} | {errors(group)} | {shown} |")
        lines.append(f"| {kind} | all | | {errors(mine)} | |")
    return "\n".join(lines)


def errors(group: Sequence[Compared]) -> str:
    worst = max(group, key=lambda c: abs(c.error)).error
    mean = sum(abs(c.error) for c in group) / len(group)
    return f"{len(group)} | {100 * mean:.1f} % | {100 * worst:+.0f} %"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["published"], choices=("published", "tuned"))
    parser.add_argument("--chips", nargs="+", default=[gpu.chip for gpu in GPUS])
    parser.add_argument("--types", nargs="+", default=list(FITTED), choices=FITTED + OTHERS)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unseen", action="store_true")
    arguments = parser.parse_args()
    found = cases(arguments.types)
    seen = set(seen_by_fit(cases())) if arguments.unseen else set()
    found = [case for case in found if case not in seen]
    chosen = [c for c in found if c.kind in arguments.kinds and c.chip in arguments.chips]
    compared = by_bounds(chosen) if arguments.bounds else by_search(chosen, arguments.jobs)
    if arguments.shapes:
        for one in compared:
            case, guess = one.case, one.prediction
            print(
                f"{case.chip} {case.problem.dtype} {case.problem}: {one.tflops:.0f} for "
                f"{case.tflops:.0f} ({100 * one.error:+.0f} %), {one.plan}; {guess.limit}"
            )
    print(table(compared))


if __name__ == "__main__":
    main()
