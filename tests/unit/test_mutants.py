"""The mutants of ``benchmarks/mutation_score.py`` are changes, and the same in every run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutation import mutants
from benchmarks.mutation.inside import ASKED
from benchmarks.mutation.mutants import draw, mutants_of
from benchmarks.mutation.reach import load
from benchmarks.mutation.switched import with_switches

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


def test_a_mutant_sleeps_beside_the_original() -> None:
    """Also one within another, and a statement; each is awake alone."""
    source = SOURCE.replace(b"continue", b"break")
    drawn = mutants_of("a.py", source)
    changed, left = with_switches(source, dict(enumerate(drawn)))
    assert not left

    def results(code: bytes, awake: int) -> list[object]:
        space: dict[str, object] = {"__mutant__": lambda number: number == awake}
        exec(compile(code, "a.py", "exec"), space)
        found: list[object] = [space["LIMIT"]]
        for values in ([5, 2], [3, 3], [10, 1, 12], [9, 4], []):
            for low in ((), (3,)):
                try:
                    found.append(space["least"]([*values], *low))  # type: ignore[operator]
                except (ValueError, TypeError) as error:
                    found.append(type(error))
        return found

    assert results(changed, -1) == results(source, -1)
    for number, mutant in enumerate(drawn):
        assert results(changed, number) == results(mutant.applied(source), -1), mutant.key


def test_a_mutant_of_a_pattern_has_no_place_beside_the_original() -> None:
    source = b"def f(a):\n    match a:\n        case 1:\n            return 2\n"
    drawn = mutants_of("a.py", source)
    changed, left = with_switches(source, dict(enumerate(drawn)))
    assert [drawn[number].before for number in left] == ["1"]
    assert b"(3) if __mutant__" in changed


def test_the_likeliest_tests_come_first_and_fit_the_time(tmp_path: Path) -> None:
    (mutant,) = (m for m in mutants_of("order/gaps.py", b"LIMIT = 3\n"))
    tests = {
        "tests/unit/order/test_gaps.py::test_quick": 0.1,
        "tests/unit/order/test_gaps.py::test_slow": 5.0,
        "tests/unit/order/test_weave.py::test_it[a]": 0.2,
        "tests/unit/order/test_weave.py::test_it[b]": 0.2,
        "tests/golden/test_kernels.py::test_results[gemm]": 0.4,
        "tests/unit/cli/test_cli.py::test_all": 0.1,
    }
    rows: list[dict[str, object]] = [{"keys": {"0": mutant.key}}]
    rows += [
        {"test": test, "seconds": took, "reached": [0], "passed": True}
        for test, took in tests.items()
    ]
    rows.append({"test": "tests/test_a.py::test_b", "seconds": 0, "reached": [0], "passed": False})
    (tmp_path / "reach-000.jsonl").write_text("\n".join(map(json.dumps, rows)))
    chosen = load(tmp_path).tests_of(mutant, budget=1.05)
    assert [test.rpartition("/")[2] for test in chosen] == [
        "test_gaps.py::test_quick",
        "test_weave.py::test_it[a]",
        "test_kernels.py::test_results[gemm]",
        "test_weave.py::test_it[b]",
        "test_cli.py::test_all",
    ]
    assert list(load(tmp_path).tests_of(mutant, 1.0, frozenset(chosen))) == [
        "tests/unit/order/test_gaps.py::test_slow"
    ]


def test_what_conftest_files_import_is_come_by_at_import(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("__mutant__(5)\n", "utf-8")
    (tmp_path / "test_a.py").write_text("__mutant__(6)\ndef test_b(): __mutant__(7)\n", "utf-8")
    asked, into = tmp_path / "asked.json", tmp_path / "reach-000.jsonl"
    asked.write_text(json.dumps({"cases": [], "into": str(into)}), "utf-8")
    root = Path(__file__).parents[2]
    env = {**os.environ, ASKED: str(asked), "PYTHONPATH": str(root)}
    plugins = ("benchmarks.mutation.inside", "no:cacheprovider", "no:xdist")
    command = [sys.executable, "-m", "pytest", "-q", "test_a.py"]
    command += [word for plugin in plugins for word in ("-p", plugin)]
    subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
    rows = [json.loads(line) for line in into.read_text("utf-8").splitlines()]
    found = [(row["test"], row["reached"]) for row in rows]
    assert found == [("", [5, 6]), ("test_a.py::test_b", [7])]
