"""Declarations of the user's own: ``my_kernels.py:Name``.

``Name`` is a ``Loop``, a ``Program``, a ``PipelineSchedule`` (class or instance), a
``CompiledSchedule``, or a function that returns one: one of ``KINDS``.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType

from pipeloom.checks import nearest
from pipeloom.declare.loop import Loop
from pipeloom.drive.python_files import import_file, raised
from pipeloom.errors import SpecError
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.declaration import PipelineSchedule

Declared = PipelineSchedule | CompiledSchedule | Loop | Program

KINDS: tuple[type, ...] = (PipelineSchedule, CompiledSchedule, Loop, Program)
"""What a declaration may be."""


def names_declaration(text: str) -> bool:
    """Whether a command's argument is a Python file, with or without ``:Name``."""
    path, colon, _ = text.rpartition(":")
    return (path if colon else text).endswith(".py")


def load_declaration(text: str) -> Declared:
    """What ``my_kernels.py:Name`` declares."""
    path, colon, name = text.rpartition(":")
    if not colon:
        path, name = text, ""
    module = import_file(Path(path))
    public = {key: value for key, value in vars(module).items() if _declares(value, module)}
    if not name or not hasattr(module, name):
        hint = nearest(name, public) if public else "declare a Loop or a PipelineSchedule in it"
        said = f"{path} has no name {name!r}" if name else f"{path} needs the name of a declaration"
        raise SpecError(said, hint=hint if name else f"write {path}:NAME; {hint}", field="schedule")
    return resolve(getattr(module, name), text)


def resolve(value: object, text: str) -> Declared:
    """The schedule that an object stands for; classes and functions are called for it."""
    made = value
    if isinstance(value, type) or (callable(value) and not isinstance(value, KINDS)):
        if isinstance(value, type) and not issubclass(value, KINDS):
            raise _wrong_kind(text, f"the class {value.__name__}")
        try:
            made = value()
        except Exception as error:
            raise raised(text, error, f"{text}() raised") from error
    if isinstance(made, Declared):
        return made
    raise _wrong_kind(text, f"a {type(made).__name__}")


def _wrong_kind(text: str, what: str) -> SpecError:
    names = ", ".join(kind.__name__ for kind in KINDS)
    return SpecError(
        f"{text} is {what}, not a loop and not a schedule",
        hint=f"name one of these, or a function that returns one: {names}",
        field="schedule",
    )


def _declares(value: object, module: ModuleType) -> bool:
    """Whether a name of a file can be given: what it says it is, or a function that may make it."""
    if isinstance(value, type):
        return issubclass(value, KINDS) and value.__module__ == module.__name__
    if isinstance(value, FunctionType) and value.__module__ == module.__name__:
        needed = [p for p in signature(value).parameters.values() if p.default is p.empty]
        made = str(value.__annotations__.get("return", "Loop"))
        fits = any(kind.__name__ in made for kind in KINDS)
        return fits and not needed and not value.__name__.startswith("_")
    return isinstance(value, KINDS)
