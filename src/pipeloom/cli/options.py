"""What commands take, as data: an option is a value, and a command names those that it has.

    option("-o --output FILE", "write the table")      # as help prints it
    flag("--explain", "name the constraints that rule out II - 1")

Those that several commands share stand here, and of commands on a source in ``source_options``, so
that they read alike everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pipeloom.cli.usage import OPTION_HINTS


@dataclass(frozen=True, slots=True)
class Option:
    """One option or argument; one without ``names`` only sets defaults."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    """As ``argparse`` calls them."""
    group: str = ""
    """The heading that help has it under, where that is not the usual one."""


Options: TypeAlias = "Option | Sequence[Options]"


@dataclass(frozen=True, slots=True)
class CommandUsage:
    """What a command takes, and what its help says."""

    description: str
    options: Options
    examples: tuple[str, ...]
    codes: Mapping[int, str] = field(default_factory=dict)
    """Exit codes beside those that every command has."""
    hints: Sequence[tuple[str, str]] = OPTION_HINTS
    """What a hint of the library says, and what this command calls it."""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser take it."""
        parser.description = self.description
        parser.set_defaults(hints=self.hints)
        groups: dict[str, Any] = {"": parser}
        for one in _each(self.options):
            if one.group not in groups:
                groups[one.group] = parser.add_argument_group(one.group)
            if one.names:
                groups[one.group].add_argument(*one.names, **one.settings)
            else:
                parser.set_defaults(**one.settings)


def _each(options: Options) -> Iterator[Option]:
    if isinstance(options, Option):
        yield options
    else:
        for one in options:
            yield from _each(one)


def option(names: str, text: str, **settings: Any) -> Option:
    """``-o --output FILE``: its names, and what its value is called; ``text`` is its help."""
    words = names.split()
    flags = tuple(word for word in words if word.startswith("-"))
    if flags and flags != tuple(words):
        settings["metavar"] = words[-1]
    return Option(flags or (words[0],), {**settings, "help": text})


def flag(names: str, text: str, **settings: Any) -> Option:
    """An option without a value."""
    return option(names, text, action="store_true", **settings)


def grouped(title: str, *options: Option) -> tuple[Option, ...]:
    """Options under a heading of their own."""
    return tuple(replace(one, group=title) for one in options)


JSON = flag("--json", "plain data on stdout, for scripts")

REPEATED: Mapping[str, Any] = {"action": "append", "default": []}
"""The settings of an option that may be given several times."""
