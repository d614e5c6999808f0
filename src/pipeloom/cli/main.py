"""The ``pipeloom`` process: from its first line to its exit code.

What it runs is ``commands.py``, imported here and not above, so that Ctrl-C is heard from the
start. An interrupt inside the import of a compiled module comes out as that module's
``ImportError``: so it is remembered that one was asked for, and whatever then ends the command is
taken for the interrupt.

SIGTERM and SIGHUP end a command where it is, as an exception: workers, tools and temporary files go
with it, nothing is written any more, and what the store holds is kept.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from types import FrameType

INTERRUPTED_CODE = 130
"""128 and SIGINT, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` of None makes this process its own."""
    interrupt, ends = _Interrupt(), [_End(name) for name in ("SIGTERM", "SIGHUP")]
    if argv is None:
        signal.signal(signal.SIGINT, interrupt)
        for end in ends:
            end.listen()
    try:
        from pipeloom.cli.commands import FAULT_CODE, run

        code = run(argv)
        for end in ends:
            if end.asked:  # and what it raised was lost, as in a destructor
                return end.code
        return INTERRUPTED_CODE if interrupt.asked and code == FAULT_CODE else code
    except Exception:
        for end in ends:
            if end.asked:
                return end.code
        if not interrupt.asked:
            raise
        return _interrupted()
    except KeyboardInterrupt as stop:
        return _interrupted(str(stop))
    finally:
        if argv is None:  # what is left is the interpreter's, which would print a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for end in ends:
                end.leave()
            gc.freeze()  # all goes with the process: looking for cycles in it takes a tenth of gemm


class _Interrupt:
    """What Ctrl-C does, and whether it was pressed."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


class _End:
    """What a signal does that ends a process, and whether it came."""

    def __init__(self, name: str) -> None:
        self.number = getattr(signal, name, None)
        self.code = 128 + (self.number or 0)
        self.asked = self.heard = False

    def listen(self) -> None:
        """Hear it, unless whoever started this process wants it ignored."""
        if self.number is not None and signal.getsignal(self.number) is signal.SIG_DFL:
            signal.signal(self.number, self)
            self.heard = True

    def leave(self) -> None:
        """What is left is the interpreter's."""
        if self.number is not None and self.heard:
            signal.signal(self.number, signal.SIG_DFL)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:  # a second one does not disturb the end of the first
            self.asked = True
            raise SystemExit(self.code)


def _interrupted(kept: str = "") -> int:
    print(": ".join(filter(None, ("interrupted", kept))), file=sys.stderr)
    return INTERRUPTED_CODE


if __name__ == "__main__":
    sys.exit(main())
