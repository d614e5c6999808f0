"""Field checks that name the field, the value and the remedy.

Every value type of the package validates in ``__post_init__`` through these few functions, so
that all messages read alike: ``PipelineConfig.depth is 0, but must be at least 1``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from numbers import Integral
from typing import Any, get_type_hints

from pipeloom.errors import ConfigError, ScheduleError


def check_int(
    owner: str, field: str, value: object, low: int, high: int | None = None, hint: str = ""
) -> None:
    """Require an ``int`` (not a ``bool``) with ``low <= value <= high``."""
    if type(value) is int and value >= low and (high is None or value <= high):
        return
    where = f"{owner}.{field}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(
            f"{where} is {value!r}, but must be an integer",
            hint=hint or f"pass a whole number for {field}",
            field=where,
        )
    if value < low or (high is not None and value > high):
        legal = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ConfigError(
            f"{where} is {value}, but must be {legal}",
            hint=hint or f"choose {field} {legal}",
            field=where,
        )


def plain_int(value: Any) -> Any:
    """A whole number of another kind, such as NumPy's, as an ``int``; anything else as it is."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def check_number(
    owner: str, field: str, value: object, low: float, high: float, hint: str = ""
) -> None:
    """Require a finite ``int`` or ``float`` (not a ``bool``) with ``low <= value <= high``."""
    where = f"{owner}.{field}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(
            f"{where} is {value!r}, but must be a finite number",
            hint=hint or f"pass a number from {low:g} to {high:g} for {field}",
            field=where,
        )
    if not low <= value <= high:
        raise ConfigError(
            f"{where} is {value:g}, but must be between {low:g} and {high:g}",
            hint=hint or f"choose {field} between {low:g} and {high:g}",
            field=where,
        )


def check_bool(owner: str, field: str, value: object) -> None:
    """Require ``True`` or ``False`` itself; 0 and 1 are rejected, they are usually a slip."""
    if not isinstance(value, bool):
        where = f"{owner}.{field}"
        raise ConfigError(
            f"{where} is {value!r}, but must be True or False",
            hint=f"pass {field}=True or {field}=False",
            field=where,
        )


def check_instance(owner: str, field: str, value: object, kind: type[Any]) -> None:
    """Require an instance of ``kind``; for enums the hint lists the members."""
    if isinstance(value, kind):
        return
    where = f"{owner}.{field}"
    if issubclass(kind, Enum):
        hint = f"use one of {', '.join(f'{kind.__name__}.{m.name}' for m in kind)}"
    else:
        hint = f"pass a {kind.__name__}"
    raise ConfigError(
        f"{where} is {value!r}, but must be of type {kind.__name__}", hint=hint, field=where
    )


def check_fields(record: Any, least: int = 0, /, **limits: int | tuple[Any, ...]) -> None:
    """Require of each field of a dataclass what its annotation says: ``int``, ``bool``, a class.

    Whole numbers are at least ``least``; ``limits`` has, by name, another least one, or what
    ``check_int`` takes behind the value.
    """
    cls: Any = type(record)
    owner = cls.__name__
    for name, kind in field_kinds(cls).items():
        value = getattr(record, name)
        if kind is int:
            limit = limits.get(name, least)
            check_int(owner, name, value, *(limit if isinstance(limit, tuple) else (limit,)))
        elif kind is bool:
            check_bool(owner, name, value)
        elif isinstance(kind, type):
            check_instance(owner, name, value, kind)


@lru_cache(maxsize=256)
def field_kinds(cls: Any) -> Mapping[str, Any]:
    """The type of each field that a dataclass is made with, by name."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls) if field.init}


def check_known(
    name: object,
    known: Collection[object],
    said: str,
    field: str,
    error: type[ScheduleError] = ConfigError,
) -> None:
    """Raise ``said`` of a name that is none of those known; the hint has the nearest of them."""
    if name not in known:
        raise error(said, hint=nearest(str(name), known), field=field)


def nearest(name: str, valid: Iterable[object]) -> str:
    """A hint for an unknown name: the nearest valid one first, then all of them."""
    options = [str(one) for one in valid]
    close = get_close_matches(name, options, n=1, cutoff=0.5)
    listing = ", ".join(options) or "none"
    return f"did you mean {close[0]!r}? Valid: {listing}" if close else f"valid: {listing}"
