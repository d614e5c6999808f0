"""evidence/wait-states.md is what the table says today."""

from __future__ import annotations

from evidence import make_wait_states


def test_the_page_is_up_to_date() -> None:
    assert make_wait_states.PAGE.read_text(encoding="utf-8") == make_wait_states.page(), (
        "run: python -m evidence.make_wait_states"
    )
