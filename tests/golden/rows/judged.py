"""What judges say of drawn programs, right ones and wrong ones: a row for each."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

from benchmarks.kernel_results import digest, judged
from benchmarks.random_programs.declarations import random_meaning
from benchmarks.random_programs.lowering import random_plan
from benchmarks.random_programs.mutate import sample_mutants
from pipeloom.errors import ScheduleError
from pipeloom.judge.execute import Executor, Outcome, replay
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Meaning, Program
from pipeloom.program.idle import (
    Inputs,
    adds_up,
    idles_before,
    idles_past,
    idles_past_end,
    usual_values,
)
from pipeloom.program.nan_payloads import short_nans
from pipeloom.program.past_end import needs_finite, noticed
from tests.declarations.test_declarations import CASES
from tests.golden.rows.answers import answers

PLANS = 40
LARGEST = 160
"""Steps of a plan: what is larger says the same and takes longer."""
MUTANTS = 3
RUNS = (("worst", "forward", 2), ("late", "reverse", 1), ("random", "random", 3))


def judged_rows() -> dict[str, dict[str, Any]]:
    """Programs that lack some synchronisation or have another slip: verdict, story, runs."""
    found = {}
    for seed in range(PLANS):
        rng = Random(f"judged {seed}")
        plan = random_plan(random_meaning(rng), rng)
        if sum(len(items) for _, items in plan.sections) > LARGEST:
            continue
        share = rng.choice((0.0, 0.1, 0.3))
        program = plan.program(s.number for s in plan.syncs if rng.random() < share)
        rows = {"as drawn": _judged(program)}
        for mutant in sample_mutants(program, MUTANTS, seed):
            rows[f"{mutant.kind.value}, {mutant.name}"] = _judged(mutant.program)
        found[f"seed {seed}"] = rows
    return found


def _judged(program: Program) -> dict[str, Any]:
    verdict = verify(program)
    story = verdict.shortest()
    said = digest(str([str(one) for one in verdict.findings]))
    return {
        "verdict": [
            *judged(verdict),
            answers(verdict),
            f"{len(verdict.findings)} findings, {said}",
        ],
        "story": [] if story is None else [f"{s.wave}: {s.text}" for s in story.story],
        "runs": list(_runs(program, verdict)),
    }


def _runs(program: Program, verdict: Verdict) -> Iterator[str]:
    try:
        executor = Executor(program)
        for policy, order, trips in RUNS:
            done = executor.run(trips=trips, policy=policy, order=order, seed=trips, explain=True)
            yield f"{policy}, {order}: {_shown(done)}"
        for finding in verdict.findings[:2]:
            yield f"replayed: {_shown(replay(program, finding))}"
    except ScheduleError as error:
        yield " ".join(str(error).split())


def _shown(done: Outcome) -> str:
    """What went wrong, where; of the numbers only how large they are, which holds anywhere."""
    sizes = [f"{np.abs(np.nan_to_num(array)).sum():.3g}" for array in done.outputs.values()]
    events = digest(str([*map(str, done.hang), *map(str, done.suspects)]))
    return f"{done.summary}, {events}; {' '.join(sizes)}"


def meaning_rows() -> dict[str, dict[str, str]]:
    """Of declarations: the ranges of their values, and what iterations past an end do to them."""
    found = {}
    for case in CASES:
        try:
            meaning = case.declare().meaning
        except ScheduleError:
            continue
        found[case.name] = {
            "sizes": f"{dict(meaning.tile)} of {meaning.grid}, uncut {dict(meaning.uncut)}",
            "past the end": _past(meaning),
            "answers": answers(meaning),
            "places": " ".join(answers(n.at) for n in meaning.nodes if n.at is not None),
            **{f"values, {inputs.value}": _values(meaning, inputs) for inputs in Inputs},
        }
    return found


def _past(meaning: Meaning) -> str:
    dims = sorted({dim for node in meaning.nodes for dim in node.type.dims})
    ends = [
        (
            idles_past_end(meaning, inputs),
            [dim for dim in dims if idles_past(meaning, dim, inputs)],
            [dim for dim in dims if idles_before(meaning, dim, inputs)],
            {dim: found for dim in dims if (found := noticed(meaning, dim, inputs))},
        )
        for inputs in Inputs
    ]
    short = [node.name for node in meaning.nodes if short_nans(meaning, node.name)]
    return f"{ends}; {adds_up(meaning)}, {needs_finite(meaning)}, {sorted(meaning.masks)}, {short}"


def _values(meaning: Meaning, inputs: Inputs) -> str:
    found = usual_values(meaning, inputs)
    return ", ".join(
        f"{name} {value.range.low:.4g} to {value.range.high:.4g}"
        + (" or NaN" if value.range.nan else "")
        + (f" = {value.carry}" if value.carry else "")
        for name, value in found.items()
        if value.range.number is None
    )
