"""A small thread trace by hand, in the documented format, and one of a simulated kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.measuring import emitted_trace_files
from pipeloom.drive.sources import Source
from pipeloom.files import write_files
from pipeloom.judge.simulate import Trace
from pipeloom.machine_code import simulate_emitted

HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
CODE = (
    "s_mov_b32 s0, 3",
    "v_mfma_f32_32x32x16_bf16 v[0:15], v[32:35], v[36:39], v[0:15]",
    "s_sub_u32 s0, s0, 1",
    "s_cbranch_scc1 65533",
    "s_endpgm",
)
TRIPS = 3


def trace_files() -> dict[str, Any]:
    """Two waves of one SIMD that go three times through a loop: 40 cycles a trip, stall 28."""
    rows: list[list[Any]] = [["; k", 0, 0, "", 7, 512, 0, 0, 0, 0]]
    rows += [[text, 0, n, "", 7, 512 + 8 * n, 2, 8, 0, 0] for n, text in enumerate(CODE, start=1)]
    files: dict[str, Any] = {
        "code.json": {"code": rows, "header": HEADER, "version": "3.0.0"},
        "filenames.json": {
            "gfxip": 9,
            "version": "3.0.0",
            "wave_filenames": {
                "0": {"0": {str(slot): {"0": [_name(slot), 100, 300]} for slot in (0, 1)}}
            },
        },
        "realtime.json": {
            "SE0": [[0, 1000], [42000, 3000]],
            "metadata": {"frequency": 100_000_000},
        },
    }
    for slot in (0, 1):
        begin = 100 + 4 * slot
        steps = [[begin, 2, 0, 4, 1]]
        for trip in range(TRIPS):
            at = begin + 4 + 40 * trip
            last = trip == TRIPS - 1
            steps += [
                [at, 6, 28, 32, 2],
                [at + 32, 2, 0, 4, 3],
                [at + 36, 8 if last else 7, 0, 4, 4],
            ]
        steps.append([begin + 4 + 40 * TRIPS, 11, 0, 4, 5])
        wave = {"begin": begin, "end": begin + 140, "cu": 1, "simd": 0, "slot": slot, "id": 0}
        files[_name(slot)] = {"wave": {**wave, "instructions": steps, "timeline": []}}
    return files


def _name(slot: int) -> str:
    return f"se0_sm0_sl{slot}_wv0.json"


def put(folder: Path, files: dict[str, Any]) -> Path:
    """Write them into a folder of a dispatch, and return that."""
    place = folder / "ui_output_agent_1_dispatch_3"
    place.mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (place / name).write_text(text, "utf-8")
    return place


def simulated_folder(folder: Path, name: str) -> tuple[Emission, Trace]:
    """A kernel emitted, simulated, and its run written as rocprofv3 would."""
    found = emit(EmitJob(Source(name, dtype="bf16")))
    trace = simulate_emitted(found.kernel)
    files = emitted_trace_files(found.kernel, trace)
    write_files({folder / name: content for name, content in files.items()})
    return found, trace
