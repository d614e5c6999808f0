"""A bar on stderr, for whoever waits at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipeloom.cli.bars import Tell
from pipeloom.cli.progress import doing
from pipeloom.show.console import TerminalConsole


@contextmanager
def drawn(first: str, total: int | None) -> Iterator[Tell]:
    """It is there while the work goes on, and says ``first`` until it is told."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=TerminalConsole(stderr=True), transient=True) as shown:
        task = shown.add_task(first, total=total)

        def tell(text: str, done: int = 0, total: int | None = None) -> None:
            shown.update(task, completed=done, total=total, description=text)
            doing(text)

        yield tell
