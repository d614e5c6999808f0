"""These tests use what users have: ``import pipeloom as pl`` and its listed names."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

import pipeloom as pl

FILES = sorted(Path(__file__).parent.glob("test_*.py"))
FILES = [path for path in FILES if path != Path(__file__)]
OUTSIDE = {"numpy", "pytest"}


def _imported(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_only_public_names(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = {n for n in _imported(tree) if n.split(".")[0] in ("pipeloom", "tests", "evidence")}
    assert ours == {"pipeloom"}
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    used = {a.attr for a in attributes if isinstance(a.value, ast.Name) and a.value.id == "pl"}
    assert used <= set(pl.__all__)
    private = {a.attr for a in attributes if a.attr.startswith("_") and a.attr != "__name__"}
    assert not private


def test_every_kind_of_extension_is_here() -> None:
    kinds = ("chip", "dtype", "op", "kernel", "family", "schedule", "strategy", "exporter")
    assert {path.stem for path in FILES} == {f"test_{kind}" for kind in kinds}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("chip", "a chip of a known family, to machine code that runs"),
        ("dtype", "a type of less than a byte, whose products run"),
        ("family", "a kernel family with a reduction of its own"),
    ],
)
def test_how_many_files_it_takes(kind: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The module and what it imports of ours but pipeloom; that it runs is what it asserts."""
    path = Path(__file__).with_name(f"test_{kind}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    others = OUTSIDE | sys.stdlib_module_names | {"pipeloom"}
    files = {path.stem, *(n for n in _imported(tree) if n.split(".")[0] not in others)}
    with capsys.disabled():
        print(f"\n{what}: {len(files)} file ({path.name}), none of pipeloom's changed")
    assert files == {path.stem}
    runs = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "run"]
    assert any(isinstance(n.value, ast.Name) and n.value.id == "pl" for n in runs)
    assert any(
        isinstance(n, ast.Assert) and isinstance(n.test, ast.Attribute) and n.test.attr == "ok"
        for n in ast.walk(tree)
    )


@pytest.mark.parametrize(("kernel", "most"), [(pl.kernels.gemm, 20), (pl.kernels.row_sum, 15)])
def test_declarations_stay_short(kernel: object, most: int) -> None:
    assert inspect.isfunction(kernel)
    explained = len(str(kernel.__doc__).splitlines())
    assert len(inspect.getsource(kernel).splitlines()) - explained <= most
