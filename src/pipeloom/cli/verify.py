"""``pipeloom verify``: can this schedule race, for any trip count?"""

from __future__ import annotations

import argparse

from pipeloom.cli.common import (
    add_counter_stall,
    add_json,
    add_source,
    add_sync,
    counter_stall_of,
    load_compiled,
    print_json,
)
from pipeloom.cli.tile import add_arch, add_tile, tile_header
from pipeloom.judge.verify import Status
from pipeloom.reference.verdict import verify
from pipeloom.reference.words import tile_text, unsynchronised_note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Check every wave, every region of LDS and every trip count under the memory "
        "model of wait-counter machines. Exit code 0: PROVED. 3: TIMING, nothing orders two "
        "accesses but the cost model's latencies keep them apart. 4: RACE."
    )
    add_source(parser, compiled=True)
    add_tile(parser)
    add_arch(parser)
    add_sync(parser)
    add_counter_stall(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; the exit code is its status."""
    compiled = load_compiled(arguments)
    verdict = verify(compiled, counter_stall=counter_stall_of(arguments))
    if arguments.json:
        print_json({**verdict.to_dict(), "tile": tile_text(compiled, arguments.tile)})
    else:
        from pipeloom.show.console import TerminalConsole
        from pipeloom.show.verdict import render_verdict

        console = TerminalConsole()
        console.print(render_verdict(verdict, subtitle=tile_header(arguments, compiled)))
        note = unsynchronised_note(compiled)
        if note and verdict.status is Status.RACE:
            console.print(f"\n{note}")
    return verdict.status.exit_code
