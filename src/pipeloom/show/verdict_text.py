"""A verdict in the terminal: one line, the findings grouped, and the shortest counterexample.

The counterexample is drawn as a step diagram with one column per wave, because a race is a story
about two waves: what each does, and in which order it happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.check.verdict import CheckFinding
from pipeloom.judge.verify.findings import Finding, Status, Verdict

STYLES = {
    "PROVED": "bold green",
    "TIMING": "bold yellow",
    "RACE": "bold red",
    "NOT JUDGED": "bold magenta",
}
"""Title of a status -> its style; of either judge, for the same pair has one class in both."""
_MEANING = {
    Status.PROVED: "ordered by waits and barriers alone",
    Status.TIMING: "nothing orders these accesses; another timing lets them meet",
    Status.RACE: "these accesses meet in the model, or the result is wrong in every run",
}


_IN_SHORT = {
    Status.PROVED: "waits and barriers alone order every access",
    Status.TIMING: "nothing orders some accesses; to see which:\n  {command}",
    Status.RACE: "some accesses meet in the model; to see how:\n  {command}",
}


def verdict_line(status: Status, command: str = "pipeloom verify") -> Text:
    """The status and what it means for the figures below it, in one line.

    Below it, if there are findings, the ``command`` that shows those of the very same schedule.
    """
    text = Text(status.title, style=STYLES[status.title])
    text.append(f": {_IN_SHORT[status].format(command=command)}", style="default not bold")
    return text


def render_verdict(verdict: Verdict, *, subtitle: str = "") -> RenderableType:
    """The whole verdict: every defect with its tightest pair, its other pairs in a line each."""
    parts: list[RenderableType] = [_headline(verdict)]
    if subtitle:
        parts.append(Text(subtitle, style="bright_black"))
    for status, defects in groupby(verdict.defects(), key=lambda defect: defect[0].status):
        parts += [Text(), Text(f"{status.title}: {_MEANING[status]}", style=STYLES[status.title])]
        parts += [_defect(*defect) for defect in defects]
    if verdict.dead_work:
        parts += [Text(), Text(f"dead work: {len(verdict.dead_work)} entries", style="bold")]
        parts += [Text(f"  {item}") for item in verdict.dead_work]
    shortest = verdict.shortest()
    if shortest is not None:
        parts += [Text(), _diagram(shortest)]
    return Group(*parts)


def diagram(title: str, head: str, lines: Sequence[tuple[str, int, Text]]) -> Table:
    """A story, a column per wave: what stands in front of each line, its wave, what it does."""
    waves = sorted({wave for _, wave, _ in lines})
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=False)
    table.add_column(head, justify="right", style="bright_black")
    for wave in waves:
        table.add_column(f"wave {wave}", ratio=1, overflow="fold")
    for front, wave, text in lines:
        table.add_row(front, *(text if wave == own else "" for own in waves))
    lines[-1][2].stylize("bold red")
    return table


def append_places(text: Text, finding: Finding | CheckFinding) -> None:
    """The two places and why nothing orders them, a line each."""
    if finding.first is not None:
        text.append(f"\n    {finding.first}", style="cyan")
    text.append(f"\n    {finding.second}", style="magenta")
    text.append(f"\n    {finding.why}", style="bright_black")


def apart(finding: Finding | CheckFinding) -> str:
    """``, unordered, margin 18 cycles in simulation``, where that is known."""
    return "" if finding.apart is None else f", {finding.apart}"


def _headline(verdict: Verdict) -> Text:
    text = Text()
    text.append(verdict.status.title, style=STYLES[verdict.status.title])
    return text.append(verdict.summary().removeprefix(verdict.status.title))


def _defect(finding: Finding, *others: Finding) -> Text:
    title = finding.status.title
    text = Text(f"{title} {finding.kind.value}", style=STYLES[title])
    said = f": {finding.where}{apart(finding)} (trip count {finding.trips})"
    text.append(said, style="default not bold")
    append_places(text, finding)
    for other in others:
        first = "" if other.first is None else f"{other.first.entry} -> "
        same = f"also {first}{other.second.entry}: {other.where}{apart(other)}"
        text.append(f"\n    {same}", style="bright_black")
    return text


def _diagram(finding: Finding) -> Table:
    lines = [
        (str(number), step.wave, Text(step.text, "" if step.place is not None else "bright_black"))
        for number, step in enumerate(finding.story, start=1)
    ]
    title = f"shortest counterexample: {finding.where}, loop trips {finding.trips}"
    return diagram(title, "", lines)
