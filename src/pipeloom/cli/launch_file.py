"""``pipeloom launch-file``: how a kernel is launched, from its metadata and sizes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pipeloom.cli.launch_options import SizesOptions
from pipeloom.cli.options import argument, option
from pipeloom.cli.printing import print_json
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.launch_drafts import draft_launch
from pipeloom.files import write_file


@dataclass(frozen=True)
class LaunchFileCommand(SizesOptions):
    """Write the launch file of a kernel that others wrote. Kernels of Triton (by the files that
    its compiler leaves beside them), of AITER and of Tensile are known: sizes are enough. Of
    others, arguments are asked for by their names in the metadata: a number, or the elements of
    what a pointer points to. Sizes that are not given are null in the file, and named. Exit code
    0: written.

    Examples:
        pipeloom launch-file k.co --sizes M=512,N=512,K=1024 -o k.launch.json
        pipeloom launch-file k.hsaco --struct args.h:Args -o k.launch.json
    """

    file: str = argument()
    """a .hsaco, .co or .o file, or assembly (.s)"""
    output: str | None = option("-o --output LAUNCH.json")
    """where it goes (default: to the terminal)"""
    kernel: str | None = option("--kernel NAME")
    """which, where the file holds several"""

    struct: str | None = option("--struct args.h:Args")
    """what its arguments are: a struct of a C or C++ header, or my.py:Args, a ctypes.Structure"""

    def run(self) -> int:
        """Draft, write, and say what is still asked for."""
        file = open_kernel(self.file, self.kernel)
        drafted = draft_launch(file, self.sizes_of(), family=self.family, struct=self.struct)
        if self.output is not None:
            write_file(self.output, drafted.text())
        if self.json:
            print_json(
                {
                    "family": drafted.family,
                    "asked": list(drafted.asked),
                    "launch": dict(drafted.plain),
                }
            )
            return 0
        if self.output is None:
            sys.stdout.write(drafted.text())
        else:
            print(f"wrote {self.output} ({drafted.family})")
        if drafted.asked:
            print(f"still to be filled in: {', '.join(drafted.asked)}", file=sys.stderr)
        return 0
