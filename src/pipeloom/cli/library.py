"""``pipeloom library``: the best kernels of many shapes, as a folder that programs can call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.tune import ShapesOptions, table
from pipeloom.cli.usage import check_folder, check_new_folder
from pipeloom.tuning.calls import library
from pipeloom.tuning.library_package import USUAL_NAME


@dataclass(frozen=True)
class LibraryCommand(ShapesOptions):
    """Tune every shape and write the chosen code objects, a dispatch table (shape -> kernel), a
    C header with a launcher through HIP, and a Python package that takes anything with DLPack,
    which pip installs. A shape that is not in the table gets the kernel of the nearest that is.
    Nothing of it has run on a GPU.

    Examples:
        pipeloom library llama-3-8b --tokens 1024,4096 -o lib
        pipeloom library 4096x4096x8192 --torch --name my_gemms -o lib
    """

    folder: Path = option("-o --output FOLDER", required=True)
    torch: bool = flag()
    """the package has an op of PyTorch too: import NAME.ops defines torch.ops.NAME.gemm, with a
    derivative where it is a plain product"""
    name: str = option("--name NAME", USUAL_NAME)
    """of the package (default {USUAL_NAME})"""

    def run(self) -> int:
        """Tune, write, print."""
        check_folder(self.folder)
        check_new_folder(self.folder)
        options = self.tuning_options()
        with self.shown(len(self.shapes)) as tell:
            made = library(
                self.shapes,
                self.folder,
                torch=self.torch,
                name=self.name,
                **options,
                progress=tell,
            )
        found = list(made.tuned)
        if self.json:
            print_json({"files": [str(path) for path in made.files], "kernels": made.kernels})
        else:
            print(table(found))
            print(f"wrote {self.folder}: {made.kernels} kernel(s) for {len(found)} shape(s)")
            if self.torch:
                name, place = self.name, Path.cwd() / self.folder
                print(f"  pip install {place}; import {name}.ops; torch.ops.{name}.gemm(a, b)")
        return self.exit_code(found)
