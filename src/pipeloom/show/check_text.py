"""The verdict on a kernel of others in the terminal: one line, findings, the story of the first."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.check.verdict import CheckFinding, CheckStatus, CheckVerdict
from pipeloom.show.verdict_text import STYLES, apart, append_places, diagram


def render_check(verdict: CheckVerdict, *, most: int = 6) -> RenderableType:
    """The whole verdict; the first ``most`` findings, and of needless waits as many, in full."""
    parts: list[RenderableType] = [_headline(verdict)]
    parts += [Text(f"  {loop}", style="bright_black") for loop in verdict.loops]
    stopped = "" if verdict.status is CheckStatus.NOT_JUDGED else verdict.reason
    said = (*verdict.notes, stopped, verdict.data)
    parts += [Text(f"  {note}", style="bright_black") for note in said if note]
    for finding in verdict.findings[:most]:
        parts += [Text(), _finding(finding)]
    if len(verdict.findings) > most:
        parts.append(Text(f"\nand {len(verdict.findings) - most} more (all of them with --json)"))
    first = verdict.shortest()
    if first is not None and first.story:
        parts += [Text(), _diagram(first)]
    if verdict.needless:
        parts += [Text(), _needless(verdict, most)]
    for title, found in (
        ("outside every buffer, but what is read reaches nothing", verdict.dead),
        ("wait states that compilers keep and the hardware may not need", verdict.customary),
    ):
        if found:
            parts += [Text(), _listed(title, found, most)]
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
    if finding.witness is not None:
        text.append(
            f"\n    {finding.witness}", style="bold" if finding.witness.wrong else "default"
        )
    return text


def _diagram(finding: CheckFinding) -> Table:
    lines = [
        ("" if line.pc is None else f"{line.pc:#x}", line.wave, Text(line.text))
        for line in finding.story
    ]
    return diagram("shortest counterexample", "pc", lines)


def _needless(verdict: CheckVerdict, most: int) -> Text:
    count = len(verdict.needless)
    said = f"not needed, all of them together, for {verdict.needless_for}"
    if verdict.findings:
        said += ", as long as the findings stay as they are"
    text = Text(said, style="bold")
    text.append(f" ({count}):")
    for one in verdict.needless[:most]:
        line = f" ({one.line})" if one.line else ""
        after = one.after or "nothing"
        text.append(f"\n  pc {one.pc:#x}{line}: {one.before} -> {after}", style="default not bold")
    if count > most:
        text.append(f"\n  and {count - most} more", style="default not bold")
    return text


def _listed(title: str, found: tuple[CheckFinding, ...], most: int) -> Text:
    text = Text(f"{title}: {len(found)}", style="bold")
    for one in found[:most]:
        source = f" [{one.source}]" if one.source else ""
        text.append(f"\n  {one.second}: {one.why}{source}", style="default not bold")
    if len(found) > most:
        text.append(f"\n  and {len(found) - most} more", style="default not bold")
    return text
