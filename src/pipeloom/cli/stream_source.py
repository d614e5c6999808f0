"""The text of ``--stream``: given as it is, in a file, or on standard input."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading
from pipeloom.judge.simulate.stream import StreamError

_LOOKS_LIKE_A_PATH = re.compile(r"\S*[/\\]\S*|\S+\.[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream and the name of where it came from; no name where it was the option's own text."""

    text: str
    name: str = ""

    def located(self, error: StreamError) -> SpecError:
        """The error as an editor wants it: with line and column for a text of several lines."""
        if not self.name:
            return error
        before = self.text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        told = error.message.removeprefix(f"stream, character {error.position}: ")
        return SpecError(f"{self.name}:{line}:{column}: {told}", hint=error.hint)


def read_stream(given: str) -> StreamSource:
    """``-`` is standard input, the path of a file that file; anything else is the stream itself."""
    if given == "-":
        return StreamSource(sys.stdin.read(), "<stdin>")
    text = given.strip()
    hint = "give an existing text file, - for standard input, or the stream itself"
    with reading(f"the stream in {text}", hint, "stream"):
        if text and len(text) < 1024 and Path(text).is_file():
            return StreamSource(read_text(text), text)
    if _LOOKS_LIKE_A_PATH.fullmatch(text):
        raise SpecError(f"there is no stream file {text}", hint=hint, field="stream")
    return StreamSource(given)
