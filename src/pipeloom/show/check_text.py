"""The verdict on a kernel of others in the terminal: one line, findings, the story of the first.

Many kernels in the terminal: a line each, and their findings in a line each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.check.verdict import CheckFinding, CheckStatus, CheckVerdict
from pipeloom.reports.kernel_report import KernelReport, ReportedFinding, Severity
from pipeloom.show.verdict_text import STYLES, apart, append_places, diagram

MOST_PLACES = 4
"""So many places of what is alike are named one by one."""
_REGISTERS = re.compile(r" \([sv]\d+\)")


def render_check(verdict: CheckVerdict, *, most: int = 6) -> RenderableType:
    """The whole verdict; the first ``most`` findings in full, the others in a line each."""
    parts: list[RenderableType] = [_headline(verdict)]
    parts += [Text(f"  {loop}", style="bright_black") for loop in verdict.loops]
    stopped = "" if verdict.status is CheckStatus.NOT_JUDGED else verdict.reason
    said = (*verdict.notes, stopped, verdict.data)
    parts += [Text(f"  {note}", style="bright_black") for note in said if note]
    for finding in verdict.findings[:most]:
        parts += [Text(), _finding(finding)]
    if len(verdict.findings) > most:
        parts += [Text(), *map(_short, verdict.findings[most:])]
    first = verdict.shortest()
    if first is not None and first.story:
        parts += [Text(), _diagram(first)]
    if verdict.needless:
        parts += [Text(), _needless(verdict)]
    for title, found in (
        ("outside every buffer, but what is read reaches nothing", verdict.dead),
        ("wait states that compilers keep and the hardware may not need", verdict.customary),
    ):
        if found:
            parts += [Text(), _listed(title, found)]
    return Group(*parts)


def _headline(verdict: CheckVerdict) -> Text:
    text = Text(verdict.status.title, style=STYLES[verdict.status.title])
    text.append(verdict.summary().removeprefix(verdict.status.title), style="default not bold")
    shown = ", ".join(
        f"{count} {name.removesuffix('s') if count == 1 else name}"
        for name, count in verdict.figures.items()
    )
    return text.append(
        f"\n{verdict.kernel} on {verdict.arch}: {shown}".rstrip(": "), "bright_black"
    )


def _finding(finding: CheckFinding) -> Text:
    text = Text(f"{finding.status.title} {finding.kind.value}", style=STYLES[finding.status.title])
    where = f": {finding.where}" if finding.where else ""
    times = f" ({finding.instances} times)" if finding.instances > 1 else ""
    text.append(f"{where}{apart(finding)}{times}", style="default not bold")
    append_places(text, finding)
    if finding.source:
        text.append(f"\n    source: {finding.source}", style="bright_black")
    if finding.others:
        text.append(f"\n    {_others(finding)}", style="bright_black")
    if finding.witness is not None:
        text.append(
            f"\n    {finding.witness}", style="bold" if finding.witness.wrong else "default"
        )
    return text


def _short(finding: CheckFinding) -> Text:
    """One line: the two places and how far apart they are."""
    text = Text(f"{finding.status.title} {finding.kind.value}", style=STYLES[finding.status.title])
    first = "" if finding.first is None else f" pc {finding.first.pc:#x} ->"
    pairs = f", {finding.pairs} pairs" if finding.others else ""
    why = "" if finding.first is not None else f": {finding.why}"
    said = f":{first} pc {finding.second.pc:#x}{apart(finding)}{pairs}{why}"
    return text.append(said, style="default not bold")


def _others(finding: CheckFinding) -> str:
    """The other pairs of a defect in one line."""
    firsts = {finding.first.pc} if finding.first is not None else set()
    firsts |= {pair.first.pc for pair in finding.others}
    seconds = {finding.second.pc, *(pair.second.pc for pair in finding.others)}
    return (
        f"and {len(finding.others)} more pairs of the same defect: {len(firsts)} instructions "
        f"({_span(firsts)}) before {len(seconds)} ({_span(seconds)})"
    )


def _span(pcs: set[int]) -> str:
    low, high = min(pcs), max(pcs)
    return f"pc {low:#x}" if low == high else f"pc {low:#x} to {high:#x}"


def _diagram(finding: CheckFinding) -> Table:
    lines = [
        ("" if line.pc is None else f"{line.pc:#x}", line.wave, Text(line.text))
        for line in finding.story
    ]
    return diagram("shortest counterexample", "pc", lines)


def _needless(verdict: CheckVerdict) -> Text:
    said = f"not needed, all of them together, for {verdict.needless_for}"
    if verdict.findings:
        said += ", as long as the findings stay as they are"
    text = Text(said, style="bold")
    text.append(f" ({len(verdict.needless)}):")
    places: dict[str, list[str]] = {}
    for one in verdict.needless:
        line = f" ({one.line})" if one.line else ""
        change = f"{one.before} -> {one.after or 'nothing'}"
        places.setdefault(change, []).append(f"pc {one.pc:#x}{line}")
    for change, where in places.items():
        text.append(f"\n  {_places(where)}: {change}", style="default not bold")
    return text


def _listed(title: str, found: tuple[CheckFinding, ...]) -> Text:
    """What is alike in one line, with its places."""
    text = Text(f"{title}: {len(found)}", style="bold")
    places: dict[tuple[str, str], list[str]] = {}
    for one in found:
        words = one.second.text.split(" ")[0], _REGISTERS.sub("", one.why)
        places.setdefault(words, []).append(
            f"pc {one.second.pc:#x}" + (f" ({one.second.line})" if one.second.line else "")
        )
    sources = {one.source for one in found if one.source}
    for (name, why), where in places.items():
        text.append(f"\n  {_places(where)}: {name}: {why}", style="default not bold")
    for source in sorted(sources):
        text.append(f"\n  [{source}]", style="bright_black not bold")
    return text


def _places(where: list[str]) -> str:
    """All of a few places; of many, the first and how many follow."""
    if len(where) <= MOST_PLACES:
        return ", ".join(where)
    return f"{where[0]} and {len(where) - 1} places more, to {where[-1]}"


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
