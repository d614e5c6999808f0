"""The constants of the model of the whole GPU, fitted to what others published.

    python -m evidence.gemm_fit --steps 2000        # from the shipped ones
    python -m evidence.gemm_fit --held-out source   # how well it predicts what a fit has not seen
    python -m evidence.gemm_fit --intervals         # what else some constants could be

A fit is a search of random steps with a fixed seed, so it comes to the same numbers everywhere. It
sees all published shapes and every sixth of the tuned ones. ``--held-out`` fits again and again,
from round numbers, without the figures of one source (or without a fifth of the shapes), and
compares with those alone. ``--intervals`` holds a constant at other values and fits the rest again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from evidence.gemm_model import (
    Case,
    Compared,
    by_bounds,
    cases,
    errors,
    kendall,
    seen_by_fit,
    table,
    usual_costs,
)
from pipeloom.drive.gemm import GemmSpec
from pipeloom.judge.simulate.whole_gpu import BlockCost, Plan, fastest, predict
from pipeloom.machine.facts import Fact
from pipeloom.machine.gpus import Gpu, cdna3_energy, cdna4_energy, gpu_for
from pipeloom.tuning.ranking import LIBRARIES, rank

CONSTANTS = {
    "l2_cycles": 417.0,
    "mall_ns": 780.0,
    "hbm_ns": 72.0,
    "mall_gb_per_s": 8000.0,
    "alias_ns": 41.0,
    "ramp_cycles": 4100.0,
    "start_us": 3.9,
    "gap_us": 0.84,
    "pj_942": 1.313,
    "pj_950": 0.87,
    "pj_950_8": 0.329,
    "bf16_share": 0.928,
    "pj_per_mall_byte": 14.7,
    "pj_per_hbm_byte": 44.8,
    "exponent": 1.42,
    "floor": 0.497,
    "droop": 0.048,
}
"""What ``--fit`` varies, from where it starts; ``machine/gpus.py`` has what came out."""
ROUND = {
    "l2_cycles": 500.0,
    "mall_ns": 500.0,
    "hbm_ns": 200.0,
    "mall_gb_per_s": 12000.0,
    "alias_ns": 50.0,
    "ramp_cycles": 3000.0,
    "start_us": 3.0,
    "gap_us": 3.0,
    "pj_942": 1.0,
    "pj_950": 1.0,
    "pj_950_8": 0.5,
    "bf16_share": 1.0,
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
LENGTHS = (60, 200)
"""Microseconds that part short, medium and long kernels."""
RANGES = {
    "exponent": (1.0, 3.0),
    "floor": (0.3, 0.75),
    "droop": (0.0, 0.05),
    "start_us": (0.5, 10),
    "gap_us": (0.5, 10),
    "mall_gb_per_s": (8000, 17200),
    "bf16_share": (0.8, 1.0),
}
"""What a constant can be. MALL is no slower than HBM, and no faster than AMD says of MI300X (17.2
TB/s, "AMD CDNA 3 Architecture"); bf16 has narrower multipliers than fp16."""
HELD = {
    "l2_cycles": (200, 800, 1100),
    "start_us": (0.5, 2, 3, 4.5, 5, 5.5, 6, 7, 8),
    "gap_us": (0.5, 1.5, 3, 5, 7, 10),
    "ramp_cycles": (0, 1500, 2500, 3500, 5000, 6000, 7000),
    "mall_gb_per_s": (10000, 12000, 17200),
}
"""Values that ``--intervals`` tries."""
EMPTY: frozenset[str] = frozenset()
AS_GOOD = 1.02
"""Losses that are no worse by more tell two values apart no more than the search's luck does."""


