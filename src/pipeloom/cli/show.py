"""``pipeloom show``: a schedule block by block."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pipeloom.cli.common import add_json, add_source, add_sync, load_compiled, print_json
from pipeloom.cli.tile import add_arch, add_tile
from pipeloom.drive.programs import as_program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import Phase
from pipeloom.reference.words import Labels, tile_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Show the program section by section, and apart for waves that do different work. A row "
        "is one MMA with everything issued since the previous one, in issue order: load A[1,0] "
        "k+1 is a global load of operand A into LDS stage 1, half 0, of the K tile one after the "
        "loop variable; frag a fragment load from LDS to registers."
    )
    add_source(parser)
    add_tile(parser)
    add_arch(parser)
    add_sync(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, or the same as data."""
    compiled = load_compiled(arguments)
    if arguments.json:
        print_json({**_as_data(compiled), "tile": tile_text(compiled, arguments.tile)})
        return 0
    from pipeloom.show.console import TerminalConsole
    from pipeloom.show.terminal import render_program

    tile = tile_text(compiled, arguments.tile)
    TerminalConsole().print(render_program(as_program(compiled), tile=tile))
    return 0


def _as_data(compiled: CompiledSchedule) -> dict[str, object]:
    labels = Labels(compiled)
    return {
        "schedule": compiled.schedule,
        "certificate": asdict(compiled.certificate),
        "phases": {p.name.lower(): [labels.of(e.op) for e in compiled.phase(p)] for p in Phase},
        "counts": {p.name.lower(): asdict(compiled.counts(p)) for p in Phase},
        "ops_per_block": compiled.ops_per_block(),
        "warp_stagger_index": compiled.warp_stagger_index,
        "notes": compiled.notes,
    }
