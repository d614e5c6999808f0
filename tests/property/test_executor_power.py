"""A small sample of ``benchmarks/executor_power.py``: what the emulator shows wrong, the executor
shows too."""

from __future__ import annotations

from benchmarks.executor_power import SUBJECTS, Judged, judged, mutants_of, page, shown_share
from benchmarks.random_programs.mutate import MutationKind


def test_the_executor_shows_what_the_emulator_shows() -> None:
    subject = next(subject for subject in SUBJECTS if subject.name == "softmax")
    found = [judged(subject, mutant) for mutant in mutants_of(subject, 1, 0)]
    shown, wrong = shown_share(found)
    assert shown == wrong
    assert wrong >= 5
    right = {one.kind for one in found if one.emulated is False and one.executed == "missed"}
    assert MutationKind.TIGHTEN_WAIT in right  # which is only slower


def test_the_page_counts_what_was_missed_and_names_it() -> None:
    kinds = (MutationKind.DROP_WAIT, MutationKind.DROP_STEP, MutationKind.WRONG_BOX)
    some = [
        Judged("softmax", kinds[0], "one", True, "wrong"),
        Judged("softmax", kinds[0], "two", True, "missed"),
        Judged("softmax", kinds[1], "three", False, "wrong"),
        Judged("softmax", kinds[1], "four", True, "suspect"),
        Judged("gemm", kinds[2], "five", None, ""),
        Judged("gemm", kinds[2], "six", False, "missed"),
    ]
    assert shown_share(some) == (2, 3)
    made = page(some, "made", "here")
    rows = {
        cells[0]: [int(cell) for cell in cells[1:]]
        for line in made.splitlines()
        if line.startswith("| ") and (cells := line[2:-2].split(" | "))[1].isdigit()
    }
    assert rows["drop wait"] == [2, 0, 2, 1, 0, 1, 0]
    assert rows["drop step"] == [2, 0, 1, 0, 1, 0, 0]
    assert rows["wrong box"] == [2, 1, 0, 0, 0, 0, 1]
    assert rows["total"] == [6, 1, 3, 1, 1, 1, 1]
    assert "- softmax: two" in made
    assert "66.7%" in made
