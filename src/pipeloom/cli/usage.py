"""Wrong usage: what argparse cannot say by itself."""

from __future__ import annotations

import argparse
import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import inf
from pathlib import Path

from pipeloom.errors import ScheduleError, SpecError

EXAMPLES = "examples:"
WRONG_RESULT = 5
"""The exit code of a kernel that computes something else than it is to."""


class UsageError(Exception):
    """Options that do not go together: the usage and one line on stderr, exit code 2."""


OPTION_HINTS = (
    ("reorder=True applies it", "--reorder applies it"),
    ("keep_barriers=False, sync='proven'", "--sync proven"),
    (r"\bfix\(\) adds", "`pipeloom fix SOURCE -o FIXED.json` adds"),
    (r"repair it with fix\(\)", "repair it: `pipeloom fix SOURCE -o FIXED.json`"),
    (r"pipeline\(\) finds", "`pipeloom run SOURCE --k ...` finds"),
    (
        r"pass ops=VOCABULARY\.extended\(\.\.\.\) with its OpDef",
        "a file holds no op of your own: name the loop that applies it, my.py:NAME",
    ),
    (r"scalars=\{'(\w+)': \.\.\.\}", r"--scalar \1=..."),
)
"""What a hint of the library says, as a regular expression, and what most commands call it;
SOURCE is what the command was given."""


def worded(error: ScheduleError, words: Sequence[tuple[str, str]], source: str) -> str:
    """The error with its hint in the words of the command that is run, on ``source``."""
    hint = error.hint
    for said, option in words:
        option = option.replace("SOURCE", source.replace("\\", r"\\"))
        hint = hint and re.sub(said, option, hint)
    return error.message if hint is None else f"{error.message}\n\nhint: {hint}"


def at_least(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number not below ``low``."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {low} or more")
        return value

    return number


def positive(text: str) -> float:
    """An argparse type: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


class HelpFormatter(argparse.HelpFormatter):
    """Wraps what is said of a command, and leaves its examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return text
        return super()._fill_text(text, width, indent)


def epilog(examples: Sequence[str], codes: Mapping[int, str]) -> str:
    """Examples, a line each, and what exit codes mean."""
    lines = [EXAMPLES, *(f"  {example}" for example in examples), "", "exit codes:"]
    return "\n".join((*lines, *(f"  {code:3}  {codes[code]}" for code in sorted(codes))))


def unknown_command(word: str, names: Sequence[str]) -> str:
    """What there is instead of a command that there is not."""
    near = get_close_matches(word, names, n=1)
    instead = f"did you mean {near[0]}?" if near else f"one of: {', '.join(names)}"
    return f"there is no command {word!r} ({instead})"


def option_names(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The long options that a parser takes."""
    return tuple(
        name
        for action in parser._actions  # argparse has no public way to list them
        for name in action.option_strings
        if name.startswith("--")
    )


def unknown_text(unknown: Sequence[str], options: Sequence[str]) -> str:
    """What was not recognised, and for the first option among it the nearest that exists."""
    text = f"unrecognized arguments: {' '.join(unknown)}"
    first = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
    near = get_close_matches(first, options, n=1)
    return f"{text} (did you mean {near[0]}?)" if near else text


def check_new_folder(path: Path) -> None:
    """Refuse a folder that cannot be made or written: before the work, which then makes it."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    fault = errno.EACCES if there.is_dir() else errno.ENOTDIR
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise SpecError(f"cannot write {path}: {os.strerror(fault)}", hint="name a folder")


def check_folder(path: str | Path) -> None:
    """Refuse a file in a folder that is not there: before the work, not after it."""
    if not Path(path).parent.is_dir():
        raise SpecError(
            f"cannot write {path}: No such file or directory", hint="check that the folder exists"
        )
