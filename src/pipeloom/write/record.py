"""How to launch a kernel, as plain data: what ``pipeloom emit`` writes beside a code object.

    record = launch_record(emitted)
    record["kernel"], record["threads"]      # ping_pong_bf16_bf16, 512
    record["grid"]                           # ["ceil(N / 256)", "ceil(M / 256)", "1"]
    record["arguments"][3]                   # {"name": "M", "offset": 24, "size": 4, "kind": ...}

Everything a launcher would otherwise type by hand; ``examples/launch_hip.py`` reads nothing else.
"""

from __future__ import annotations

from typing import Any

from pipeloom.write.kernel import EmittedKernel

LAUNCH_FORMAT = "pipeloom-launch-1"


def launch_record(emitted: EmittedKernel) -> dict[str, Any]:
    """Name, tile, grid, arguments, types, sizes of K, resources and verdict."""
    shape, resources = emitted.geometry, emitted.resources
    record: dict[str, Any] = {
        "format": LAUNCH_FORMAT,
        "kernel": emitted.name,
        "target": emitted.target,
        "dtype": emitted.dtype,
        "out_dtype": emitted.out_dtype,
        "verdict": emitted.status.name,
        "threads": emitted.block[0],
        "k_min": emitted.k_min,
        "k_step": emitted.k_step,
        "arguments": [
            {
                "name": argument.name,
                "offset": argument.offset,
                "size": argument.size,
                "kind": "pointer" if argument.is_pointer else "value",
            }
            for argument in emitted.arguments
        ],
        "resources": {
            "vgprs": resources.vgprs,
            "agprs": resources.agprs,
            "sgprs": resources.sgprs,
            "lds_bytes": resources.lds_bytes,
            "waves": resources.waves,
            "waves_per_simd": resources.waves_per_simd,
        },
    }
    if shape is not None:
        record["tile"] = {"BM": shape.BM, "BN": shape.BN, "BK": shape.BK}
        record["grid"] = [f"ceil(N / {shape.BN})", f"ceil(M / {shape.BM})", "1"]
    elif emitted.launch is not None:
        record["tile"] = dict(emitted.launch.tiles)
        record["over"] = emitted.launch.meaning.over
        record["grid"] = emitted.launch.grid_formula
        record["multiples"] = dict(emitted.launch.multiples)
        record["pitch_bytes"] = dict(emitted.launch.pitches)
    return record
