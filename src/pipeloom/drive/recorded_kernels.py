"""A code object that ``emit`` wrote, by the record beside it: which job made it, and its bytes.

``k.json`` says how to launch ``k.hsaco`` and what it was made from. Whoever runs the code object
makes it anew from that and compares, so that what is run is what is in the file, and what it is
compared with is what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pipeloom.device.images import read_record, record_path
from pipeloom.drive.sources import Source
from pipeloom.errors import SpecError
from pipeloom.files import read_file
from pipeloom.machine.target import Target
from pipeloom.plain import from_plain, to_plain

SOURCE = ("tile", "sync", "reorder", "waves", "k_tiles")
KERNEL = {"target": "arch", "dtype": "dtype"}
"""What a record says of the job and is asked of a source."""
JOB = ("out_dtype", "allow_timing", "k", "timed")


def made_from(source: Source, **job: Any) -> dict[str, Any] | None:
    """What a record says of the source and the job; None of an object, which has no name.

    A chip of one's own has none either, and stands there whole.
    """
    if not isinstance(source.what, str | PathLike):
        return None
    given = {name: getattr(source, name) for name in SOURCE}
    job |= {name: getattr(source, field) for name, field in KERNEL.items()}
    return {
        "what": str(source.label or source.what),
        "settings": list(source.settings),
        "source": {name: value for name, value in given.items() if value not in (None, False)},
        "job": {name: to_plain(value) for name, value in job.items() if value not in (None, False)},
    }


def told_job(made: Mapping[str, Any]) -> tuple[Source, dict[str, Any]]:
    """The source and the job that ``made_from`` told; ``KeyError`` for something else."""
    told = {name: made["source"][name] for name in SOURCE if name in made["source"]}
    told |= {KERNEL[name]: made["job"][name] for name in KERNEL if name in made["job"]}
    if isinstance(told.get("arch"), Mapping):
        told["arch"] = from_plain(Target, told["arch"], "made_from.job.target")
    settings = tuple(str(one) for one in made["settings"])
    source = Source(str(made["what"]), settings, **told)
    return source, {name: made["job"][name] for name in JOB if name in made["job"]}


def check_remade(code: bytes, remade: bytes, name: str) -> None:
    """Refuse a code object that is not, byte for byte, what its record gives today."""
    if code != remade:
        raise SpecError(
            f"the code object is not what {name} gives today",
            hint="emit it anew, or judge it as it is with pipeloom check K.hsaco --launch",
            field="source",
        )


def recorded(code: str | Path) -> tuple[Source, dict[str, Any], bytes]:
    """The source and the job that a code object was made from, and its bytes."""
    place = record_path(code)
    record = read_record(place)
    made = None if record is None else record.get("made_from")
    try:
        data = read_file(code)
        if not isinstance(made, dict):
            raise KeyError("made_from")
        return *told_job(made), data
    except OSError as error:
        raise SpecError(
            f"cannot read {code}: {error.strerror}",
            hint="name what pipeloom emit wrote; for others' kernels there is pipeloom check "
            f"{code} --template",
            field="source",
        ) from error
    except (KeyError, TypeError) as error:
        silent = f"no record beside {code} says what it was made from ({place.name})"
        if record is not None:
            silent = f"{place} says how to launch {code}, and not what it was made from"
        raise SpecError(
            silent,
            hint="pipeloom emit SOURCE -o K.hsaco writes one; run the SOURCE itself, or judge "
            f"others' kernels: pipeloom check {code} --template writes a launch file",
            field="source",
        ) from error
