"""Verifier against executor, both ways, over broken schedules: the whole table.

    python -m evidence.mutants                           about 3,000 mutants
    python -m evidence.mutants --golden 2 --fixed 2 --dense 0     a quick look

Mutants come from three sorts of schedules. *Golden*: the canonical ones as published; all have
hazards to begin with, so their mutants test that nothing hides another. *Fixed*: the same orders
by ``synchronize``, proved, with every wait and barrier needed. *Dense*: likewise, but found by the
executor alone. Each is lifted to a program, broken there, and judged by both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.random_programs.cases import Case
from benchmarks.random_programs.classify import classify
from benchmarks.random_programs.judging import run
from benchmarks.random_programs.mutate import SYNCHRONISATION, sample_mutants
from benchmarks.random_programs.strict import fully_synchronized, thinned
from pipeloom import CompiledSchedule, OpDesc, ScheduleEntry, build_schedule, load_spec
from pipeloom.program import Program
from pipeloom.reference.compiler import compile_schedule
from pipeloom.reference.lift import lift_in_units
from pipeloom.reference.ops import KOffsetKind, OpRole, Phase, ResourceKind
from pipeloom.reference.resync import synchronize

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "schedules.jsonl.gz"
DENSE_CASES = (
    "canonical/four_wave/000",
    "canonical/ping_pong/004",
    "canonical/four_wave/003",
    "canonical/ping_pong/002",
    "canonical/ping_pong/000",
    "canonical/four_wave/002",
)
"""Orders that can be synchronised, of both kernels and all strategies."""
GENERATED = ("four_wave", "ping_pong")


@dataclass(frozen=True)
class Base:
    """A program to break, with the schedule it is."""

    sort: str
    name: str
    program: Program


def golden_schedules(count: int) -> list[tuple[str, CompiledSchedule]]:
    """Up to ``count`` canonical golden schedules of the double-buffered kernels, spread evenly."""
    if not GOLDEN.exists():
        return [(f"canonical {name}", build_schedule(name)) for name in GENERATED][:count]
    cases = list(_golden_cases())
    step = max(1, len(cases) // max(1, count))
    return [_golden_schedule(case) for case in cases[::step][:count]]


def golden_bases(count: int) -> list[Base]:
    """Golden schedules as they are."""
    return [Base("golden", name, lift_in_units(found)) for name, found in golden_schedules(count)]


def fixed_bases(count: int) -> list[Base]:
    """Up to ``count`` golden schedules, synchronised anew."""
    return [
        Base("fixed", name, lift_in_units(synchronize(found, reorder=True)))
        for name, found in golden_schedules(count)
    ]


def dense_bases(count: int) -> list[Base]:
    """Up to ``count`` orders, synchronised until nothing more can go."""
    if GOLDEN.exists():
        known = {case["case"]: case for case in _golden_cases()}
        orders = [_golden_schedule(known[name]) for name in DENSE_CASES[:count]]
    else:
        orders = golden_schedules(count)
    return [Base("dense", name, _dense(lift_in_units(found))) for name, found in orders]


def mutants_of(base: Base, count: int, seed: int) -> Iterator[Case]:
    """Cases that differ from ``base`` by a slip in its waits, barriers or order."""
    for mutant in sample_mutants(base.program, count, seed, SYNCHRONISATION):
        kind = f"{base.sort} {mutant.kind.value}"
        yield Case(seed, kind, f"{base.name}: {mutant.name}", mutant.program)


def _dense(program: Program) -> Program:
    def is_right(candidate: Program) -> bool:
        return classify(
            candidate, trips=[{"T": trips} for trips in range(3)], random_runs=0
        ).correct

    return thinned(fully_synchronized(program), is_right)


def _golden_cases() -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
        for line in stream:
            case = json.loads(line)
            kernel = case["spec"]["schedule"]
            if case["case"].startswith("canonical/") and kernel != "single_buffer":
                yield case


def _golden_schedule(case: dict[str, Any]) -> tuple[str, CompiledSchedule]:
    """The golden entries themselves; the rest of the schedule is compiled."""
    compiled = compile_schedule(load_spec(case["spec"]))
    result = case["result"]
    phases = {
        phase: tuple(
            ScheduleEntry(_golden_op(op), slot, phase, bool(prefetch))
            for slot, prefetch, op in result[phase.name.lower()]
        )
        for phase in Phase
    }
    return (
        case["case"],
        replace(
            compiled,
            prologue=phases[Phase.PROLOGUE],
            kernel=phases[Phase.KERNEL],
            epilogue=phases[Phase.EPILOGUE],
            warp_stagger_index=result["warp_stagger_index"],
        ),
    )


def _golden_op(op: list[int]) -> OpDesc:
    tag, stage, sub, k, vm, lgkm, wait, resource, latency, role, channel, made, killed = op
    return OpDesc(
        tag,
        stage,
        sub,
        KOffsetKind(k),
        vm,
        lgkm,
        wait,
        ResourceKind(resource),
        latency,
        OpRole(role),
        channel,
        made,
        killed,
    )


def main(arguments: list[str] | None = None) -> int:
    """Judge the mutants and print the table; 1 if the two disagree anywhere."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--golden", type=int, default=89, help="golden schedules to break")
    parser.add_argument("--per-golden", type=int, default=7, help="mutants of each")
    parser.add_argument("--fixed", type=int, default=89, help="synchronised schedules to break")
    parser.add_argument("--per-fixed", type=int, default=21, help="mutants of each")
    parser.add_argument("--dense", type=int, default=2, help="dense schedules to break")
    parser.add_argument("--per-dense", type=int, default=300, help="mutants of each at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    work = [(base, options.per_golden) for base in golden_bases(options.golden)]
    work += [(base, options.per_fixed) for base in fixed_bases(options.fixed)]
    work += [(base, options.per_dense) for base in dense_bases(options.dense)]
    cases = [
        case
        for number, (base, count) in enumerate(work)
        for case in mutants_of(base, count, options.seed + number)
    ]
    judgements = run(cases, len(cases))
    return int(any(j.missed or j.false_alarm for j in judgements))


if __name__ == "__main__":
    sys.exit(main())
