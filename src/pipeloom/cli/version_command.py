"""``pipeloom version``: what runs here, in lines or as data for a bug report."""

from __future__ import annotations

import argparse

from pipeloom import __version__
from pipeloom.cli.options import JSON, CommandUsage
from pipeloom.cli.printing import print_json
from pipeloom.drive.environment import versions

USAGE = CommandUsage(
    "Print the versions of pipeloom, of Python and of the packages that it runs on. "
    "pipeloom doctor says whether they are all there.",
    (JSON,),
    examples=("pipeloom version", "pipeloom version --json"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if arguments.json:
        print_json({"pipeloom": __version__, **versions()})
    else:
        found = versions()
        print(f"pipeloom {__version__}\nPython {found['python']}")
        for name, version in found["packages"].items():
            print(f"{name} {version or 'not installed'}")
    return 0
