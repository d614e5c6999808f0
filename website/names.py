"""The public names, from the one list of them, and the records that stand beside them."""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pipeloom

BESIDE = (
    "drive.certifying",
    "drive.forms",
    "judge.emulate.observed",
    "machine.occupancy",
    "order.modulo.measure",
    "order.modulo.problem",
    "order.modulo.result",
    "order.modulo.whole",
    "program.provenance",
    "show.comparison",
    "write.kernel",
    "write.launch",
)
"""Homes of what results consist of, where no public name lives."""


@dataclass(frozen=True, slots=True)
class PublicName:
    """A name that users write: ``pl.name``."""

    name: str
    home: str
    """The module that the stub imports it from, without ``pipeloom.``."""

    @property
    def value(self) -> Any:
        """What it stands for."""
        return getattr(pipeloom, self.name)

    @property
    def path(self) -> str:
        """Where its source is, as documentation tools look it up."""
        value = self.value
        if inspect.ismodule(value):
            return value.__name__
        if isinstance(value, type) or inspect.isfunction(value):
            return f"{value.__module__}.{value.__name__}"
        return f"{self.module.__name__}.{self.name}"

    @property
    def module(self) -> ModuleType:
        """The module whose source defines it."""
        value = self.value
        if inspect.ismodule(value):
            return value
        if isinstance(value, type) or inspect.isfunction(value):
            return sys.modules[value.__module__]
        return _assigning(import_module(f"pipeloom.{self.home}"), self.name)


def public_names() -> list[PublicName]:
    """Every name of the stub, in its order."""
    stub = Path(pipeloom.__file__).with_suffix(".pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    return [
        PublicName(alias.name, str(node.module))
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def records() -> list[type]:
    """Dataclasses, enums and named tuples that stand beside public names, and are none."""
    names = public_names()
    known = {id(name.value) for name in names}
    homes = {name.module.__name__: None for name in names} | {
        f"pipeloom.{home}": None for home in BESIDE
    }
    found = [kind for home in homes for kind in _records_of(import_module(home))]
    return [kind for kind in dict.fromkeys(found) if id(kind) not in known]


def _records_of(module: ModuleType) -> Iterator[type]:
    for name, kind in vars(module).items():
        if name.startswith("_") or not isinstance(kind, type):
            continue
        is_record = is_dataclass(kind) or issubclass(kind, enum.Enum) or hasattr(kind, "_fields")
        if is_record and kind.__module__ == module.__name__:
            yield kind


def _assigning(module: ModuleType, name: str) -> ModuleType:
    """The module that assigns a value which ``module`` imports, lists or assigns itself."""
    home = Path(inspect.getsourcefile(module) or "")
    stub = home.with_suffix(".pyi")
    tree = ast.parse((stub if stub.is_file() else home).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            source = "." * node.level + str(node.module)
            return _assigning(import_module(source, module.__package__), name)
    return module
