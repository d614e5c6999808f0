"""Verdicts of each judge as reports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeloom.judge.check.verdict import CheckFinding, CheckStatus, CheckVerdict, Site
from pipeloom.judge.verify.findings import Finding, Status, StepPlace, Verdict
from pipeloom.reports.kernel_report import (
    KernelReport,
    ReportedFinding,
    ReportedPlace,
    Severity,
    fingerprinted,
)

if TYPE_CHECKING:
    from pipeloom.judge.scan import KernelScan, ScanFinding
    from pipeloom.judge.scan.scan_findings import ScanPlace


def of_check(verdict: CheckVerdict, file: str) -> KernelReport:
    """What ``check`` said of a kernel."""
    found = [_checked(one) for one in verdict.findings]
    found += [_note(one) for one in verdict.customary]
    return KernelReport(
        "check",
        file,
        verdict.kernel,
        verdict.arch,
        verdict.status.title,
        verdict.summary(),
        fingerprinted(verdict.kernel, found),
        verdict.reason if verdict.status is CheckStatus.NOT_JUDGED else "",
    )


def with_wrong_result(report: KernelReport, message: str) -> KernelReport:
    """A report with one finding more: the kernel does not compute what it is to."""
    wrong = ReportedFinding("result", Severity.RACE, message, ReportedPlace("what it stores"))
    found = fingerprinted(report.kernel, (*report.findings, wrong))
    return replace(report, findings=found)


def _checked(one: CheckFinding) -> ReportedFinding:
    race = one.status is CheckStatus.RACE
    where = f"{one.where}: " if one.where else ""
    said = f"{where}{one.apart + ': ' if one.apart else ''}{one.why}"
    return ReportedFinding(
        one.kind.value,
        Severity.RACE if race else Severity.TIMING,
        said,
        _site(one.second),
        None if one.first is None else _site(one.first),
        one.margin,
        max(one.pairs, 1),
        "" if one.witness is None else str(one.witness),
        tuple(f"wave {line.wave}: {line.text}" for line in one.story),
    )


def _note(one: CheckFinding) -> ReportedFinding:
    return ReportedFinding("customary-wait-states", Severity.NOTE, one.why, _site(one.second))


def _site(site: Site) -> ReportedPlace:
    return ReportedPlace(site.text, site.pc, site.line)


def of_verify(verdict: Verdict, file: str, arch: str) -> KernelReport:
    """What ``verify`` said of a schedule or program."""
    return KernelReport(
        "verify",
        file,
        verdict.schedule,
        arch,
        verdict.status.title,
        verdict.summary(),
        fingerprinted(
            verdict.schedule,
            (_verified(*one) for one in verdict.defects() if one[0].status is not Status.PROVED),
        ),
    )


def _verified(one: Finding, *others: Finding) -> ReportedFinding:
    return ReportedFinding(
        one.kind.value,
        Severity.RACE if one.status is Status.RACE else Severity.TIMING,
        f"{one.where}: {one.apart + ': ' if one.apart else ''}{one.why}",
        _step(one.second),
        None if one.first is None else _step(one.first),
        one.cycles,
        1 + len(others),
        story=tuple(f"wave {line.wave}: {line.text}" for line in one.story),
    )


def _step(place: StepPlace) -> ReportedPlace:
    return ReportedPlace(f"{place.entry} {place.op}")


def of_scan(scanned: KernelScan) -> KernelReport:
    """What ``scan`` said of a kernel."""
    status = "NOT JUDGED" if scanned.reason else _scan_status(scanned)
    counts = len(scanned.defects(definite=True)), len(scanned.defects(definite=False))
    summary = f"{status}: {counts[0]} definite, {counts[1]} possible"
    return KernelReport(
        "scan",
        scanned.file,
        scanned.kernel,
        scanned.arch,
        status,
        f"{status}: {scanned.reason}" if scanned.reason else summary,
        fingerprinted(scanned.kernel, (_scanned(one) for one in scanned.findings)),
        scanned.reason,
    )


def _scan_status(scanned: KernelScan) -> str:
    if scanned.defects(definite=True):
        return "DEFINITE"
    return "POSSIBLE" if scanned.defects(definite=False) else "NOTHING FOUND"


def _scanned(one: ScanFinding) -> ReportedFinding:
    severity = Severity.RACE if one.definite else Severity.TIMING
    where = f"{one.where}: " if one.where else ""
    shown = f"; CONFIRMED: {one.confirmed}" if one.confirmed else ""
    return ReportedFinding(
        one.kind.value,
        severity if one.kind.is_defect else Severity.NOTE,
        f"{where}{one.message}{shown}",
        _scan_place(one.second),
        None if one.first is None else _scan_place(one.first),
        pairs=1 + len(one.others),
    )


def _scan_place(place: ScanPlace) -> ReportedPlace:
    return ReportedPlace(place.text, place.pc, place.line)
