"""Fields explain themselves in ``help()``: the strings under them, read when somebody asks.

A field's text is written once, as a string under it. Editors and the site read it from the source,
but Python drops it. The classes of a module that ``pipeloom.X`` touches therefore get a ``__doc__``
that reads the source when it is read, and not before: importing costs nothing.
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any


def attribute_texts(scope: type | ModuleType) -> dict[str, str]:
    """What the strings under the attributes of a class, its bases, or a module say, by name.

    Empty where there is no source to read.
    """
    if isinstance(scope, ModuleType):
        return dict(_texts(scope.__name__).get("", {}))
    found: dict[str, str] = {}
    for kind in reversed(scope.__mro__):
        found |= {name: text for name, text in own_texts(kind).items() if name}
    return found


def own_texts(kind: type) -> dict[str, str]:
    """The same of a class without its bases; under no name what the class itself says."""
    return _texts(kind.__module__).get(kind.__qualname__, {})


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """Of each class at the top of a module, and of the module itself under no name."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    tree = ast.parse(source)
    classes = {
        node.name: {"": ast.get_docstring(node) or "", **_below(node.body)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    return {"": _below(tree.body), **classes}


def _below(body: list[ast.stmt]) -> dict[str, str]:
    """The string under each attribute that has one."""
    found = {}
    for stated, below in pairwise(body):
        match stated, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


class ExplainedDoc:
    """A class's docstring with what its fields mean below it, put together when it is read."""

    def __init__(self, own: str | None) -> None:
        self._own = own

    def __get__(self, instance: object, owner: type) -> str | None:
        return _whole(self._own, "Attributes:", attribute_texts(owner))


def _whole(own: str | None, heading: str, texts: dict[str, str]) -> str | None:
    if not texts:
        return own
    lines = [f"    {name}: {' '.join(text.split())}" for name, text in texts.items()]
    return "\n".join([inspect.cleandoc(own or ""), "", heading, *lines]).strip()


def explain(value: Any) -> None:
    """Let the dataclasses and enums of the module ``value`` comes from explain their fields.

    Enums do at once: ``help()`` looks past a descriptor where a class has a metaclass.
    """
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or sys.flags.optimize >= 2:
        return
    for kind in vars(module).values():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        own = vars(kind).get("__doc__")
        if issubclass(kind, enum.Enum) and "Members:\n" not in (own or ""):
            kind.__doc__ = _whole(own, "Members:", attribute_texts(kind))
        elif is_dataclass(kind) and not isinstance(own, ExplainedDoc):
            kind.__doc__ = ExplainedDoc(own)  # type: ignore[assignment]
