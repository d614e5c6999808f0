"""What commands on a source share: the arguments that name it, and how its search goes."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pipeloom import drive
from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.printing import say
from pipeloom.cli.progress import doing
from pipeloom.cli.usage import UsageError
from pipeloom.drive.loops import SHORT_OPTIONS
from pipeloom.drive.opening import Opened, lacks_tile, open_source
from pipeloom.drive.simulating import SimulateJob, prepare
from pipeloom.drive.sources import FORMS, Source
from pipeloom.machine.chip_file import chip_named
from pipeloom.machine.chips import target_for
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule

if TYPE_CHECKING:
    from pipeloom.drive.certifying import Progress
    from pipeloom.thread_trace import Overlay


def source_of(arguments: argparse.Namespace, **changes: Any) -> Source:
    """The source that the arguments name, with the options that the command has."""
    given = {
        name: getattr(arguments, name)
        for name in ("tile", "dtype", "default_tile", "arch", "sync", "reorder", "waves")
        if hasattr(arguments, name)
    }
    if "arch" in given:
        given["arch"] = chip_named(given["arch"])
    told = search_teller(arguments) if sys.stderr.isatty() else note_search
    settings = (*arguments.settings, *_short_settings(arguments))
    source = Source(arguments.source, settings, progress=told, **{**given, **changes})
    if source.reorder and source.sync in (None, "reference"):
        raise UsageError("--reorder needs --sync proven or --sync repaired")
    return source


def simulate_job(arguments: argparse.Namespace) -> SimulateJob:
    """The job that the arguments ask for."""
    problem = [getattr(arguments, name, None) for name in ("m", "n", "k")]
    return SimulateJob(
        source_of(arguments),
        k_tiles=arguments.k_tiles,
        jitter=arguments.jitter,
        seed=arguments.seed,
        emitted=arguments.emitted,
        allow_timing=arguments.allow_timing,
        problem=(problem[0], problem[1], problem[2]),
    )


def measured_overlay(arguments: argparse.Namespace) -> Overlay:
    """A thread trace, laid over the simulation; of the named kernel, where one is named."""
    if arguments.launch:
        raise UsageError("--measured needs no --launch: the trace says what ran")
    if arguments.source is None:
        return drive.measuring.lay_over_trace(
            arguments.measured, machine=chip_named(arguments.arch)
        )
    job = replace(simulate_job(arguments), emitted=True)
    return drive.measuring.lay_over_trace(arguments.measured, of=prepare(job).emission)


def _short_settings(arguments: argparse.Namespace) -> Iterator[str]:
    """Options of some loop as settings; refused where a shipped name has no such key."""
    for name, (owner, _) in SHORT_OPTIONS.items():
        value = getattr(arguments, name, None)
        if value is None:
            continue
        form = FORMS.get(str(arguments.source))
        if form is not None and name not in {one.name for one in fields(form)}:
            raise UsageError(f"--{name} is for {owner}, and {arguments.source} is none")
        yield f"{name}={json.dumps(value)}"


def opened(arguments: argparse.Namespace) -> Opened:
    """What the arguments name; the best so far where Ctrl-C ended the search."""
    found = open_source(source_of(arguments), keep_interrupted=True)
    say((*found.arch_unused(), *found.notes()))
    return found


def exit_code(found: Opened) -> int:
    """130 where Ctrl-C ended the search for it, and this is only the best so far."""
    if not found.interrupted:
        return 0
    print("interrupted", file=sys.stderr)
    return INTERRUPTED_CODE


def search_teller(arguments: argparse.Namespace) -> Callable[[Progress], None]:
    """Who is told of the best so far: whoever reads stderr, unless nobody wants to."""
    return note_search if arguments.quiet else _tell_search


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
