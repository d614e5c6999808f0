"""A bound on the processor time and the memory that judging one kernel may take.

    with limited(seconds=60, megabytes=1024):
        ...                                  # raises OverrunError where it takes more

One kernel must not end the run over a library: whoever catches ``OverrunError`` says NOT JUDGED
with the reason and goes on with the next. Time is the process's own, so a loaded machine changes
little; memory is what is allocated beyond what the process had when the work began.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pipeloom.checks import check_int, check_number
from pipeloom.errors import ConfigError
from pipeloom.files import read_text

AGAIN = 0.2
"""Seconds after which a signal comes again that fell where exceptions are dropped."""
MOST_SECONDS, MOST_MEGABYTES = 1e6, 1 << 24


class OverrunError(Exception):
    """The work takes more than it may; the text says what of."""


@contextmanager
def limited(seconds: float | None = None, megabytes: int | None = None) -> Iterator[None]:
    """Run the block within these bounds; None is no bound."""
    if seconds is not None:
        check_number("check", "seconds", seconds, 0.001, MOST_SECONDS)
        if threading.current_thread() is not threading.main_thread():
            raise ConfigError(
                "a limit of time needs the main thread",
                hint="leave seconds out, or judge in a process of its own",
                field="seconds",
            )
    if megabytes is not None:
        check_int("check", "megabytes", megabytes, 1, MOST_MEGABYTES)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.getsignal(signal.SIGPROF)

    def late(number: int, frame: FrameType | None) -> None:
        raise OverrunError(f"more than {seconds:g} s of processor time")

    try:
        if megabytes is not None:
            most = _allocated() + (megabytes << 20)
            if hard != resource.RLIM_INFINITY:
                most = min(most, hard)
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        if seconds is not None:
            signal.signal(signal.SIGPROF, late)
            signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
        yield
    except MemoryError:
        if megabytes is None:
            raise
        raise OverrunError(f"more than {megabytes} MB of memory") from None
    finally:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        if megabytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _allocated() -> int:
    """Bytes of address space that the process has."""
    pages = int(read_text("/proc/self/statm").split()[0])
    return pages * resource.getpagesize()
