"""Text of others on a terminal: what could steer it is shown as its escape.

    printable("kernel\\x1b[2J")      ->  "kernel\\\\x1b[2J"
    sys.stdout = PrintableStream(sys.stdout)

A symbol, a file's name or a label can hold escape sequences, which clear a screen, rename a window
or write over a verdict, and marks that turn text round. Every command prints through this stream,
so no place that prints need think of it. Where a name is read, one that spans lines is refused:
printed, its second line would pass for ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TextIO

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters other than tab and newline, marks of direction, halves of surrogate pairs."""


def printable(text: str) -> str:
    """The same, where every character shows as itself or as its escape."""
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def is_printable(text: str) -> bool:
    """Whether it is one line that shows as it is."""
    return "\n" not in text and "\t" not in text and _STEERING.search(text) is None


class PrintableStream:
    """A stream that is given text of others; ``inner`` is for those who steer on purpose."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    @classmethod
    def of(cls, stream: Any) -> PrintableStream:
        """The stream, wrapped once."""
        return stream if isinstance(stream, cls) else cls(stream)

    def write(self, text: str) -> int:
        """Write it, escaped where the terminal, or its encoding, would not show it."""
        safe = printable(text)
        encoding = getattr(self.inner, "encoding", None) or "utf-8"
        self.inner.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
