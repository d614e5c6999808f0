"""``pipeloom verify``: can this schedule race, for any trip count?"""

from __future__ import annotations

import argparse

from pipeloom.cli.common import Commands, add_json, add_source, add_sync, load_compiled, print_json
from pipeloom.verify import verify


def add_parser(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "verify",
        help="prove that a schedule cannot race, or show how it does",
        description="Check every wave, every region of LDS and every trip count under the memory "
        "model of wait-counter machines. Exit code 0: PROVED. 3: TIMING, nothing orders two "
        "accesses but the cost model's latencies keep them apart. 4: RACE.",
    )
    add_source(parser, compiled=True)
    add_sync(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; the exit code is its status."""
    verdict = verify(load_compiled(arguments))
    if arguments.json:
        print_json(verdict.to_dict())
    else:
        from pipeloom.report.console import TerminalConsole
        from pipeloom.report.verdict import render_verdict

        TerminalConsole().print(render_verdict(verdict))
    return verdict.status.exit_code
