"""What commands on a source share: the arguments that name it, and how its search goes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.options import Command
from pipeloom.cli.printing import say
from pipeloom.cli.progress import doing
from pipeloom.drive.opening import Opened, lacks_tile
from pipeloom.machine.chips import target_for
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule

if TYPE_CHECKING:
    from pipeloom.drive.certifying import Progress


def exit_code(found: Opened) -> int:
    """130 where Ctrl-C ended the search for it, and this is only the best so far."""
    if not found.interrupted:
        return 0
    print("interrupted", file=sys.stderr)
    return INTERRUPTED_CODE


def search_teller(command: Command) -> Callable[[Progress], None]:
    """Who is told of the best so far: whoever reads stderr, unless nobody wants to."""
    return note_search if command.quiet else _tell_search


def note_search(progress: Progress) -> None:
    """The best so far, for the line that comes every few seconds."""
    doing(_search_text(progress))


def _tell_search(progress: Progress) -> None:
    """The best so far on stderr."""
    note_search(progress)
    print(f"{progress.seconds:6.1f} s  {_search_text(progress)}", file=sys.stderr)


def _search_text(progress: Progress) -> str:
    return (
        f"{progress.tried:3} tried  {progress.cycles:g} cycles, "
        f"bound {progress.bound} ({progress.unit})"
    )


def say_untiled(written: CompiledSchedule | Program) -> None:
    """Warn, where a schedule is written that could have a tile and has none."""
    if isinstance(written, CompiledSchedule) and lacks_tile(written):
        needed = "add --dtype bf16"
        say((f"no tile shape: this file can be verified, not simulated or emitted; {needed}",))


def verify_command(found: Opened) -> str:
    """The ``pipeloom verify`` that is about exactly the schedule of these arguments."""
    source = found.source
    words = ["pipeloom", "verify", source.name]
    for setting in source.settings:
        words += ["--set", setting]
    for option, value in (
        ("--tile", source.tile),
        ("--dtype", found.dtype),
        ("--sync", source.sync),
        ("--arch", source.arch and target_for(source.arch).arch),
        ("--waves", source.waves and str(source.waves)),
    ):
        if value:
            words += [option, value]
    if source.reorder:
        words.append("--reorder")
    return shlex.join(words)
