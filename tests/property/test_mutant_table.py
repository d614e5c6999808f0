"""A fixed sample of the mutant table (evidence/mutants.py): executor and verifier must agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence import mutants
from pipeloom.judge.execute import sample_mutants


@pytest.mark.parametrize(("sort", "count", "each"), [("golden", 3, 6), ("fixed", 4, 10)])
def test_the_two_agree_on_every_mutant(sort: str, count: int, each: int) -> None:
    bases: Callable[[int], list[Any]] = getattr(mutants, f"{sort}_bases")
    judgements = [
        mutants.judge(base, mutant)
        for number, base in enumerate(bases(count))
        for mutant in sample_mutants(base.compiled, each, seed=number)
    ]
    assert len(judgements) == count * each
    for judgement in judgements:
        assert not judgement.missed, judgement.mutant.name
        assert not judgement.false_alarm, (judgement.mutant.name, judgement.replays)
        assert judgement.replays.witnessed == judgement.replays.done
    wrong = sum(judgement.wrong for judgement in judgements)
    if sort == "golden":
        assert wrong == len(judgements)
    else:
        assert 10 <= wrong <= len(judgements) - 10


def test_golden_bases_run_dry_without_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "GOLDEN", tmp_path / "absent.gz")
    assert [base.compiled.schedule for base in mutants.golden_bases(5)] == [
        "four_wave",
        "ping_pong",
    ]
    assert [base.name for base in mutants.fixed_bases(1)] == ["fixed canonical four_wave"]


def test_the_table_names_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    base = mutants.golden_bases(1)[0]
    mutants.print_table([mutants.judge(base, sample_mutants(base.compiled, 1)[0])])
    out = capsys.readouterr().out
    assert "missed" in out
    assert "false alarms" in out
    assert out.splitlines()[-1].split() == ["total", "1", "1", *out.splitlines()[-1].split()[3:]]
