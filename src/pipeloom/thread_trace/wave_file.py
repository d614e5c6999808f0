"""One wave of a trace: where it ran, and every instruction with its cycles.

An instruction is ``[time, category, stall, duration, line]``: it was first tried at ``time``, it
issued at ``time + stall``, and the wave was free for the next at ``time + duration``. For a wait or
a barrier the stall is the whole duration. When results came back is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.thread_trace.att_files import MOST_CYCLE, MOST_ROWS, broken, item, read_json, whole

TIME, CATEGORY, STALL, DURATION, LINE = range(5)
"""Columns of an instruction."""
SMEM, SALU, VMEM, FLAT, LDS, VALU, JUMP, NEXT, IMMEDIATE, CONTEXT, MESSAGE = range(1, 12)
"""Categories: a branch taken and not taken, waits and barriers and ``s_nop``, ``s_endpgm``."""


@dataclass(frozen=True, slots=True)
class WaveRecord:
    """What one wave did. Times are cycles of the shader clock of its shader engine."""

    engine: int
    cu: int
    simd: int
    slot: int
    number: int
    begin: int
    end: int
    instructions: Places
    """One row per instruction, with the columns above."""
    file: Path


def read_wave(path: Path, engine: int) -> WaveRecord:
    """A file ``se0_sm1_sl2_wv3.json``; ``engine`` is the shader engine that it is listed under."""
    wave = item(read_json(path), "wave", dict, path)
    fields = {
        name: whole(item(wave, name, int, path, usual), f"'wave.{name}'", path)
        for name, usual in (
            *(("begin", None), ("end", None), ("simd", None)),
            *(("cu", 0), ("slot", 0), ("id", 0)),
        )
    }
    records = _records(item(wave, "instructions", list, path), path)
    if fields["end"] < fields["begin"]:
        raise broken(path, "'wave.end' is before 'wave.begin'")
    return WaveRecord(
        engine,
        fields["cu"],
        fields["simd"],
        fields["slot"],
        fields["id"],
        fields["begin"],
        fields["end"],
        records,
        path,
    )


def _records(given: list[Any], path: Path) -> Places:
    if len(given) > MOST_ROWS:
        raise broken(path, f"'wave.instructions' has more than {MOST_ROWS:,} rows")
    flat: list[int] = []
    for at, row in enumerate(given):
        if not isinstance(row, list) or len(row) < 5:
            raise broken(path, f"'wave.instructions' row {at} has not 5 numbers")
        for value in row[:5]:
            if type(value) is not int or not 0 <= value < MOST_CYCLE:
                raise broken(path, f"'wave.instructions' row {at} is not of whole numbers")
            flat.append(value)
    records = np.array(flat, np.int64).reshape(-1, 5)
    if (records[:, STALL] > records[:, DURATION]).any():
        at = int(np.flatnonzero(records[:, STALL] > records[:, DURATION])[0])
        raise broken(path, f"'wave.instructions' row {at} stalls for longer than it lasts")
    if (records[1:, TIME] < records[:-1, TIME]).any():
        at = int(np.flatnonzero(records[1:, TIME] < records[:-1, TIME])[0]) + 1
        raise broken(path, f"'wave.instructions' row {at} is before the one that it follows")
    return records
