"""The reader of pages finds what is there, and a wrong page does not pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Command, agrees, blocks_of

PAGE = """
# A page

```python title="mine.py"
x = 1
```

prints

```text
1
```

<!-- not run: it takes a day -->
```sh
pipeloom tune all \\
    --jobs 2
make demo
pipeloom verify four_wave  # exit code 3
```

```json
{}
```
"""


def _blocks(tmp_path: Path, text: str) -> list[tuple[str, str | None, str | None, str | None]]:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    return [(b.language, b.title, b.not_run, b.printed) for b in blocks_of(page)]


def test_blocks_have_language_title_reason_and_output(tmp_path: Path) -> None:
    assert _blocks(tmp_path, PAGE) == [
        ("python", "mine.py", None, "1\n"),
        ("sh", None, "it takes a day", None),
        ("json", None, None, None),
    ]
    _, shell, json = blocks_of(tmp_path / "page.md")
    assert shell.commands == (
        Command("pipeloom tune all --jobs 2", 0),
        Command("pipeloom verify four_wave  # exit code 3", 3),
    )
    assert not json.runs


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    _blocks(tmp_path, PAGE)
    lines = PAGE.splitlines()
    assert [lines[b.first_line - 1] for b in blocks_of(tmp_path / "page.md")] == [
        "x = 1",
        "pipeloom tune all \\",
        "{}",
    ]


@pytest.mark.parametrize(
    "text", ["```text\n1\n```\n", "```json\n{}\n```\n```text\n1\n```\n", "```python\n1\n"]
)
def test_output_of_nothing_and_open_fences_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AssertionError):
        _blocks(tmp_path, text)


@pytest.mark.parametrize(
    ("printed", "said", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("...\nc\n", "a\nb\nc\n", True),
        ("...\nb\n", "a\nb\nc\n", False),
        ("a\n...\nc\n", "a\nc\n", True),
        ("took ... s\n", "took 3 s\n", True),
        ("took ... s\n", "took 3 ms\n", False),
        ("a.c\n", "abc\n", False),
        ("a  \n", "a\n", True),
    ],
)
def test_output_is_compared_line_by_line(printed: str, said: str, same: bool) -> None:
    assert agrees(printed, said) is same
