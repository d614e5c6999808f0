"""The whole-GPU model beside published throughput: the targets, where the shared data is there."""

from __future__ import annotations

import math

import pytest

from evidence import attention_tflops, family_figures
from evidence.cms_loops import shared_file
from evidence.gemm_fit import CONSTANTS, Fit, with_constants
from evidence.gemm_model import Case, by_bounds, cases, kendall, table
from pipeloom.declare.gemm_problem import GemmProblem
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


def test_a_fit_comes_to_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """From whatever figures: two, made up, that the shipped constants do not give."""
    monkeypatch.setattr(candidates, "SIDES", (128, 256))
    made_up = [
        Case(kind, "MI355X", GemmProblem(4096, 4096, 4096), tflops)
        for kind, tflops in (("published", 900.0), ("tuned", 1000.0))
    ]
    found = [Fit(made_up).run(12, CONSTANTS) for _ in range(2)]
    assert found[0] == found[1] != CONSTANTS
    assert Fit(made_up).run(12, CONSTANTS, seed=1) != found[0]


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
            assert kendall([(c.tflops, c.case.tflops) for c in mine]) >= 0.8
    assert table(compared).count("\n") == len(groups) + 2


def test_the_page_of_families_is_what_the_model_says() -> None:
    """Two products, one layer of experts, all of attention: the rest would take seconds."""
    text = family_figures.PAGE.read_text("utf-8")
    few = [family_figures.FIGURES[0], family_figures.FIGURES[3]]
    docs = attention_tflops.PAGE.read_text("utf-8")
    layers = family_figures.experts(family_figures.EXPERTS[-1:])
    compared = [*family_figures.products(few), *layers, *family_figures.attention(docs)]
    rows = family_figures.page(compared).splitlines()
    families = tuple(f"| {one.family}" for one in compared)
    shown = [row for row in rows if row.startswith(families) and row.count("|") > 6]
    assert len(shown) == len(compared)
    assert set(shown) <= set(text.splitlines())
