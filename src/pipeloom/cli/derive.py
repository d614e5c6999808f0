"""``pipeloom derive``: the fastest proved program of a loop, and how far from the bound it is."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from pipeloom.cli.common import note_search, search_teller
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import option
from pipeloom.cli.printing import print_json, wrote
from pipeloom.cli.source_options import SourceOptions, TileOptions
from pipeloom.cli.usage import at_least
from pipeloom.drive.certifying import Derived, Ended
from pipeloom.drive.deriving import derive
from pipeloom.drive.loop_room import unwoven
from pipeloom.drive.loops import LOOPS, LoopSource
from pipeloom.drive.opening import open_source
from pipeloom.drive.pipeline import peeled
from pipeloom.errors import SpecError
from pipeloom.files import write_file
from pipeloom.plain import to_plain


@dataclass(frozen=True)
class DeriveCommand(SourceOptions, TileOptions):
    """Search instruction orders for a loop of loads, reads, products and vector ops; keep the
    order that is the fastest in simulation, prove it, and say how far it is from what the
    machine's units allow. Results are kept ($PIPELOOM_STORE, ~/.cache/pipeloom), so that a
    second call costs nothing, and emit, run, report take them. Ctrl-C gives the best so far
    (exit code 130); the next call goes on from there.

    Examples:
        pipeloom derive gemm_tile --waves 8
        pipeloom derive my.py:name --target gfx942 -o program.json
    """

    arch: str | None = option("--target --arch --target-file ARCH|FILE.toml")
    """one of {CHIPS} (default {ANY_CHIP}), or a chip file of pipeloom calibrate"""
    k_tiles: int | None = option("--k-tiles N", type=at_least(1))
    """iterations to be run, if that is known"""
    orders: int | None = option("--orders N", type=at_least(1))
    """end the search when so many orders were tried; the best of them is proved, and the next
    call goes on from there"""
    output: Path | None = option("-o --output FILE")
    """write the program as JSON"""

    def run(self) -> int:
        """Search, and print what was found."""
        chosen = self._loop()
        loop = chosen.loop
        found = derive(
            loop,
            chosen.target,
            chosen.waves,
            k_tiles=self._k_tiles(chosen),
            orders=self.orders,
            progress=search_teller(self),
        )
        if found is None:
            return self._ordered(chosen)
        program = peeled(found.program, loop.ops)
        if self.output is not None:
            write_file(self.output, program.to_json())
        if self.json:
            plain = to_plain(found)
            del plain["program"]
            print_json({**plain, "busy": found.busy, "program": program.content_hash})
        else:
            _print(found)
        wrote(self, self.output)
        if found.ended is not Ended.INTERRUPT:
            return 0
        print("interrupted: this is the best so far", file=sys.stderr)
        return INTERRUPTED_CODE

    def _ordered(self, chosen: LoopSource) -> int:
        """A loop that the search does not take, as the modulo solver orders it."""
        loop, given = chosen.loop, self.k_tiles
        why = unwoven(loop, chosen.target, chosen.waves)
        options = chosen.options if given is None else {**chosen.options, "k_tiles": given}
        program = replace(chosen, options=options).program(note_search)
        if self.output is not None:
            write_file(self.output, program.to_json())
        ordered = program.provenance.ordered
        if self.json:
            plain = None if ordered is None else to_plain(ordered)
            print_json({"ordered": plain, "why": why, "program": program.content_hash})
        else:
            waves = " and ".join(str(len(group.waves)) for group in program.groups)
            print(f"{program.name} on {program.target.arch}, {waves} waves: PROVED")
            for note in program.provenance.notes:
                print(f"  {note}")
        wrote(self, self.output)
        return INTERRUPTED_CODE if ordered is not None and ordered.interrupted else 0

    def _loop(self) -> LoopSource:
        origin = open_source(self.asked()).origin
        if isinstance(origin, LoopSource):
            return origin
        raise SpecError(
            f"{self.source} is no loop, and only loops are derived",
            hint="name a Loop, a function that returns one, or one of " + ", ".join(LOOPS),
            field="source",
        )

    def _k_tiles(self, chosen: LoopSource) -> int | None:
        """As asked for; what else a loop's spec can set is for the modulo solver."""
        for name, value in chosen.options.items():
            if value is not None and name not in ("k_tiles", "otherwise"):
                key = "work_limit" if name == "strategy" else name
                raise SpecError(
                    f"{key} is for the modulo solver, which derive does not leave the order to",
                    hint=f"drop {key}, or use pipeloom solve",
                    field=key,
                )
        given: int | None = self.k_tiles
        return chosen.options.get("k_tiles") if given is None else given


def _print(found: Derived) -> None:
    program = found.program
    waves = " and ".join(str(len(group.waves)) for group in program.groups)
    print(f"{program.name} on {program.target.arch}, {waves} waves: PROVED")
    print(f"  matrix unit busy {100 * found.busy:.2f} %")
    for note in program.provenance.notes:
        print(f"  {note}")
