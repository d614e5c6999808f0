"""The verifier on hipBLASLt's hand-written tables, and on those that later fixes changed.

python -m evidence.cms_tables [NAME...]          # a verdict on every table, with modelled cycles
python -m evidence.cms_tables --bugs [NUMBER...]  # tables before and after a fix, by rule

The tables are shared data, not part of this repository. A rule of CMS.md shows as a kind of
finding: 6.1 (a register read before its wait) as REGISTER, 6.3 as RAW, 6.4 as WAR; packs that
always precede their reads (6.1 too) as ACCOUNTING, with a note; what 6.5 breaks is in the program's
notes, and makes loads bring another tile or fill another buffer.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from typing import Any

from evidence.cms_loops import shared_file
from pipeloom.cms import lift_table, read_table
from pipeloom.cms.table import Table
from pipeloom.drive.exporting import TRIPS
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.judge.verify import Verdict, verify
from pipeloom.machine.target import Traffic
from pipeloom.program.program import Program


def records(name: str) -> list[dict[str, Any]]:
    """A file of the shared data, a record per line."""
    path = shared_file(name)
    if not path.exists():
        sys.exit("the shared data is not here; set PIPELOOM_SHARED")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _line(what: str, program: Program, verdict: Verdict) -> str:
    kinds = Counter((f.kind.name, f.second.section) for f in verdict.findings if f.second)
    found = ", ".join(f"{n} {kind} in {section}" for (kind, section), n in sorted(kinds.items()))
    notes = "; ".join(program.provenance.notes[:2])
    return f"{what:44} {verdict.status.name:8} {found} {notes}"


def _judge(table: Table, program: Program) -> Verdict:
    """Where a table waits for as many reads as the counter holds, which is no wait, or more, it
    relies on being held back when that is full."""
    relies = any(
        sync.dscnt >= program.target.counting(Traffic.LDS).limit.value for sync in table.sync
    )
    return verify(program, counter_stall=relies or None)


def verdicts(names: list[str]) -> None:
    """One line per table."""
    for record in records("cms_tables.jsonl"):
        if names and not any(name in record["id"] for name in names):
            continue
        table = read_table(record)
        program = lift_table(table)
        cycles = steady_cycles(program, TRIPS)
        print(_line(f"{table.id} {cycles:.0f}", program, _judge(table, program)), flush=True)


def bugs(numbers: list[int]) -> None:
    """Two lines per fix."""
    for number, record in enumerate(records("cms_bug_tables.jsonl")):
        if numbers and number not in numbers:
            continue
        shape = {key: record[key] for key in ("tile", "mi", "wave_group", "wave_tile", "layout")}
        dtype = "tf32" if "TF32" in record["table"] else "bf16"
        rules = [
            {rule: count for rule, (count, _) in record[f"own_check_{when}_no_saturation"].items()}
            for when in ("before", "after")
        ]
        print(f"{number} {record['fix']} {record['table']} {record['layout']}: {rules}")
        for when in ("before", "after"):
            order = record[f"slot_order_{when}"]
            missing = {"id": when, "dtype": dtype, "slot_order": order, **shape}
            table = read_table({**missing, **record[when]})
            program = lift_table(table)
            print(_line(f"    {when}", program, _judge(table, program)), flush=True)


def main() -> None:
    """Entry point."""
    gc.disable()  # a verdict makes many small objects and no cycles: a third of the time
    arguments = sys.argv[1:]
    if arguments[:1] == ["--bugs"]:
        bugs([int(number) for number in arguments[1:]])
    else:
        verdicts(arguments)


if __name__ == "__main__":
    main()
