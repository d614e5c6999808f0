"""The whole-GPU model beside published throughput: the targets, where the shared data is there."""

from __future__ import annotations

import math

import pytest

from evidence import attention_tflops, family_figures, gemm_fit
from evidence.cms_loops import shared_file
from evidence.gemm_fit import CONSTANTS, Fit, with_constants
from evidence.gemm_model import Case, by_bounds, cases, kendall, table
from evidence.published_families import EXPERTS, PRODUCTS
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
    """A product, a convolution as it ran, two layers of experts, all of attention: cheap ones."""
    text = family_figures.PAGE.read_text("utf-8")
    few = [one for one in PRODUCTS if one.family != "convolution, 3-D"][0:5:4]
    docs, decode = (
        page.read_text("utf-8") for page in (attention_tflops.PAGE, family_figures.DECODE_PAGE)
    )
    compared = [
        *family_figures.products(few),
        *family_figures.experts(EXPERTS[-4::3]),
        *family_figures.attention(docs),
        *family_figures.backward(docs),
        *family_figures.decode(decode),
    ]
    assert [one.ran is None for one in compared[:2]] == [True, False]
    rows = family_figures.page(compared).splitlines()
    families = tuple(f"| {one.family} |" for one in compared)
    shown = [row for row in rows if row.startswith(families) and row.count("|") > 9]
    assert len(shown) == len(compared)
    assert set(shown) <= set(text.splitlines())


def test_rows_of_families_that_are_slower_say_why() -> None:
    rows = [
        [cell.strip() for cell in row.split("|")]
        for row in family_figures.PAGE.read_text("utf-8").splitlines()
        if row.count("|") == 11
    ]
    slower = [row for row in rows[2:] if int(row[7].rstrip("%")) < 100 * family_figures.SLOWER]
    assert len(rows) > 90
    assert slower
    assert all(row[10] for row in slower)


def test_operands_stay_in_l2_only_where_they_fit() -> None:
    small, large = GemmProblem(256, 512, 2048, "fp8"), GemmProblem(4096, 4096, 4096, "fp8")
    assert family_figures.launched_again(small).memory.mall_ns.value == 0
    assert family_figures.launched_again(large) is family_figures.GPU


def test_values_that_fit_as_well_are_a_constants_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "SIDES", (128, 256))
    monkeypatch.setattr(gemm_fit, "HELD", {"gap_us": (0.5, 200.0)})
    case = Case("published", "MI355X", GemmProblem(4096, 4096, 4096), 1400.0)
    (line,) = gemm_fit.intervals(Fit([case]), 3)
    assert line.startswith("gap_us: 0.5 to ")
    assert not line.startswith("gap_us: 0.5 to 200")  # which fits nothing
    held = Fit([case]).run(12, CONSTANTS, held=frozenset(CONSTANTS) - {"floor"})
    assert {name for name in held if held[name] != CONSTANTS[name]} <= {"floor"}
