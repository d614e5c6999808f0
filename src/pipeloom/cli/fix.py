"""``pipeloom fix``: the same work in the same order, with proved waits and barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pipeloom.cli.common import say_untiled
from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import print_json, say, wrote
from pipeloom.cli.source_options import ArchOptions, CompiledSource, TileOptions
from pipeloom.drive.fixing import Fixed, FixJob, fix, notes_of
from pipeloom.files import write_file

HINTS = (
    ("reorder=True applies it", "--reorder applies it"),
    ("keep_barriers=False, sync='proven'", "without --keep-barriers"),
)
"""What a hint of the library says, and what this command calls it."""


@dataclass(frozen=True)
class FixCommand(CompiledSource, TileOptions, ArchOptions):
    """Keep the work of a schedule, program or loop in its order; derive waits, or waits and
    barriers, anew from the dependences. Every proved form is simulated and the fastest taken:
    the barriers kept or derived, the fewest ops moved where the order cannot be saved.
    --keep-barriers and --reorder ask for one form instead. Prints what changed and what it costs
    in cycles.

    Examples:
        pipeloom fix ping_pong --dtype bf16 -o fixed.json
        pipeloom fix my.py:Name --keep-barriers
    """

    reorder: bool = flag()
    """derive waits and barriers, and where that cannot save the order, move the fewest ops (with
    --keep-barriers also: add barriers to prologue or epilogue, never to the loop)"""
    keep_barriers: bool = flag()
    """keep the barriers where they are, for a schedule whose barriers also set the pace"""
    output: str | None = option("-o --output FILE")
    """write what was fixed here, in the same kind of file as the input; for a table, a program,
    which pipeloom export makes a table again"""
    force: bool = flag()
    """derive anew even what is already PROVED"""

    HINTS: ClassVar = HINTS

    def run(self) -> int:
        """Synchronise, write, and report."""
        sync = "repaired" if self.keep_barriers else "proven" if self.reorder else None
        found = fix(FixJob(self.asked(sync=sync), force=self.force))
        say(found.notes)
        if self.output:
            write_file(self.output, found.after.to_json())
            say_untiled(found.after)
        if self.json:
            print_json(found.to_dict())
            wrote(self, self.output)
            return 0
        print(found.header)
        _print(found)
        wrote(self, self.output)
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
