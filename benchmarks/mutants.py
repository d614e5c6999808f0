"""Verifier against executor, both ways, over broken schedules: the whole table.

    python benchmarks/mutants.py                           about 3,000 mutants
    python benchmarks/mutants.py --golden 2 --fixed 2 --dense 0     a quick look

Mutants come from three sorts of schedules. *Golden*: the canonical ones as published; all have
hazards to begin with, so their mutants test that nothing hides another. *Fixed*: the same orders
by ``synchronize``, proved, with every wait and barrier needed. *Dense*: likewise, but found by the
executor alone. Each mutant is classified by the executor and judged by the verifier:

    missed        the executor shows a wrong result, the verdict is PROVED
    false alarm   the verdict is RACE or TIMING, but no counterexample replays to a wrong result
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter as Tally
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from pipeloom import CompiledSchedule, OpDesc, ScheduleEntry, build_schedule, load_spec
from pipeloom.judge.execute import (
    Execution,
    Land,
    Moment,
    Mutant,
    Replayer,
    classify,
    fully_synchronized,
    sample_mutants,
    thinned,
)
from pipeloom.judge.verify.schedules import Finding, Status, Verdict, verify
from pipeloom.reference.compiler import compile_schedule
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.ops import KOffsetKind, OpRole, Phase, ResourceKind
from pipeloom.sync import synchronize

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
_TIMING = {
    ("late", "late"): "late",
    ("early", "early"): "early",
    ("late", "early"): "stale",
    ("early", "late"): "overrun",
}


@dataclass(frozen=True)
class Base:
    """A schedule to break."""

    name: str
    compiled: CompiledSchedule


@dataclass(frozen=True)
class Replays:
    """How the findings of one verdict fared in the executor.

    ``done`` gave a wrong result both when provoked and by the verifier's own recipe; of these
    ``witnessed`` name the very pair that went wrong, and ``numbers`` give a plain wrong number
    even where undefined data keeps its old content.
    """

    done: int
    witnessed: int
    numbers: int
    failed: tuple[Finding, ...]


@dataclass(frozen=True)
class Judgement:
    """One mutant, seen by both."""

    base: str
    mutant: Mutant
    wrong: bool
    status: Status
    replays: Replays

    @property
    def missed(self) -> bool:
        """Wrong, and PROVED all the same."""
        return self.wrong and self.status is Status.PROVED

    @property
    def false_alarm(self) -> bool:
        """Not PROVED, and some finding has nothing to show for it."""
        return self.status is not Status.PROVED and (
            not self.wrong or bool(self.replays.failed) or not self.replays.done
        )


def golden_bases(count: int) -> list[Base]:
    """Up to ``count`` canonical golden schedules of the double-buffered kernels, spread evenly."""
    if not GOLDEN.exists():
        generated = [Base(f"canonical {name}", build_schedule(name)) for name in GENERATED]
        return generated[:count]
    cases = list(_golden_cases())
    step = max(1, len(cases) // max(1, count))
    return [_golden_base(case) for case in cases[::step][:count]]


def fixed_bases(count: int) -> list[Base]:
    """Up to ``count`` golden schedules, synchronised anew."""
    return [
        Base(f"fixed {base.name}", synchronize(base.compiled, reorder=True))
        for base in golden_bases(count)
    ]


def dense_bases(count: int) -> list[Base]:
    """Up to ``count`` orders, synchronised until nothing more can go."""
    if GOLDEN.exists():
        known = {case["case"]: case for case in _golden_cases()}
        orders = [_golden_base(known[name]) for name in DENSE_CASES[:count]]
    else:
        orders = golden_bases(count)
    return [Base(f"dense {order.name}", _dense(order.compiled)) for order in orders]


def judge(base: Base, mutant: Mutant) -> Judgement:
    """Classify by the executor, judge by the verifier, replay every finding."""
    wrong = not classify(mutant.compiled).correct
    verdict = verify(mutant.compiled)
    replays = _replay_findings(mutant.compiled, verdict, wrong)
    return Judgement(base.name, mutant, wrong, verdict.status, replays)


def _replay_findings(compiled: CompiledSchedule, verdict: Verdict, wrong: bool) -> Replays:
    replayer = Replayer(compiled)
    replayed = witnessed = numbers = 0
    failed: list[Finding] = []
    for finding in verdict.findings:
        if finding.status is Status.PROVED:
            continue
        if finding.first is None:
            shown = wrong
        else:
            first, second = finding.first, finding.second
            execution = replayer.provoke(
                trips=finding.trips,
                first=(first.wave, first.step),
                second=(second.wave, second.step),
            )
            assert execution.pair is not None
            shown = execution.pair.unordered and not execution.correct
            witnessed += execution.pair.witnessed
        if shown and finding.counterexample is not None:
            shown = not _follow_recipe(replayer, compiled, finding, "poison").correct
            numbers += not _follow_recipe(replayer, compiled, finding, "memory").correct
        replayed += shown
        if not shown:
            failed.append(finding)
    return Replays(replayed, witnessed, numbers, tuple(failed))


def _follow_recipe(
    replayer: Replayer, compiled: CompiledSchedule, finding: Finding, undefined: str
) -> Execution:
    """The verifier's own recipe for its counterexample."""
    assert finding.counterexample is not None
    recipe = finding.counterexample.replay
    opposite = {"early": Moment.LATE, "late": Moment.EARLY}
    kernel = kernel_for(compiled)
    script = []
    for wave, step in recipe.exceptions:
        role = kernel.walk(compiled, wave, recipe.trips)[step].op.role
        usual = recipe.fragments if role is OpRole.FRAGMENT_LOAD else recipe.loads
        script.append(Land(wave, step, opposite[usual]))
    return replayer.replay(
        script,
        trips=recipe.trips,
        timing=_TIMING[recipe.loads, recipe.fragments],
        order=recipe.wave_order,
        undefined=undefined,
    )


