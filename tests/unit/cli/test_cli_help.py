"""What every command has: examples that parse, exit codes, data for scripts; and typing errors."""

from __future__ import annotations

import argparse
import io
import re
import shlex
from contextlib import redirect_stdout

import pytest

from pipeloom.cli.commands import CODES, COMMANDS, EVERY, build_parser
from pipeloom.cli.main import main
from pipeloom.cli.usage import WRONG_RESULT

NAMES = [command.name for command in COMMANDS]
DASHED = [f"--{option}" for option in ("json", "quiet")]


def _help(name: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    return out.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_every_help_has_examples_that_parse(name: str) -> None:
    lines = [line.strip() for line in _help(name).partition("\nexamples:\n")[2].splitlines()]
    examples = [line for line in lines if line.startswith("pipeloom ")]
    assert examples
    for line in examples:
        words = shlex.split(line.partition(" > ")[0])[1:]
        assert words[0] == name
        assert build_parser(name).parse_args(words).command == name


@pytest.mark.parametrize("name", NAMES)
def test_every_help_says_what_its_exit_codes_mean(name: str) -> None:
    told = _help(name).partition("\nexit codes:\n")[2]
    own = next(command for command in COMMANDS if command.name == name).kind().codes()
    assert {int(code) for code in re.findall(r"^ +(\d+)  ", told, re.M)} == {*CODES, *own}


def _inner(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def test_every_command_gives_data_and_can_be_quiet() -> None:
    for name, inner in _inner(build_parser(EVERY)).items():
        options = {option for action in inner._actions for option in action.option_strings}
        assert not set(DASHED) - options, name


def test_what_help_says_of_options_stands_under_their_fields() -> None:
    for name, parser in _inner(build_parser(EVERY)).items():
        silent = {action.dest for action in parser._actions if not action.help}
        assert silent <= {"m", "n", "k", "folder"}, name
        said = [parser.description or "", *(action.help or "" for action in parser._actions)]
        assert not [text for text in said if re.search(r"\{\w+\}", text)], name


def test_what_is_said_of_exit_codes_is_what_verdicts_have() -> None:
    from pipeloom.cli.check import CheckCommand
    from pipeloom.cli.run import RunCommand
    from pipeloom.cli.verify import VerifyCommand
    from pipeloom.judge.check.verdict import CheckStatus
    from pipeloom.judge.verify import Status

    assert set(VerifyCommand.codes()) == {status.exit_code for status in Status} - {0}
    verdicts = {status.exit_code for status in CheckStatus} - {0}
    assert set(CheckCommand.codes()) == verdicts | {WRONG_RESULT}
    assert set(RunCommand.codes()) == {WRONG_RESULT}


@pytest.mark.parametrize(
    ("typed", "meant"), [("shwo", "show"), ("verfy", "verify"), ("tunne", "tune")]
)
def test_a_typing_error_is_answered_with_the_command_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([typed, "ping_pong"])
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_command_unlike_any_is_answered_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["xyzzy"])
    error = capsys.readouterr().err
    assert all(name in error for name in NAMES)


@pytest.mark.parametrize("option", [["--causal"], ["--d", "64"]])
def test_options_of_attention_are_refused_elsewhere(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["verify", "ping_pong"], ["derive", "gemm_tile"], ["export", "gemm_tile"]):
        with pytest.raises(SystemExit, match="2"):
            main([*words, *option])
        assert option[0] in capsys.readouterr().err
