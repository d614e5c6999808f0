"""What all commands share: source, synchronisation, JSON, files written whole or not at all.

One schedule is compiled one way by every command, through ``load_compiled``; ``tile`` decides which
tile a spec gets where it names none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from pipeloom.cli.source_file import find_source, is_compiled
from pipeloom.cli.tile import DERIVES_DEPTH, given_tile, machine_of, say_arch_unused, with_tile
from pipeloom.cli.usage import UsageError
from pipeloom.errors import OrderError, SpecError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import Sync
from pipeloom.reference.resync import synchronize
from pipeloom.reference.spec import build_schedule

OPTION_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "reorder=True applies it": "--reorder applies it",
        "keep_barriers=False, sync='proven'": "--sync proven",
    }
)
"""What a hint of the library says -> what the commands call it."""


def add_source(
    parser: argparse.ArgumentParser, *, compiled: bool = False, required: bool = True
) -> None:
    """``NAME|SPEC`` and ``--set``; with ``compiled`` also what ``pipeloom compile`` wrote."""
    text = "a shipped schedule, or a .json or .toml spec file"
    parser.add_argument(
        "source",
        metavar="NAME|SPEC|COMPILED.json" if compiled else "NAME|SPEC",
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


def load_compiled(
    arguments: argparse.Namespace, *, spec: Mapping[str, Any] | None = None
) -> CompiledSchedule:
    """The schedule that the command's source, settings, ``--tile`` and ``--sync`` ask for.

    A JSON file that ``pipeloom compile`` wrote is read back as it is; a spec is compiled. ``spec``
    stands in for the source.
    """
    data = find_source(arguments.source) if spec is None else spec
    sync: Sync = getattr(arguments, "sync", None) or "reference"
    reorder: bool = getattr(arguments, "reorder", False)
    if reorder and sync == "reference":
        raise UsageError("--reorder needs --sync proven or --sync repaired")
    if spec is None and getattr(arguments, "arch", None) is not None:
        machine_of(arguments, data)
        say_arch_unused(arguments, data)
    try:
        if not is_compiled(data):
            if data.get("schedule") == DERIVES_DEPTH and sync != "reference":
                _say_always_synchronised(arguments.source, sync)
            tiled = with_tile(arguments, data)
            return build_schedule(tiled, arguments.settings, sync=sync, reorder=reorder)
        compiled = read_compiled(arguments, data)
        if sync == "reference":
            return compiled
        return synchronize(compiled, reorder=reorder, keep_barriers=sync == "repaired")
    except OrderError as error:
        raise as_options(error, getattr(arguments, "hints", OPTION_HINTS)) from error


def _say_always_synchronised(source: str, sync: str) -> None:
    print(
        f"note: {source} has its waits and barriers derived and proved in any case; sync {sync} "
        "changes nothing",
        file=sys.stderr,
    )


def read_compiled(arguments: argparse.Namespace, data: Mapping[str, Any]) -> CompiledSchedule:
    """A compiled schedule as it is; options that would change its spec are refused."""
    for option, value in (("--set", arguments.settings), ("--tile", given_tile(arguments))):
        if value:
            raise SpecError(
                f"{arguments.source} is a compiled schedule, which {option} cannot change",
                hint=f"apply {option} to its spec: pipeloom compile SPEC {option} ... -o FILE",
            )
    return CompiledSchedule.from_dict(data)


def as_options(error: OrderError, hints: Mapping[str, str]) -> OrderError:
    """The same error with a hint in the words of the command that is run."""
    hint = error.hint
    for argument, option in hints.items():
        hint = hint and hint.replace(argument, option)
    return OrderError(error.message, hint=hint, field=error.field)


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


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write the whole file or leave the old one: a temporary file beside it, then a rename.

    A device or pipe (``/dev/stdout``, ``/dev/null``) is written in place: renaming over it would
    put a plain file where the device was.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise SpecError(
            f"cannot write {target}: {error.strerror}", hint="check that the folder exists"
        ) from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise SpecError(
                f"cannot write {target}: {error.strerror}", hint="give the path of a file"
            ) from error
        raise
