"""A bar on stderr for whoever waits at a terminal; elsewhere the line that comes now and then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pipeloom import cli
from pipeloom.cli.options import Command
from pipeloom.cli.progress import doing


class Tell(Protocol):
    """Says how far it is: in words, and where that can be counted, how much of how much is done."""

    def __call__(self, text: str, done: int = 0, total: int | None = None) -> None: ...


@contextmanager
def bar(command: Command, first: str, total: int | None = None) -> Iterator[Tell]:
    """A bar that is there while the work goes on; ``first`` is what it says until it is told."""
    if not command.quiet and sys.stderr.isatty():
        with cli.terminal_bar.drawn(first, total) as tell:
            yield tell
    else:
        yield lambda text, done=0, total=None: doing(text)
