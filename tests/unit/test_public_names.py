"""The public names: one list, in ``__init__.pyi``."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pipeloom


def test_every_name_is_there_and_has_one_home() -> None:
    stub = Path(pipeloom.__file__).with_suffix(".pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    listed = [a for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names]
    assert sorted(a.name for a in listed) == list(pipeloom.__all__)
    assert all(a.asname == a.name for a in listed), "a re-export is `X as X`"
    assert not [a.name for a in listed if not hasattr(pipeloom, a.name)]


def test_importing_imports_none_of_them() -> None:
    heavy = "import sys, pipeloom; sys.exit(any(m.startswith('pipeloom.') for m in sys.modules))"
    assert not subprocess.run([sys.executable, "-c", heavy]).returncode


def test_evaluating_means_one_thing() -> None:
    """``loop.evaluate`` gives values; the cost of an order has another name."""
    assert hasattr(pipeloom.Loop, "evaluate")
    assert not hasattr(pipeloom, "evaluate")
