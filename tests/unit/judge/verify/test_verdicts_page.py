"""docs/verdicts.md shows what the code prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pipeloom import build_schedule
from pipeloom.drive.programs import verify

PAGE = (Path(__file__).parents[4] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in one language."""
    fences: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M)
    return [text for found, text in fences if found == language]


def test_the_sample_finding_is_what_the_snippet_prints() -> None:
    snippet, sample = blocks("python")[0], blocks("")[0]
    call = "print(verdict.shortest().describe())"
    assert f"`{call}`" in PAGE
    printed: list[str] = []
    names: dict[str, Any] = {"print": printed.append}
    exec(snippet + call, names)
    summary, finding = printed
    assert summary == verify(build_schedule("four_wave")).summary()
    assert sample == finding + "\n"
