"""A fixed sample of the mutant table (evidence/mutants.py): executor and verifier must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.random_programs.judging import HEADS, describe, judge, table
from evidence import mutants


@pytest.mark.parametrize(("sort", "count", "each"), [("golden", 3, 3), ("fixed", 4, 4)])
def test_the_two_agree_on_every_mutant(sort: str, count: int, each: int) -> None:
    bases = {"golden": mutants.golden_bases, "fixed": mutants.fixed_bases}[sort](count)
    judgements = [
        judge(case)
        for number, base in enumerate(bases)
        for case in mutants.mutants_of(base, each, number)
    ]
    assert len(judgements) == count * each
    for judgement in judgements:
        assert not judgement.missed, describe(judgement)
        assert not judgement.false_alarm, describe(judgement)
    wrong = sum(judgement.failure is not None for judgement in judgements)
    if sort == "golden":
        assert wrong == len(judgements)
    else:
        assert 4 <= wrong <= len(judgements) - 4


def test_golden_bases_run_dry_without_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "GOLDEN", tmp_path / "absent.gz")
    assert [base.program.name for base in mutants.golden_bases(5)] == ["four_wave", "ping_pong"]
    assert [base.name for base in mutants.fixed_bases(1)] == ["canonical four_wave"]


def test_the_table_counts_every_judgement_in_its_kind_and_in_the_total() -> None:
    base = mutants.golden_bases(1)[0]
    judged = [judge(case) for case in mutants.mutants_of(base, 1, 0)]
    *kinds, total = table(judged, lambda judgement: (judgement.case.kind,))
    assert [row[0] for row in kinds] == [judged[0].case.kind]
    assert total == ("total", *(str(judged[0].row[head]) for head in HEADS))
