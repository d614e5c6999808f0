"""The page of the scan of ROCm/aiter: families, kinds of definite findings as read, the ten worst.

    python -m evidence.scan_corpus.page ROWS.jsonl [ROWS.jsonl ...] [--weakened TABLE.md] [--write]

``READ`` has what a person found when reading a definite finding of each kind in the disassembly; a
kind that nobody has read says so.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evidence.scan_corpus.readings import PAIRS, PAIRS_NOTE, READ, WORST

PAGE = Path(__file__).parents[1] / "scan-corpus.md"
FILES = 2871
"""Code objects for gfx942 and gfx950 in the snapshot."""
SNAPSHOT = "e4048607a5"
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path)
    parser.add_argument("--weakened", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = [
        json.loads(line)
        for path in arguments.rows
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    weakened = arguments.weakened.read_text(encoding="utf-8") if arguments.weakened else ""
    text = "\n".join(page(rows, weakened)) + "\n"
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


def page(rows: Sequence[Row], weakened: str) -> Iterator[str]:
    """The lines of the page."""
    seconds = sum(row["seconds"] for row in rows)
    kernels = sum(row["kernels"] for row in rows)
    judged = kernels - sum(len(row["reasons"]) for row in rows)
    yield "# The static scan over ROCm/aiter, and over weakened kernels"
    yield ""
    yield (
        "`python -m evidence.scan_corpus.rows FOLDER ROWS.jsonl` scans the code objects of a "
        "checkout, "
        "`python -m evidence.scan_corpus.page` makes this page of the rows. Nothing of that "
        "repository is kept here but names of files and single instructions."
    )
    yield ""
    yield (
        f"Snapshot {SNAPSHOT}, `hsa/gfx942` and `hsa/gfx950`: {len(rows)} of {FILES} code "
        f"objects; {judged} of {kernels} kernels judged, in "
        f"{seconds:.0f} CPU "
        f"seconds ({1000 * seconds / max(kernels, 1):.0f} for 1,000 kernels), at most "
        f"{max(row['seconds'] for row in rows):.1f} for one, peak "
        f"{max(row['peak_mb'] for row in rows)} MB of a process that scans one file after the "
        f"other. Attention, mla and single files were scanned by the scan as it is; of the other "
        f"families most rows are older than its groups of waves that are a barrier apart. 616 "
        f"files of all families, scanned by both, differ in two, one of attention and one of mla."
    )
    yield ""
    yield from _families(rows)
    yield from _kinds(rows)
    yield from _worst()
    yield from _pairs()
    if weakened:
        yield ""
        yield "## Weakened kernels"
        yield ""
        yield (
            "`python -m benchmarks.scan_weakenings --most 16`: waits loosened and barriers "
            "removed, one "
            "at a time, up to 16 of each kernel, spread over its code. *Wrong in some run* is "
            "shown by the "
            "emulator, or by waves that do not meet at a barrier. *Found* is a finding that the "
            "kernel "
            "as it is does not have."
        )
        yield ""
        yield weakened.strip()


def _family(row: Row) -> str:
    parts = row["file"].split("/")
    return f"{parts[0]}/{parts[1] if len(parts) > 2 else 'single files'}"


def _families(rows: Sequence[Row]) -> Iterator[str]:
    yield "## By family"
    yield ""
    yield (
        "Definite and possible findings by kind; *unknown* are LDS accesses whose address is not "
        "known. The peak is that of a process that scanned files of all families, up to there."
    )
    yield ""
    yield (
        "| family | files | not judged | CPU s | longest | peak MB | definite | possible "
        "| unknown |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[_family(row)].append(row)
    for name, group in sorted(groups.items()):
        counts = {
            definite: Counter(
                f["kind"] for row in group for f in row["findings"] if f["definite"] is definite
            )
            for definite in (True, False)
        }
        unknown = sum(
            count
            for row in group
            for known in row["not_known"]
            for what, count in known
            if what.startswith("LDS")
        )
        yield (
            f"| {name} | {len(group)} | {sum(len(row['reasons']) for row in group)} "
            f"| {sum(row['seconds'] for row in group):.0f} "
            f"| {max(row['seconds'] for row in group):.1f} "
            f"| {max(row['peak_mb'] for row in group)} | {_listed(counts[True])} "
            f"| {_listed(counts[False])} | {unknown} |"
        )
    yield ""


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


def _kinds(rows: Sequence[Row]) -> Iterator[str]:
    yield "## Definite findings, as read"
    yield ""
    yield (
        "Every finding was read twice. `evidence.scan_corpus.reread` follows single paths through "
        "the text of the disassembly from the first instruction to the second, counts what is "
        "issued behind the first and looks at each wait and barrier; it shares nothing with the "
        "scan but the disassembler. *Every path*, *some*, *none*: on which of the paths between "
        "the two the first is still open. One finding of each row, family by pair of "
        "instructions, was read by a person. *True*: nothing but latency orders the two, under the "
        "memory model (docs/memory-model.md). Which bytes of LDS two waves share is the scan's own "
        "computation, but for the rows that `check` confirms. Nothing was tried on a GPU."
    )
    yield ""
    yield (
        "| family | kind | first | second | findings | files | every path, some, none | read "
        "| what was seen |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    groups: dict[tuple[str, str, str, str], list[tuple[str, str]]] = defaultdict(list)
    states = 0
    for row in rows:
        for finding in row["findings"]:
            if finding["kind"] == "wait-states":
                states += finding["definite"]
            elif finding["definite"]:
                first, second = (_name(finding[side]) for side in ("first", "second"))
                family = _family(row).partition("/")[2]
                key = family, finding["kind"], first, second
                groups[key].append((row["file"], finding.get("way", "")))
    totals, all_ways = Counter[str](), Counter[str]()
    for key, found in sorted(groups.items()):
        verdict, seen = READ.get(key) or READ.get(("", *key[1:])) or ("not read", "")
        totals[verdict] += len(found)
        ways = Counter(way for _, way in found)
        all_ways += ways
        counts = ", ".join(str(ways[way]) for way in ("every", "some", "none"))
        files = len({file for file, _ in found})
        yield f"| {' | '.join(key)} | {len(found)} | {files} | {counts} | {verdict} | {seen} |"
    yield ""
    yield (
        f"Findings in rows by what was seen of one: {_listed(totals)}; second reading: "
        f"{all_ways['every']} on every path, {all_ways['some']} on some, {all_ways['none']} on "
        f"none. Those on some come round a loop; in the one that was read, the way round has no "
        f"wait, and one through the loop around it has. Four findings of an earlier scan were "
        f"false, all of one cause, and are gone: in two fmha_v4_fwd kernels "
        f"`s_mov_b64 exec, 0xffffffff` switches 32 "
        f"lanes off, and the emulator's step extended the sign of the literal. Beside them "
        f"{states} definite `wait-states`: two instructions in "
        f"straight code "
        "with fewer between them than CDNA3 and CDNA4 ask for. That is what the rule says, so "
        "they are true by "
        "definition; what is behind them stands in [aiter-corpus.md](aiter-corpus.md)."
    )
    yield ""


def _name(place: list[Any] | None) -> str:
    return "-" if place is None else str(place[1]).split()[0]


def _worst() -> Iterator[str]:
    yield "## The ten worst, explained"
    yield ""
    for number, (title, lines, why) in enumerate(WORST, start=1):
        yield f"{number}. **{title}**"
        yield ""
        yield "    ```text"
        yield from (f"    {line}" for line in lines)
        yield "    ```"
        yield ""
        yield f"    {why}"
        yield ""


def _pairs() -> Iterator[str]:
    yield "## Fixes, before and after"
    yield ""
    yield "| fix | kernel | judge | before | after |"
    yield "|---|---|---|---|---|"
    for row in PAIRS:
        yield f"| {' | '.join(row)} |"
    yield ""
    yield PAIRS_NOTE


if __name__ == "__main__":
    main()
