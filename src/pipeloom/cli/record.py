"""``pipeloom record``: the launches of a program that runs, as launch files."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import ClassVar

from pipeloom.cli.options import Command, argument, flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.recording import CONTENTS, record


@dataclass(frozen=True)
class RecordCommand(Command):
    """Run a program and write down its launches of kernels through HIP: each as a code object
    with its launch file beside it, K.hsaco and K.launch.json, which pipeloom check takes.
    Buffers are as large as they were allocated. The exit code is the program's own, or 1 where
    nothing was recorded.

    Examples:
        pipeloom record -- python train.py
        pipeloom record --kernel gemm --contents -o recorded -- ./app
    """

    output: str = option("-o --output FOLDER", "recorded")
    """where they are written (default: recorded)"""
    kernel: str | None = option("--kernel TEXT")
    """only kernels whose name has this in it"""
    each: int = option("--each N", 1, type=at_least(1))
    """launches of one kernel (default: 1)"""
    skip: int = option("--skip N", 0, type=at_least(0))
    """launches of one kernel that are passed over (default: 0)"""
    contents: bool = flag()
    """also what buffers hold before the launch, tables of pointers among them, up to
    {MEGABYTES} MB of a launch; zeros otherwise"""
    program: tuple[str, ...] = argument(None, (), nargs=argparse.REMAINDER)
    """the program and its arguments, behind --"""

    MEGABYTES: ClassVar = CONTENTS >> 20

    def run(self) -> int:
        """Run, convert, and say what was written."""
        given = self.program
        command = given[1:] if given[:1] == ("--",) else given
        if not command:
            raise UsageError("a command is needed: pipeloom record -- python train.py")
        made = record(
            command,
            self.output,
            kernel=self.kernel,
            each=self.each,
            skip=self.skip,
            contents=self.contents,
        )
        if self.json:
            print_json(
                {
                    "launches": list(made.launches),
                    "faults": list(made.faults),
                    "code": made.exit_code,
                }
            )
        else:
            for path in made.launches:
                print(f"wrote {path}, {path.removesuffix('.hsaco')}.launch.json")
            for fault in made.faults:
                print(f"not recorded: {fault}", file=sys.stderr)
        return made.exit_code if made.exit_code >= 0 else 128 - made.exit_code
