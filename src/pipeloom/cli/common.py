"""What all commands share: source, tile, synchronisation, JSON, files written whole or not at all.

One schedule is compiled one way by every command: ``load_compiled`` alone decides which tile a
spec gets where it names none, and ``tile_header`` says which it was.
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

from pipeloom.cli.usage import UsageError
from pipeloom.compiled import CompiledSchedule
from pipeloom.compiler import Sync
from pipeloom.errors import OrderError, SpecError
from pipeloom.plain import key_paths
from pipeloom.report.headers import tile_text
from pipeloom.schedules import DEFAULT_TILES, SCHEDULES
from pipeloom.spec import build_schedule, find_spec
from pipeloom.synchronize import synchronize

TILES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "bf16": MappingProxyType({"BK": 64, "MMA_K": 32, "elem_bytes": 2}),
        "fp16": MappingProxyType({"BK": 64, "MMA_K": 32, "elem_bytes": 2}),
        "fp8": MappingProxyType({"BK": 128, "MMA_K": 128, "elem_bytes": 1}),
    }
)
"""256 x 256 tiles with 128 bytes of K, by element type."""

_DERIVES_DEPTH = "gemm_tile"
"""Finds BK and MMA_K itself, from its machine and the size of an element."""


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


def add_tile(parser: argparse.ArgumentParser, *, default: str = "none") -> None:
    """``--tile``; ``default`` is what a spec without a tile gets where the option is not given."""
    parser.add_argument(
        "--tile",
        choices=("none", *TILES),
        help="the tile where the spec names none: 256x256x64 in bf16 or fp16, 256x256x128 in fp8; "
        "'none' leaves it to the spec and the target's counter costs. "
        f"Default: {default}, and what a schedule has of its own (four_wave: fp8)",
    )
    parser.set_defaults(default_tile=default)


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="plain data on stdout, for scripts")


def add_sync(parser: argparse.ArgumentParser, *, default: Sync | None = "reference") -> None:
    """``--sync`` and ``--reorder``; without a default the command chooses what is proved."""
    chosen = default or "repaired with --reorder, else proven; a compiled file that is PROVED stays"
    parser.add_argument(
        "--sync",
        choices=get_args(Sync),
        default=default,
        help="whose waits and barriers: the specification's (reference); those that follow from "
        "the dependences alone (proven); or the specification's barriers with waits that follow "
        f"(repaired). The last two are proved free of races. Default: {chosen}",
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
    data = find_spec(arguments.source) if spec is None else spec
    sync: Sync = getattr(arguments, "sync", "reference")
    reorder: bool = getattr(arguments, "reorder", False)
    if reorder and sync == "reference":
        raise UsageError("--reorder needs --sync proven or --sync repaired")
    try:
        if not is_compiled(data):
            tiled = _with_tile(arguments, data)
            return build_schedule(tiled, arguments.settings, sync=sync, reorder=reorder)
        compiled = read_compiled(arguments, data)
        if sync == "reference":
            return compiled
        return synchronize(compiled, reorder=reorder, keep_barriers=sync == "repaired")
    except OrderError as error:
        raise as_options(error) from error


def is_compiled(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is what ``pipeloom compile`` wrote, not a spec."""
    return "prologue" in data


def read_compiled(arguments: argparse.Namespace, data: Mapping[str, Any]) -> CompiledSchedule:
    """A compiled schedule as it is; options that would change its spec are refused."""
    for option, value in (("--set", arguments.settings), ("--tile", _tile(arguments))):
        if value:
            raise SpecError(
                f"{arguments.source} is a compiled schedule, which {option} cannot change",
                hint=f"apply {option} to its spec: pipeloom compile SPEC {option} ... -o FILE",
            )
    return CompiledSchedule.from_dict(data)


def as_options(error: OrderError) -> OrderError:
    """The same error with a hint that speaks of options, not of arguments."""
    hint = error.hint and error.hint.replace("reorder=True applies it", "--reorder applies it")
    if hint:
        hint = hint.replace("keep_barriers=False, sync='proven'", "--sync proven")
    return OrderError(error.message, hint=hint, field=error.field)


def tile_header(arguments: argparse.Namespace, compiled: CompiledSchedule) -> str:
    """``ping_pong, 256x256x64 bf16``: what every command says it is about."""
    return f"{compiled.schedule}, {tile_text(compiled, _tile(arguments))}"


def require_tile(arguments: argparse.Namespace, compiled: CompiledSchedule) -> None:
    """Refuse a schedule that could have a tile and has none, where the figures need one."""
    if compiled.geometry is None and _takes_tile(compiled.schedule):
        raise SpecError(
            f"{arguments.source} has no tile shape, so its ops have no instruction counts",
            hint="give --tile bf16 (or fp16, fp8); for a compiled file to pipeloom compile",
            field="geometry",
        )


def _tile(arguments: argparse.Namespace) -> str | None:
    tile: str | None = getattr(arguments, "tile", None)
    return tile


def _takes_tile(schedule: str) -> bool:
    return schedule in SCHEDULES and any(
        path.startswith("geometry.") for path in key_paths(SCHEDULES[schedule])
    )


def _with_tile(arguments: argparse.Namespace, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec with the tile that ``--tile``, or the command by default, gives it."""
    name, tile = str(data.get("schedule")), _tile(arguments)
    if tile == "none":
        return data
    if tile is None:
        default = TILES.get(getattr(arguments, "default_tile", "none"))
        if default is None or name not in DEFAULT_TILES or "geometry" in data:
            return data
        return {"geometry": dict(default), **data}
    if name in SCHEDULES and not _takes_tile(name):
        takers = [schedule for schedule in SCHEDULES if _takes_tile(schedule)]
        raise SpecError(
            f"{name} has no tile shape that --tile could set",
            hint=f"drop --tile; it is for {', '.join(takers)}",
            field="geometry",
        )
    if "geometry" in data:
        raise SpecError(
            f"{arguments.source} names its own tile, which --tile does not replace",
            hint="drop --tile, or change the tile with --set geometry.BK=... and the like",
            field="geometry",
        )
    shape = dict(TILES[tile])
    if name == _DERIVES_DEPTH:
        shape = {"elem_bytes": shape["elem_bytes"]}
    return {"geometry": shape, **data}


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
