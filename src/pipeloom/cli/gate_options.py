"""What commands that judge kernels share for CI: what fails, what is known, and the files written.

``check``, ``scan`` and ``verify`` end with ``conclude``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom import __version__
from pipeloom.cli.options import Command, flag, option, repeated
from pipeloom.files import read_text, reading, write_file
from pipeloom.reports.annotations import workflow_commands
from pipeloom.reports.fail_rules import (
    FailRules,
    FindingGate,
    GateResult,
    Ignored,
    baseline_text,
    read_baseline,
    read_ignores,
)
from pipeloom.reports.junit import junit
from pipeloom.reports.kernel_index import kernel_index
from pipeloom.reports.kernel_report import KernelReport, Severity
from pipeloom.reports.sarif import sarif


@dataclass(frozen=True)
class GateOptions(Command):
    """What fails, what is known, and the files written."""

    fail_on: str | None = option("--fail-on RULES", group="for CI")
    """what fails: race, timing, not-judged, note, a class, margin<N; comma between them; none fails
    nothing (default: race,timing,not-judged)"""
    ignore: tuple[str, ...] = repeated("--ignore CLASS:PATTERN=REASON", group="for CI")
    """findings that fail nothing: of a class or *, in kernels, files, instructions or with a
    fingerprint that fit the pattern"""
    ignore_file: str | None = option("--ignore-file FILE", group="for CI")
    """the same, one per line"""
    baseline: str | None = option("--baseline FILE", group="for CI")
    """findings that are known and fail nothing"""
    write_baseline: str | None = option("--write-baseline FILE", group="for CI")
    """write the findings of this run as a baseline"""
    sarif: str | None = option("--sarif OUT.sarif", group="for CI")
    """write the findings for code scanning"""
    junit: str | None = option("--junit OUT.xml", group="for CI")
    """write a test case per kernel"""
    html: str | None = option("--html OUT.html", group="for CI")
    """write a page over all kernels, with search"""
    github: bool = flag(group="for CI")
    """print a workflow command of GitHub Actions per finding"""

    def gate_of(self) -> FindingGate:
        """What the arguments ask for; read before anything is judged."""
        ignored = [Ignored.read(text) for text in self.ignore]
        if self.ignore_file is not None:
            ignored += read_ignores(_read(self.ignore_file))
        known = frozenset[str]()
        if self.baseline is not None:
            known = read_baseline(_read(self.baseline), self.baseline)
        rules = FailRules() if self.fail_on is None else FailRules.read(self.fail_on)
        return FindingGate(rules, tuple(ignored), known)

    def conclude(self, gate: FindingGate, reports: Sequence[KernelReport], code: int) -> int:
        """Write what was asked for; the exit code is ``code`` unless a rule says what fails."""
        if self.write_baseline is not None:
            written = baseline_text(reports)
            write_file(self.write_baseline, written)
            known = gate.known | read_baseline(written, self.write_baseline)
            gate = FindingGate(gate.rules, gate.ignored, known)
        result = gate.judge(reports)
        if self.sarif is not None:
            write_file(self.sarif, sarif(reports, __version__))
        if self.junit is not None:
            write_file(self.junit, junit(reports, result))
        if self.html is not None:
            write_file(self.html, kernel_index(reports, result))
        if self.github:
            stream = sys.stderr if self.json else sys.stdout
            for line in workflow_commands(reports, result):
                print(line, file=stream)
        if not self._asked():
            return code
        if not self.quiet:
            print(_said(result), file=sys.stderr)
        return result.exit_code

    def _asked(self) -> bool:
        return bool(
            self.fail_on is not None
            or self.ignore
            or self.ignore_file
            or self.baseline
            or self.write_baseline
        )


def _read(path: str) -> str:
    with reading(path, "name a text file"):
        return read_text(path)


def _said(result: GateResult) -> str:
    races = sum(one.severity is Severity.RACE for _, one in result.failing)
    return (
        f"gate: {len(result.failing)} findings fail ({races} race), {len(result.ignored)} are "
        f"ignored or known, {len(result.not_judged)} kernels not judged"
    )
