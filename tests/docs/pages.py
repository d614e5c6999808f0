"""A page of documentation as blocks that can be run.

A page is Markdown. What its fences hold is told by their info strings:

- ``python``: executed, one after the other, in one namespace per page;
- ``text``: what the block above it prints; a line ``...`` stands for any number of lines, and
  ``...`` within a line for any text;
- anything else: lines that begin with ``pipeloom`` are commands. A trailing ``# exit code 3`` says
  how one ends that does not end with 0. Other lines are left alone.

A fence with ``title="name"`` is also saved under that name, for the commands that follow. A comment
``<!-- not run: the reason -->`` above a fence keeps it from being run: its Python is compiled, the
arguments of its commands are parsed, and that is all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^( *)```(.*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_TITLE = re.compile(r'title="([^"]+)"')
_EXIT_CODE = re.compile(r"exit code (\d+)")


@dataclass(frozen=True)
class Command:
    """A line of a page that calls ``pipeloom``."""

    line: str
    """As a shell would read it, without the line breaks."""
    exit_code: int


@dataclass(frozen=True)
class Block:
    """A fence of a page, with what is printed below it."""

    language: str
    text: str
    first_line: int
    """Of its text, in the page, counted from 1."""
    title: str | None = None
    not_run: str | None = None
    printed: str | None = None

    @property
    def commands(self) -> tuple[Command, ...]:
        if self.language in ("python", "text"):
            return ()
        joined = re.sub(r"\\\n\s*", "", self.text)
        return tuple(
            Command(line, int(code[1]) if (code := _EXIT_CODE.search(line)) else 0)
            for line in (line.strip() for line in joined.splitlines())
            if line.startswith("pipeloom ")
        )

    @property
    def runs(self) -> bool:
        return self.language == "python" or bool(self.commands)


def blocks_of(page: Path) -> list[Block]:
    """The fences of a page that hold code, commands or files, in order."""
    found: list[Block] = []
    for block in _fences(page.read_text("utf-8").splitlines()):
        if block.language != "text":
            found.append(block)
            continue
        where = f"{page.name}:{block.first_line}"
        assert found, f"{where}: nothing prints this"
        assert found[-1].runs, f"{where}: the block above prints nothing"
        assert found[-1].printed is None, f"{where}: a second output of one block"
        found[-1] = replace(found[-1], printed=block.text)
    return found


def _fences(lines: list[str]) -> Iterator[Block]:
    above, opened = "", -1
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened < 0:
            if fence:
                opened = number
            elif line.strip():
                above = line.strip()
        elif fence and not fence[2]:
            indent, info = _FENCE.match(lines[opened]).groups()  # type: ignore[union-attr]
            title, skipped = _TITLE.search(info), _NOT_RUN.match(above)
            yield Block(
                info.split(" ")[0],
                "".join(f"{text.removeprefix(indent)}\n" for text in lines[opened + 1 : number]),
                opened + 2,
                title[1] if title else None,
                skipped[1] if skipped else None,
            )
            above, opened = "", -1
    assert opened < 0, f"the fence of line {opened + 1} has no end"


def agrees(printed: str, said: str) -> bool:
    """Whether what was said is what the page shows, with ``...`` for what is left out."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line.strip() == "..."
        else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r"[ \t]*\n"
        for line in printed.splitlines()
    )
    return re.fullmatch(pattern, said if said.endswith("\n") else f"{said}\n") is not None
