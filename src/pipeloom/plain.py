"""Values to plain data and back, driven by the dataclass fields themselves.

One pair of functions serves every value type, so a new field cannot be forgotten in a
hand-written list: ``from_plain(cls, to_plain(x)) == x`` for any dataclass built of ints, bools,
strings, floats, enums, tuples, optionals and other such dataclasses. Where a field may hold one of
several dataclasses, each says under ``is`` which one it is (its ``TAG``).
"""

from __future__ import annotations

import reprlib
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from pipeloom.checks import field_kinds, nearest
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.printable import is_printable

T = TypeVar("T")
_Number = TypeVar("_Number", int, float)
Place = tuple[Any, str, object, str] | str
"""Where a value stands: the place around it, and what stands between, before and behind its key. It
is put into words only for a message: a program has a hundred thousand values."""
Read = Callable[[Any, Place], Any]
"""The value of plain data that stands at a place."""

TAG = "is"
"""The key that tells which of several dataclasses a mapping stands for."""

LEFT_OUT_WHILE_USUAL: Mapping[str, str] = types.MappingProxyType({"written": "unless usual"})
"""The ``metadata`` of a field that is not written while it has its default: what was written before
a record learnt the field keeps its bytes."""
_NOTHING = object()
_SCALARS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}

_BRIEF = reprlib.Repr()
"""A ``repr`` that stops at some depth; the built-in one overflows on deep nesting."""
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 60


def to_plain(value: object) -> Any:
    """Nested dicts, lists, numbers and strings; an enum becomes its code."""
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple:
        items = cast(tuple[object, ...], value)
        return [item if type(item) in _SCALARS else to_plain(item) for item in items]
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for name, usual in _written(kind):
            item = getattr(value, name)
            if usual is _NOTHING or item != usual:
                plain[name] = item if type(item) in _SCALARS else to_plain(item)
        tag = getattr(kind, "TAG", None)
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
    kind: Any = cls
    base = _defaults(kind) if overlay else {}
    if base and isinstance(data, Mapping):
        data = {key: _overlaid(base.get(key), item) for key, item in data.items()}
    return cast(T, _record(kind, data, where, name))


def _record(cls: Any, data: object, place: Place, name: str = "") -> Any:
    if not isinstance(data, Mapping):
        where = _worded(place)
        raise SpecError(
            f"{where or name or cls.__name__} is {_short(data)}, but must be a mapping",
            hint=f"give the fields of {cls.__name__} by name",
            field=where or None,
        )
    readers = _readers(cls)
    for key in data:
        if key not in readers:
            where = _worded(place)
            raise SpecError(
                f"{where or name or cls.__name__} has no key {key!r}",
                hint=nearest(str(key), readers),
                field=f"{where}.{key}" if where else str(key),
            )
    values = {
        key: read(data[key], (place, ".", key, "") if place else key)
        for key, read in readers.items()
        if key in data
    }
    if len(values) < len(readers) and (missing := _required(cls) - values.keys()):
        where, names = _worded(place), ", ".join(sorted(missing))
        raise SpecError(
            f"{where or name or cls.__name__} lacks {names}",
            hint=f"add the missing key(s): {names}",
            field=where or None,
        )
    try:
        return cls(**values)
    except ScheduleError as error:
        where = _worded(place)
        if where and not (error.field or "").startswith(where):
            raise SpecError(f"{where}: {error.message}", hint=error.hint, field=where) from error
        raise


def _worded(place: Place) -> str:
    """The key path, as messages have it."""
    if isinstance(place, str):
        return place
    around, before, key, behind = place
    return f"{_worded(around)}{before}{key}{behind}"


def key_paths(cls: Any, prefix: str = "") -> Iterator[str]:
    """The dotted path of every key that ``from_plain`` accepts; ``latency.*`` for open maps."""
    for name, hint in field_kinds(cls).items():
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


@lru_cache(maxsize=256)
def _readers(cls: Any) -> dict[str, Read]:
    """How each field is read."""
    return {name: _reader(hint) for name, hint in field_kinds(cls).items()}


