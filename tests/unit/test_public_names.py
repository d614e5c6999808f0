"""The public names: one table, and the imports that tell type checkers the same."""

from __future__ import annotations

import ast
from pathlib import Path

import pipeloom


def _imports_for_type_checkers() -> dict[str, tuple[str, ...]]:
    tree = ast.parse(Path(pipeloom.__file__).read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module
        assert all(alias.asname == alias.name for alias in node.names), "a re-export is `X as X`"
        found[node.module] = tuple(alias.name for alias in node.names)
    return found


def test_type_checkers_see_the_table() -> None:
    def sets(table: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
        return {home: set(names) for home, names in table.items()}

    assert sets(_imports_for_type_checkers()) == sets(pipeloom._HOMES)


def test_no_name_has_two_homes() -> None:
    assert len(pipeloom.__all__) == sum(len(names) for names in pipeloom._HOMES.values())
