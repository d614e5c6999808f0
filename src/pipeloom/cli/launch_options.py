"""What commands that launch kernels of others share: the sizes that a launch is made for."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.cli.options import Command, option, repeated
from pipeloom.cli.usage import UsageError


@dataclass(frozen=True)
class SizesOptions(Command):
    """The sizes that a launch is made for, and the family that says how."""

    sizes: tuple[str, ...] = repeated("--sizes M=256,K=64")
    """numbers for the sizes that the launch file names, or that a launch is drafted for; a size may
    be an expression of those before it"""
    family: str | None = option("--family NAME")
    """whose kernel it is: triton, aiter, tensile, ck or any (default: found out)"""

    def sizes_of(self) -> dict[str, int | str]:
        """The sizes by name."""
        found: dict[str, int | str] = {}
        for part in ",".join(self.sizes).split(","):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not part.strip():
                continue
            if not equals or not name.isidentifier() or not value:
                raise UsageError(
                    f"--sizes has {part!r}; write NAME=NUMBER, with commas between them"
                )
            found[name] = int(value) if value.isdecimal() else value
        return found
