"""The mutants of ``benchmarks/mutation_score.py`` are changes, and the same in every run."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.mutation.mutants import draw, mutants_of
from benchmarks.mutation.reach import reported_id

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


def test_a_mutant_differs_in_one_place_and_is_python() -> None:
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
