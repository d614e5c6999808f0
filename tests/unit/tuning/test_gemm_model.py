"""The whole-GPU model beside published throughput: the targets, where the shared data is there."""

from __future__ import annotations

import math

import pytest

from evidence.cms_loops import shared_file
from evidence.gemm_model import CONSTANTS, by_bounds, cases, kendall, table, with_constants
from pipeloom.machine.gpus import GPUS
from pipeloom.tuning import candidates


def test_kendall() -> None:
    assert kendall([(1, 1), (2, 2), (3, 3)]) == 1
    assert kendall([(1, 3), (2, 2), (3, 1)]) == -1
    assert kendall([(1, 1), (2, 3), (3, 2)]) == pytest.approx(1 / 3)
    assert kendall([(1, 1), (1, 2)]) == 0
    assert math.isnan(kendall([(1, 1)]))


def test_the_fit_starts_from_what_is_shipped() -> None:
    for gpu in GPUS:
        assert with_constants(gpu, CONSTANTS) == gpu


@pytest.mark.skipif(
    not shared_file("gemm_tflops.jsonl").is_file(), reason="needs the shared data (bench/)"
)
def test_the_model_is_as_good_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "SIDES", (128, 192, 224, 256))
    compared = by_bounds(case for case in cases() if case.kind == "published")
    assert len(compared) >= 20
    assert sum(abs(one.error) for one in compared) / len(compared) <= 0.15
    groups = {(one.case.chip, one.case.problem.dtype) for one in compared}
    for group in groups:
        mine = [c for c in compared if (c.case.chip, c.case.problem.dtype) == group]
        if len(mine) > 1:
            assert kendall([(c.prediction.tflops, c.case.tflops) for c in mine]) >= 0.8
    assert table(compared).count("\n") == len(groups) + 2
