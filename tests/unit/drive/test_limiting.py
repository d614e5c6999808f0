"""Bounds on time and memory: what is over them is NOT JUDGED, with the reason."""

from __future__ import annotations

import resource
import signal
import threading
from typing import Any

import numpy as np
import pytest

from pipeloom.drive.checking import check
from pipeloom.drive.correcting import correct
from pipeloom.drive.limiting import OverrunError, limited
from pipeloom.errors import ConfigError, OrderError
from pipeloom.judge.check.verdict import CheckStatus

KERNEL = "examples/exchange.s"


def _busy() -> None:
    while True:
        pass


def test_time_runs_out_and_the_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(OverrunError, match=r"0\.05 s"), limited(seconds=0.05):
        _busy()
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_memory_runs_out_and_the_limit_is_put_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(OverrunError, match="16 MB"), limited(megabytes=16):
        np.zeros(64 << 20, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_without_a_limit_a_lack_of_memory_is_no_overrun() -> None:
    with pytest.raises(MemoryError), limited():
        raise MemoryError


@pytest.mark.parametrize("bad", [{"seconds": 0}, {"megabytes": 0}, {"seconds": "1"}])
def test_limits_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))), limited(**bad):
        pass


def test_a_thread_has_no_timer() -> None:
    errors: list[str] = []

    def work() -> None:
        try:
            with limited(seconds=1):
                pass
        except ConfigError as error:
            errors.append(error.message)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread" in errors[0]


def _checked(monkeypatch: pytest.MonkeyPatch, stage: str) -> Any:
    """The example, with one stage of the check that never ends."""
    monkeypatch.setattr(f"pipeloom.drive.checking.{stage}", lambda *a, **k: _busy())
    x = np.arange(128, dtype=np.int32)
    return check(KERNEL, (1,), (128,), [x, np.zeros_like(x)], seconds=1)


def test_what_is_not_judged_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = _checked(monkeypatch, "study").verdict
    assert verdict.status is CheckStatus.NOT_JUDGED
    assert verdict.reason == "judging takes more than 1 s of processor time"


def test_a_verdict_stands_where_only_the_rest_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = _checked(monkeypatch, "loosen")
    assert len(checked.verdict.findings) == 1
    assert checked.loose is None
    assert "not needed was left out" in checked.verdict.notes[-1]


def test_a_correction_is_judged_within_the_limits_of_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = _checked(monkeypatch, "loosen")
    fixed = correct(checked).checked
    assert fixed.effort == checked.effort
    assert fixed.verdict.status is CheckStatus.PROVED
    assert "not needed was left out" in fixed.verdict.notes[-1]


def test_nothing_is_taken_out_that_nobody_looked_for() -> None:
    x = np.arange(128, dtype=np.int32)
    checked = check(KERNEL, (1,), (128,), [x, np.zeros_like(x)])
    fixed = correct(checked).checked
    again = check(fixed.file, (1,), (128,), fixed.start.args, look_for_needless=False)
    with pytest.raises(OrderError, match="nobody looked"):
        correct(again)
