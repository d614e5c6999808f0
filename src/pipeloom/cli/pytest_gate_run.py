"""One run of pytest under ``--pipeloom-gate``, or one worker of it (``pytest_gate``)."""

from __future__ import annotations

from typing import Any

import pytest

from pipeloom import __version__
from pipeloom.drive.triton_gate import TritonGate, triton_gate
from pipeloom.files import write_file
from pipeloom.reports.fail_rules import GateResult
from pipeloom.reports.kernel_report import KernelReport
from pipeloom.reports.sarif import message, sarif

_SENT = "pipeloom_reports"


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen."""
    config.pluginmanager.register(_GatePlugin(config), "pipeloom-gate-listener")


class _GatePlugin:
    """One run of pytest, or one worker of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._gate: TritonGate = triton_gate(
            fail_on=config.getoption("--pipeloom-fail-on"),
            ignore=config.getoption("--pipeloom-ignore"),
            baseline=config.getoption("--pipeloom-baseline"),
        )
        self._reports: dict[tuple[str, str, str], KernelReport] = {}
        self._gate.start()

    def _add(self, reports: tuple[KernelReport, ...]) -> None:
        for one in reports:
            self._reports.setdefault((one.kernel, one.file, str(one.findings)), one)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended."""
        sent = getattr(node, "workeroutput", {}).get(_SENT, ())
        self._add(tuple(KernelReport.from_dict(one) for one in sent))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge what was compiled; a run whose tests passed fails where a finding does."""
        self._gate.stop()
        self._add(self._gate.reports)
        worker = getattr(self._config, "workeroutput", None)
        if worker is not None:
            worker[_SENT] = [one.to_dict() for one in self._gate.reports]
            return
        where = self._config.getoption("--pipeloom-sarif")
        if where:
            write_file(where, sarif(self._judged(), __version__))
        passed = pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED
        if self._result().exit_code and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judged(self) -> list[KernelReport]:
        return [self._reports[key] for key in sorted(self._reports)]

    def _result(self) -> GateResult:
        return self._gate.gate.judge(self._judged())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The findings that fail, a line each, and the figures."""
        result = self._result()
        terminalreporter.section("pipeloom gate")
        for report, finding in result.failing:
            terminalreporter.write_line(
                f"{finding.severity.value.upper()} {finding.kind}: {message(report, finding)}"
            )
        for report in result.not_judged:
            terminalreporter.write_line(f"NOT JUDGED {report.kernel}: {report.reason}")
        terminalreporter.write_line(
            f"{len(self._reports)} kernels, {len(result.failing)} findings fail, "
            f"{len(result.ignored)} ignored or known, {len(result.not_judged)} not judged"
        )
