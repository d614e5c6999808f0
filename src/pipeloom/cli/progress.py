"""What goes on, for whoever waits: a line every few seconds on stderr where that is no terminal.

    doing("3/5 shapes, 12 blocks timed")         # what the next line says

``$PIPELOOM_PROGRESS`` says how many seconds lie between lines; ``off``, or ``--quiet``, ends them.
A terminal has bars instead, or nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType

VARIABLE = "PIPELOOM_PROGRESS"
OFF = "off"
SECONDS = 5.0

_NOW = [""]


def doing(text: str) -> None:
    """Say what is being done, in a few words."""
    _NOW[0] = text


def seconds_between() -> float | None:
    """As the environment says; None where nobody wants lines."""
    asked = os.environ.get(VARIABLE, "")
    if asked == OFF:
        return None
    try:
        return max(float(asked), 0.01)
    except ValueError:
        return SECONDS


class Heartbeat(AbstractContextManager[None]):
    """Lines on stderr while a command runs."""

    def __init__(self, command: str, seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        started = monotonic()
        while not self._ended.wait(self._seconds):
            said = f", {_NOW[0]}" if _NOW[0] else ""
            passed = monotonic() - started
            sys.stderr.write(f"pipeloom {self._command}: {passed:.0f} s{said}\n")
            sys.stderr.flush()
