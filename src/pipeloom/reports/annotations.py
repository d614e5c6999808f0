"""Workflow commands of GitHub Actions: a line per finding, shown beside the source line."""

from __future__ import annotations

from collections.abc import Iterable

from pipeloom.reports.fail_rules import GateResult
from pipeloom.reports.kernel_report import KernelReport, Severity
from pipeloom.reports.sarif import message, place_of

MOST = 50
"""More are summed up in one line: GitHub shows ten of a kind per step and fifty per job."""


def workflow_commands(reports: Iterable[KernelReport], result: GateResult) -> list[str]:
    """What fails as errors; other findings as warnings, and what was not judged as notices."""
    failing = {(id(report), finding.fingerprint) for report, finding in result.failing}
    excused = {(id(report), finding.fingerprint) for report, finding, _ in result.ignored}
    lines: list[str] = []
    for report in reports:
        for finding in report.findings:
            mark = id(report), finding.fingerprint
            if (finding.severity is Severity.NOTE and mark not in failing) or mark in excused:
                continue
            file, line = place_of(report, finding.second)
            level = "error" if mark in failing else "warning"
            title = f"{finding.severity.value.upper()} {finding.kind}"
            lines.append(
                f"::{level} file={_value(file)},line={line},title={_value(title)}::"
                f"{_text(message(report, finding))}"
            )
        if report.reason:
            text = f"{report.kernel or report.file}: NOT JUDGED: {report.reason}"
            lines.append(f"::notice file={_value(report.file)},title=NOT JUDGED::{_text(text)}")
    if len(lines) > MOST:
        more = len(lines) - MOST
        lines = [*lines[:MOST], f"::notice title=pipeloom::{more} more are in the report"]
    return lines


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
