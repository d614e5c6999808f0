"""What the commands share: arguments as a ``Source``, notes, JSON."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from pipeloom.cli.main import INTERRUPTED_CODE
from pipeloom.cli.progress import doing
from pipeloom.cli.usage import UsageError
from pipeloom.drive.deriving import Progress
from pipeloom.drive.loops import SHORT, SHORT_OPTIONS
from pipeloom.drive.opening import Opened, lacks_tile, open_source
from pipeloom.drive.sources import FORMS, Source
from pipeloom.drive.tiling import TYPES, read_tile
from pipeloom.errors import SpecError
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import Sync


def add_source(
    parser: argparse.ArgumentParser,
    *,
    compiled: bool = False,
    required: bool = True,
    short: bool = True,
) -> None:
    """``NAME|SPEC``, ``--set`` and ``--waves``; with ``compiled`` also what ``compile`` wrote.

    ``short`` adds what is short for settings of some loop, where the command takes it.
    """
    text = (
        "what is shipped (pipeloom list), a .json or .toml spec file, or a declaration of your "
        "own: my.py:Name"
    )
    parser.add_argument(
        "source",
        metavar="NAME|SPEC|COMPILED.json|MY.py:NAME" if compiled else "NAME|SPEC|MY.py:NAME",
        nargs=None if required else "?",
        help=f"{text}, or a compiled schedule" if compiled else text,
    )
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one key of the spec, by path or by its last part if unique (repeatable): "
        "--set scheduling=csp --set target.latency.MMA=32",
    )
    parser.add_argument(
        "--waves",
        type=int,
        metavar="N",
        help="waves of a loop (gemm_tile, attention, or my.py:name): default 4, of attention 8",
    )
    if short:
        _add_short(parser)


def _add_short(parser: argparse.ArgumentParser) -> None:
    """What is short for a setting, in a group for each loop that has such."""
    owners = dict.fromkeys(owner for owner, _ in SHORT_OPTIONS.values())
    groups = {owner: parser.add_argument_group(owner) for owner in owners}
    for name, (owner, one) in SHORT_OPTIONS.items():
        more: dict[str, Any] = {"metavar": "N", "type": type(one.default)}
        value = "N"
        if isinstance(one.default, bool):
            more, value = {"action": "store_true", "default": None}, "true"
        text = ": ".join(filter(None, (one.metadata[SHORT], f"short for --set {name}={value}")))
        groups[owner].add_argument(f"--{name}", help=text, **more)


def add_launch(parser: argparse.ArgumentParser) -> None:
    """``--launch`` and ``--kernel``, for kernels that others wrote."""
    parser.add_argument(
        "--launch",
        metavar="LAUNCH.json",
        action="append",
        help="of a kernel file (.hsaco, .co, .o, .s): grid, block and arguments; pipeloom check "
        "FILE --template writes one to fill in",
    )
    parser.add_argument("--kernel", metavar="NAME", help="which, where a kernel file holds several")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="plain data on stdout, for scripts")


def add_sync(parser: argparse.ArgumentParser, *, default: str = "reference") -> None:
    """``--sync`` and ``--reorder``; ``default`` says in words what is taken where neither is."""
    parser.add_argument(
        "--sync",
        choices=get_args(Sync),
        help="whose waits and barriers: the specification's (reference); those that follow from "
        "the dependences alone (proven); or the specification's barriers with waits that follow "
        f"(repaired). The last two are proved free of races. Default: {default}",
    )
    parser.add_argument(
        "--reorder",
        action="store_true",
        help="with --sync proven or repaired: move the fewest ops where no synchronisation can "
        "save the order",
    )


def add_tile(parser: argparse.ArgumentParser, *, default: str = "none") -> None:
    """``--tile`` and ``--dtype``; ``default`` is the type of a spec without a tile.

    It can also be spelt as ``pipeloom emit`` does.
    """
    add_shape(parser)
    parser.add_argument(
        "--dtype",
        choices=TYPES,
        help="the elements of the tile where the spec names none: 256x256x64 in bf16 or fp16, "
        "256x256x128 in fp8 (single_buffer: 128x128x64, 128x128x256); 'none' leaves it to the "
        f"spec and the target's counter costs. Default: {default}, and what a schedule has of its "
        "own (four_wave: fp8)",
    )
    parser.set_defaults(default_tile=default)


def add_shape(parser: argparse.ArgumentParser) -> None:
    """``--tile``; as it once named a type, it still may."""
    parser.add_argument(
        "--tile",
        metavar="MxNxK",
        type=_tile,
        help="the tile of one workgroup and iteration, as 256x256x64: short for --set "
        "geometry.BM=256 and so on",
    )


def _tile(text: str) -> str:
    """An argparse type: MxNxK; an element type, which the option once named, is left as it is."""
    if text not in TYPES and read_tile(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not MxNxK, as 256x256x64; --dtype names the element type"
        )
    return text


def add_arch(parser: argparse.ArgumentParser) -> None:
    """``--arch`` of a command that runs nothing: what a tile or a depth is derived for."""
    names = ", ".join(machine.arch for machine in TARGETS)
    parser.add_argument(
        "--arch",
        "--target",
        metavar="ARCH",
        help=f"one of {names}: what gemm_tile is derived for, and a tile made for (default "
        "gfx950, or what the spec says)",
    )


def source_of(arguments: argparse.Namespace, **changes: Any) -> Source:
    """The source that the arguments name, with the options that the command has."""
    given = {
        name: getattr(arguments, name)
        for name in ("tile", "dtype", "default_tile", "arch", "sync", "reorder", "waves")
        if hasattr(arguments, name)
    }
    told = search_teller(arguments) if sys.stderr.isatty() else note_search
    settings = (*arguments.settings, *_short_settings(arguments))
    source = Source(arguments.source, settings, progress=told, **{**given, **changes})
    if source.reorder and source.sync in (None, "reference"):
        raise UsageError("--reorder needs --sync proven or --sync repaired")
    return source


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


def wrote(arguments: argparse.Namespace, *paths: str | Path | None) -> None:
    """Say which files were written: on stdout, or on stderr where that has data for scripts."""
    given = [str(path) for path in paths if path is not None]
    if given:
        stream = sys.stderr if arguments.json else sys.stdout
        print(f"wrote {', '.join(given)}", file=stream)


def say(notes: Iterable[str]) -> None:
    """Notes on stderr."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


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


def print_json(data: Any) -> None:
    """Byte-stable JSON on stdout."""
    json.dump(data, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


def check_ending(path: str, ending: str, what: str) -> None:
    """Refuse to write one kind of file under the name of another; a name without ending is fine."""
    suffix = Path(path).suffix
    if suffix not in ("", ending):
        raise SpecError(
            f"{path} ends in {suffix!r}, but {what} is written there", hint=f"use {ending}"
        )
