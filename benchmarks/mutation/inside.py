"""What runs within pytest, in a tree whose mutants are asleep: a plugin.

It reads what to do from the file that ``PIPELOOM_TRIAL`` names. Either all tests are run once, and
for each the places of mutants that it comes by are written down; or a process is forked for every
mutant, in which it is awake, and its tests run until one fails.
"""

from __future__ import annotations

import builtins
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutation.switched import VARIABLE

ASKED = "PIPELOOM_TRIAL"
MEMORY = 6 << 30
"""Bytes that a mutant may take."""
OURS = 70
"""Exit code of a process that could not run its tests."""


class Inside:
    """One run of pytest, as asked for."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.cases: list[dict[str, Any]] = asked["cases"]
        """What to try; nothing: only what tests come by is asked."""
        self.into = Path(asked["into"])
        self.now = self.into.with_suffix(".now")
        """Holds the name of the test that runs, in case it never ends."""
        self.seen: set[int] = set()
        self.failed: list[str] = []
        self.took: dict[str, float] = {}
        if not self.cases:
            _switch(self._note)

    def _note(self, number: int) -> bool:
        self.seen.add(number)
        return False

    def _write(self, **row: object) -> None:
        with self.into.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what a test comes by, or limit its time."""
        start = _spent()
        if self.cases:
            limit = int(start + 10 + 5 * self.took.get(item.nodeid, 1.0))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            self.now.write_text(item.nodeid, "utf-8")
            return (yield)
        self.seen.clear()
        self.failed.clear()
        done = yield
        self._write(
            test=item.nodeid,
            seconds=round(_spent() - start, 3),
            reached=sorted(self.seen),
            passed=not self.failed,
        )
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Try the mutants, where there are any, instead of running all tests."""
        if not self.cases:
            self._write(test="", seconds=0.0, reached=sorted(self.seen), passed=True)
            return None
        items = {item.nodeid: item for item in session.items}
        for case in self.cases:
            self.took.update(case["tests"])
            chosen = [items[test] for test in case["tests"] if test in items]
            fate, test = self._tried(session, case["number"], chosen)
            self._write(number=case["number"], fate=fate, test=test)
        return True

    def _tried(
        self, session: pytest.Session, number: int, chosen: list[pytest.Item]
    ) -> tuple[str, str]:
        """The fate of one mutant with these tests, and the one that failed."""
        log = self.into.with_suffix(".failed")
        process = os.fork()
        if process == 0:
            try:
                os.setsid()
                self._run(session, number, chosen, log)
            finally:
                os._exit(OURS)
        deadline = time.monotonic() + 300 + 30 * sum(self.took[i.nodeid] for i in chosen)
        while True:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                os.killpg(process, signal.SIGKILL)
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:  # a limit of time or memory was reached
            return "killed", self.now.read_text("utf-8")
        if code == 1:
            return "killed", log.read_text("utf-8")
        return ("survived" if code == 0 else "not tried"), ""

    def _run(
        self, session: pytest.Session, number: int, chosen: list[pytest.Item], log: Path
    ) -> None:
        """Never returns: the process ends with 0 where no test fails, with 1 where one does."""
        os.environ[VARIABLE] = str(number)
        _switch(lambda asked: asked == number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        session.items = chosen
        for item, after in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                log.write_text(self.failed[0], "utf-8")
                os._exit(1)
        os._exit(0)


def _switch(of: Callable[[int], bool]) -> None:
    vars(builtins)["__mutant__"] = of


def _spent() -> float:
    """Seconds of this process and of those that it waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Called by pytest, before anything of the package is imported: as conftest files do."""
    asked = json.loads(Path(os.environ[ASKED]).read_text("utf-8"))
    early_config.pluginmanager.register(Inside(asked))
