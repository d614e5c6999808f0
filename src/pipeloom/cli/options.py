"""A command is a class: its fields are what it takes, with the text that help has under each.

    @dataclass(frozen=True)
    class SolveCommand(SourceOptions):
        '''What help says of it, then its ``Examples:`` and its own ``Exit codes:``.'''

        ii: int | None = option("--ii N")
        '''only IIs up to N'''
        explain: bool = flag()
        '''name the constraints that rule out II - 1'''

Classes that others are made of hold what several commands share, so that it reads alike everywhere;
help lists what they take first. ``{NAME}`` in a text is a constant of the class, or of the module
that the text stands in. Texts are read from the source, and only for help.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from pipeloom.cli.usage import OPTION_HINTS, epilog
from pipeloom.field_texts import own_texts

TYPES: Mapping[str, type] = {"int": int, "float": float, "Path": Path}
"""What is made of the word of an option, by the annotation of its field; else it stays a word."""
if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Job = TypeVar("Job", bound=DataclassInstance)

LAST = ("json", "quiet")
"""What help ends with."""


class Option(NamedTuple):
    """How a field is spelt on the command line."""

    names: tuple[str, ...]
    """With dashes; none for an argument that is known by its place."""
    settings: Mapping[str, Any]
    """As ``argparse`` calls them."""
    group: str = ""
    """The heading that help has it under, where that is not the usual one."""
    text: str = ""
    """What help says of it, where that is not the text under its field."""


Several = Callable[[], Mapping[str, Option]]
"""The options of a field that holds the values of several, by their names."""


def option(names: str, default: Any = None, *, group: str = "", **settings: Any) -> Any:
    """``-o --output FILE``: how a field is spelt, and what its value is called."""
    words = names.split()
    flags = tuple(word for word in words if word.startswith("-"))
    if flags != tuple(words):
        settings["metavar"] = words[-1]
    return field(default=default, metadata={"option": Option(flags, settings, group)})


def repeated(names: str, **settings: Any) -> Any:
    """An option that may be given several times."""
    return option(names, (), action="append", **settings)


def flag(names: str = "", default: Any = False, *, group: str = "", **settings: Any) -> Any:
    """An option without a value, spelt as its field unless ``names`` say otherwise."""
    settings = {"action": "store_true", **settings}
    return field(
        default=default, metadata={"option": Option(tuple(names.split()), settings, group)}
    )


def argument(metavar: str | None = None, default: Any = None, **settings: Any) -> Any:
    """What is known by its place."""
    return option("", default, metavar=metavar, **settings)


def several(options: Several) -> Any:
    """A field with the values of several options by name, those that are given."""
    return field(default_factory=dict, metadata={"option": options})


@dataclass(frozen=True)
class Command:
    """What every command takes."""

    json: bool = flag()
    """plain data on stdout, for scripts"""
    quiet: bool = flag("-q --quiet")
    """no progress on stderr"""

    HINTS: ClassVar[Sequence[tuple[str, str]]] = OPTION_HINTS
    """What a hint of the library says, and what this command calls it."""

    @property
    def hints(self) -> Sequence[tuple[str, str]]:
        """The same, where it depends on what is given."""
        return self.HINTS

    @property
    def named(self) -> str:
        """What the command is about, as it was typed; empty if it is about nothing."""
        return ""

    def run(self) -> int:
        """Do it, and return the exit code."""
        raise NotImplementedError

    def job(self, kind: type[Job], **own: Any) -> Job:
        """A job of ``drive``: what both have is as it was given, ``own`` fields as told here."""
        shared = {one.name for one in fields(kind)} & {one.name for one in fields(self)}
        return kind(**{name: getattr(self, name) for name in shared - own.keys()}, **own)

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """The command with the values of its options."""
        return cls(**{one.name: _value(one, arguments) for one in _ordered(cls)})

    @classmethod
    def codes(cls) -> dict[int, str]:
        """What its own exit codes mean."""
        found = (line.partition(": ") for line in told(cls).codes)
        return {int(code): text for code, _, text in found}


def _value(one: Field[Any], arguments: argparse.Namespace) -> Any:
    spelt = one.metadata["option"]
    if not isinstance(spelt, Option):
        values = {name: getattr(arguments, name) for name in spelt()}
        return {name: value for name, value in values.items() if value is not None}
    value = getattr(arguments, one.name)
    return tuple(value or ()) if one.default == () else value


def _ordered(kind: type[Command]) -> list[Field[Any]]:
    """The fields as help lists them: those of each base, then its own, then what all have."""
    by_name = {one.name: one for one in fields(kind)}
    names = [name for name in _stated(kind) if name in by_name and name not in LAST]
    return [by_name[name] for name in (*dict.fromkeys(names), *LAST)]


def _stated(kind: type) -> Iterator[str]:
    for base in kind.__bases__:
        yield from _stated(base)
    yield from vars(kind).get("__annotations__", ())


class ToldCommand(NamedTuple):
    """What help says of a command."""

    description: str
    examples: Sequence[str]
    codes: Sequence[str]
    fields: Mapping[str, str]


def told(kind: type[Command]) -> ToldCommand:
    """What the source says of a command and its fields, with the constants that it names."""
    found: dict[str, str] = {}
    constants = {name: getattr(kind, name) for name in dir(kind) if name.isupper()}
    for base in reversed(kind.__mro__):
        fill = partial(_constant, {**vars(sys.modules[base.__module__]), **constants})
        for name, text in own_texts(base).items():
            found[name] = re.sub(r"\{(\w+)\}", fill, " ".join(text.split()) if name else text)
    text, _, codes = found.pop("", "").partition("\n\nExit codes:\n")
    text, _, examples = text.partition("\n\nExamples:\n")
    each, own = ([line.strip() for line in part.splitlines()] for part in (examples, codes))
    return ToldCommand(" ".join(text.split()), each, own, found)


def _constant(known: Mapping[str, Any], match: re.Match[str]) -> str:
    return str(known.get(match[1], match[0]))


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, which reads what help says when somebody asks for it."""

    kind: type[Command] | None = None
    codes: Mapping[int, str] = {}

    def take(self, kind: type[Command], codes: Mapping[int, str]) -> None:
        """Take what the fields of a command say; ``codes`` are the exit codes that all have."""
        self.kind, self.codes = kind, codes
        groups: dict[str, Any] = {"": self}
        for one in _ordered(kind):
            for name, spelt in _options(one).items():
                if spelt.group not in groups:
                    groups[spelt.group] = self.add_argument_group(spelt.group)
                groups[spelt.group].add_argument(
                    *_names(name, spelt), **_settings(one, name, spelt)
                )

    def explain(self) -> None:
        """Say what the command and its options do."""
        if self.kind is None:
            return
        said = told(self.kind)
        self.description = said.description
        self.epilog = epilog(said.examples, {**self.codes, **self.kind.codes()})
        own = {n: s for one in fields(self.kind) for n, s in _options(one).items()}
        for action in self._actions:
            if action.dest in own:
                action.help = own[action.dest].text or said.fields.get(action.dest)

    def format_help(self) -> str:
        """With what the command and its options do."""
        self.explain()
        return super().format_help()


def _options(one: Field[Any]) -> Mapping[str, Option]:
    spelt = one.metadata["option"]
    return {one.name: spelt} if isinstance(spelt, Option) else spelt()


def _names(name: str, spelt: Option) -> tuple[str, ...]:
    if "metavar" in spelt.settings and not spelt.names:
        return (name,)
    return spelt.names or (f"--{name.replace('_', '-')}",)


def _settings(one: Field[Any], name: str, spelt: Option) -> dict[str, Any]:
    """As ``argparse`` takes them: with the type that the field's annotation says."""
    settings = dict(spelt.settings)
    if spelt.names or "metavar" not in settings:
        settings["dest"] = name
    if one.name == name:
        settings["default"] = None if one.default == () else one.default
        kind = TYPES.get(str(one.type).partition(" ")[0])
        if kind is not None and "action" not in settings:
            settings.setdefault("type", kind)
    return settings
