"""Loops of a file that ``pipeloom bench -o`` wrote, for ``calibrate``: cycles that waves kept.

A kernel that timed itself, and whose file says what it is made from, is made anew, and its loop
simulated. Of any other the file has nothing that the model could be asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipeloom.calibrate import Measurement
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.recorded_kernels import told_job
from pipeloom.errors import SpecError
from pipeloom.files import read_text
from pipeloom.machine_code.emitted import loop_cycles
from pipeloom.plain import from_plain
from pipeloom.write import EmittedKernel

FORMAT = "pipeloom-bench-1"


def read_benched(path: str) -> list[Measurement] | None:
    """The loops of such a file; None where it is another."""
    try:
        data = json.loads(read_text(path))
        rows = data["measured"] if isinstance(data, dict) else None
    except (OSError, ValueError, RecursionError, KeyError):
        return None
    if not isinstance(rows, list):
        return None
    found = []
    for row in rows:
        if not isinstance(row, Mapping) or row.get("format") != FORMAT:
            raise SpecError(
                f"{path} has a measurement of another format",
                hint=f"pipeloom bench -o writes {FORMAT!r}",
                field="measurements",
            )
        try:
            inside, made = row["inside"], row["made_from"]
            if inside is None or made is None:
                continue
            kernel = _kernel(made)
            sizes = " ".join(f"{dim}={size}" for dim, size in row["sizes"].items())
            name, cycles = f"{row['kernel']} {sizes}", float(inside["cycles_per_trip"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpecError(
                f"{path} is damaged: {type(error).__name__}: {error}",
                hint="measure it anew: pipeloom bench -o",
                field="measurements",
            ) from error
        if cycles > 0:
            modelled = partial(loop_cycles, kernel)
            found.append(Measurement(name, "pipeloom bench", kernel.target, cycles, modelled))
    if not found:
        raise SpecError(
            f"{path} has no kernel that timed itself and can be made anew",
            hint="time shipped schedules, or what pipeloom gemm wrote",
            field="measurements",
        )
    return found


def _kernel(made: Mapping[str, Any]) -> EmittedKernel:
    if "gemm" in made:
        return gemm_kernel(from_plain(GemmSpec, made["gemm"], "made_from.gemm")).kernel
    source, told = told_job(made)
    return emit(EmitJob(source, **told)).kernel
