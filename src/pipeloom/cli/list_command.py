"""``pipeloom list``: what is shipped."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pipeloom.cli.options import Command
from pipeloom.cli.printing import print_json
from pipeloom.drive.loops import LOOPS
from pipeloom.machine.chips import TARGETS as CHIPS
from pipeloom.reference.schedules import SCHEDULES, summary
from pipeloom.reference.schedules.spec_parts import TARGETS
from pipeloom.reference.strategies import STRATEGIES

TITLES: Mapping[str, str] = MappingProxyType(
    {"targets": "cost models (target.name of a spec)", "architectures": "architectures (--arch)"}
)
"""What a registry is called on the screen, where that is not its key in the JSON."""
MIN_TEXT = 20
PIPE = 10_000


@dataclass(frozen=True)
class ListCommand(Command):
    """List what is shipped.

    Examples:
        pipeloom list
        pipeloom list --json
    """

    def run(self) -> int:
        """Print the registries."""
        registries = {
            "schedules": {name: summary(form) for name, form in SCHEDULES.items()},
            "loops": {name: summary(form) for name, form in LOOPS.items()},
            "targets": dict(TARGETS),
            "architectures": {machine.arch: machine.chip for machine in CHIPS},
            "strategies": {s.name: s.summary for s in STRATEGIES.values()},
        }
        if self.json:
            print_json(registries)
            return 0
        width = max(len(name) for entries in registries.values() for name in entries)
        for kind, entries in registries.items():
            print(f"{TITLES.get(kind, kind)}:")
            for name, text in entries.items():
                print(_entry(name, width, text))
        return 0


def _entry(name: str, width: int, text: str) -> str:
    """The name, and the text in a column as wide as the terminal allows; one line in a pipe."""
    columns = shutil.get_terminal_size(fallback=(PIPE, 0)).columns
    return textwrap.fill(
        text,
        width=max(columns, width + 4 + MIN_TEXT),
        initial_indent=f"  {name:<{width}}  ",
        subsequent_indent=" " * (width + 4),
        break_long_words=False,
    )
