"""Schedules broken by one slip that stay PROVED, seen by the other judges: a few of them."""

from __future__ import annotations

import pytest

from benchmarks import proved_mutants
from benchmarks.proved_mutants import SUBJECTS, Judged, judged, mutants_of, page
from benchmarks.random_programs.mutate import MutationKind

PING_PONG, _, SINGLE_BUFFER = SUBJECTS


def test_proved_mutants_compute_what_they_should() -> None:
    some = list(mutants_of(PING_PONG, swaps=4))[3::190]
    found = [judged(PING_PONG, mutant) for mutant in some]
    assert [one.name for one in found if one.false] == []
    assert any(one.proved and one.emulated for one in found)


def test_a_false_proof_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By executor and emulator, each for itself."""
    monkeypatch.setattr(proved_mutants, "proves", lambda _: True)
    broken = next(m for m in mutants_of(SINGLE_BUFFER, 9) if m.kind is MutationKind.DROP_BARRIER)
    found = judged(SINGLE_BUFFER, broken)
    assert (found.executed, found.emulated, found.false) == (False, False, True)
    lines = page([found, Judged("four_wave", "drop wait", "w", False)], "me", "0").splitlines()
    assert lines[-1] == f"- single_buffer: {broken.name}"
    assert "| total |  | 2 | 1 | 0 | 0 | 0 | 1 |" in lines
