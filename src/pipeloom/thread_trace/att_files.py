"""Files of a thread trace: JSON and CSV of others, read within limits.

    data = read_json(folder / "code.json")
    rows = item(data, "code", list, "code.json")

Keys that are not asked for are ignored, since later versions add some. What is asked for and is
missing, or is not of its kind, is an error that names the file and the key.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading

T = TypeVar("T")

MOST_CYCLE = 1 << 62
"""Times and addresses: what fits the arithmetic that follows."""
MOST_ROWS = 1_000_000
"""Instructions of a table, or records of one wave."""
_WORDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
_AGAIN = "let rocprofv3 --att write the folder again, or name another"


def broken(path: Path, what: str) -> SpecError:
    """The error for a file that is not what it should be."""
    return SpecError(f"{path.name}: {what}", hint=_AGAIN, field="measured")


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    text = _text(path)
    try:
        data = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise broken(path, f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise broken(path, "the whole is not an object")
    return data


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by the names in its first line."""
    try:
        reader = csv.DictReader(io.StringIO(_text(path)), restkey="", restval="")
        rows: list[dict[str, str]] = []
        for row in reader:
            if len(rows) >= MOST_ROWS:
                raise broken(path, f"more than {MOST_ROWS:,} rows")
            rows.append({str(key).strip(): str(value) for key, value in row.items()})
    except csv.Error as error:
        raise broken(path, f"not CSV: {error}") from error
    return rows


def _text(path: Path) -> str:
    with reading(f"{path.name} of the trace", _AGAIN, "measured"):
        return read_text(path)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def item(data: Mapping[str, Any], key: str, kind: type[T], path: Path, usual: T | None = None) -> T:
    """``data[key]``, which must be of a kind; ``usual`` where it is missing and may be."""
    if key not in data:
        if usual is not None:
            return usual
        raise broken(path, f"no {key!r}")
    value = data[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise broken(path, f"{key!r} is not {_WORDS.get(kind, kind.__name__)}")
    return value


def whole(value: object, where: str, path: Path, low: int = 0) -> int:
    """A whole number from ``low`` on; a text of digits counts, as CSV has it."""
    found = value
    if isinstance(value, str) and len(value) < 32 and value.strip().isdecimal():
        found = int(value)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if type(found) is not int or not low <= found < MOST_CYCLE:
        raise broken(path, f"{where} is {_brief(value)}, no whole number from {low} on")
    return found


def columns(header: object, path: Path) -> list[str]:
    """The names of a table's columns, given as a list or as one text with commas."""
    names: Sequence[object] = header.split(",") if isinstance(header, str) else ()
    names = header if isinstance(header, list) else names
    if not names or not all(isinstance(name, str) for name in names):
        raise broken(path, "'header' names no columns")
    return [str(name).strip() for name in names]


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
