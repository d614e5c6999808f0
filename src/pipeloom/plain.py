"""Values to plain data and back, driven by the dataclass fields themselves.

One pair of functions serves every value type, so a new field cannot be forgotten in a
hand-written list: ``from_plain(cls, to_plain(x)) == x`` for any dataclass built of ints, bools,
strings, floats, enums, tuples, optionals and other such dataclasses. Where a field may hold one of
several dataclasses, each says under ``is`` which one it is (its ``TAG``).
"""

from __future__ import annotations

import reprlib
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pipeloom.checks import nearest
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.printable import is_printable

T = TypeVar("T")

TAG = "is"
"""The key that tells which of several dataclasses a mapping stands for."""

LEFT_OUT_WHILE_USUAL: Mapping[str, str] = types.MappingProxyType({"written": "unless usual"})
"""The ``metadata`` of a field that is not written while it has its default: what was written before
a record learnt the field keeps its bytes."""
_NOTHING = object()

_BRIEF = reprlib.Repr()
"""A ``repr`` that stops at some depth; the built-in one overflows on deep nesting."""
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 60


def to_plain(value: object) -> Any:
    """Nested dicts, lists, numbers and strings; an enum becomes its code."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        plain = {
            name: to_plain(getattr(value, name))
            for name, usual in _written(type(value))
            if usual is _NOTHING or getattr(value, name) != usual
        }
        tag = getattr(type(value), "TAG", None)
        return plain if tag is None else {TAG: tag, **plain}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


@lru_cache(maxsize=256)
def _written(cls: Any) -> tuple[tuple[str, object], ...]:
    """The fields that are written, and what each must not be for that."""
    return tuple(
        (f.name, f.default if f.metadata == LEFT_OUT_WHILE_USUAL else _NOTHING)
        for f in fields(cls)
        if f.init
    )


def from_plain(
    cls: type[T], data: object, where: str = "", *, overlay: bool = False, name: str = ""
) -> T:
    """Build ``cls`` from plain data; ``where`` is the key path for error messages.

    ``name`` is what messages call the outermost mapping, where the class name would say nothing.

    With ``overlay``, a nested mapping only changes the keys it names: the rest keeps the value
    of the field's default. Spec files want that; ``from_dict`` does not.
    """
    label = where or name or cls.__name__
    if not isinstance(data, Mapping):
        raise SpecError(
            f"{label} is {_short(data)}, but must be a mapping",
            hint=f"give the fields of {cls.__name__} by name",
            field=where or None,
        )
    kind: Any = cls
    hints = _hints(kind)
    for key in data:
        if key not in hints:
            raise SpecError(
                f"{label} has no key {key!r}",
                hint=nearest(str(key), hints),
                field=f"{where}.{key}" if where else str(key),
            )
    base = _defaults(kind) if overlay else {}
    values = {
        name: _value(
            hint, _overlaid(base.get(name), data[name]), f"{where}.{name}" if where else name
        )
        for name, hint in hints.items()
        if name in data
    }
    missing = _required(kind) - values.keys()
    if missing:
        names = ", ".join(sorted(missing))
        raise SpecError(
            f"{label} lacks {names}", hint=f"add the missing key(s): {names}", field=where or None
        )
    try:
        return cls(**values)
    except ScheduleError as error:
        if where and not (error.field or "").startswith(where):
            raise SpecError(f"{where}: {error.message}", hint=error.hint, field=where) from error
        raise


def key_paths(cls: Any, prefix: str = "") -> Iterator[str]:
    """The dotted path of every key that ``from_plain`` accepts; ``latency.*`` for open maps."""
    for name, hint in _hints(cls).items():
        path = f"{prefix}{name}"
        inner = [hint, *get_args(hint)]
        nested = next((k for k in inner if isinstance(k, type) and is_dataclass(k)), None)
        if get_origin(hint) is Mapping:
            yield f"{path}.*"
        elif nested is not None and get_origin(hint) is not tuple:
            yield from key_paths(nested, f"{path}.")
        else:
            yield path


@lru_cache(maxsize=256)
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.init}


@lru_cache(maxsize=256)
def _defaults(cls: Any) -> dict[str, Any]:
    """The default of each dataclass-valued field, as plain data."""
    found = {}
    for f in fields(cls):
        default: object = f.default if f.default_factory is MISSING else f.default_factory()
        if is_dataclass(default):
            found[f.name] = to_plain(default)
    return found


def _overlaid(base: dict[str, Any] | None, data: object) -> object:
    if base is None or not isinstance(data, Mapping):
        return data
    return {**base, **data}


@lru_cache(maxsize=256)
def _required(cls: Any) -> frozenset[str]:
    return frozenset(
        f.name
        for f in fields(cls)
        if f.init and f.default is MISSING and f.default_factory is MISSING
    )


def _short(value: object) -> str:
    text = _BRIEF.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _value(kind: Any, data: object, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = get_args(kind)
        if data is None and type(None) in options:
            return None
        inner = [o for o in options if o is not type(None)]
        return _value(inner[0], data, where) if len(inner) == 1 else _tagged(inner, data, where)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise SpecError(
                f"{where} is {_short(data)}, but must be a list",
                hint="write [...], even for one item",
                field=where,
            )
        kinds = get_args(kind)
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(data)
        if len(kinds) != len(data):
            raise SpecError(
                f"{where} is {_short(data)}, but must have {len(kinds)} items",
                hint=f"give {len(kinds)} items",
                field=where,
            )
        items = enumerate(zip(kinds, data, strict=True))
        return tuple(_value(inner, item, f"{where}[{i}]") for i, (inner, item) in items)
    if origin is Mapping:
        if not isinstance(data, Mapping):
            raise SpecError(
                f"{where} is {_short(data)}, but must be a mapping",
                hint="give names with their values",
                field=where,
            )
        inner = get_args(kind)[1]
        return {str(key): _value(inner, item, f"{where}.{key}") for key, item in data.items()}
    kind = origin if is_dataclass(origin) else kind
    if isinstance(kind, type) and is_dataclass(kind):
        return from_plain(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind, data, where)
    return _scalar(kind, data, where)


def _tagged(options: list[Any], data: object, where: str) -> Any:
    """One of several dataclasses, by its tag."""
    by_name = {option.TAG: get_origin(option) or option for option in options}
    name = data.get(TAG) if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in by_name:
        raise SpecError(
            f"{where} is {_short(data)}, which says no {TAG} of {', '.join(by_name)}",
            hint=nearest(str(name), by_name),
            field=where,
        )
    assert isinstance(data, Mapping)
    rest = {key: value for key, value in data.items() if key != TAG}
    return from_plain(by_name[name], rest, where)


def _enum(kind: type[Enum], data: object, where: str) -> Enum:
    """By integer code or, as people write it, by name in any case."""
    by_name = {member.name.lower(): member for member in kind}
    if isinstance(data, str) and data.lower() in by_name:
        return by_name[data.lower()]
    if not isinstance(data, bool | str | float):
        try:
            return kind(data)
        except ValueError:
            pass
    raise SpecError(
        f"{where} is {_short(data)}, which is not a {kind.__name__}",
        hint=nearest(str(data).lower(), by_name),
        field=where,
    )


def _scalar(kind: Any, data: object, where: str) -> Any:
    if isinstance(kind, TypeVar):  # a number of either type, as the value has it
        kind = float if isinstance(data, float) else int
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind in (int, float, str, bool):
        if type(data) is not kind:
            name = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
            raise SpecError(
                f"{where} is {_short(data)}, but must be {name[kind]}",
                hint=f"give {where} as {name[kind]}",
                field=where,
            )
        if kind is str and not is_printable(str(data)):
            raise SpecError(
                f"{where} is {_short(data)}, which holds a control character or several lines",
                hint="text in a file is one line that shows as it is",
                field=where,
            )
        return data
    raise SpecError(
        f"{where} cannot be read back: no plain form for {kind}",
        hint="a field is an int, bool, str, float, enum, tuple, mapping or a dataclass of these",
        field=where,
    )
