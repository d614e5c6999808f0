"""Trip counts beyond the repeating state add nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeloom import CompiledSchedule, build_schedule
from pipeloom.judge.verify.schedules import verify
from pipeloom.judge.verify.schedules.induction import cut_positions, state_at
from pipeloom.judge.verify.schedules.model import Access
from pipeloom.judge.verify.schedules.obligations import check_run
from pipeloom.judge.verify.schedules.run import build_run
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.resync import synchronize

GOLDEN = Path(__file__).parents[3] / "golden" / "schedules.jsonl.gz"
with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
    SPECS: dict[str, Any] = {
        case["case"].removeprefix("canonical/"): case["spec"]
        for case in map(json.loads, stream)
        if case["case"].startswith("canonical/")
    }

SAMPLE = ["ping_pong/005", "ping_pong/039", "ping_pong/041", "four_wave/000", "four_wave/030"]
Pair = tuple[str, tuple[int, int] | None, tuple[int, int]]


def entry(access: Access) -> tuple[int, int]:
    return int(access.step.phase), access.step.slot


def brute_force(compiled: CompiledSchedule, kernel: Kernel, trips: range) -> set[Pair]:
    """The hazards of each trip count on its own, without any induction."""
    found: set[Pair] = set()
    for count in trips:
        for hazard in check_run(build_run(kernel, compiled, count)).hazards:
            first = None if hazard.first is None else entry(hazard.first)
            found.add((hazard.kind.value, first, entry(hazard.second)))
    return found


@pytest.mark.parametrize("name", [*SAMPLE, "single_buffer/002"])
def test_nine_trip_counts_show_what_the_verdict_shows(name: str) -> None:
    compiled = build_schedule(SPECS[name])
    verdict = verify(compiled)
    claimed = {
        (
            f.kind.value,
            None if f.first is None else (int(f.first.phase), f.first.slot),
            (int(f.second.phase), f.second.slot),
        )
        for f in verdict.findings
        if f.counterexample is not None
    }
    assert claimed == brute_force(compiled, kernel_for(compiled), range(9))


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_a_proof_is_a_proof_at_nine_trip_counts(name: str) -> None:
    compiled = synchronize(build_schedule(name), reorder=True)
    verdict = verify(compiled)
    assert verdict.proved
    assert verdict.coverage.period is not None
    assert brute_force(compiled, kernel_for(compiled), range(9)) == set()


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_the_state_really_repeats(name: str) -> None:
    """All later cuts of a long run show the state that the verdict found twice."""
    compiled = synchronize(build_schedule(name), reorder=True)
    coverage = verify(compiled).coverage
    assert coverage.repeats_from is not None
    run = build_run(kernel_for(compiled), compiled, 9)
    outcome = check_run(run)
    states = []
    for iteration in range(8):
        cut = cut_positions(run, iteration)
        assert cut is not None
        states.append(state_at(run, outcome, iteration, cut))
    steady = states[coverage.repeats_from :]
    assert len(set(steady)) == coverage.period == 1


def test_a_state_that_differs_in_flight_is_not_the_same(toy: Any) -> None:
    """A load kept in flight for three trips shows up as three different states first."""
    compiled = toy.compiled(
        "load vm0 bar frag lg0 bar", "load1 load mma vm0 bar frag lg0 bar", "mma"
    )
    slow = toy.compiled(
        "load vm0 bar frag lg0 bar", "load load1 load1 mma vm2 bar frag lg0 bar", "mma"
    )
    for schedule in (compiled, slow):
        assert verify(schedule, toy.Kernel()).proved
