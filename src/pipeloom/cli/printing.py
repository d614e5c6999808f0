"""What every command prints: notes, JSON, and which files were written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeloom.cli.options import Command
from pipeloom.errors import SpecError


def wrote(command: Command, *paths: str | Path | None) -> None:
    """Say which files were written: on stdout, or on stderr where that has data for scripts."""
    given = [str(path) for path in paths if path is not None]
    if given:
        stream = sys.stderr if command.json else sys.stdout
        print(f"wrote {', '.join(given)}", file=stream)


def say(notes: Iterable[str]) -> None:
    """Notes on stderr."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def json_text(data: Any) -> str:
    """Byte-stable JSON."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def print_json(data: Any) -> None:
    """The same on stdout."""
    sys.stdout.write(json_text(data))


def check_ending(path: str, ending: str, what: str) -> None:
    """Refuse to write one kind of file under the name of another; a name without ending is fine."""
    suffix = Path(path).suffix
    if suffix not in ("", ending):
        raise SpecError(
            f"{path} ends in {suffix!r}, but {what} is written there", hint=f"use {ending}"
        )
