"""What all commands share: the source argument, JSON output, files written whole or not at all."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pipeloom.compiled import CompiledSchedule
from pipeloom.compiler import Sync
from pipeloom.errors import SpecError
from pipeloom.schedules import DEFAULT_TILES
from pipeloom.spec import build_schedule, find_spec
from pipeloom.synchronize import synchronize

Commands = Any
"""argparse's sub-parser registry; its class is private."""


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


def add_sync(parser: argparse.ArgumentParser, *, default: Sync = "reference") -> None:
    """``--sync`` and ``--reorder``."""
    parser.add_argument(
        "--sync",
        choices=get_args(Sync),
        default=default,
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
    arguments: argparse.Namespace, *, tiled: bool = False, spec: Mapping[str, Any] | None = None
) -> CompiledSchedule:
    """The schedule that the command's source, settings and ``--sync`` ask for.

    A JSON file that ``pipeloom compile`` wrote is read back as it is; a spec is compiled, with
    ``tiled`` for the default tile shape where it names none. ``spec`` stands in for the source.
    """
    data = find_spec(arguments.source) if spec is None else spec
    sync: Sync = getattr(arguments, "sync", "reference")
    reorder: bool = getattr(arguments, "reorder", False)
    if "prologue" not in data:
        tile = DEFAULT_TILES.get(str(data.get("schedule"))) if tiled else None
        tiled_data = data if tile is None else {"geometry": dict(tile), **data}
        return build_schedule(tiled_data, arguments.settings, sync=sync, reorder=reorder)
    if arguments.settings:
        raise SpecError(
            f"{arguments.source} is a compiled schedule, which --set cannot change",
            hint="apply --set to its spec, or edit the file",
        )
    compiled = CompiledSchedule.from_dict(data)
    if sync == "reference":
        return compiled
    return synchronize(compiled, reorder=reorder, keep_barriers=sync == "repaired")


def print_json(data: Any) -> None:
    """Byte-stable JSON on stdout."""
    json.dump(data, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


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
