"""``pipeloom record``: the launches of a program that runs, as launch files."""

from __future__ import annotations

import argparse
import sys

from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.recording import CONTENTS, record

USAGE = CommandUsage(
    "Run a program and write down its launches of kernels through HIP: each as a code object with "
    "its launch file beside it, K.hsaco and K.launch.json, which pipeloom check takes. Buffers are "
    "as large as they were allocated. The exit code is the program's own, or 1 where nothing was "
    "recorded.",
    (
        option(
            "-o --output FOLDER", "where they are written (default: recorded)", default="recorded"
        ),
        option("--kernel TEXT", "only kernels whose name has this in it"),
        option("--each N", "launches of one kernel (default: 1)", type=at_least(1), default=1),
        option(
            "--skip N",
            "launches of one kernel that are passed over (default: 0)",
            type=at_least(0),
            default=0,
        ),
        flag(
            "--contents",
            "also what buffers hold before the launch, tables of pointers among them, up to "
            f"{CONTENTS >> 20} MB of a launch; zeros otherwise",
        ),
        JSON,
        option("program", "the program and its arguments, behind --", nargs=argparse.REMAINDER),
    ),
    examples=(
        "pipeloom record -- python train.py",
        "pipeloom record --kernel gemm --contents -o recorded -- ./app",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Run, convert, and say what was written."""
    given = arguments.program
    command = given[1:] if given[:1] == ["--"] else given
    if not command:
        raise UsageError("a command is needed: pipeloom record -- python train.py")
    made = record(
        command,
        arguments.output,
        kernel=arguments.kernel,
        each=arguments.each,
        skip=arguments.skip,
        contents=arguments.contents,
    )
    if arguments.json:
        print_json(
            {"launches": list(made.launches), "faults": list(made.faults), "code": made.exit_code}
        )
    else:
        for path in made.launches:
            print(f"wrote {path}, {path.removesuffix('.hsaco')}.launch.json")
        for fault in made.faults:
            print(f"not recorded: {fault}", file=sys.stderr)
    return made.exit_code if made.exit_code >= 0 else 128 - made.exit_code
