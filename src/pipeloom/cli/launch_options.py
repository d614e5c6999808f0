"""What commands that launch kernels of others share: the sizes that a launch is made for."""

from __future__ import annotations

import argparse

from pipeloom.cli.options import REPEATED, option
from pipeloom.cli.usage import UsageError

SIZES = option(
    "--sizes M=256,K=64",
    "numbers for the sizes that the launch file names, or that a launch is drafted for; a size may "
    "be an expression of those before it",
    **REPEATED,
)
FAMILY = option(
    "--family NAME", "whose kernel it is: triton, aiter, tensile, ck or any (default: found out)"
)
STRUCT = option(
    "--struct args.h:Args",
    "what its arguments are: a struct of a C or C++ header, or my.py:Args, a ctypes.Structure",
)


def sizes_of(arguments: argparse.Namespace) -> dict[str, int | str]:
    """The sizes by name."""
    found: dict[str, int | str] = {}
    for part in ",".join(arguments.sizes).split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not part.strip():
            continue
        if not equals or not name.isidentifier() or not value:
            raise UsageError(f"--sizes has {part!r}; write NAME=NUMBER, with commas between them")
        found[name] = int(value) if value.isdecimal() else value
    return found
