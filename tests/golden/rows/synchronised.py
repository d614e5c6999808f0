"""Where waits and barriers go in many small random programs: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from benchmarks.kernel_results import bare, digest
from benchmarks.random_programs.declarations import random_meaning
from benchmarks.random_programs.lowering import Plan, random_plan
from pipeloom.errors import ScheduleError
from pipeloom.program import Barrier, Program, Wait, Work
from pipeloom.sync import PROVEN, REPAIRED, synchronize
from pipeloom.sync.draft import with_waits

PLANS = 55
LARGEST = 110
"""Steps of a plan: what is larger says the same and takes longer."""


def sync_rows() -> dict[str, dict[str, str]]:
    """By plan: its synchronisation derived anew, with its barriers kept, and in a wrong order."""
    found = {}
    for seed in range(PLANS):
        rng = Random(seed)
        plan = random_plan(random_meaning(rng), rng)
        if sum(len(items) for _, items in plan.sections) <= LARGEST:
            found[f"seed {seed}"] = dict(_row(plan, rng, seed))
    return found


def _row(plan: Plan, rng: Random, seed: int) -> Iterator[tuple[str, str]]:
    barriers = [s.number for s in plan.syncs if isinstance(s.step, Barrier)]
    fewer = plan.program(n for n in barriers if rng.random() < 0.3)
    moved = _moved(plan, rng)
    asked: dict[str, Callable[[], Program]] = {
        "derived": lambda: synchronize(plan.program(), method=PROVEN, prove=seed % 4 == 0),
        "kept": lambda: synchronize(fewer, method=REPAIRED, prove=False),
        "waits alone": lambda: with_waits(plan.program()),
        "moved": lambda: synchronize(moved, prove=False),
        "moved back": lambda: synchronize(moved, reorder=True, prove=False),
        "moved, kept": lambda: synchronize(moved, method=REPAIRED, reorder=True, prove=False),
    }
    for name, ask in asked.items():
        try:
            yield name, _said(ask())
        except ScheduleError as error:
            yield name, " ".join(str(error).split())


def _moved(plan: Plan, rng: Random) -> Program:
    """With two steps of some section the other way round."""
    program = plan.program()
    group = rng.randrange(len(program.groups))
    changed = program.groups[group]
    sections = list(changed.sections)
    at = rng.randrange(len(sections))
    steps = list(sections[at].steps)
    works = [n for n, step in enumerate(steps) if isinstance(step, Work)]
    if len(works) > 1:
        one, two = rng.sample(works, 2)
        steps[one], steps[two] = steps[two], steps[one]
    sections[at] = replace(sections[at], steps=tuple(steps))
    groups = [*program.groups]
    groups[group] = replace(changed, sections=tuple(sections))
    return program.with_groups(tuple(groups), program.provenance)


def _said(program: Program) -> str:
    """Waits and barriers among the work, a letter or two each."""
    said = []
    for group in program.groups:
        for section in group.sections:
            marks = "".join(map(_mark, section.steps))
            said.append(f"{section.name} {marks}" if marks else "")
    how = program.provenance
    notes = [*how.notes, *(f"{move.label} by {move.by}" for move in how.moved)]
    return ", ".join([*filter(None, said), *notes, digest(bare(program))])


def _mark(step: object) -> str:
    if isinstance(step, Barrier):
        return "|"
    if isinstance(step, Wait):
        return f"{step.counter[0]}{step.count}"
    return "."
