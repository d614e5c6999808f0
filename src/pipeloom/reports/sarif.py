"""SARIF 2.1.0, as GitHub's code scanning reads it.

What it requires: github/docs, "SARIF support for code scanning" (058fa63b). A code object has no
lines: the location is its source where that is known, else the file, and the offset stands in the
message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pipeloom.reports.kernel_report import (
    NOT_JUDGED,
    KernelReport,
    ReportedFinding,
    ReportedPlace,
    Severity,
)

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.RACE: "error", Severity.TIMING: "warning", Severity.NOTE: "note"}
_RULES = {
    "raw": "A read may come before the write whose data it needs",
    "war": "A write may land before an earlier read is over",
    "waw": "Two writes may land in either order",
    "register": "A register is used while a load into it may be in flight",
    "uninitialised": "A register or LDS is used that nothing has written",
    "out-of-bounds": "An access lies outside every buffer",
    "barrier": "Waves do not meet at a barrier",
    "workgroups": "Two workgroups touch the same global bytes, one writing",
    "wait-states": "Too few instructions stand between two that the hardware does not order",
    "customary-wait-states": "Wait states that compilers keep and shipped kernels do not",
    "lds": "A wave touches LDS that an operation of its own may still read or write",
    "lds-waves": "Two waves touch the same LDS, one writing, and no barrier lies between",
    "end": "The wave ends while a load into LDS is in flight",
    "needless-wait": "A wait has nothing to wait for",
    NOT_JUDGED: "The kernel was not judged",
}


def rule_text(kind: str) -> str:
    """What a class of findings is about."""
    return _RULES.get(kind, f"A finding of the class {kind}")


def sarif(reports: Iterable[KernelReport], version: str) -> str:
    """All findings of a run as one document."""
    results: list[dict[str, Any]] = []
    kinds: set[str] = set()
    for report in reports:
        if report.reason:
            kinds.add(NOT_JUDGED)
            results.append(_unjudged(report))
        for finding in report.findings:
            kinds.add(finding.kind)
            results.append(_result(report, finding))
    driver = {
        "name": "pipeloom",
        "version": version,
        "rules": [_rule(kind) for kind in sorted(kinds)],
    }
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(kind: str) -> dict[str, Any]:
    text = {"text": rule_text(kind)}
    return {
        "id": kind,
        "shortDescription": text,
        "fullDescription": text,
        "help": {"text": f"{rule_text(kind)}. pipeloom check --fix adds what is missing."},
    }


def _result(report: KernelReport, finding: ReportedFinding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": finding.kind,
        "level": _LEVELS[finding.severity],
        "message": {"text": message(report, finding)},
        "locations": [_location(report, finding.second)],
        "partialFingerprints": {"primaryLocationLineHash": finding.fingerprint},
    }
    if finding.story:
        steps = [
            {"location": {**_location(report, finding.second), "message": {"text": line}}}
            for line in finding.story
        ]
        found["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return found


def _unjudged(report: KernelReport) -> dict[str, Any]:
    return {
        "ruleId": NOT_JUDGED,
        "level": "note",
        "message": {"text": f"{report.kernel}: NOT JUDGED: {report.reason}"},
        "locations": [_location(report, None)],
        "partialFingerprints": {"primaryLocationLineHash": f"{NOT_JUDGED}:{report.kernel}"},
    }


def message(report: KernelReport, finding: ReportedFinding) -> str:
    """A finding in a few sentences, with both instructions."""
    parts = [f"{report.kernel}: {finding.message}"]
    if finding.first is not None:
        parts.append(f"first: {finding.first}")
    parts.append(f"second: {finding.second}")
    if finding.pairs > 1:
        parts.append(f"{finding.pairs} pairs of the same defect")
    if finding.shown:
        parts.append(finding.shown)
    return "; ".join(parts)


def place_of(report: KernelReport, place: ReportedPlace | None) -> tuple[str, int]:
    """File and line; of a code object without lines, the file and 1."""
    if place is not None and place.line:
        name, _, number = place.line.rpartition(":")
        if name and number.isdigit():
            beside = report.file.endswith(("/" + name, name))
            return (report.file if beside else name), max(int(number), 1)
    return report.file or report.kernel, 1


def _location(report: KernelReport, place: ReportedPlace | None) -> dict[str, Any]:
    file, line = place_of(report, place)
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    uri = file.removeprefix("./").lstrip("/")
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
