"""``pipeloom export``: a loop as the MFMA-indexed table that hipBLASLt's engineers write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipeloom.cli.common import exit_code
from pipeloom.cli.options import option
from pipeloom.cli.printing import check_ending, print_json, wrote
from pipeloom.cli.source_options import ArchOptions, SpecSource, TileOptions
from pipeloom.drive.exporting import Exported, export
from pipeloom.errors import SpecError
from pipeloom.files import write_file


@dataclass(frozen=True)
class ExportCommand(SpecSource, TileOptions, ArchOptions):
    """Write the loop of a matrix product on four waves (gemm_tile, a loop of your own, a
    program, a table) as an MFMA-indexed table (docs/tables.md), which verify, simulate and
    report take. What is derived is put in the form of a table: its order of MFMAs is kept. Says
    whether the table is proved and how many cycles it takes; the exit code is that of the
    verdict.

    Examples:
        pipeloom export gemm_tile --tile 128x128x64 -o table.json

    Exit codes:
        3: written, but TIMING
        4: written, but RACE
    """

    name: str | None = option("--name")
    """the table's id (default: that of the loop)"""
    output: str | None = option("-o --output FILE.json")
    """write the table"""

    def run(self) -> int:
        """Export, judge, print; the exit code is that of the verdict."""
        if self.output:
            check_ending(self.output, ".json", "a table in JSON")
        if self.name == "":
            raise SpecError("--name is empty", hint="give the table's id, or drop it", field="name")
        named = self.opened()
        found = export(named, self.name)
        record = found.table.to_dict()
        if self.output:
            write_file(Path(self.output), json.dumps(record) + "\n")
        if self.json:
            print_json(
                {
                    "table": record,
                    "status": found.verdict.status.name,
                    "cycles": found.cycles,
                    "program_cycles": found.program_cycles,
                    "placed": found.placed,
                    "left_out": found.left_out,
                }
            )
        else:
            _print(found)
        wrote(self, self.output)
        return exit_code(named) or found.verdict.status.exit_code


def _print(found: Exported) -> None:
    table = found.table
    tile = "x".join(map(str, table.tile))
    print(f"{table.id}, {tile} {table.dtype}: {found.verdict.summary()}")
    print(
        f"{found.cycles:.0f} cycles per K tile as a table, {found.program_cycles:.0f} as it was; "
        f"{table.num_mfma} MFMAs, {table.lds_buffers} LDS buffers"
    )
    if found.placed:
        print(f"not the program's slots: {found.placed}")
    if found.left_out:
        print(f"not in the table: {found.left_out}")
    for kind in table.schedule:
        for path in range(len(table.schedule[kind])):
            print(f"  {kind:8}{' '.join(map(str, table.slots(kind, path)))}")
    for slot, one in zip(table.slots("SYNC", 0), table.sync, strict=True):
        counts = [f"dscnt {one.dscnt}"] * (one.dscnt >= 0) + [f"vlcnt {one.vlcnt}"] * (
            one.vlcnt >= 0
        )
        print(f"  behind MFMA {slot}: {'barrier' if one.barrier else ', '.join(counts)}")
