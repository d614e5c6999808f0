"""The mutants of ``benchmarks/mutation_score.py`` are changes, and the same in every run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.mutation import mutants
from benchmarks.mutation.mutants import draw, mutants_of
from benchmarks.mutation.reach import reported_id
from benchmarks.mutation.trial import Fate, _outcome

PACKAGE = Path(__file__).parents[2] / "src" / "pipeloom"

SOURCE = b'''
LIMIT: int = 3

def least(values: list[int], low: int = 0) -> int | None:
    """Of those above ``low`` (\xc3\xa4)."""
    if not values or LIMIT < 0:
        raise ValueError(f"{1 + 1}")
    values.sort()
    for value in values:
        if low < value <= 9:
            continue
    return min(values) - low
'''


def test_the_changes_of_a_file() -> None:
    found = {(m.function, m.before, m.after) for m in mutants_of("a.py", SOURCE)}
    assert found == {
        ("<module>", "3", "(4)"),
        ("least", "0", "(1)"),
        ("least", "not values or LIMIT < 0", "(not values and LIMIT < 0)"),
        ("least", "not values or LIMIT < 0", "(not (not values or LIMIT < 0))"),
        ("least", "not values", "(values)"),
        ("least", "LIMIT < 0", "(LIMIT <= 0)"),
        ("least", "values.sort()", "pass"),
        ("least", "9", "(10)"),
        ("least", "continue", "break"),
        ("least", "min(values) - low", "(min(values) + low)"),
        ("least", "min(values)", "(max(values))"),
    }


def test_a_mutant_differs_in_one_place_and_is_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "PACKAGES", ("program", "sync", "drive/store.py"))
    drawn = draw(PACKAGE, 200, seed=5)
    assert drawn == draw(PACKAGE, 200, seed=5)
    assert len({m.key for m in drawn}) == 200
    for mutant in drawn:
        source = (PACKAGE / mutant.path).read_bytes()
        changed = mutant.applied(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant.key


def test_a_reported_test_is_found_again_also_in_a_class(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    assert reported_id(tmp_path, "tests.test_a", "test_x[1]") == "tests/test_a.py::test_x[1]"
    assert reported_id(tmp_path, "tests.test_a.TestB", "test_x") == "tests/test_a.py::TestB::test_x"


@pytest.mark.parametrize(
    ("code", "text", "fate"),
    [
        (0, "3 passed", Fate.SURVIVED),
        (1, "FAILED tests/test_a.py::test_x - assert 1 == 2", Fate.KILLED),
        (1, "Traceback of the runner", Fate.FAULTY),
        (2, "ERROR tests/test_a.py - ImportError", Fate.KILLED),
        (2, "ERROR  - _pytest.main.Failed: stopping after 1 failures", Fate.FAULTY),
        (4, "ERROR tests/test_a.py - KeyError: 1\nERROR: found no collectors", Fate.KILLED),
        (4, "ERROR: file or directory not found: tests/test_a.py", Fate.FAULTY),
        (4, "ImportError while loading conftest", Fate.KILLED),
        (5, "no tests ran", Fate.FAULTY),
        (70, "", Fate.FAULTY),
    ],
)
def test_only_what_a_test_says_kills(tmp_path: Path, code: int, text: str, fate: Fate) -> None:
    """A file of tests that is not there says nothing."""
    log = tmp_path / "log.txt"
    log.write_text(text)
    assert _outcome(code << 8, log)[0] is fate
