"""``pipeloom launch-file``: how a kernel is launched, from its metadata and sizes."""

from __future__ import annotations

import argparse
import sys

from pipeloom.cli.launch_options import FAMILY, SIZES, STRUCT, sizes_of
from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import print_json
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.launch_drafts import draft_launch
from pipeloom.files import write_file

USAGE = CommandUsage(
    "Write the launch file of a kernel that others wrote. Kernels of Triton (by the files that its "
    "compiler leaves beside them), of AITER and of Tensile are known: sizes are enough. Of others, "
    "arguments are asked for by their names in the metadata: a number, or the elements of what a "
    "pointer points to. Sizes that are not given are null in the file, and named. Exit code 0: "
    "written.",
    (
        option("file", "a .hsaco, .co or .o file, or assembly (.s)"),
        option("-o --output LAUNCH.json", "where it goes (default: to the terminal)"),
        option("--kernel NAME", "which, where the file holds several"),
        SIZES,
        FAMILY,
        STRUCT,
        JSON,
    ),
    examples=(
        "pipeloom launch-file k.co --sizes M=512,N=512,K=1024 -o k.launch.json",
        "pipeloom launch-file k.hsaco --struct args.h:Args -o k.launch.json",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Draft, write, and say what is still asked for."""
    file = open_kernel(arguments.file, arguments.kernel)
    drafted = draft_launch(
        file, sizes_of(arguments), family=arguments.family, struct=arguments.struct
    )
    if arguments.output is not None:
        write_file(arguments.output, drafted.text())
    if arguments.json:
        print_json(
            {"family": drafted.family, "asked": list(drafted.asked), "launch": dict(drafted.plain)}
        )
        return 0
    if arguments.output is None:
        sys.stdout.write(drafted.text())
    else:
        print(f"wrote {arguments.output} ({drafted.family})")
    if drafted.asked:
        print(f"still to be filled in: {', '.join(drafted.asked)}", file=sys.stderr)
    return 0
