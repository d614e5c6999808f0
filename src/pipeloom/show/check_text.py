"""The verdict on a kernel of others in the terminal: one line, findings, the story of the first."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeloom.judge.check.verdict import CheckFinding, CheckStatus, CheckVerdict

_STYLES = {
    CheckStatus.PROVED: "bold green",
    CheckStatus.TIMING: "bold yellow",
    CheckStatus.RACE: "bold red",
    CheckStatus.NOT_JUDGED: "bold magenta",
}


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
    text = Text(verdict.status.title, style=_STYLES[verdict.status])
    text.append(verdict.summary().removeprefix(verdict.status.title), style="default not bold")
    shown = ", ".join(
        f"{count} {name.removesuffix('s') if count == 1 else name}"
        for name, count in verdict.figures.items()
    )
    return text.append(
        f"\n{verdict.kernel} on {verdict.arch}: {shown}".rstrip(": "), "bright_black"
    )


def _finding(finding: CheckFinding) -> Text:
    text = Text(f"{finding.status.title} {finding.kind.value}", style=_STYLES[finding.status])
    where = f": {finding.where}" if finding.where else ""
    margin = "" if finding.margin is None else f", apart by {finding.margin} cycles"
    times = f" ({finding.instances} times)" if finding.instances > 1 else ""
    text.append(f"{where}{margin}{times}", style="default not bold")
    if finding.first is not None:
        text.append(f"\n    {finding.first}", style="cyan")
    text.append(f"\n    {finding.second}", style="magenta")
    text.append(f"\n    {finding.why}", style="bright_black")
    if finding.source:
        text.append(f"\n    source: {finding.source}", style="bright_black")
    if finding.witness is not None:
        text.append(
            f"\n    {finding.witness}", style="bold" if finding.witness.wrong else "default"
        )
    return text


def _diagram(finding: CheckFinding) -> Table:
    waves = sorted({line.wave for line in finding.story})
    table = Table(
        title="shortest counterexample", title_justify="left", title_style="bold", show_lines=False
    )
    table.add_column("pc", justify="right", style="bright_black")
    for wave in waves:
        table.add_column(f"wave {wave}", ratio=1, overflow="fold")
    for number, line in enumerate(finding.story, start=1):
        cells = [Text()] * len(waves)
        cells[waves.index(line.wave)] = Text(line.text)
        if number == len(finding.story):
            cells[waves.index(line.wave)].stylize("bold red")
        table.add_row("" if line.pc is None else f"{line.pc:#x}", *cells)
    return table


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
