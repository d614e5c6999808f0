"""``pipeloom library``: the best kernels of many shapes, as a folder that programs can call."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeloom.cli.options import JSON, CommandUsage, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.tune import SHAPES, exit_code, shown, table, tuning, tuning_options
from pipeloom.cli.usage import check_folder, check_new_folder
from pipeloom.tuning.calls import library

USAGE = CommandUsage(
    "Tune every shape and write the chosen code objects, a dispatch table (shape -> kernel), "
    "a C header with a launcher through HIP, and a Python module that takes anything with "
    "DLPack. A shape that is not in the table gets the kernel of the nearest that is. Nothing "
    "of it has run on a GPU.",
    (
        SHAPES,
        tuning(),
        option("-o --output FOLDER", "", dest="folder", type=Path, required=True),
        JSON,
    ),
    examples=("pipeloom library llama-3-8b --tokens 1024,4096 -o lib",),
)


def run(arguments: argparse.Namespace) -> int:
    """Tune, write, print."""
    check_folder(arguments.folder)
    check_new_folder(arguments.folder)
    options = tuning_options(arguments, arguments.shapes)
    with shown(arguments, len(arguments.shapes)) as tell:
        made = library(arguments.shapes, arguments.folder, **options, progress=tell)
    found = list(made.tuned)
    if arguments.json:
        print_json({"files": [str(path) for path in made.files], "kernels": made.kernels})
    else:
        print(table(found))
        print(f"wrote {arguments.folder}: {made.kernels} kernel(s) for {len(found)} shape(s)")
    return exit_code(arguments, found)
