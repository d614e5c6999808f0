"""``pipeloom compare``: strategies, synchronisations or specs side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from pipeloom.cli.options import argument, option
from pipeloom.cli.printing import check_ending, print_json, wrote
from pipeloom.cli.source_options import LaunchOptions, MachineOptions, TileOptions
from pipeloom.drive.comparing import DEFAULT_TILE, CompareJob, compare, compare_files
from pipeloom.drive.judging import emit_note
from pipeloom.files import write_file
from pipeloom.machine.chip_file import chip_named
from pipeloom.show.comparison import render_comparison
from pipeloom.show.console import TerminalConsole

PIPE = 10_000
"""Characters of a line that goes to a file or a pipe, which have no width."""
HINTS = (
    ("reorder=True applies it", "reorder=true in the variant applies it"),
    ("keep_barriers=False, sync='proven'", "sync=proven in the variant"),
)
"""What a hint of the library says, and how a variant spells it."""


@dataclass(frozen=True)
class CompareCommand(TileOptions, MachineOptions, LaunchOptions):
    """Simulate and verify each variant. A variant is a schedule's name, a spec, a compiled
    schedule or my.py:Name, and after a colon its settings: pipeloom compare ping_pong
    ping_pong:scheduling=identity ping_pong:sync=proven
    ping_pong:minimal_barriers=true,omit_mma_set_prio=true. Settings are those of --set, and
    sync=reference|proven|repaired, reorder=true, dtype=none|bf16|fp16|fp8 and tile=MxNxK as the
    options of compile. emitted=true runs the instructions of the emitted kernel, as simulate
    --emitted does: pipeloom compare ping_pong:sync=repaired,reorder=true ping_pong:emitted=true.
    A file that ends in .stream is a hand-written loop, as simulate --stream takes it, with mfma,
    waves_per_simd and stagger as settings. With --launch the variants are kernel files (.hsaco,
    .co, .o, .s), compared by their main loops; one launch file for all, or one each.

    Examples:
        pipeloom compare ping_pong ping_pong:sync=repaired,reorder=true
        pipeloom compare ping_pong four_wave -o compare.html
    """

    variants: tuple[str, ...] = argument("VARIANT", (), nargs="+")
    """NAME|SPEC[:KEY=VALUE,...]"""
    output: str | None = option("-o --output FILE.html")
    """all of them on one page, their timelines over one axis"""

    TILE: ClassVar = DEFAULT_TILE
    HINTS: ClassVar = HINTS

    def run(self) -> int:
        """Print one row per variant."""
        if self.output is not None:
            check_ending(self.output, ".html", "an HTML page")
        if self.launch:
            found = compare_files(self.variants, self.launch, self.kernel)
        else:
            found = compare(self.job(CompareJob, arch=chip_named(self.arch)))
        if self.output is not None:
            write_file(self.output, found.page())
        if self.json:
            print_json(found.to_dict())
            wrote(self, self.output)
            return 0
        console = TerminalConsole()
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console.width = PIPE
        console.print(render_comparison(found.rows, width=console.width))
        for row, choice in zip(found.rows, found.emitted, strict=True):
            if note := emit_note(choice):
                console.print(f"{row.name}: {note}")
        wrote(self, self.output)
        return 0
