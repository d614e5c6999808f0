"""A folder of rocprofv3 as one value: the code, every traced wave, the clock, the code objects.

    capture = read_capture("out")              # or out/ui_output_agent_1_dispatch_3
    capture.code.rows, capture.waves, capture.clock_mhz

File names come from a file of the folder, so that only plain names of files in it are read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.files import read_file
from pipeloom.thread_trace.att_files import broken, item, read_json, whole
from pipeloom.thread_trace.code_table import CodeTable, Sums, read_code, read_sums
from pipeloom.thread_trace.wave_file import WaveRecord, read_wave

MOST_WAVES = 4096
MOST_RECORDS = 4_000_000
"""Waves of a trace, and instructions of all of them."""
_UI = "ui_output_agent_*"
_OBJECT = re.compile(r".*_code_object_id_(\d{1,9})\.out")
_WAVE = re.compile(r"se\d+_sm\d+_sl\d+_wv\d+\.json")
_SPARE = "trace fewer compute units (--att-shader-engine-mask) or one dispatch"


@dataclass(frozen=True, slots=True)
class Capture:
    """What rocprofv3 recorded of one dispatch."""

    folder: Path
    version: str
    """Of the writer's format; only shown, since formats are told apart by their headers."""
    code: CodeTable
    waves: tuple[WaveRecord, ...]
    sums: Mapping[tuple[int, int], Sums]
    """The stats CSV by code object and address; empty where there is none."""
    clock_mhz: float | None
    """The shader clock during the trace, where the folder has ``realtime.json``."""
    objects: Mapping[int, bytes]
    """Code objects by their number, as they were loaded."""

    def digest(self, number: int) -> str:
        """The hash of a code object; empty where the folder does not have it."""
        return hashlib.sha256(self.objects[number]).hexdigest() if number in self.objects else ""


def read_capture(folder: str | os.PathLike[str]) -> Capture:
    """Read a folder of a dispatch, or the one such folder inside ``folder``."""
    place = _place(Path(folder))
    names = read_json(place / "filenames.json")
    waves = tuple(_waves(place, item(names, "wave_filenames", dict, place / "filenames.json")))
    if not waves:
        raise SpecError(
            f"{place.name} has no waves: {_elsewhere(place)}",
            hint="trace another compute unit with --att-target-cu, or launch more workgroups",
            field="measured",
        )
    total = sum(len(wave.instructions) for wave in waves)
    if total > MOST_RECORDS:
        raise SpecError(
            f"{place.name} has {total:,} instructions, more than {MOST_RECORDS:,}",
            hint=_SPARE,
            field="measured",
        )
    stats = place.parent / f"stats_{place.name}.csv"
    code = read_code(place / "code.json")
    return Capture(
        place,
        str(names.get("version", "")),
        code,
        waves,
        read_sums(stats) if stats.is_file() else {},
        _clock(place / "realtime.json"),
        _objects(place, {row.code_object for row in code.rows.values()}),
    )


def _place(folder: Path) -> Path:
    if (folder / "filenames.json").is_file():
        return folder
    found = sorted(one for one in folder.glob(_UI) if (one / "filenames.json").is_file())
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(one.name for one in found[:6])
        raise SpecError(
            f"{folder} has {len(found)} dispatches", hint=f"name one: {shown}", field="measured"
        )
    raise SpecError(
        f"{folder} is no thread trace: it has neither filenames.json nor {_UI}",
        hint="give the folder that rocprofv3 --att -d wrote",
        field="measured",
    )


def _waves(place: Path, names: Mapping[str, Any]) -> Iterator[WaveRecord]:
    path = place / "filenames.json"
    found = list(_leaves(names, (), path))
    if len(found) > MOST_WAVES:
        raise SpecError(
            f"{place.name} has {len(found)} waves, more than {MOST_WAVES}",
            hint=_SPARE,
            field="measured",
        )
    for engine, name in found:
        if not _WAVE.fullmatch(name):
            raise broken(path, f"{name!r} is not the name of a wave's file")
        yield read_wave(place / name, engine)


def _leaves(names: object, keys: tuple[int, ...], path: Path) -> Iterator[tuple[int, str]]:
    """Shader engine and file name of each wave: by engine, SIMD, slot and number."""
    if len(keys) == 4:
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            raise broken(path, "'wave_filenames' has a leaf without a file name")
        yield keys[0], names[0]
        return
    if not isinstance(names, dict):
        raise broken(path, "'wave_filenames' is not nested by engine, SIMD, slot and number")
    for key in sorted(names, key=lambda key: (len(key), key)):
        number = whole(key, "a key of 'wave_filenames'", path)
        yield from _leaves(names[key], (*keys, number), path)


def _elsewhere(place: Path) -> str:
    """Where workgroups ran instead, by ``occupancy.json``."""
    path = place / "occupancy.json"
    if not path.is_file():
        return "nothing ran on the traced compute unit"
    said = []
    for engine, rows in sorted(read_json(path).items()):
        if engine.isdecimal() and isinstance(rows, list):
            units = {row[1] for row in rows if isinstance(row, list) and len(row) > 4}
            whole_units = sorted(unit for unit in units if type(unit) is int)
            if whole_units:
                said.append(f"engine {engine}: {', '.join(map(str, whole_units[:16]))}")
    return f"workgroups ran on other compute units ({'; '.join(said)})" if said else "none ran"


def _clock(path: Path) -> float | None:
    """Shader cycles against the constant clock, over the longest span of any engine."""
    if not path.is_file():
        return None
    data = read_json(path)
    rate = item(item(data, "metadata", dict, path, {}), "frequency", int, path, 100_000_000)
    best: tuple[int, int] = (0, 0)
    for name, rows in data.items():
        if name == "metadata" or not isinstance(rows, list) or len(rows) < 2:
            continue
        ends = []
        for row in (rows[0], rows[-1]):
            if not isinstance(row, list) or len(row) < 2:
                raise broken(path, f"{name!r} is not a list of pairs")
            ends.append([whole(value, f"{name!r}", path) for value in row[:2]])
        cycles, ticks = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
        if ticks > best[1]:
            best = cycles, ticks
    return best[0] / best[1] * rate / 1e6 if best[1] > 0 else None


def _objects(place: Path, wanted: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for path in sorted((*place.parent.glob("*.out"), *place.glob("*.out"))):
        match = _OBJECT.fullmatch(path.name)
        if match is None or int(match[1]) not in wanted:
            continue
        try:
            found[int(match[1])] = read_file(path)
        except OSError as error:
            raise broken(path, str(error.strerror or error)) from error
    return found
