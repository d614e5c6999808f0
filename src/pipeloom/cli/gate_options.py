"""What commands that judge kernels share for CI: what fails, what is known, and the files written.

``check``, ``scan`` and ``verify`` end with ``conclude``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pipeloom import __version__
from pipeloom.cli.options import REPEATED, Option, flag, grouped, option
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

GATE: tuple[Option, ...] = grouped(
    "for CI",
    option(
        "--fail-on RULES",
        "what fails: race, timing, not-judged, note, a class, margin<N; comma between them; none "
        "fails nothing (default: race,timing,not-judged)",
    ),
    option(
        "--ignore CLASS:PATTERN=REASON",
        "findings that fail nothing: of a class or *, in kernels, files, instructions or with a "
        "fingerprint that fit the pattern",
        **REPEATED,
    ),
    option("--ignore-file FILE", "the same, one per line"),
    option("--baseline FILE", "findings that are known and fail nothing"),
    option("--write-baseline FILE", "write the findings of this run as a baseline"),
    option("--sarif OUT.sarif", "write the findings for code scanning"),
    option("--junit OUT.xml", "write a test case per kernel"),
    option("--html OUT.html", "write a page over all kernels, with search"),
    flag("--github", "print a workflow command of GitHub Actions per finding"),
)


def gate_of(arguments: argparse.Namespace) -> FindingGate:
    """What the arguments ask for; read before anything is judged."""
    ignored = [Ignored.read(text) for text in arguments.ignore]
    if arguments.ignore_file is not None:
        ignored += read_ignores(_read(arguments.ignore_file))
    known = frozenset[str]()
    if arguments.baseline is not None:
        known = read_baseline(_read(arguments.baseline), arguments.baseline)
    rules = FailRules() if arguments.fail_on is None else FailRules.read(arguments.fail_on)
    return FindingGate(rules, tuple(ignored), known)


def _read(path: str) -> str:
    with reading(path, "name a text file"):
        return read_text(path)


def conclude(
    arguments: argparse.Namespace, gate: FindingGate, reports: Sequence[KernelReport], code: int
) -> int:
    """Write what was asked for; the exit code is ``code`` unless a rule says what fails."""
    if arguments.write_baseline is not None:
        written = baseline_text(reports)
        write_file(arguments.write_baseline, written)
        known = gate.known | read_baseline(written, arguments.write_baseline)
        gate = FindingGate(gate.rules, gate.ignored, known)
    result = gate.judge(reports)
    if arguments.sarif is not None:
        write_file(arguments.sarif, sarif(reports, __version__))
    if arguments.junit is not None:
        write_file(arguments.junit, junit(reports, result))
    if arguments.html is not None:
        write_file(arguments.html, kernel_index(reports, result))
    if arguments.github:
        stream = sys.stderr if arguments.json else sys.stdout
        for line in workflow_commands(reports, result):
            print(line, file=stream)
    if not _asked(arguments):
        return code
    if not arguments.quiet:
        print(_said(result), file=sys.stderr)
    return result.exit_code


def _asked(arguments: argparse.Namespace) -> bool:
    return bool(
        arguments.fail_on is not None
        or arguments.ignore
        or arguments.ignore_file
        or arguments.baseline
        or arguments.write_baseline
    )


def _said(result: GateResult) -> str:
    races = sum(one.severity is Severity.RACE for _, one in result.failing)
    return (
        f"gate: {len(result.failing)} findings fail ({races} race), {len(result.ignored)} are "
        f"ignored or known, {len(result.not_judged)} kernels not judged"
    )
