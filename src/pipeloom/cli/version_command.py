"""``pipeloom version``: what runs here, in lines or as data for a bug report."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom import __version__
from pipeloom.cli.options import Command
from pipeloom.cli.printing import print_json
from pipeloom.drive.environment import versions


@dataclass(frozen=True)
class VersionCommand(Command):
    """Print the versions of pipeloom, of Python and of the packages that it runs on. pipeloom
    doctor says whether they are all there.

    Examples:
        pipeloom version
        pipeloom version --json
    """

    def run(self) -> int:
        """Print it."""
        if self.json:
            print_json({"pipeloom": __version__, **versions()})
        else:
            found = versions()
            print(f"pipeloom {__version__}\nPython {found['python']}")
            for name, version in found["packages"].items():
                print(f"{name} {version or 'not installed'}")
        return 0
