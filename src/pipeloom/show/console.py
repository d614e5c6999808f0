"""The console that every command prints tables with."""

from __future__ import annotations

import os

from rich.console import Console


class TerminalConsole(Console):
    """A console that leaves a closed pipe to its caller, who decides the exit code.

    ``NO_COLOR`` (https://no-color.org) asks for plain text here: no bold or italics either, which
    rich would keep.
    """

    def __init__(self) -> None:
        plain = bool(os.environ.get("NO_COLOR"))
        super().__init__(highlight=False, color_system=None if plain else "auto")

    def on_broken_pipe(self) -> None:
        """Pass on the error that rich would turn into exit code 1."""
        raise BrokenPipeError
