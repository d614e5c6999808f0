"""The campaign of ``calibrate --collect``: every probe as a kernel, launched, its cycles kept.

    found = collect(CollectJob("results.json"))
    found.measured, found.loops        # the probes that were run, and all that the file has now

A loop that the file has for the chip is not measured again, and the file is written after every
one: a campaign that was stopped goes on where it was. Each probe is one workgroup, launched some
times with warm caches; what counts is the median of the cycles that its waves kept of themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeloom.calibrate.measurements import MeasuredStream, measurements_text, read_measurements
from pipeloom.calibrate.probes import PROBES, ProbeLoop
from pipeloom.checks import check_int
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.device.stopwatch import TimeSpread
from pipeloom.device.tensors import view_of
from pipeloom.files import write_file
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.machine_code.stream_kernel import DATA, StreamKernel, stream_kernel
from pipeloom.write.assemble import assemble_text
from pipeloom.write.timings import read_timings

MOST_BYTES = 1 << 21
"""Of what a probe loads: half of an XCD's L2 (4 MB on MI300X and MI355X), where loads find it."""
LEAST_ERROR, MOST_ERROR = 0.01, 0.5
"""What a measurement is taken to be uncertain by, however well or badly its runs agree."""
SLOW_MHZ = 1000.0
"""A clock that every chip exceeds under such load."""


@dataclass(frozen=True, slots=True)
class CollectJob:
    """Which file is filled, on which device, and how each probe is measured."""

    path: str
    device: int = 0
    probes: tuple[ProbeLoop, ...] = PROBES
    trips: int = 256
    """Of a launch; fewer where loads would leave the cache."""
    runs: int = 9
    warm_up: int = 3

    def __post_init__(self) -> None:
        for name, least in (("device", 0), ("trips", 2), ("runs", 1), ("warm_up", 0)):
            check_int("collect", name, getattr(self, name), least)

    def trips_of(self, kernel: StreamKernel) -> int:
        """As many as are asked for, and as fit the cache."""
        return max(2, min(self.trips, MOST_BYTES // kernel.step))

    def seconds(self, machine: Target) -> float:
        """What all launches take of the GPU by the model, at a low clock."""
        launches = self.runs + self.warm_up
        cycles = (
            one.modelled(machine) * self.trips_of(probe_kernel(one, machine)) * launches
            for one in self.probes
        )
        return sum(cycles) / SLOW_MHZ / 1e6


@dataclass(frozen=True, slots=True)
class Collected:
    """What the file has now."""

    arch: str
    loops: tuple[MeasuredStream, ...]
    measured: tuple[str, ...]
    """The probes that were run now; the file had the others."""


def probe_kernel(probe: ProbeLoop, machine: Target) -> StreamKernel:
    """A probe as a kernel."""
    return stream_kernel(
        f"probe_{probe.id}",
        probe.stream,
        machine,
        waves_per_simd=probe.waves_per_simd,
        simds=probe.simds,
    )


def collect(job: CollectJob, tell: Callable[[str, int], None] | None = None) -> Collected:
    """Measure what the file lacks; ``tell`` is told of every probe before it is run."""
    hip = Hip.open()
    gpu, path = hip.gpu(job.device), Path(job.path)
    machine = target_for(gpu.arch)
    before = read_measurements(path) if path.exists() else ()
    known = {loop.id for loop in before if loop.arch == machine.arch}
    loops, now = [*before], []
    source = f"pipeloom calibrate --collect: {gpu.name or gpu.arch}, HIP {hip.version}"
    for number, probe in enumerate(job.probes):
        if probe.id in known:
            continue
        if tell is not None:
            tell(probe.id, number)
        cycles, error = _measured(hip, job, probe_kernel(probe, machine))
        loops.append(probe.measured(machine.arch, cycles, source, error))
        now.append(probe.id)
        write_file(path, measurements_text(tuple(loops)))
    return Collected(machine.arch, tuple(loops), tuple(now))


def _measured(hip: Hip, job: CollectJob, kernel: StreamKernel) -> tuple[float, float]:
    """Cycles of a trip, and their relative error."""
    trips, timing = job.trips_of(kernel), kernel.timing
    code = assemble_text(kernel.text, kernel.target)
    prepared = PreparedKernel(
        hip, job.device, KernelImage(kernel.record(trips), {kernel.name: code})
    )
    times = np.zeros(timing.bytes((1, 1, 1)) // 4, np.uint32)
    arrays = {DATA: np.zeros(kernel.bytes(trips) // 4, np.uint32), timing.pointer: times}
    found = []
    with ExitStack() as stack, hip.on(job.device):
        there = {}
        for name, array in arrays.items():
            one = DeviceArray(hip, job.device, view_of(array, name))
            there[name] = stack.enter_context(one)
            one.fill(array.ctypes.data)
        for _ in range(job.warm_up + job.runs):
            prepared(**there)
            hip.call("hipDeviceSynchronize")
            there[timing.pointer].fetch(times.ctypes.data)
            found.append(read_timings(times, timing).cycles_per_trip)
    spread = TimeSpread.of(found[job.warm_up :])
    error = (spread.p80 - spread.p20) / 2 / spread.median
    return spread.median, min(max(error, LEAST_ERROR), MOST_ERROR)
