"""``pipeloom library``: the best kernels of many shapes, as a folder that programs can call."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.tune import SHAPES, exit_code, shown, table, tuning, tuning_options
from pipeloom.cli.usage import check_folder, check_new_folder
from pipeloom.tuning.calls import library
from pipeloom.tuning.library_package import USUAL_NAME

USAGE = CommandUsage(
    "Tune every shape and write the chosen code objects, a dispatch table (shape -> kernel), "
    "a C header with a launcher through HIP, and a Python package that takes anything with "
    "DLPack, which pip installs. A shape that is not in the table gets the kernel of the nearest "
    "that is. Nothing of it has run on a GPU.",
    (
        SHAPES,
        tuning(),
        option("-o --output FOLDER", "", dest="folder", type=Path, required=True),
        flag(
            "--torch",
            "the package has an op of PyTorch too: import NAME.ops defines torch.ops.NAME.gemm, "
            "with a derivative where it is a plain product",
        ),
        option("--name NAME", f"of the package (default {USUAL_NAME})", default=USUAL_NAME),
        JSON,
    ),
    examples=(
        "pipeloom library llama-3-8b --tokens 1024,4096 -o lib",
        "pipeloom library 4096x4096x8192 --torch --name my_gemms -o lib",
    ),
)


def run(arguments: argparse.Namespace) -> int:
    """Tune, write, print."""
    check_folder(arguments.folder)
    check_new_folder(arguments.folder)
    options = tuning_options(arguments, arguments.shapes)
    with shown(arguments, len(arguments.shapes)) as tell:
        made = library(
            arguments.shapes,
            arguments.folder,
            torch=arguments.torch,
            name=arguments.name,
            **options,
            progress=tell,
        )
    found = list(made.tuned)
    if arguments.json:
        print_json({"files": [str(path) for path in made.files], "kernels": made.kernels})
    else:
        print(table(found))
        print(f"wrote {arguments.folder}: {made.kernels} kernel(s) for {len(found)} shape(s)")
        if arguments.torch:
            name, place = arguments.name, Path.cwd() / arguments.folder
            print(f"  pip install {place}; import {name}.ops; torch.ops.{name}.gemm(a, b)")
    return exit_code(arguments, found)
