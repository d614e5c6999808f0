"""A bar on stderr for whoever waits at a terminal; elsewhere the line that comes now and then."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipeloom.cli.progress import doing
from pipeloom.show.console import TerminalConsole


class Tell(Protocol):
    """Says how far it is: in words, and where that can be counted, how much of how much is done."""

    def __call__(self, text: str, done: int = 0, total: int | None = None) -> None: ...


@contextmanager
def bar(arguments: argparse.Namespace, first: str, total: int | None = None) -> Iterator[Tell]:
    """A bar that is there while the work goes on; ``first`` is what it says until it is told."""
    console = TerminalConsole(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    hidden = arguments.quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as shown:
        task = shown.add_task(first, total=total)

        def tell(text: str, done: int = 0, total: int | None = None) -> None:
            shown.update(task, completed=done, total=total, description=text)
            doing(text)

        yield tell
