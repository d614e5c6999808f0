"""Signals while processes are started: heard when all of them are."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pipeloom.tuning.engines import _deaf_children


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT interrupts also where a shell that put the tests into the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_a_start_is_not_broken_off() -> None:
    """Not by a signal either that another thread takes, as one sent to the process may be."""

    def interrupt() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    started, before = False, signal.getsignal(signal.SIGINT)

    def start() -> None:
        nonlocal started
        with _deaf_children():
            other = threading.Thread(target=interrupt)
            other.start()
            other.join()
            started = True

    with pytest.raises(KeyboardInterrupt):
        start()
    assert started
    assert signal.getsignal(signal.SIGINT) is before