def with_constants(gpu: Gpu, values: Mapping[str, float]) -> Gpu:
    """The chip with other numbers."""

    def fact(old: Fact[float], name: str) -> Fact[float]:
        return replace(old, value=values[name])

    memory, energy = gpu.memory, gpu.energy
    share = values["bf16_share"]
    per_flop = (
        cdna4_energy(values["pj_950"], values["pj_950_8"], share)
        if gpu.arch == "gfx950"
        else cdna3_energy(values["pj_942"], share)
    )
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
            pj_per_flop=per_flop,
            pj_per_mall_byte=fact(energy.pj_per_mall_byte, "pj_per_mall_byte"),
            pj_per_hbm_byte=fact(energy.pj_per_hbm_byte, "pj_per_hbm_byte"),
            exponent=fact(energy.exponent, "exponent"),
            floor=fact(energy.floor, "floor"),
            droop=fact(energy.droop, "droop"),
        ),
        ramp_cycles=fact(gpu.ramp_cycles, "ramp_cycles"),
        start_us=fact(gpu.start_us, "start_us"),
        gap_us=fact(gpu.gap_us, "gap_us"),
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
        """Mean errors of short, medium and long kernels, and order that is not kept.

        Most tuned shapes are long; a launch that is too slow shows in the few that are short.
        """
        compared, total = self.compared(values), 0.0
        for kind, order in (("published", 0.06), ("tuned", 0.1)):
            mine = [c for c in compared if c.case.kind == kind]
            lengths: dict[int, list[float]] = {}
            for c in mine:
                long = c.case.problem.flops / c.case.tflops * 1e-6
                length = sum(long > limit for limit in LENGTHS)
                lengths.setdefault(length, []).append(abs(c.error))
            each = [sum(found) / len(found) for found in lengths.values()]
            total += sum(each) / max(1, len(each))
            for key in sorted({(c.case.chip, c.case.problem.dtype) for c in mine}):
                pairs = [
                    (c.tflops, c.case.tflops)
                    for c in mine
                    if (c.case.chip, c.case.problem.dtype) == key
                ]
                tau = kendall(pairs)
                total += 0.0 if math.isnan(tau) else order * max(0.0, 0.85 - tau)
        return total

    def run(
        self, steps: int, start: Mapping[str, float], seed: int = 0, held: frozenset[str] = EMPTY
    ) -> dict[str, float]:
        """The best constants found, those that are ``held`` as they are; on every machine alike."""
        draw = random.Random(seed)
        best, loss = dict(start), math.inf
        free = sorted(start.keys() - held)
        for step_number in range(steps):
            if step_number % -(-steps // LOOKS) == 0:
                self.look(best)
                loss = self.loss(best)
            other = dict(best)
            for name in draw.sample(free, min(len(free), draw.choice((1, 2, 3)))):
                step = math.exp(draw.gauss(0, draw.choice((0.05, 0.2))))
                low, high = RANGES.get(name, (0.0, math.inf))
                other[name] = min(high, max(low, other[name] * step))
            found = self.loss(other)
            if found < loss:
                best, loss = other, found
        return best


def intervals(fit: Fit, steps: int) -> list[str]:
    """A line for each constant of ``HELD``: values with which the rest fits as well as ever."""
    losses: dict[str, dict[float, float]] = {}
    free = fit.loss(fit.run(steps, CONSTANTS))
    for name, values in HELD.items():
        losses[name] = {CONSTANTS[name]: free}
        for value in values:
            found = fit.run(steps, {**CONSTANTS, name: value}, held=frozenset({name}))
            losses[name][value] = fit.loss(found)
    best = min(min(each.values()) for each in losses.values())
    lines = []
    for name, each in losses.items():
        good = [value for value in sorted(each) if each[value] <= AS_GOOD * best]
        tried = ", ".join(f"{value:g}: {each[value] / best:.3f}" for value in sorted(each))
        said = f"{min(good):g} to {max(good):g}" if good else "none"
        lines.append(f"{name}: {said} ({tried})")
    return lines


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
    compared = by_bounds(apart, lambda chip: with_constants(gpu_for(chip), values))
    print(f"{name}: {errors(compared)}", flush=True)
    return compared


def main() -> None:
    """Print constants and how good they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--held-out", choices=("source", "shape"))
    parser.add_argument("--round", action="store_true", help="begin with round numbers")
    parser.add_argument("--intervals", action="store_true", help="values that are as good")
    arguments = parser.parse_args()
    if arguments.held_out is not None:
        print(table(held_out(arguments.held_out, arguments.steps)))
        return
    fit = Fit(seen_by_fit(cases()))
    if arguments.intervals:
        print("\n".join(intervals(fit, arguments.steps)))
        return
    values = fit.run(arguments.steps, ROUND if arguments.round else CONSTANTS)
    print(json.dumps({name: round(value, 4) for name, value in values.items()}, indent=1))
    print(table(fit.compared(values)))


if __name__ == "__main__":
    main()
