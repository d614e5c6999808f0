"""Cases for the table: random programs, right ones synchronised ever more loosely, and mutants.

A base starts with a wait and a barrier after every step, which is right if the order is. Then waits
and barriers go, in handfuls, as long as executions stay right: what is left is needed, mostly.
Which cases are wrong is not known here; the executor finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from benchmarks.random_programs.declarations import random_meaning
from benchmarks.random_programs.lowering import Plan, random_plan
from benchmarks.random_programs.mutate import sample_mutants

from pipeloom.judge.execute import Executor, adversarial_orders
from pipeloom.program import Program, Wait

MUTANTS = 9
"""Of each base."""
TRIALS = 8
"""Handfuls of waits and barriers that are tried to do without."""


@dataclass(frozen=True)
class Case:
    """A program, and how it came about: ``seed`` of its base, the slip in words."""

    seed: int
    kind: str
    name: str
    program: Program


def cases(seed: int, count: int) -> Iterator[Case]:
    """``count`` cases, base after base; case n of a seed is always the same."""
    number = 0
    while True:
        for case in cases_of_base(seed * 1_000_003 + number):
            if count == 0:
                return
            count -= 1
            yield case
        number += 1


def cases_of_base(seed: int) -> Iterator[Case]:
    """A base, then mutants of it."""
    rng = Random(seed)
    meaning = random_meaning(rng)
    plan = random_plan(meaning, rng)
    kind = rng.choices(("strict", "thinned", "loose"), (1, 7, 1))[0]
    if kind == "strict":
        program = plan.program()
    elif kind == "loose":
        gone = [i.number for i in plan.syncs if rng.random() < 0.5]
        program = plan.program(gone)
    else:
        program = thinned(plan, rng)
    yield Case(seed, kind, kind, program)
    for mutant in sample_mutants(program, MUTANTS, rng.randrange(1 << 30)):
        yield Case(seed, mutant.kind.value, mutant.name, mutant.program)


def thinned(plan: Plan, rng: Random) -> Program:
    """The plan with as little synchronisation as a few handfuls of tries find."""
    syncs = plan.syncs
    left = [i.number for i in syncs]
    rng.shuffle(left)
    gone: list[int] = []
    share = 0.6
    for _ in range(TRIALS):
        some = left[: max(1, int(share * len(left)))]
        if looks_right(plan.program([*gone, *some])):
            gone += some
            left = left[len(some) :]
        else:
            share /= 2
            rng.shuffle(left)
    counts: dict[int, int] = {}
    waits = [i.number for i in syncs if i.number in set(left) and isinstance(i.step, Wait)]
    for handful in (waits[: len(waits) // 2], waits[len(waits) // 2 :]):
        looser = {**counts, **{number: rng.choice((1, 2, 3)) for number in handful}}
        if handful and looks_right(plan.program(gone, looser)):
            counts = looser
    return plan.program(gone, counts)


def looks_right(program: Program) -> bool:
    """Whether hostile executions of a few trips are right."""
    executor = Executor(program)
    return all(
        executor.run(trips=trips, order=order).correct
        for trips in (2, 1)
        for order in adversarial_orders(program.waves)
    )
