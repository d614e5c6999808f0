"""The findings of a scan in the terminal: kernels with something to say, then the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from pipeloom.judge.scan import KernelScan, ScanFinding, ScanKind

_DIM = "bright_black"


def render_scan(kernels: Sequence[KernelScan], *, most: int = 6) -> RenderableType:
    """Of every kernel with defects the first ``most``, the definite first; and how many of all."""
    parts: list[RenderableType] = []
    for kernel in kernels:
        if kernel.reason or any(finding.kind.is_defect for finding in kernel.findings):
            parts += [*_kernel(kernel, most), Text()]
    parts.append(_figures(kernels))
    return Group(*parts)


def _kernel(kernel: KernelScan, most: int) -> Iterator[Text]:
    name = Text(kernel.kernel or kernel.file, style="bold")
    if kernel.kernel:
        name.append(f" ({kernel.arch}) in {kernel.file}", style=f"{_DIM} not bold")
    yield name
    if kernel.reason:
        yield Text(f"  NOT JUDGED: {kernel.reason}")
        return
    for definite in (True, False):
        found = kernel.defects(definite)
        for finding in found[:most]:
            yield _finding(finding)
        if len(found) > most:
            word = "definite" if definite else "possible"
            counts = Counter(finding.kind.value for finding in found[most:])
            rest = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            yield Text(f"  more {word} ones (all with --json): {rest}")


def _finding(finding: ScanFinding) -> Text:
    word = "definite" if finding.definite else "possible"
    word = f"CONFIRMED {word}" if finding.confirmed else word
    text = Text(f"  {word} {finding.kind.value}", style="red" if finding.definite else "yellow")
    text.append(f": {finding.message}", style="default")
    if finding.first is not None:
        text.append(f"\n    {finding.first}", style="default")
    text.append(f"\n    {finding.second}", style="default")
    if finding.confirmed:
        text.append(f"\n    shown: {finding.confirmed}", style="default")
    if finding.others:
        text.append(f"\n    and {len(finding.others)} more instructions", style=_DIM)
    return text


def _figures(kernels: Sequence[KernelScan]) -> Text:
    judged = [one for one in kernels if not one.reason]
    text = Text(f"{len(judged)} of {len(kernels)} kernels judged", style="bold")
    findings = [finding for one in judged for finding in one.findings]
    for definite, word in ((True, "definite"), (False, "possible")):
        counts = Counter(f.kind for f in findings if f.kind.is_defect and f.definite == definite)
        text.append(f"\n  {word}: {_listed(counts)}", style="default not bold")
    rest = Counter(f.kind for f in findings if not f.kind.is_defect)
    text.append(f"\n  notes: {_listed(rest)}", style=f"{_DIM} not bold")
    unknown: Counter[str] = Counter()
    for one in judged:
        unknown.update(dict(one.not_known))
    for what, count in sorted(unknown.items()):
        text.append(f"\n  not judged: {what}: {count}", style=f"{_DIM} not bold")
    return text


def _listed(counts: Counter[ScanKind]) -> str:
    ordered = sorted(counts.items(), key=lambda item: item[0].value)
    return ", ".join(f"{count} {kind.value}" for kind, count in ordered) or "none"
