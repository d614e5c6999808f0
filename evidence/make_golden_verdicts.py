"""Write evidence/golden-verdicts.md: what the verifier says about every canonical golden schedule.

python -m evidence.make_golden_verdicts [--golden FILE] [--out FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeloom import CompiledSchedule, OrderError, Phase, build_schedule
from pipeloom.drive.programs import verify
from pipeloom.judge.verify import Status, Verdict
from pipeloom.reference.resync import synchronize

ROOT = Path(__file__).parents[1]
HEAD = """# What the verifier says about the canonical golden schedules

Written by `python -m evidence.make_golden_verdicts`; do not edit. The cases are the reference's
defaults and
one-knob variations (`tests/golden/schedules.jsonl.gz`, see its README), as `compile_schedule` gives
them with the reference synchronisation. How to read the words: [verdicts.md](../docs/verdicts.md).

"findings" counts pairs of entries. "margin" is the least margin of the TIMING findings, in cycles.
"synchronised" is what `synchronize` makes of the kernel phase, as vm waits + lgkm waits + barriers,
before and after; "reordered" where the order itself had to be repaired (and how many ops moved).
"""


def canonical(path: Path) -> Iterator[tuple[str, Any]]:
    """Name and spec of every canonical case."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for case in map(json.loads, stream):
            if case["case"].startswith("canonical/") and case["expect"] == "ok":
                yield case["case"].removeprefix("canonical/"), case["spec"]


def flatten(spec: Any, prefix: str = "") -> dict[str, Any]:
    """Leaf keys of a spec, by their own names where these are unique."""
    if not isinstance(spec, dict):
        return {prefix: spec}
    found: dict[str, Any] = {}
    for key, value in spec.items():
        found.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return found


def difference(spec: Any, first: Any) -> str:
    """How a case differs from the first of its kind."""
    mine, base = flatten(spec), flatten(first)
    changed = [
        f"{key.rsplit('.', 1)[-1]}={value}" for key, value in mine.items() if base.get(key) != value
    ]
    unique = dict.fromkeys(changed)
    return ", ".join(unique) or "the first case"


def findings(verdict: Verdict) -> str:
    """``1 raw RACE, 4 war TIMING``; notes have no status."""
    counts = Counter(
        (f.kind.value, "" if f.status is Status.PROVED else f" {f.status.name}")
        for f in verdict.findings
    )
    return ", ".join(f"{n} {kind}{status}" for (kind, status), n in counts.items()) or "none"


def sync_counts(compiled: CompiledSchedule) -> str:
    """``2+8+16``: vm waits, lgkm waits and barriers of the kernel phase."""
    counts = compiled.counts(Phase.KERNEL)
    return f"{counts.wait_vm}+{counts.wait_lgkm}+{counts.barriers}"


def row(name: str, spec: Any, first: Any) -> tuple[Verdict, str]:
    """One line of the table."""
    compiled = build_schedule(spec)
    verdict = verify(compiled)
    margins = [f.margin for f in verdict.findings if f.margin is not None]
    try:
        fixed, how = synchronize(compiled), ""
    except OrderError:
        fixed = synchronize(compiled, reorder=True)
        moves = next(note for note in fixed.notes if note.startswith("reordered"))
        how = f", reordered ({moves.count(' moves ')})"
    line = " | ".join(
        [
            name,
            difference(spec, first),
            verdict.status.name,
            findings(verdict),
            str(min(margins)) if margins else "",
            f"{sync_counts(compiled)} to {sync_counts(fixed)}{how}",
        ]
    )
    return verdict, f"| {line} |"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden", type=Path, default=ROOT / "tests/golden/schedules.jsonl.gz")
    parser.add_argument("--out", type=Path, default=ROOT / "evidence/golden-verdicts.md")
    options = parser.parse_args()
    firsts: dict[str, Any] = {}
    tables: dict[str, list[str]] = {}
    totals: Counter[tuple[str, str]] = Counter()
    for name, spec in canonical(options.golden):
        kind = name.split("/")[0]
        first = firsts.setdefault(kind, spec)
        verdict, line = row(name, spec, first)
        totals[kind, verdict.status.name] += 1
        tables.setdefault(kind, []).append(line)
    page = [HEAD]
    page.append("| kernel | PROVED | TIMING | RACE |\n|---|---|---|---|")
    for kind in tables:
        counts = " | ".join(str(totals[kind, status.name]) for status in Status)
        page.append(f"| {kind} | {counts} |")
    for kind, lines in tables.items():
        page.append(f"\n## {kind}\n")
        page.append("| case | differs in | verdict | findings | margin | synchronised |")
        page.append("|---|---|---|---|---|---|")
        page.extend(lines)
    options.out.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