def _dense(compiled: CompiledSchedule) -> CompiledSchedule:
    def is_right(candidate: CompiledSchedule) -> bool:
        return classify(candidate, trips=(0, 1, 2), random_runs=0).correct

    return thinned(fully_synchronized(compiled), is_right)


def _golden_cases() -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
        for line in stream:
            case = json.loads(line)
            kernel = case["spec"]["schedule"]
            if case["case"].startswith("canonical/") and kernel != "single_buffer":
                yield case


def _golden_base(case: dict[str, Any]) -> Base:
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
    return Base(
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


def print_table(judgements: list[Judgement]) -> None:
    """One row per sort of base and slip."""
    head = ("mutants", "wrong", "PROVED", "TIMING", "RACE", "findings", "missed", "false alarms")
    print(f"{'':34}" + "".join(f"{title:>13}" for title in head))
    rows: dict[tuple[str, str], Tally[str]] = {}
    for judgement in judgements:
        sort = "golden" if judgement.base.startswith("canonical") else judgement.base.split()[0]
        for key in ((sort, judgement.mutant.kind.value), ("total", "")):
            row = rows.setdefault(key, Tally())
            row["mutants"] += 1
            row["wrong"] += judgement.wrong
            row[judgement.status.name] += 1
            row["findings"] += judgement.replays.done + len(judgement.replays.failed)
            row["missed"] += judgement.missed
            row["false alarms"] += judgement.false_alarm
    for key in sorted(rows, key=lambda key: (key[0] == "total", key)):
        print(f"{' '.join(key):34}" + "".join(f"{rows[key][title]:>13}" for title in head))


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
    start = perf_counter()
    work = [(base, options.per_golden) for base in golden_bases(options.golden)]
    work += [(base, options.per_fixed) for base in fixed_bases(options.fixed)]
    work += [(base, options.per_dense) for base in dense_bases(options.dense)]
    print(f"{len(work)} schedules, ready after {perf_counter() - start:.0f} s", file=sys.stderr)
    judgements: list[Judgement] = []
    for number, (base, count) in enumerate(work):
        for mutant in sample_mutants(base.compiled, count, options.seed + number):
            judgement = judge(base, mutant)
            judgements.append(judgement)
            if judgement.missed or judgement.false_alarm:
                what = "MISSED" if judgement.missed else "FALSE ALARM"
                print(f"{what}: {base.name}: {mutant.name} ({judgement.status.name})")
                for finding in judgement.replays.failed[:3]:
                    print("    " + finding.describe().replace("\n", "\n    "))
    print_table(judgements)
    done, witnessed, numbers = (
        sum(getattr(judgement.replays, field) for judgement in judgements)
        for field in ("done", "witnessed", "numbers")
    )
    print(
        f"{done} findings replay to a wrong result; {witnessed} show the very pair; {numbers} "
        "give a wrong number even without poison"
    )
    print(f"{perf_counter() - start:.0f} s")
    return int(any(judgement.missed or judgement.false_alarm for judgement in judgements))


if __name__ == "__main__":
    sys.exit(main())
