"""What is public and not explained: classes, fields, members, functions, parameters."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from griffe import Docstring, DocstringSectionKind

from pipeloom.field_texts import attribute_texts
from website.names import public_names, records


def unexplained() -> list[str]:
    """Everything public without a text, as dotted names."""
    found: list[str] = []
    for name in public_names():
        value = name.value
        if isinstance(value, type):
            found += _of_class(value)
        elif inspect.ismodule(value):
            found += _of_module(value)
        elif inspect.isfunction(value):
            found += _of_function(value, f"{value.__module__}.{value.__name__}")
        elif name.name not in attribute_texts(name.module):
            found.append(f"{name.module.__name__}.{name.name}")
    for kind in records():
        found += _of_class(kind)
    return list(dict.fromkeys(found))


def _of_module(module: ModuleType) -> Iterator[str]:
    if not module.__doc__:
        yield module.__name__
    for name, value in vars(module).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield from _of_function(value, f"{module.__name__}.{name}")


def _of_class(kind: type) -> Iterator[str]:
    path = f"{kind.__module__}.{kind.__name__}"
    own = kind.__doc__ if vars(kind).get("__doc__") else None
    if not own or own.startswith(f"{kind.__name__}("):  # the latter is what dataclasses put there
        yield path
    texts = attribute_texts(kind)
    yield from (f"{path}.{name}" for name in _stated(kind) if name not in texts)
    own_init = vars(kind).get("__init__")
    protocol = getattr(kind, "_is_protocol", False)
    if inspect.isfunction(own_init) and not is_dataclass(kind) and not protocol:
        known = _documented(kind.__doc__) | _documented(own_init.__doc__)
        yield from (f"{path}({name})" for name in _parameters(own_init) if name not in known)
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property | cached_property):
            if not member.__doc__:
                yield f"{path}.{name}"
        elif inspect.isfunction(function := getattr(member, "__func__", member)):
            yield from _of_function(function, f"{path}.{name}")


def _stated(kind: type) -> list[str]:
    """The fields or members of a class."""
    if is_dataclass(kind):
        noted = vars(kind).get("__annotations__", {})
        constants = [name for name, note in noted.items() if "ClassVar" in str(note)]
        names = [one.name for one in fields(kind)] + constants
        return [name for name in names if not name.startswith("_")]
    if issubclass(kind, enum.Enum):
        return list(kind.__members__)
    return list(getattr(kind, "_fields", ()))


def _of_function(function: Callable[..., Any], path: str) -> Iterator[str]:
    plain = inspect.unwrap(function)
    if not plain.__doc__:
        yield path
    known = _documented(plain.__doc__)
    yield from (f"{path}({name})" for name in _parameters(plain) if name not in known)


def _parameters(function: Callable[..., Any]) -> list[str]:
    given = inspect.signature(function).parameters
    return [name for name in given if name not in ("self", "cls") and not name.startswith("_")]


def _documented(text: str | None) -> set[str]:
    """The parameters that a docstring explains, as the site reads it."""
    sections = Docstring(inspect.cleandoc(text or "")).parse("google", warnings=False)
    return {
        one.name.lstrip("*")
        for section in sections
        if section.kind is DocstringSectionKind.parameters
        for one in section.value
        if one.description
    }
