"""Where a kernel's arguments lie, for the recorder of launches, which asks in a process of its own.

    python -m pipeloom.drive.argument_places CODE KERNEL OUT

HIP's launches pass arguments as a list of addresses, and only the metadata says how long each is.
"""

from __future__ import annotations

import sys

from pipeloom.drive.code_objects import code_objects
from pipeloom.errors import ScheduleError
from pipeloom.files import write_file
from pipeloom.judge.emulate import CodeKernel, load_code_object


def kernel_in(path: str, name: str, arch: str = "") -> tuple[CodeKernel, bytes] | None:
    """A kernel of a code object or of a bundle, and its code object; for a chip if told."""
    for found in code_objects(path):
        try:
            kernels = load_code_object(found.data).kernels if not found.fault else {}
        except ScheduleError:
            continue
        kernel = dict(kernels).get(name)
        if kernel is not None and arch in ("", kernel.arch):
            return kernel, found.data
    return None


def main(path: str, name: str, out: str) -> int:
    """Write offset and size of each explicit argument."""
    found = kernel_in(path, name)
    if found is None:
        return 1
    listed = found[0].explicit_arguments
    write_file(out, "".join(f"{one.offset} {one.size}\n" for one in listed) or "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
