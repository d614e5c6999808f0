"""The constants of a chip from what was measured on it: files, thread traces, timed kernels.

    found = calibrate_job(CalibrateJob(("results.json", "trace_folder", "timed.hsaco=records.bin")))
    found.to_dict(), found.text()

``collect`` measures the probes that a file does not have yet and writes it after each, so that it
can be stopped and goes on where it was. Who measures is passed in: a GPU, or in tests the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeloom.calibrate import (
    Calibration,
    MeasuredStream,
    Measurement,
    calibrate,
    read_measurements,
)
from pipeloom.calibrate.measurements import Measured, measurements_text
from pipeloom.calibrate.probes import PROBES, ProbeLoop
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.measuring import lay_over_trace
from pipeloom.drive.recorded_kernels import recorded
from pipeloom.errors import SpecError
from pipeloom.files import read_file, write_file
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.machine.chip_file import chip_text
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code import emitted_programs
from pipeloom.thread_trace.traced_groups import TracedGroup
from pipeloom.write import EmittedKernel
from pipeloom.write.timings import read_timings

TRIPS = 6
Measure = Callable[[ProbeLoop], float]
"""Cycles of a trip of a probe."""


@dataclass(frozen=True, slots=True)
class CalibrateJob:
    """What was measured: files of --collect, folders of traces, ``timed.hsaco=records.bin``."""

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
    """The loops of a file, of a trace's folder, or of ``timed.hsaco=records.bin``."""
    if "=" in name:
        code, _, records = name.partition("=")
        yield _timed(code, records)
    elif Path(name).is_dir():
        yield _traced(name, base)
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
    source, job, _ = recorded(code)
    kernel = emit(EmitJob(source, **job)).kernel
    if kernel.timing is None:
        raise SpecError(
            f"{code} was not emitted with --timed", hint="emit it so", field="measurements"
        )
    try:
        data = read_file(records)
    except OSError as error:
        raise SpecError(
            f"cannot read the records {records}: {error.strerror}",
            hint="give the bytes of the timing buffer after the launch",
            field="measurements",
        ) from error
    timings = read_timings(data, kernel.timing)
    modelled = partial(_kernel_cycles, kernel)
    return Measurement(code, "timed kernel", kernel.target, timings.cycles_per_trip, modelled)


def _kernel_cycles(kernel: EmittedKernel, machine: Target) -> float:
    launch = kernel.launch
    tiles = (kernel.k_min + TRIPS * kernel.k_step) // launch.tiles[launch.meaning.over]
    programs, trips = emitted_programs(kernel, machine, tiles)
    return steady_cycles_of(programs, machine, trips)


def collected(path: str | Path) -> tuple[MeasuredStream, ...]:
    """What a file has already; nothing where there is no file."""
    return read_measurements(path) if Path(path).exists() else ()


def collect(
    path: str | Path, arch: str, measure: Measure, probes: Sequence[ProbeLoop] = PROBES
) -> Iterator[tuple[ProbeLoop, float]]:
    """Measure the probes that the file lacks, and write it after each."""
    have = list(collected(path))
    known = {loop.id for loop in have if loop.arch == arch}
    for probe in probes:
        if probe.id in known:
            continue
        cycles = measure(probe)
        have.append(probe.measured(arch, cycles, f"pipeloom calibrate --collect on {arch}"))
        write_file(path, measurements_text(tuple(have)))
        yield probe, cycles
