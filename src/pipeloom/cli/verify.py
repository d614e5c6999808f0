"""``pipeloom verify``: can this schedule race, for any trip count?"""

from __future__ import annotations

import argparse

from pipeloom.cli.common import (
    add_arch,
    add_json,
    add_source,
    add_sync,
    add_tile,
    add_waves,
    own_program_of,
    print_json,
    say,
    source_of,
)
from pipeloom.drive.judging import emit_note, judge
from pipeloom.judge.verify import Status, Verdict, verify
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
    parser.add_argument(
        "--counter-stall",
        action="store_true",
        help="assume that an issue past a counter's limit (63 vmcnt, 15 lgkmcnt) stalls until the "
        "oldest access is done, which then needs no wait; no vendor says so",
    )
    add_waves(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; the exit code is its status."""
    own = own_program_of(arguments)
    if own is not None:
        stall = arguments.counter_stall or None
        return _show_own(arguments, verify(own.program, counter_stall=stall))
    found = judge(source_of(arguments), counter_stall=arguments.counter_stall or None)
    subject, compiled, verdict = found.subject, found.compiled, found.verdict
    say((*subject.arch_unused(), *subject.notes()))
    if arguments.json:
        form = None if found.emitted is None else found.emitted.to_dict()
        tile = tile_text(compiled, arguments.tile)
        print_json({**verdict.to_dict(), "tile": tile, "emit": form})
    else:
        from pipeloom.show.console import TerminalConsole
        from pipeloom.show.verdict import render_verdict

        console = TerminalConsole()
        console.print(render_verdict(verdict, subtitle=subject.header(compiled)))
        note = unsynchronised_note(compiled)
        if note and verdict.status is Status.RACE:
            console.print(f"\n{note}")
        if written := emit_note(found.emitted):
            console.print(f"\nnote: {written}", soft_wrap=True)
    return verdict.status.exit_code


def _show_own(arguments: argparse.Namespace, verdict: Verdict) -> int:
    if arguments.json:
        print_json(verdict.to_dict())
    else:
        from pipeloom.show.console import TerminalConsole
        from pipeloom.show.verdict import render_verdict

        TerminalConsole().print(render_verdict(verdict))
    return verdict.status.exit_code
