"""The constants of a chip from what was measured on it: files, thread traces, timed kernels.

found = calibrate_job(CalibrateJob(("results.json", "trace_folder", "timed.hsaco=records.bin")))
found.to_dict(), found.text()
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeloom.calibrate import (
    Calibration,
    Measurement,
    calibrate,
    read_measurements,
)
from pipeloom.calibrate.measurements import Measured
from pipeloom.drive.bench_files import read_benched
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.measuring import lay_over_trace
from pipeloom.drive.recorded_kernels import check_remade, recorded
from pipeloom.errors import SpecError
from pipeloom.files import read_file, reading
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.machine.chip_file import chip_text
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code.emitted import loop_cycles
from pipeloom.thread_trace.traced_groups import TracedGroup
from pipeloom.write import assemble
from pipeloom.write.timings import read_timings

TRIPS = 6


@dataclass(frozen=True, slots=True)
class CalibrateJob:
    """What was measured: files of loops, folders of traces, ``timed.hsaco=records.bin``."""

    measurements: tuple[str, ...]
    arch: str | Target = ANY_CHIP
    chip: str = ""
    """What the chip of the file is called."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The refit, and what it is a refit of."""

    base: Target
    fit: Calibration
    chip: str

    def facts(self) -> dict[str, tuple[float, str]]:
        """What the data determine, each with where it comes from."""
        return {
            name: (
                one.value,
                f"pipeloom calibrate: {len(one.loops)} of {len(self.fit.before)} measured loops; "
                f"between {one.low:.4g} and {one.high:.4g}, before {one.old:g}",
            )
            for name, one in self.fit.constants.items()
            if one.determined
        }

    def text(self) -> str:
        """The chip file."""
        return chip_text(self.base, self.facts(), self.chip)


def calibrate_job(job: CalibrateJob) -> Calibrated:
    """Read what was measured, and refit."""
    base = target_for(job.arch)
    loops = [loop for name in job.measurements for loop in read_measured(name, base)]
    return Calibrated(base, calibrate(loops, base), job.chip)


def read_measured(name: str, base: Target) -> Iterator[Measured]:
    """The loops of a file (``bench``'s too), a trace's folder, or ``timed.hsaco=records.bin``."""
    if "=" in name:
        code, _, records = name.partition("=")
        yield _timed(code, records)
    elif Path(name).is_dir():
        yield _traced(name, base)
    elif (benched := read_benched(name)) is not None:
        yield from benched
    else:
        yield from read_measurements(name)


def _traced(folder: str, base: Target) -> Measurement:
    """The loop of a thread trace, and the programs that its waves ran."""
    overlay = lay_over_trace(folder, machine=base)
    if not overlay.trips:
        raise SpecError(
            f"the trace {folder} has no loop that ran twice",
            hint="trace a launch with more trips",
            field="measurements",
        )
    modelled = partial(_group_cycles, overlay.group)
    return Measurement(folder, "thread trace", base.arch, overlay.measured_cycles, modelled)


def _group_cycles(group: TracedGroup, machine: Target) -> float:
    return steady_cycles_of(group.programs, machine, min(group.iterations, TRIPS))


def _timed(code: str, records: str) -> Measurement:
    """A kernel that timed itself, made anew from the record beside it."""
    source, job, data = recorded(code)
    kernel = emit(EmitJob(source, **job)).kernel
    check_remade(data, assemble(kernel).data, source.name)
    if kernel.timing is None:
        raise SpecError(
            f"{code} was not emitted with --timed", hint="emit it so", field="measurements"
        )
    hint = "give the bytes of the timing buffer after the launch"
    with reading(f"the records {records}", hint, "measurements"):
        stored = read_file(records)
    timings = read_timings(stored, kernel.timing)
    if timings.cycles_per_trip <= 0:
        raise SpecError(
            f"no wave of {records} looped: there are no cycles of a trip",
            hint=f"launch {kernel.name} with a larger {kernel.launch.meaning.over}",
            field="measurements",
        )
    modelled = partial(loop_cycles, kernel)
    return Measurement(code, "timed kernel", kernel.target, timings.cycles_per_trip, modelled)
