"""The console that every command prints tables with."""

from __future__ import annotations

from rich.console import Console


class TerminalConsole(Console):
    """A console that leaves a closed pipe to its caller, who decides the exit code."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        """Pass on the error that rich would turn into exit code 1."""
        raise BrokenPipeError
