"""Many kernels in the terminal: a line each, and their findings in a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from pipeloom.reports.kernel_report import KernelReport, ReportedFinding, Severity
from pipeloom.show.verdict_text import STYLES


def render_reports(reports: Sequence[KernelReport]) -> RenderableType:
    """Every kernel in order, then how many there are of each status."""
    parts: list[RenderableType] = []
    for report in reports:
        text = Text(report.kernel or report.file, style="bold")
        text.append(f" {report.summary}", style=STYLES.get(report.status, "default"))
        parts.append(text)
        parts += [_line(one) for one in report.findings if one.severity is not Severity.NOTE]
    counts = Counter(report.status for report in reports)
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    parts.append(Text(f"{len(reports)} kernels: {said}"))
    return Group(*parts)


def _line(finding: ReportedFinding) -> Text:
    first = "" if finding.first is None else f"{finding.first} before "
    pairs = f" ({finding.pairs} pairs)" if finding.pairs > 1 else ""
    head = f"  {finding.severity.value.upper()} {finding.kind}{pairs}: "
    return Text(f"{head}{first}{finding.second}: {finding.message}")
