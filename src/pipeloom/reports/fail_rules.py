"""Which findings fail a run: classes, margins, what is ignored with a reason, what is known.

rules = FailRules.read("race,wait-states,margin<200")
gate = FindingGate(rules, ignored=(Ignored.read("war:fmha_*=ordered by the host"),))
gate.judge(reports).exit_code
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.reports.kernel_report import (
    NOT_JUDGED,
    NOT_JUDGED_CODE,
    KernelReport,
    ReportedFinding,
)

FORMAT = "pipeloom-baseline-1"
ALL = ("race", "timing", NOT_JUDGED)
"""What fails unless told otherwise."""
_MARGIN = re.compile(r"margin<(-?\d+)")
_WORD = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True, slots=True)
class FailRules:
    """Severities and classes that fail, and a margin below which any finding does."""

    names: frozenset[str] = frozenset(ALL)
    """Severities (``race``, ``timing``, ``note``), classes (``war``, ...), ``not-judged``."""
    margin: int | None = None
    """Findings with fewer cycles between their accesses fail."""

    @classmethod
    def read(cls, text: str) -> FailRules:
        """``race,wait-states,margin<200``; ``none`` fails nothing."""
        names, margin = set(), None
        for part in (one.strip() for one in text.split(",")):
            if found := _MARGIN.fullmatch(part):
                margin = int(found[1])
            elif _WORD.fullmatch(part):
                names.add(part)
            else:
                raise SpecError(
                    f"--fail-on: {part!r} is no class and no margin",
                    hint="for example race,timing,wait-states,margin<200,not-judged; none fails "
                    "nothing",
                    field="fail-on",
                )
        return cls(frozenset(names - {"none"}), margin)

    def fails(self, finding: ReportedFinding) -> bool:
        """Whether a finding fails, whatever is ignored."""
        if self.margin is not None and finding.margin is not None and finding.margin < self.margin:
            return True
        return finding.kind in self.names or finding.severity.value in self.names


@dataclass(frozen=True, slots=True)
class Ignored:
    """Findings that fail nothing, and why."""

    kind: str
    """A class or a severity; ``*`` is any."""
    pattern: str
    """Of the kernel's name, the file, the fingerprint or an instruction, with ``*`` and ``?``."""
    reason: str
    """Why that is right."""

    @classmethod
    def read(cls, text: str) -> Ignored:
        """``CLASS:PATTERN=REASON``."""
        kind, colon, rest = text.partition(":")
        pattern, equals, reason = rest.partition("=")
        if not (colon and equals and kind.strip() and pattern.strip() and reason.strip()):
            raise SpecError(
                f"--ignore: {text!r} is not CLASS:PATTERN=REASON",
                hint="say what is ignored and why: war:fmha_*=ordered by the host",
                field="ignore",
            )
        return cls(kind.strip(), pattern.strip(), reason.strip())

    def covers(self, report: KernelReport, finding: ReportedFinding) -> bool:
        """Whether a finding is meant."""
        if self.kind not in ("*", finding.kind, finding.severity.value):
            return False
        texts = [report.kernel, report.file, finding.fingerprint, finding.second.text]
        texts += [finding.first.text] if finding.first is not None else []
        return any(fnmatchcase(text, self.pattern) for text in texts)


def read_ignores(text: str) -> tuple[Ignored, ...]:
    """One per line; ``#`` begins a comment line."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(Ignored.read(line) for line in lines if line and not line.startswith("#"))


def baseline_text(reports: Iterable[KernelReport]) -> str:
    """The findings of a run, to be known from then on; notes too, which ``--fail-on`` may name."""
    known = {
        one.fingerprint: f"{report.kernel}: {one.kind}: {one.second.text}"
        for report in reports
        for one in report.findings
    }
    return json.dumps({"format": FORMAT, "findings": known}, indent=1, sort_keys=True) + "\n"


def read_baseline(text: str, name: str) -> frozenset[str]:
    """The fingerprints of a baseline file."""
    hint = "write one with --write-baseline"
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise SpecError(f"{name} is no baseline: {error}", hint=hint, field="baseline") from None
    found = data.get("findings") if isinstance(data, dict) else None
    if not isinstance(found, dict) or data.get("format") != FORMAT:
        raise SpecError(f"{name} is no baseline of {FORMAT}", hint=hint, field="baseline")
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class GateResult:
    """A run over kernels, with what fails it."""

    failing: tuple[tuple[KernelReport, ReportedFinding], ...]
    """Findings that fail."""
    ignored: tuple[tuple[KernelReport, ReportedFinding, str], ...]
    """Findings that do not, and why."""
    not_judged: tuple[KernelReport, ...]
    """Kernels that fail because they were not judged."""

    @property
    def exit_code(self) -> int:
        """0, or that of the worst failure: 4 race, 3 timing or below the margin, 6 not judged."""
        codes = [max(one.severity.exit_code, 3) for _, one in self.failing]
        codes += [NOT_JUDGED_CODE] if self.not_judged and not codes else []
        return max(codes, default=0)


@dataclass(frozen=True, slots=True)
class FindingGate:
    """What a run is judged by."""

    rules: FailRules = FailRules()
    ignored: Sequence[Ignored] = ()
    known: frozenset[str] = frozenset()

    def judge(self, reports: Iterable[KernelReport]) -> GateResult:
        """Which findings fail."""
        failing, left, silent = [], [], []
        for report in reports:
            if report.reason and NOT_JUDGED in self.rules.names:
                silent.append(report)
            for finding in report.findings:
                if not self.rules.fails(finding):
                    continue
                why = self._excuse(report, finding)
                if why:
                    left.append((report, finding, why))
                else:
                    failing.append((report, finding))
        return GateResult(tuple(failing), tuple(left), tuple(silent))

    def _excuse(self, report: KernelReport, finding: ReportedFinding) -> str:
        if finding.fingerprint in self.known:
            return "in the baseline"
        covers = (one.reason for one in self.ignored if one.covers(report, finding))
        return next(covers, "")
