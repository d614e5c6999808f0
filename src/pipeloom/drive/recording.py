"""Record the launches of a program that runs: code objects, launch files, contents if asked.

    made = record(["python", "train.py"], "recorded", kernel="gemm", contents=True)
    made.launches                  # ("recorded/gemm.hsaco", ...), each with its .launch.json

The recorder is one file of C (``hip_recorder.c``), compiled here by the system's compiler, or by
the one in the ziglang wheel, and preloaded into the program.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeloom.checks import check_int
from pipeloom.drive.raw_launches import RawLaunch, check_some, named, raw_launches
from pipeloom.errors import ConfigError, SpecError
from pipeloom.files import scratch_folder, write_files

SOURCE = Path(__file__).with_name("hip_recorder.c")
CONTENTS = 256 << 20
"""Bytes of contents of one launch, at most."""
_PREFIX = "PIPELOOM_RECORD_"


@dataclass(frozen=True, slots=True)
class RecordedLaunches:
    """What came of a recorded run."""

    launches: tuple[str, ...]
    """The code objects, each with its launch file beside it."""
    faults: tuple[str, ...]
    """Launches that could not be told."""
    exit_code: int
    """The program's."""


def record(
    command: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    kernel: str | None = None,
    each: int = 1,
    skip: int = 0,
    contents: bool = False,
) -> RecordedLaunches:
    """Run a program and write down its launches of kernels.

    Args:
        command: The program and its arguments.
        folder: Where code objects and launch files go; made if missing.
        kernel: A part of the names of the kernels that are wanted; all unless given.
        each: How many launches of one kernel are written down.
        skip: How many launches of one kernel are passed over before.
        contents: Whether buffers are written down as they are before the launch.
    """
    check_int("record", "each", each, 1)
    check_int("record", "skip", skip, 0)
    if not command:
        raise SpecError("there is no command to record", hint="write it behind --", field="command")
    if sys.platform != "linux":
        raise ConfigError("launches are recorded on Linux alone", hint="record there")
    with scratch_folder() as scratch:
        raw = scratch / "raw"
        raw.mkdir()
        environment = {
            **os.environ,
            "LD_PRELOAD": ":".join(
                filter(None, (str(compiled(scratch)), os.environ.get("LD_PRELOAD")))
            ),
            f"{_PREFIX}FOLDER": str(raw),
            f"{_PREFIX}PYTHON": sys.executable,
            f"{_PREFIX}EACH": str(each),
            f"{_PREFIX}SKIP": str(skip),
        }
        if kernel:
            environment[f"{_PREFIX}KERNEL"] = kernel
        if contents:
            environment[f"{_PREFIX}CONTENTS"] = str(CONTENTS)
        try:
            done = subprocess.run(list(command), env=environment, check=False)
        except OSError as error:
            raise SpecError(
                f"cannot run {command[0]}: {error.strerror}",
                hint="write the program and its arguments behind --",
                field="command",
            ) from error
        launches, faults = _written(raw, Path(folder))
    check_some(len(launches), faults, command[0])
    return RecordedLaunches(tuple(launches), tuple(faults), done.returncode)


def _written(raw: Path, folder: Path) -> tuple[list[str], list[str]]:
    counts: dict[str, int] = {}
    launches, faults = [], []
    for one in raw_launches(raw):
        if not isinstance(one, RawLaunch):
            faults.append(one)
            continue
        stem = named(counts, one.name)
        counts[one.name] = counts.get(one.name, 0) + 1
        write_files({folder / name: content for name, content in one.files(stem).items()})
        launches.append(str(folder / f"{stem}.hsaco"))
    return launches, faults


def compiled(folder: Path) -> Path:
    """The recorder as a library in a folder."""
    target = folder / "libpipeloom_record.so"
    flags = ("-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
    command = [*_compiler(), *flags, str(SOURCE), "-o", str(target), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(
            f"{command[0]} does not compile the recorder: {done.stderr.strip()[-400:]}",
            hint="CC names another compiler",
            field="CC",
        )
    return target


def _compiler() -> list[str]:
    """CC, the system's, or zig's."""
    named_by_user = os.environ.get("CC")
    if named_by_user:
        return named_by_user.split()
    found = shutil.which("cc")
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ConfigError(
        "there is no C compiler to build the recorder with",
        hint="install one, or pip install 'pipeloom[emit]'",
        field="CC",
    )
