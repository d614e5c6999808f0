"""The console that every command prints tables and progress with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from pipeloom.printable import PrintableStream, printable


class TerminalConsole(Console):
    """A console that leaves a closed pipe to its caller, who decides the exit code.

    Text is text: names of others are no markup and no emoji, and cannot steer the terminal.
    ``NO_COLOR`` (https://no-color.org) asks for plain text here: no bold or italics either, which
    rich would keep.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        plain = bool(os.environ.get("NO_COLOR"))
        stream = PrintableStream.of(sys.stderr if stderr else sys.stdout)
        super().__init__(
            file=stream.inner,
            highlight=False,
            markup=False,
            emoji=False,
            color_system=None if plain else "auto",
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is printed, with the colours of rich and nothing else that steers."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Pass on the error that rich would turn into exit code 1."""
        raise BrokenPipeError
