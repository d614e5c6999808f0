"""Everything that an object says of itself without being asked anything: its properties, and what
its methods without arguments return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from inspect import Parameter, isfunction, signature
from types import GeneratorType
from typing import Any

from benchmarks.kernel_results import digest
from pipeloom.errors import ScheduleError

MOST = 400
"""Parts of an answer that are looked at."""


def answers(thing: object) -> str:
    """A hash of them all, name by name."""
    said = [f"{name}: {' '.join(_first(value))}" for name, value in _asked(thing)]
    return f"{len(said)} answers {digest(' '.join(said))}"


def _asked(thing: object) -> Iterator[tuple[str, object]]:
    kind = type(thing)
    for name in sorted(dir(kind)):
        found = getattr(kind, name)
        if name.startswith("_") or not (
            isinstance(found, property | cached_property) or _asks_nothing(found)
        ):
            continue
        try:
            value: Any = getattr(thing, name)
            yield name, value() if _asks_nothing(found) else value
        except (ScheduleError, ValueError, KeyError, ZeroDivisionError) as error:
            yield name, type(error).__name__


def _asks_nothing(found: object) -> bool:
    if not isfunction(found):
        return False
    asked = list(signature(found).parameters.values())[1:]
    return all(one.default is not Parameter.empty for one in asked)


def _first(value: object) -> Iterator[str]:
    for number, part in enumerate(_parts(value)):
        if number == MOST:
            return
        yield part


def _parts(value: object) -> Iterator[str]:
    if isinstance(value, Enum):
        yield value.name
    elif isinstance(value, float):
        yield f"{value:.6g}"
    elif value is None or isinstance(value, str | int):
        yield str(value)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _parts(getattr(value, field.name, None))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif isinstance(value, Set):
        yield from sorted(" ".join(_parts(item)) for item in value)
    elif isinstance(value, tuple | list | GeneratorType):
        for item in value:
            yield from _parts(item)
    else:
        yield type(value).__name__
