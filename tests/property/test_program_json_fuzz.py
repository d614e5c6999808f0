"""Programs edited as JSON, steps swapped, repeated, dropped or moved: no wrong one is PROVED.

Coarser slips than those of the mutant tables: anywhere in the program, from one section or group to
another. What no longer is a program is refused as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from benchmarks.random_programs.cases import Case
from benchmarks.random_programs.judging import describe, judge
from pipeloom.errors import ScheduleError
from pipeloom.judge.verify import verify
from pipeloom.program import Program
from tests.unit.judge.verify.programs import (
    attention,
    lowered,
    producer_consumer,
    row_sum_program,
)

MUTANTS = 25
BASES: dict[str, Callable[[], Program]] = {
    "row sum": row_sum_program,
    "producer and consumers": producer_consumer,
    "attention": lambda: lowered(attention()),
}


def edited(plain: dict[str, Any], rng: Random) -> str:
    """Change the steps in place; returns what was done."""
    rows = [s["steps"] for g in plain["groups"] for s in g["sections"] if s["steps"]]
    one, other = rng.choice(rows), rng.choice(rows)
    at, to = rng.randrange(len(one)), rng.randrange(len(other))
    what = rng.choice(("swap", "repeat", "drop", "move"))
    if what == "swap":
        one[at], other[to] = other[to], one[at]
    elif what == "repeat":
        other.insert(to, one[at])
    else:
        step = one.pop(at)
        if what == "move":
            other.insert(min(to, len(other)), step)
    return f"{what} {at} {to}"


@pytest.mark.parametrize("name", BASES)
def test_executor_and_verifier_agree_on_edited_programs(name: str) -> None:
    base = BASES[name]()
    assert verify(base).proved
    rng = Random(f"json {name}")
    wrong = right = 0
    for number in range(MUTANTS):
        plain = json.loads(base.to_json())
        words = ", ".join(edited(plain, rng) for _ in range(rng.choice((1, 1, 2))))
        try:
            program = Program.from_json(json.dumps(plain))
            judgement = judge(Case(number, "json", words, program))
        except ScheduleError:
            continue  # refused, by name
        assert not judgement.missed, describe(judgement)
        assert not judgement.false_alarm, describe(judgement)
        wrong += judgement.failure is not None
        right += judgement.proved
    assert wrong > 4
    assert wrong + right > 12
