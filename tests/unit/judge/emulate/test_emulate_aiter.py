"""Hand-written kernels of ROCm/aiter, where a checkout is named; and their launch tables."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from evidence.aiter_corpus import run
from evidence.aiter_corpus.attention import SHUFFLED, Kind, unshuffled
from evidence.aiter_corpus.case import VARIABLE, Case, corpus_root, place
from evidence.aiter_corpus.gemm import shuffle_rows, shuffle_scales
from evidence.aiter_corpus.ledger import CHECK_HEAD, HEAD, Page
from evidence.aiter_corpus.run import FAMILIES, Outcome, cases, judge_case

SMALL = {
    "bf16gemm": "32x64_bshuffle_splitk_clean",
    "i8gemm": "_16x128",
    "f4gemm": "_32x128",
    "fp8gemm_blockscale": "_32x128",
    "fmha_v3_bwd": "hd64_odo_bf16",
    "fmoe": "bf16_pertokenFp8_g1u1_silu_1tg_32x128",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kernel_of_each_family(family: str) -> None:
    root = corpus_root()
    if root is None:
        pytest.skip(f"{VARIABLE} names no checkout of ROCm/aiter")
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    case = next(cases(family, root, moe=1000, only=SMALL[family]))
    outcome = judge_case(family, case)
    assert outcome.ran, outcome.problem
    assert outcome.agrees == "yes"


def test_fmoe_is_a_sample_with_a_seed(tmp_path: Path) -> None:
    (tmp_path / "fmoe").mkdir()
    for number in range(30):
        (tmp_path / "fmoe" / f"fmoe_fp16_pertokenFp8_g1u1_{number}_32x256.co").touch()
    drawn = [[case.name for case in cases("fmoe", tmp_path, 5, seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 5


@pytest.mark.parametrize("width", SHUFFLED)
def test_shuffles_lose_nothing(width: int) -> None:
    rows = np.arange(32 * width, dtype=np.uint16).reshape(32, width)
    for moved in (unshuffled(rows), shuffle_rows(rows)):
        np.testing.assert_array_equal(np.sort(moved.ravel()), rows.ravel())
    scales = np.random.default_rng(1).integers(1, 255, (40, 12)).astype(np.uint8)
    shuffled = shuffle_scales(scales)
    assert shuffled.shape == (256, 16)
    kept = shuffled[shuffled > 0]
    np.testing.assert_array_equal(np.sort(kept), np.sort(scales.ravel()))


def test_arrays_are_pointers_whatever_the_metadata_says() -> None:
    known = {"starts": (16, 4), "n": (32, 4)}
    placed = place(known, {"starts": np.zeros(2, np.int32), "n": 3, "other": 1})
    assert [(p.offset, p.size) for p in placed] == [(16, 8), (32, 4)]
    assert place(known, {"starts": None})[0].size == 8


def test_names_say_what_a_kernel_is() -> None:
    kind = Kind.of(Path("bwd_hd192_128_fp16_causal_br_a16_pssk_group.co"))
    assert (kind.part, kind.head_q, kind.head_v) == ("dqdkdv", 192, 128)
    assert (kind.half, kind.mask, kind.wide_sum, kind.grouped) == (True, "causal_br", False, True)


def test_the_page_counts_its_rows_and_is_read_as_written() -> None:
    rows = [
        Outcome("a", "l", False, "no", 1, 0.1, {"lds-race": 2}, "why", ("RACE",)),
        Outcome("a", "k", True, "yes", 1, 0.1, {}, "", ("PROVED",)),
        Outcome("b", "m", True, "-", 1, 0.1, {}, "", ("PROVED",)),
    ]
    page = Page("# By hand\n", {})
    for outcome in rows:
        page = page.with_row(outcome.family, outcome.cells())
    first, second = page.summaries()
    assert first == "a: 1 of 2 ran to the end, 1 of 2 agree, 1 PROVED, 1 RACE"
    assert second == "b: 1 of 1 ran to the end, not compared, 1 PROVED"
    assert not page.all_ran
    assert "no: why" in page.text()
    again = Page.read(page.text())
    assert again.text() == page.text()
    better = again.with_row("a", Outcome("a", "l", True, "yes", 1, 0.1, {}).cells())
    assert better.all_ran
    assert len(better.rows["a"]) == 2


def test_what_takes_too_long_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(Path("slow.co"), (1, 1, 1), dict)
    for told, late in ((lambda *_: time.sleep(60), "over 0 s"), (lambda *_: None, "died")):
        monkeypatch.setattr(run, "_work", told)
        outcome = run.in_child("a", case, True, 0.2 if "over" in late else 20)
        assert not outcome.ran
        assert late in outcome.problem
        assert len(outcome.cells()) == len(HEAD + CHECK_HEAD)
