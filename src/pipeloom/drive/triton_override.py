"""A fixed kernel put back into Triton by its override mechanism, with a cache of its own.

    placed = put_back(fixed, checked, "dump/H/k.amdgcn", "mine")
    placed.environment                  # what to set; also in mine/override.env

Triton compiles as ever and then takes ``mine/H/k.hsaco`` in the place of its own code object, as it
is: the bytes that were judged. H is its digest of the source, the signature, the attributes and the
constants, which a dump (``TRITON_KERNEL_DUMP=1``) has for a folder and its cache has not. Observed
of Triton 3.9: a warm cache wins over an override, and an override is kept in the cache under the
normal key. So every state of a folder has a cache of its own. H leaves out the chip and the number
of warps: one file stands for all of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeloom.drive.checking import Checked
from pipeloom.drive.correcting import Corrected
from pipeloom.errors import OrderError, SpecError
from pipeloom.files import read_file, write_files
from pipeloom.judge.check.verdict import CheckStatus

DUMP = "TRITON_ALWAYS_COMPILE=1 TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=dump python your_program.py"
ENVIRONMENT = "override.env"
_DIGEST = re.compile(r"[A-Z2-7]{52}")
"""SHA-256 in base 32, as Triton names folders."""
_ENDINGS = (".amdgcn", ".hsaco")
_CACHED = "__grp__*"
"""What Triton's cache has beside a kernel, and a dump has not."""


@dataclass(frozen=True, slots=True)
class PlacedOverride:
    """Where the kernel lies, and what makes Triton take it."""

    file: Path
    """The code object."""
    environment: Mapping[str, str]
    """Variables to set before the program starts."""

    @property
    def script(self) -> Path:
        """Sets them, in a shell."""
        return self.file.parent.parent / ENVIRONMENT


def put_back(
    fixed: Corrected, checked: Checked, dumped: str | os.PathLike[str], folder: str | Path
) -> PlacedOverride:
    """Write the fixed kernel where Triton looks for it.

    Args:
        fixed: What ``correct`` made of the kernel.
        checked: The check that it was made from.
        dumped: The file that was checked, in a dump of Triton's.
        folder: Where overrides lie; made where it is not there.
    """
    digest = dump_digest(dumped)
    verdict, before, after = fixed.checked.verdict, checked.file.kernel, fixed.checked.file.kernel
    if verdict.status is not CheckStatus.PROVED:
        raise OrderError(
            f"the fixed {verdict.kernel} is {verdict.summary()}",
            hint="only what is PROVED is put back",
        )
    stem, place = Path(dumped).stem, Path(os.path.abspath(folder))
    if before.name[: len(stem)] != stem:
        raise SpecError(
            f"{dumped} holds {before.name}, and Triton looks for {stem}",
            hint="keep the name that the dump had",
            field="file",
        )
    sizes = [(one.kernarg_bytes, one.group_segment_bytes, one.name) for one in (before, after)]
    if sizes[0] != sizes[1]:
        raise SpecError(
            f"the fixed {before.name} has other arguments or LDS than the one that was dumped",
            hint="Triton launches it as it compiled its own",
            field="file",
        )
    file, data = place / digest / f"{stem}.hsaco", fixed.checked.file.data
    known = {one: read_file(one) for one in place.glob("*/*.hsaco")} | {file: data}
    state = hashlib.sha256()
    for one in sorted(known):
        state.update(
            f"{one.relative_to(place)}\0{hashlib.sha256(known[one]).hexdigest()}\n".encode()
        )
    environment = {
        "TRITON_KERNEL_OVERRIDE": "1",
        "TRITON_OVERRIDE_DIR": str(place),
        "TRITON_CACHE_DIR": str(place / f"cache-{state.hexdigest()[:16]}"),
    }
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()]
    write_files({file: data, place / ENVIRONMENT: "".join(lines)})
    return PlacedOverride(file, environment)


def dump_digest(dumped: str | os.PathLike[str]) -> str:
    """Triton's digest of a kernel: the folder that its dump lies in."""
    path = Path(os.path.abspath(dumped))
    if path.suffix not in _ENDINGS or not _DIGEST.fullmatch(path.parent.name):
        raise SpecError(
            f"{dumped} is not a kernel in a dump of Triton's (dump/DIGEST/k.amdgcn)",
            hint=f"make one: {DUMP}",
            field="file",
        )
    if any(path.parent.glob(_CACHED)):
        raise SpecError(
            f"{dumped} lies in Triton's cache, whose folders are not named as overrides are",
            hint=f"check the kernel of a dump: {DUMP}",
            field="file",
        )
    return path.parent.name
