"""Time a kernel on a GPU honestly, beside what the model says of it.

    bench(BenchJob("k.hsaco", {"m": 4096, "n": 4096, "k": 4096})).summary()

Data are random, because they set power, and power the clock. Launches rotate over so many sets of
arrays that they take more than the last-level cache (256 MB) holds. The clock, and what a trip of
the loop takes, come from inside: from the same kernel with the few instructions more that time it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

import pipeloom
from pipeloom.checks import check_int
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import DeviceInfo, Hip
from pipeloom.device.host_arrays import check_guards
from pipeloom.device.images import KernelImage
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.device.stopwatch import TimeSpread, timed_launches
from pipeloom.device.tensors import view_of
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.made_up_data import Array, made_up_arrays, sizes_of, usual_number
from pipeloom.drive.recorded_kernels import check_remade, recorded
from pipeloom.drive.simulating import SimulateJob, Simulation
from pipeloom.drive.sources import Source
from pipeloom.drive.torch_products import torch_product_us
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.machine.target import Target
from pipeloom.write import EmittedKernel, assemble, launch_record
from pipeloom.write.timings import WaveTimings, read_timings

FORMAT = "pipeloom-bench-1"
ROTATE_MB = 512
MOST_SETS = 256
GUARD = 4096
"""Bytes of known content before and behind every array."""
UNCOMPARED = "results were not compared with NumPy's: pipeloom run --on gpu does that"


@dataclass(frozen=True, slots=True)
class BenchJob:
    """What to time, for which sizes, and how."""

    kernel: str
    """A code object with its record beside it, or what ``emit`` takes."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    runs: int = 100
    warm_up: int = 10
    rotate_mb: int = ROTATE_MB
    """Megabytes that sets of arrays take together, at least."""
    apart: bool = False
    """Whether each launch waits for the one before."""
    device: int = 0
    unproved: bool = False
    seed: int = 0
    emit: EmitJob | None = None
    """How to emit it, where it is no code object."""
    machine: Target | None = None
    """The chip that the model is asked of; the one that the kernel was written for unless given."""

    def __post_init__(self) -> None:
        check_int("bench", "runs", self.runs, 1)
        check_int("bench", "warm_up", self.warm_up, 0)
        check_int("bench", "rotate_mb", self.rotate_mb, 0)
        check_int("bench", "device", self.device, 0)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the time, as measured and as the model has it."""

    part: str
    measured: float
    model: float

    @property
    def off(self) -> float:
        """How much more was measured, relative to the model."""
        return self.measured / self.model - 1 if self.model else 0.0


@dataclass(frozen=True, slots=True)
class Benched:
    """What was measured, how, and what the model said."""

    kernel: str
    sizes: Mapping[str, int]
    gpu: DeviceInfo
    hip: str
    spread: TimeSpread
    flops: int
    sets: int
    megabytes: float
    warm_up: int
    apart: bool
    timings: WaveTimings | None
    model_us: float | None
    torch_us: float | None
    """Of ``torch.matmul`` on as many sets of such arrays."""
    shares: tuple[Share, ...]
    notes: tuple[str, ...]

    @property
    def tflops(self) -> float | None:
        """By the median."""
        return self.flops / self.spread.median / 1e6 if self.flops else None

    @property
    def most_off(self) -> Share | None:
        """The part that differs most from the model."""
        return max(self.shares, key=lambda share: abs(share.off), default=None)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain data: what can be sent."""
        gpu = self.gpu
        return {
            "format": FORMAT,
            "pipeloom": pipeloom.__version__,
            "kernel": self.kernel,
            "sizes": dict(self.sizes),
            "gpu": {
                "name": gpu.name,
                "arch": gpu.arch,
                "compute_units": gpu.compute_units,
                "clock_mhz": gpu.clock_mhz,
                "hip": self.hip,
            },
            "microseconds": {
                "median": self.spread.median,
                "p20": self.spread.p20,
                "p80": self.spread.p80,
                "least": self.spread.least,
                "runs": self.spread.runs,
            },
            "tflops": self.tflops,
            "sets": self.sets,
            "megabytes": self.megabytes,
            "data": "normal",
            "warm_up": self.warm_up,
            "apart": self.apart,
            "inside": None if self.timings is None else self.timings.to_dict(),
            "model_microseconds": self.model_us,
            "torch_matmul_microseconds": self.torch_us,
            "parts": [
                {"part": one.part, "measured": one.measured, "model": one.model, "off": one.off}
                for one in self.shares
            ],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """For people: the times, how they were taken, the model beside them."""
        spread, gpu = self.spread, self.gpu
        shown = " ".join(f"{dim}={size}" for dim, size in self.sizes.items())
        rate = "" if self.tflops is None else f", {self.tflops:.1f} TFLOPS"
        how = "apart" if self.apart else "back to back"
        found = [
            f"{self.kernel} {shown}",
            f"  {spread.median:.1f} us median{rate} (p20 {spread.p20:.1f}, p80 {spread.p80:.1f}, "
            f"min {spread.least:.1f}; {spread.runs} runs {how}, {self.warm_up} to warm up)",
            f"  {self.sets} sets of {self.megabytes / self.sets:.1f} MB, random data; "
            f"{gpu.name or gpu.arch} ({gpu.arch}), {gpu.compute_units} CUs, HIP {self.hip}",
        ]
        if self.torch_us is not None:
            ratio = self.torch_us / spread.median
            found.append(f"  torch.matmul: {self.torch_us:.1f} us, {ratio:.2f} times as long")
        for one in self.shares:
            found.append(
                f"  {one.part}: {one.measured:.4g} measured, {one.model:.4g} by the model "
                f"({one.off:+.0%})"
            )
        if self.most_off is not None:
            found.append(f"  furthest from the model: {self.most_off.part}")
        return [*found, *(f"  {note}" for note in self.notes)]


def bench(job: BenchJob, track: Callable[[int], None] | None = None) -> Benched:
    """Time the kernel of a job; ``track`` is told of every run."""
    hip = Hip.open()
    gpu, notes = hip.gpu(job.device), [UNCOMPARED]
    if job.kernel.endswith(".hsaco"):
        image = KernelImage.read(job.kernel)
        made = _remade(job.kernel, image, notes)
    else:
        asked = job.emit or EmitJob(Source(job.kernel))
        made = asked, emit(asked)
        image = _image(made[1].kernel)
    image.require_proved(job.unproved)
    if job.machine is not None and job.machine.arch != image.record["target"]:
        raise ConfigError(
            f"the model is asked of {job.machine.arch}, and {image.record['kernel']} is for "
            f"{image.record['target']}",
            hint="give the chip file of the GPU that it is timed on",
            field="arch",
        )
    ready = PreparedKernel(hip, job.device, image)
    sizes = sizes_of(image.record, job.sizes)
    with ExitStack() as stack:
        arrays = made_up_arrays(image.record, sizes, job.seed)
        size = sum(array.nbytes for array in arrays.values())
        sets = max(1, min(MOST_SETS, -(-job.rotate_mb * 10**6 // max(size, 1))))
        numbers = {name: usual_number(image.record, name) for name in ready.scalars}
        placed = [_placed(stack, hip, job.device, arrays, number) for number in range(sets)]
        launches = [ready.bind(**one, **numbers) for one in placed]
        times = timed_launches(
            hip,
            job.device,
            launches,
            runs=job.runs,
            warm_up=job.warm_up,
            apart=job.apart,
            track=track,
        )
        timings = None
        if made is not None:
            timings = _inside(hip, job, made[0], sizes, {**placed[-1], **numbers}, notes)
        for one in placed:
            check_guards(ready.name, {name: array.spoilt() for name, array in one.items()})
    torch_us = None
    if not ready.scalars:
        torch_us = torch_product_us(
            ready.rules,
            sizes,
            sets,
            device=job.device,
            runs=job.runs,
            warm_up=job.warm_up,
            apart=job.apart,
        )
    spread = TimeSpread.of(times)
    model, shares = _model(job.machine, made, image.record, sizes, spread, timings, notes)
    return Benched(
        str(image.record["kernel"]),
        sizes,
        gpu,
        hip.version,
        spread,
        _flops(image.record, sizes),
        sets,
        sets * size / 1e6,
        job.warm_up,
        job.apart,
        timings,
        model,
        torch_us,
        tuple(shares),
        tuple(notes),
    )


def _remade(code: str, image: KernelImage, notes: list[str]) -> tuple[EmitJob, Emission] | None:
    """How a code object is emitted; None where only its bytes are known, as of a product."""
    if "gemm" in (image.record.get("made_from") or {}):
        notes.append("no times from inside: products of gemm have no timed variant")
        return None
    try:
        source, told, data = recorded(code)
        asked = EmitJob(source, **told)
        found = emit(asked)
        check_remade(data, assemble(found.kernel).data, source.name)
    except ScheduleError as error:
        notes.append(f"no model, and no times from inside: {error.message}")
        return None
    return asked, found


def _image(kernel: EmittedKernel) -> KernelImage:
    return KernelImage(launch_record(kernel), {kernel.name: assemble(kernel).data})


def _placed(
    stack: ExitStack, hip: Hip, device: int, arrays: Mapping[str, Array], number: int
) -> dict[str, DeviceArray]:
    """A set of arrays on the device, each begun elsewhere in the random numbers."""
    found = {}
    for name, array in arrays.items():
        own = np.roll(array, 4093 * number) if number else array
        there = stack.enter_context(DeviceArray(hip, device, view_of(own, name), GUARD))
        there.fill(own.ctypes.data)
        found[name] = there
    return found


def _flops(record: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Of a product; 0 of anything else."""
    if {"m", "n", "k"} <= sizes.keys():
        return 2 * sizes.get("batches", 1) * sizes["m"] * sizes["n"] * sizes["k"]
    if {"q", "keys", "d", "v"} <= sizes.keys():
        heads = prod(sizes.get(dim, 1) for dim in record["batch"])
        return 2 * heads * sizes["q"] * sizes["keys"] * (sizes["d"] + sizes["v"])
    return 0


def _inside(
    hip: Hip,
    job: BenchJob,
    asked: EmitJob,
    sizes: Mapping[str, int],
    given: Mapping[str, Any],
    notes: list[str],
) -> WaveTimings | None:
    """What the kernel's own clock says, from one launch of its timed variant."""
    try:
        timed = emit(replace(asked, timed=True)).kernel
    except ScheduleError as error:
        notes.append(f"no times from inside: {error.message}")
        return None
    assert timed.timing is not None
    kernel = PreparedKernel(hip, job.device, _image(timed))
    records = np.zeros(timed.timing.bytes(timed.launch.grid(sizes)), np.uint8).view(np.uint32)
    with hip.on(job.device), DeviceArray(hip, job.device, view_of(records, "times")) as there:
        there.fill(records.ctypes.data)
        kernel(**{**given, timed.timing.pointer: there})
        hip.call("hipDeviceSynchronize")
        there.fetch(records.ctypes.data)
    constant = hip.gpu(job.device).wall_clock_mhz or 100.0
    return read_timings(records, timed.timing, constant)


def _model(
    machine: Target | None,
    made: tuple[EmitJob, Emission] | None,
    record: Mapping[str, Any],
    sizes: Mapping[str, int],
    spread: TimeSpread,
    timings: WaveTimings | None,
    notes: list[str],
) -> tuple[float | None, list[Share]]:
    """What the model says of the whole and of its parts, beside what was measured."""
    told = record.get("predicted") or {}
    if made is None:
        dims = ("m", "n", "k", "batches")
        same = all(told.get(dim, 1) == sizes.get(dim, 1) for dim in dims)
        if not told or not same:
            return None, []
        model = float(told["microseconds"])
        return model, [Share("whole kernel, us", spread.median, model)]
    problem = sizes.get("m"), sizes.get("n"), sizes.get("k")
    asked, found = made
    job = SimulateJob(
        asked.source,
        emitted=True,
        allow_timing=asked.allow_timing,
        problem=(None, None, None) if None in problem else problem,
    )
    machine = machine or found.program.target
    simulation = Simulation(job, found.opened, found.program, machine, found)
    shares = []
    try:
        trace = simulation.run()
        estimate = simulation.estimate(trace)
    except ScheduleError as error:
        notes.append(f"no model: {error.message}")
        return None, []
    if estimate is not None:
        shares.append(Share("whole kernel, us", spread.median, estimate.microseconds))
    if timings is not None and timings.cycles_per_trip:
        simulated = trace.steady_cycles_per_iteration
        shares.append(Share("loop, cycles per trip", timings.cycles_per_trip, simulated))
    if timings is not None and timings.clock_mhz and estimate is not None:
        shares.append(Share("clock, MHz", timings.clock_mhz, 1000 * estimate.clock_ghz))
    return None if estimate is None else estimate.microseconds, shares
