"""``pipeloom compile``: the compiled schedule as JSON."""

from __future__ import annotations

import argparse
import sys

from pipeloom.cli.common import add_source, add_sync, load_compiled, write_file
from pipeloom.cli.tile import add_arch, add_tile, say_untiled
from pipeloom.reference.ops import Phase
from pipeloom.reference.words import tile_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Derive order, waits, barriers, prologue, kernel and epilogue. Prints one "
        "line of summary; with --json or -o the whole compiled schedule, byte-stable."
    )
    add_source(parser)
    add_tile(parser)
    add_arch(parser)
    add_sync(parser)
    parser.add_argument("--json", action="store_true", help="the compiled schedule on stdout")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the compiled schedule here")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile, then write what was asked for."""
    compiled = load_compiled(arguments)
    if arguments.output:
        write_file(arguments.output, compiled.to_json())
        say_untiled(compiled)
    if arguments.json:
        sys.stdout.write(compiled.to_json())
        return 0
    c = compiled.certificate
    sizes = ", ".join(f"{p.name.lower()} {len(compiled.phase(p))}" for p in Phase)
    proved = "proved optimal" if c.proved else f"lower bound {c.lower_bound}"
    print(f"{compiled.schedule}: {sizes}; {c.strategy} {c.measure} {c.makespan} ({proved})")
    print(tile_text(compiled, arguments.tile))
    for note in compiled.notes:
        print(f"note: {note}", file=sys.stderr)
    if arguments.output:
        print(f"wrote {arguments.output}")
    return 0
