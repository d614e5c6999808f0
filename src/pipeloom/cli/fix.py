"""``pipeloom fix``: the same work in the same order, with proved waits and barriers."""

from __future__ import annotations

import argparse

from pipeloom.cli.common import say_untiled, source_of
from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import print_json, say, wrote
from pipeloom.cli.source_options import ARCH, source, tile
from pipeloom.drive.fixing import Fixed, FixJob, fix, notes_of
from pipeloom.files import write_file

HINTS = (
    ("reorder=True applies it", "--reorder applies it"),
    ("keep_barriers=False, sync='proven'", "without --keep-barriers"),
)
"""What a hint of the library says, and what this command calls it."""


USAGE = CommandUsage(
    "Keep the work of a schedule, program or loop in its order; derive waits, or waits and "
    "barriers, anew from the dependences. Every proved form is simulated and the fastest "
    "taken: the barriers kept or derived, the fewest ops moved where the order cannot be "
    "saved. --keep-barriers and --reorder ask for one form instead. Prints what changed and "
    "what it costs in cycles.",
    (
        source(compiled=True),
        tile(),
        ARCH,
        flag(
            "--reorder",
            "derive waits and barriers, and where that cannot save the order, move the fewest ops "
            "(with --keep-barriers also: add barriers to prologue or epilogue, never to the loop)",
        ),
        flag(
            "--keep-barriers",
            "keep the barriers where they are, for a schedule whose barriers also set the pace",
        ),
        option(
            "-o --output FILE",
            "write what was fixed here, in the same kind of file as the input; for a table, a "
            "program, which pipeloom export makes a table again",
        ),
        flag("--force", "derive anew even what is already PROVED"),
        JSON,
    ),
    examples=(
        "pipeloom fix ping_pong --dtype bf16 -o fixed.json",
        "pipeloom fix my.py:Name --keep-barriers",
    ),
    hints=HINTS,
)


def run(arguments: argparse.Namespace) -> int:
    """Synchronise, write, and report."""
    sync = "repaired" if arguments.keep_barriers else "proven" if arguments.reorder else None
    found = fix(FixJob(source_of(arguments, sync=sync), force=arguments.force))
    say(found.notes)
    if arguments.output:
        write_file(arguments.output, found.after.to_json())
        say_untiled(found.after)
    if arguments.json:
        print_json(found.to_dict())
        wrote(arguments, arguments.output)
        return 0
    print(found.header)
    _print(found)
    wrote(arguments, arguments.output)
    return 0


def _print(found: Fixed) -> None:
    if found.unchanged:
        print(f"{found.verdict_before.summary()}")
        print("already PROVED: left unchanged (--force derives anew)")
        return
    print(f"before: {found.verdict_before.summary()}")
    print(f"after:  {found.verdict_after.summary()}")
    print(f"{found.choice.form.words}: {found.choice.cost()}\n")
    counts = list(found.counts())
    width = max(len(name) for name, _, _ in counts)
    for name, waits, barriers in counts:
        print(f"{name:<{width}} {waits:<18} {barriers}")
    print()
    for line in found.changes():
        print(line)
    known = notes_of(found.before)
    for note in notes_of(found.after):
        if note not in known:
            print(f"note: {note}")
