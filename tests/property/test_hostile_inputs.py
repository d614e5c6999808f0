"""A fixed sample of what ``benchmarks/hostile_inputs.py`` and ``signals.py`` run at large."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from benchmarks.hostile_cases import CASES, Case
from benchmarks.hostile_inputs import planned
from benchmarks.hostile_run import ran
from benchmarks.signals import COMMANDS, shot

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs forks and signals")
pytest.importorskip("ziglang")

SAMPLE = 8
"""Of each kind but the slowest, of which there is one."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_gets_through(case: Case, tmp_path: Path) -> None:
    count = 1 if case.name == "store rows" else SAMPLE
    for _, seed in planned(count, seed=1, only=case.name):
        ended = ran(case, seed, tmp_path / "case")
        assert not ended.fault, f"seed {seed}: {ended.fault}"


def test_the_same_seed_gives_the_same_inputs() -> None:
    from random import Random

    for case in CASES[:-1]:
        good = case.good()
        first = [case.mutate(good, Random(seed)) for seed in range(5)]
        assert first == [case.mutate(good, Random(seed)) for seed in range(5)]
        assert any(data != good for data in first)


def test_shares_are_kept() -> None:
    plan = [case.name for case, _ in planned(1000, 0)]
    for case in CASES:
        assert abs(plan.count(case.name) - case.share / 10) <= 1


@pytest.mark.parametrize(
    ("command", "sent", "after"),
    [
        ("derive", signal.SIGTERM, 1.5),
        ("emit", signal.SIGTERM, 1.0),
        ("check", signal.SIGINT, 0.8),
        ("tune", signal.SIGTERM, 2.5),
    ],
)
def test_nothing_is_left_after_a_signal(
    command: str, sent: signal.Signals, after: float, tmp_path: Path
) -> None:
    """Whenever it comes: the moment differs from run to run, what must hold does not."""
    result = shot(command, sent, after, group=False, place=tmp_path / "case")
    assert command in COMMANDS
    assert not result.fault
    assert result.code in (0, 128 + sent)