@lru_cache(maxsize=1024)
def _reader(kind: Any) -> Read:
    """How a value of a type is read, decided once for the type."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind))
    if origin is tuple:
        return _tuple(get_args(kind))
    if origin is Mapping:
        return _mapping(get_args(kind)[1])
    kind = origin if is_dataclass(origin) else kind
    if isinstance(kind, type) and is_dataclass(kind):
        return partial(_record, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return partial(_enum, kind, {member.name.lower(): member for member in kind})
    return partial(_scalar, kind)


def _union(options: tuple[Any, ...]) -> Read:
    inner = [option for option in options if option is not type(None)]
    if set(inner) == {int, float}:
        known: Read = partial(_scalar, _Number)
    else:
        known = _reader(inner[0]) if len(inner) == 1 else _tagged(inner)
    if len(inner) == len(options):
        return known
    return lambda data, place: None if data is None else known(data, place)


def _fault(place: Place, data: object, why: str, hint: str) -> SpecError:
    """Of what is read at a place: ``depth is 'two', but must be a whole number``."""
    where = _worded(place)
    return SpecError(f"{where} is {_short(data)}, {why}", hint=hint, field=where)


def _tuple(kinds: tuple[Any, ...]) -> Read:
    one = _reader(kinds[0]) if kinds[-1] is Ellipsis else None
    each = [] if one else [_reader(kind) for kind in kinds]

    def read(data: Any, place: Place) -> tuple[Any, ...]:
        if not isinstance(data, list | tuple):
            raise _fault(place, data, "but must be a list", "write [...], even for one item")
        if one:
            return tuple([one(item, (place, "[", i, "]")) for i, item in enumerate(data)])
        if len(each) != len(data):
            count = f"{len(each)} items"
            raise _fault(place, data, f"but must have {count}", f"give {count}")
        return tuple([each[i](item, (place, "[", i, "]")) for i, item in enumerate(data)])

    return read


def _mapping(kind: Any) -> Read:
    inner = _reader(kind)

    def read(data: Any, place: Place) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise _fault(place, data, "but must be a mapping", "give names with their values")
        return {str(key): inner(item, (place, ".", key, "")) for key, item in data.items()}

    return read


def _tagged(options: list[Any]) -> Read:
    """One of several dataclasses, by its tag."""
    by_name = {option.TAG: get_origin(option) or option for option in options}

    def read(data: Any, place: Place) -> Any:
        name = data.get(TAG) if isinstance(data, Mapping) else None
        if not isinstance(name, str) or name not in by_name:
            why = f"which says no {TAG} of {', '.join(by_name)}"
            raise _fault(place, data, why, nearest(str(name), by_name))
        rest = {key: value for key, value in data.items() if key != TAG}
        return _record(by_name[name], rest, place)

    return read


def _enum(kind: type[Enum], by_name: Mapping[str, Enum], data: object, place: Place) -> Enum:
    """By integer code or, as people write it, by name in any case."""
    if isinstance(data, str) and data.lower() in by_name:
        return by_name[data.lower()]
    if not isinstance(data, bool | str | float):
        try:
            return kind(data)
        except ValueError:
            pass
    hint = nearest(str(data).lower(), by_name)
    raise _fault(place, data, f"which is not a {kind.__name__}", hint)


def _scalar(kind: Any, data: object, place: Place) -> Any:
    if kind is int and type(data) is int:
        return data
    if isinstance(kind, TypeVar):  # a number of either type, as the value has it
        kind = int if isinstance(data, int) else float
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is type(data) and kind in _SCALARS and (kind is not str or is_printable(str(data))):
        return data
    if kind is str and type(data) is str:
        why = "which holds a control character or several lines"
        raise _fault(place, data, why, "text in a file is one line that shows as it is")
    where = _worded(place)
    if kind in _SCALARS:
        must = _SCALARS[kind]
        raise _fault(place, data, f"but must be {must}", f"give {where} as {must}")
    raise SpecError(
        f"{where} cannot be read back: no plain form for {kind}",
        hint="a field is an int, bool, str, float, enum, tuple, mapping or a dataclass of these",
        field=where,
    )
