"""Whatever README and docs show is run as it stands there, and prints what they say it prints.

The Python of a page runs in one namespace and one folder, its commands in the same folder through
``main``, without a process each. :mod:`tests.docs.pages` has the conventions.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pipeloom.cli.commands import build_parser
from pipeloom.cli.main import main
from tests.docs.pages import ROOT, Block, Command, agrees, blocks_of

WITHOUT_EXAMPLES = {
    "design.md": "is about the inside",
    "glossary.md": "is a list of words",
    "threat-model.md": "says what is believed, and has nothing to run",
}
"""Pages with nothing to run, and why. Every other page has to have something that runs."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SEARCHED_SHORT = {"docs/decode.md"}
"""Pages that print no cycles, and whose loops have many orders to try."""
NOT_RUN_AT_MOST = 10
"""Blocks of all pages together that take too long, or need what is not here."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run a page in, with the examples in reach and a terminal of fixed size."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_runs_and_prints_what_it_says(
    page: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    if "--on gpu" in page.read_text("utf-8"):
        request.getfixturevalue("hip")
    if _name(page) in SEARCHED_SHORT:
        request.getfixturevalue("short_search")
    if "import triton" in page.read_text("utf-8"):
        pytest.importorskip("triton", reason="the triton wheel is not installed")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        where = f"{_name(page)}:{block.first_line}"
        if block.title:
            Path(block.title).write_text(block.text, "utf-8")
        if block.not_run:
            _look_at(block, where)
            continue
        said = _python(block, names) if block.language == "python" else _commands(block, where)
        if block.printed is not None:
            assert agrees(block.printed, said), f"{where} prints\n{said}"


def _python(block: Block, names: dict[str, Any]) -> str:
    """What a block prints. It is in a file, at its own lines, for tracebacks and for Triton."""
    source = Path(block.title or f"block_{block.first_line}.py").resolve()
    if not block.title:
        source.write_text("\n" * (block.first_line - 1) + block.text, "utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(source.read_text("utf-8"), str(source), "exec"), names)
    return said.getvalue()


def _commands(block: Block, where: str) -> str:
    said = ""
    for command in block.commands:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(_words(command))
            except SystemExit as end:
                code = int(end.code or 0)
        ended = f"{where}: {command.line} ended with {code}\n{out.getvalue()}{err.getvalue()}"
        assert code == command.exit_code, ended
        said += out.getvalue()
    return said


def _look_at(block: Block, where: str) -> None:
    """As far as one can without running it: it is Python, or a command with these options."""
    if block.language == "python":
        compile(block.text, where, "exec")
    for command in block.commands:
        words = _words(command)
        _, unknown = build_parser(words[0]).parse_known_args(words)
        assert not unknown, f"{where}: {command.line}"


def _words(command: Command) -> list[str]:
    words = shlex.split(command.line, comments=True)[1:]
    assert not {"|", ">", "<", "&&", ";"} & set(words), f"no shell runs this: {command.line}"
    return words


def _is_run(block: Block) -> bool:
    return block.runs and block.not_run is None


def test_every_page_has_something_that_runs() -> None:
    idle = {
        page.name for page in PAGES if not any(b.runs and not b.not_run for b in blocks_of(page))
    }
    assert idle == set(WITHOUT_EXAMPLES)


def test_every_fence_says_what_it_holds() -> None:
    """One that does not is neither run nor compared."""
    assert [
        f"{_name(page)}:{block.first_line}"
        for page in PAGES
        for block in blocks_of(page)
        if not block.language
    ] == []


def test_few_blocks_are_not_run() -> None:
    """Each says why, in the page; nothing else keeps a block from being run."""
    skipped = [_name(page) for page in PAGES for block in blocks_of(page) if block.not_run]
    assert len(skipped) <= NOT_RUN_AT_MOST, skipped


def test_other_commands_name_what_there_is() -> None:
    """``make`` targets, modules and scripts that pages mention."""
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for page in PAGES:
        for block in blocks_of(page):
            for target in re.findall(r"^make (\w+)", block.text, re.MULTILINE):
                assert target in targets, f"{_name(page)}: make {target}"
        text = page.read_text("utf-8")
        for module in re.findall(r"python -m ((?:evidence|benchmarks)[\w.]*)", text):
            there = ROOT / module.replace(".", os.sep)
            assert there.is_dir() or there.with_suffix(".py").is_file(), f"{_name(page)}: {module}"
