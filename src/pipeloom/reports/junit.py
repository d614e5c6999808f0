"""JUnit XML, in the form that pytest writes: a kernel is a test case."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as Xml

from pipeloom.reports.fail_rules import GateResult
from pipeloom.reports.kernel_report import KernelReport
from pipeloom.reports.sarif import message


def junit(reports: Iterable[KernelReport], result: GateResult) -> str:
    """One test case per kernel; findings that fail it, what was not judged as skipped."""
    listed = list(reports)
    failing: dict[int, list[str]] = {}
    for report, finding in result.failing:
        failing.setdefault(id(report), []).append(
            f"{finding.severity.value.upper()} {finding.kind}: {message(report, finding)}"
        )
    silent = {id(report) for report in result.not_judged}
    suites = Xml.Element("testsuites")
    suite = Xml.SubElement(
        suites,
        "testsuite",
        name="pipeloom",
        tests=str(len(listed)),
        failures=str(len(failing)),
        errors=str(sum(id(one) in silent for one in listed)),
        skipped=str(sum(bool(one.reason) and id(one) not in silent for one in listed)),
        time="0",
    )
    for one in listed:
        case = Xml.SubElement(
            suite, "testcase", classname=f"{one.tool}.{one.file}", name=one.kernel or "-", time="0"
        )
        if id(one) in failing:
            found = failing[id(one)]
            failure = Xml.SubElement(case, "failure", message=_clean(one.summary))
            failure.text = _clean("\n".join(found))
        elif id(one) in silent:
            Xml.SubElement(case, "error", message=_clean(f"NOT JUDGED: {one.reason}"))
        elif one.reason:
            Xml.SubElement(case, "skipped", message=_clean(f"NOT JUDGED: {one.reason}"))
    Xml.indent(suites, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suites, "unicode") + "\n"


def _clean(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or c >= " ")
