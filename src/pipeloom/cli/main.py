"""The ``pipeloom`` process: from its first line to its exit code.

What it runs is ``commands.py``, imported here and not above, so that Ctrl-C is heard from the
start. An interrupt inside the import of a compiled module comes out as that module's
``ImportError``: so it is remembered that one was asked for, and whatever then ends the command is
taken for the interrupt.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

INTERRUPTED_CODE = 130
"""128 and SIGINT, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` of None makes this process its own."""
    interrupt = _Interrupt()
    if argv is None:
        signal.signal(signal.SIGINT, interrupt)
    try:
        from pipeloom.cli.commands import FAULT_CODE, run

        code = run(argv)
        return INTERRUPTED_CODE if interrupt.asked and code == FAULT_CODE else code
    except Exception:
        if not interrupt.asked:
            raise
        return _interrupted()
    except KeyboardInterrupt as stop:
        return _interrupted(str(stop))
    finally:
        if argv is None:  # what is left is the interpreter's, which would print a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)


class _Interrupt:
    """What Ctrl-C does, and whether it was pressed."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


def _interrupted(kept: str = "") -> int:
    print(": ".join(filter(None, ("interrupted", kept))), file=sys.stderr)
    return INTERRUPTED_CODE


if __name__ == "__main__":
    sys.exit(main())
