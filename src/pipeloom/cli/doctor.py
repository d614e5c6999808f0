"""``pipeloom doctor``: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom import __version__
from pipeloom.cli.options import Command
from pipeloom.cli.printing import print_json
from pipeloom.drive.environment import State, examine


@dataclass(frozen=True)
class DoctorCommand(Command):
    """Look at Python, the packages and their versions, the assembler (it assembles a kernel),
    HIP and its GPUs, the store and its size, and a browser. What only some commands need may be
    missing; the remedy is printed beside it.

    Examples:
        pipeloom doctor
        pipeloom doctor --json

    Exit codes:
        1: something that pipeloom needs is missing or does not work
    """

    def run(self) -> int:
        """Look, print, and say by the exit code whether all that is needed works."""
        found = examine()
        ok = all(probe.state is not State.FAILED for probe in found)
        if self.json:
            probes = [probe.to_dict() for probe in found]
            print_json({"pipeloom": __version__, "ok": ok, "probes": probes})
            return 0 if ok else 1
        width = max(len(probe.name) for probe in found)
        states = max(len(state.value) for state in State)
        for probe in found:
            print(f"{probe.name:<{width}}  {probe.state.value:<{states}}  {probe.found}".rstrip())
            if probe.remedy:
                print(f"{'':<{width}}  {'':<{states}}  {probe.remedy}")
        return 0 if ok else 1
