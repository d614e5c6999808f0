"""Whole matrix products: what the model of the GPU predicts beside what others published.

The figures are not part of this repository: ``bench/gemm_tflops.jsonl`` of the shared data has the
throughput of shapes, types and libraries. ``published`` rows are sustained; ``tuned`` ones come
from tables of short runs. Their kernels run workgroups in blocks and split K, so the model's may
too (``LIBRARIES``), whether ours can or not. A shape's best figure is compared with the best plan
of the search. ``python -m evidence.gemm_model`` prints the table of docs/tuning.md, ``--shapes``
every shape, ``--bounds`` takes bounds for derived blocks, which is quick, and ``--fit STEPS``
searches for the constants anew, on all published and every sixth of the tuned shapes.
``--held-out`` fits again and again, from round numbers, without the figures of one source (or
without a fifth of the shapes), and compares with those alone.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evidence.cms_loops import shared_file
from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import BlockCost, Plan, Prediction, fastest, predict
from pipeloom.machine.facts import Fact
from pipeloom.machine.gpus import GPUS, Gpu, gpu_for
from pipeloom.tuning.candidates import bounds
from pipeloom.tuning.engines import Processes
from pipeloom.tuning.ranking import LIBRARIES, rank
from pipeloom.tuning.search import tune

LEAST = 1024
FITTED, OTHERS = ("bf16", "fp16", "fp8"), ("mxfp4",)
"""Types that constants are fitted to, and those that they are not."""
USUAL_ENDS, USUAL_LOSS = 1900.0, 1.002
"""Of derived blocks: cycles of their ends, and what they take more than their bound."""


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
        return self.prediction.tflops / self.case.tflops - 1


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


def publisher(source: str) -> str:
    """The repository of a figure."""
    if source.startswith("https://"):
        return "/".join(source.split("/")[3:5])
    return source.partition(":")[0]


def by_bounds(found: Iterable[Case], values: Mapping[str, float] | None = None) -> list[Compared]:
    """Every case, with what blocks usually take beyond their bounds; ``values`` for constants."""
    costs = {}
    compared = []
    for case in found:
        gpu, dtype = gpu_for(case.chip), case.problem.dtype
        gpu = gpu if values is None else with_constants(gpu, values)
        if (gpu.arch, dtype) not in costs:
            costs[gpu.arch, dtype] = usual_costs(gpu.arch, dtype)
        best = rank(gpu, case.problem, costs[gpu.arch, dtype], LIBRARIES)[0]
        compared.append(Compared(case, best.plan, best.prediction))
    return compared


def usual_costs(arch: str, dtype: str) -> dict[GemmSpec, BlockCost]:
    """Bounds, and what is usually lost."""
    return {
        job: replace(cost, cycles=cost.cycles * USUAL_LOSS, ends=USUAL_ENDS)
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
    """Errors and order, by kind, chip and type: nothing of the data itself."""
    lines = [
        "| | chip | type | shapes | mean error | worst | Kendall's tau |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for kind in sorted({c.case.kind for c in compared}):
        mine = [c for c in compared if c.case.kind == kind]
        for chip, dtype in sorted({(c.case.chip, c.case.problem.dtype) for c in mine}):
            group = [c for c in mine if (c.case.chip, c.case.problem.dtype) == (chip, dtype)]
            tau = kendall([(c.prediction.tflops, c.case.tflops) for c in group])
            shown = "" if math.isnan(tau) else f"{tau:.2f}"
            lines.append(f"| {kind} | {chip} | {dtype} | {_errors(group)} | {shown} |")
        lines.append(f"| {kind} | all | | {_errors(mine)} | |")
    return "\n".join(lines)


def _errors(group: Sequence[Compared]) -> str:
    worst = max(group, key=lambda c: abs(c.error)).error
    mean = sum(abs(c.error) for c in group) / len(group)
    return f"{len(group)} | {100 * mean:.1f} % | {100 * worst:+.0f} %"


CONSTANTS = {
    "l2_cycles": 296.0,
    "mall_ns": 736.0,
    "hbm_ns": 61.0,
    "mall_gb_per_s": 3763.0,
    "alias_ns": 66.0,
    "ramp_cycles": 5580.0,
    "launch_us": 9.9,
    "pj_942": 1.37,
    "pj_950": 1.037,
    "pj_950_8": 0.396,
    "pj_per_mall_byte": 19.0,
    "pj_per_hbm_byte": 69.0,
    "exponent": 1.7,
    "floor": 0.595,
    "droop": 0.029,
}
"""What ``--fit`` varies, from where it starts; ``machine/gpus.py`` has what came out."""
ROUND = {
    "l2_cycles": 500.0,
    "mall_ns": 500.0,
    "hbm_ns": 200.0,
    "mall_gb_per_s": 8000.0,
    "alias_ns": 50.0,
    "ramp_cycles": 3000.0,
    "launch_us": 5.0,
    "pj_942": 1.0,
    "pj_950": 1.0,
    "pj_950_8": 0.5,
    "pj_per_mall_byte": 20.0,
    "pj_per_hbm_byte": 50.0,
    "exponent": 2.0,
    "floor": 0.5,
    "droop": 0.02,
}
"""Where a fit begins that must not know what others came to."""
LOOKS = 4
"""How often a fit asks which plans are near the best."""
FOLDS = 5
RANGES = {"exponent": (1.0, 3.0), "floor": (0.3, 0.75), "droop": (0.0, 0.05), "launch_us": (3, 15)}


def with_constants(gpu: Gpu, values: Mapping[str, float]) -> Gpu:
    """The chip with other numbers."""

    def fact(old: Fact[float], name: str) -> Fact[float]:
        return replace(old, value=values[name])

    memory, energy = gpu.memory, gpu.energy
    new = gpu.arch == "gfx950"
    half = energy.pj_per_flop[2], "pj_950" if new else "pj_942"
    byte = replace(energy.pj_per_flop[1], value=values["pj_950_8"] if new else values["pj_942"] / 2)
    four = replace(energy.pj_per_flop[0.5], value=byte.value / 2)
    return replace(
        gpu,
        memory=replace(
            memory,
            l2_cycles=fact(memory.l2_cycles, "l2_cycles"),
            mall_ns=fact(memory.mall_ns, "mall_ns"),
            hbm_ns=fact(memory.hbm_ns, "hbm_ns"),
            mall_gb_per_s=fact(memory.mall_gb_per_s, "mall_gb_per_s"),
            alias_ns=fact(memory.alias_ns, "alias_ns"),
        ),
        energy=replace(
            energy,
            pj_per_flop={2: fact(*half), 1: byte, 0.5: four},
            pj_per_mall_byte=fact(energy.pj_per_mall_byte, "pj_per_mall_byte"),
            pj_per_hbm_byte=fact(energy.pj_per_hbm_byte, "pj_per_hbm_byte"),
            exponent=fact(energy.exponent, "exponent"),
            floor=fact(energy.floor, "floor"),
            droop=fact(energy.droop, "droop"),
        ),
        ramp_cycles=fact(gpu.ramp_cycles, "ramp_cycles"),
        launch_us=fact(gpu.launch_us, "launch_us"),
    )


class Fit:
    """A search for constants: random steps that help, on plans that are near the best."""

    NEAR = 12

    def __init__(self, found: Sequence[Case]) -> None:
        self.cases = found
        self.near: dict[Case, dict[Plan, BlockCost]] = {case: {} for case in found}
        self._costs: dict[tuple[str, str], dict[GemmSpec, BlockCost]] = {}

    def look(self, values: Mapping[str, float]) -> None:
        """Add the plans that are best with these constants."""
        for case in self.cases:
            gpu = with_constants(gpu_for(case.chip), values)
            key = gpu.arch, case.problem.dtype
            if key not in self._costs:
                self._costs[key] = usual_costs(*key)
            for ranked in rank(gpu, case.problem, self._costs[key], LIBRARIES)[: self.NEAR]:
                self.near[case][ranked.plan] = self._costs[key][ranked.job]

    def compared(self, values: Mapping[str, float]) -> list[Compared]:
        """The best near plan of every case."""
        gpus = {case.chip: with_constants(gpu_for(case.chip), values) for case in self.cases}
        found = []
        for case in self.cases:
            gpu, best = gpus[case.chip], None
            for plan, cost in self.near[case].items():
                if best is None or fastest(gpu, case.problem, plan, cost) < best[1].seconds:
                    guess = predict(gpu, case.problem, plan, cost)
                    if best is None or guess.seconds < best[1].seconds:
                        best = plan, guess
            assert best is not None
            found.append(Compared(case, *best))
        return found

    def loss(self, values: Mapping[str, float]) -> float:
        """Mean errors, published ones counting double, and order that is not kept."""
        compared, total = self.compared(values), 0.0
        for kind, weight, order in (("published", 1.0, 0.06), ("tuned", 0.5, 0.1)):
            mine = [c for c in compared if c.case.kind == kind]
            total += weight * sum(abs(c.error) for c in mine) / max(1, len(mine))
            for key in sorted({(c.case.chip, c.case.problem.dtype) for c in mine}):
                pairs = [
                    (c.prediction.tflops, c.case.tflops)
                    for c in mine
                    if (c.case.chip, c.case.problem.dtype) == key
                ]
                tau = kendall(pairs)
                total += 0.0 if math.isnan(tau) else order * max(0.0, 0.85 - tau)
        return total

    def run(self, steps: int, start: Mapping[str, float], seed: int = 0) -> dict[str, float]:
        """The best constants found; the same on every machine."""
        draw = random.Random(seed)
        best, loss = dict(start), math.inf
        for step_number in range(steps):
            if step_number % -(-steps // LOOKS) == 0:
                self.look(best)
                loss = self.loss(best)
            other = dict(best)
            for name in draw.sample(sorted(other), draw.choice((1, 2, 3))):
                step = math.exp(draw.gauss(0, draw.choice((0.05, 0.2))))
                low, high = RANGES.get(name, (0.0, math.inf))
                other[name] = min(high, max(low, other[name] * step))
            found = self.loss(other)
            if found < loss:
                best, loss = other, found
        return best


def held_out(how: str, steps: int) -> list[Compared]:
    """Published figures, each predicted with constants that were fitted without it.

    By ``source``, nothing that the same repository published was seen; by ``shape``, no figure of
    the same sizes, whatever the chip and the type.
    """
    published = [case for case in cases() if case.kind == "published"]
    tuned = [case for case in cases() if case.kind == "tuned"][::12]
    found: list[Compared] = []
    if how == "source":
        for source in sorted({case.source for case in published}):
            apart = [case for case in cases(only=source) if case.kind == "published"]
            seen = [case for case in cases(without=source) if case.kind == "published"]
            found += _apart(apart, seen + tuned, steps, source)
        return found
    shapes = sorted({_sizes(case) for case in published})
    for fold in range(FOLDS):
        mine = set(shapes[fold::FOLDS])
        apart = [case for case in published if _sizes(case) in mine]
        seen = [case for case in published + tuned if _sizes(case) not in mine]
        found += _apart(apart, seen, steps, f"fold {fold}")
    return found


def _sizes(case: Case) -> tuple[int, int, int]:
    return case.problem.m, case.problem.n, case.problem.k


def _apart(apart: list[Case], seen: list[Case], steps: int, name: str) -> list[Compared]:
    values = Fit(seen).run(steps, ROUND)
    compared = by_bounds(apart, values)
    print(f"{name}: {_errors(compared)}", flush=True)
    return compared


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=["published"], choices=("published", "tuned"))
    parser.add_argument("--chips", nargs="+", default=[gpu.chip for gpu in GPUS])
    parser.add_argument("--types", nargs="+", default=list(FITTED), choices=FITTED + OTHERS)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fit", type=int, metavar="STEPS")
    parser.add_argument("--held-out", choices=("source", "shape"))
    parser.add_argument("--steps", type=int, default=600, help="of each fit with --held-out")
    arguments = parser.parse_args()
    found = cases(arguments.types)
    if arguments.held_out is not None:
        print(table(held_out(arguments.held_out, arguments.steps)))
        return
    if arguments.fit is not None:
        some = [case for case in found if case.kind == "published"]
        fit = Fit(some + [case for case in found if case.kind == "tuned"][::6])
        values = fit.run(arguments.fit, CONSTANTS)
        print(json.dumps({name: round(value, 4) for name, value in values.items()}, indent=1))
        print(table(fit.compared(values)))
        return
    chosen = [c for c in found if c.kind in arguments.kinds and c.chip in arguments.chips]
    compared = by_bounds(chosen) if arguments.bounds else by_search(chosen, arguments.jobs)
    if arguments.shapes:
        for one in compared:
            case, guess = one.case, one.prediction
            print(
                f"{case.chip} {case.problem.dtype} {case.problem}: {guess.tflops:.0f} for "
                f"{case.tflops:.0f} ({100 * one.error:+.0f} %), {one.plan}; {guess.limit}"
            )
    print(table(compared))


if __name__ == "__main__":
    main()
