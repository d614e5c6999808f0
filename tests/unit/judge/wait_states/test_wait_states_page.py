"""docs/wait-states.md is what the table says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[4] / "docs" / "make_wait_states.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_wait_states", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), (
        "run: python docs/make_wait_states.py"
    )
