"""Time a kernel on a GPU honestly, beside what the model says of it.

    bench(BenchJob("k.hsaco", {"m": 4096, "n": 4096, "k": 4096})).summary()

Data are random, because they set power, and power the clock. Launches rotate over so many sets of
arrays that they take more than the last-level cache (256 MB) holds. The clock, and what a trip of
the loop takes, come from inside: from the same kernel with the few instructions more that time it.

``torch.matmul`` timed on the same product as a kernel: operands that lie as the kernel's do.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import pipeloom
from pipeloom.checks import check_int
from pipeloom.device.contracts import KernelContract
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import DeviceInfo, Hip
from pipeloom.device.host_arrays import check_guards
from pipeloom.device.images import KernelImage
from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.device.stopwatch import TimeSpread, timed_launches
from pipeloom.device.tensors import TORCH_TYPES, view_of
from pipeloom.drive.bench_files import FORMAT
from pipeloom.drive.bench_subjects import (
    BenchSubject,
    Modelled,
    TimedEmission,
    kernel_image,
    subject_of,
)
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.made_up_data import Array, made_up_arrays, sizes_of, usual_number
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.sources import Source
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.machine.target import Target
from pipeloom.write.lower.wave_clocks import TimingRecord
from pipeloom.write.timings import WaveTimings, read_timings

ROTATE_MB = 512
MOST_SETS = 256
GUARD = 4096
"""Bytes of known content before and behind every array."""


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
    right: bool | None = None
    """Whether a launch of small sizes was equal to NumPy; None where it was not compared."""
    made_from: Mapping[str, Any] | None = None
    """What the kernel can be made from elsewhere, for ``calibrate``."""

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
            "right": self.right,
            "made_from": self.made_from,
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
    gpu, notes = hip.gpu(job.device), list[str]()
    subject: BenchSubject | None
    if job.kernel.endswith(".hsaco"):
        image = KernelImage.read(job.kernel)
        subject = subject_of(job.kernel, image, notes)
    else:
        asked = job.emit or EmitJob(Source(job.kernel))
        found = emit(asked)
        subject, image = TimedEmission(asked, found), kernel_image(found.kernel)
    image.require_proved(job.unproved)
    on = OnGpu(job.device, job.unproved)
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
        ready.close()
        timings, model, right = None, Modelled(), None
        if subject is not None:
            with _noting("no times from inside", notes):
                clocked, timing = subject.timed()
                timings = _inside(hip, job, clocked, timing, sizes, {**placed[-1], **numbers})
            with _noting("no model", notes):
                model = subject.model(job.machine, sizes)
            with _noting("not compared with NumPy", notes):
                trial = subject.trial(on, numbers)
                right = trial.ok
                shown = " ".join(f"{dim}={size}" for dim, size in trial.sizes.items())
                notes.append(f"equal to NumPy at {shown}" if right else f"WRONG: {trial.summary()}")
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
        model.microseconds,
        torch_us,
        _shares(model, spread, timings),
        tuple(notes),
        right,
        None if subject is None else subject.made_from,
    )


@contextmanager
def _noting(what: str, notes: list[str]) -> Iterator[None]:
    """What cannot be had is noted, and the rest told all the same."""
    try:
        yield
    except ScheduleError as error:
        notes.append(f"{what}: {error.message}")


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
    image: KernelImage,
    timing: TimingRecord,
    sizes: Mapping[str, int],
    given: Mapping[str, Any],
) -> WaveTimings:
    """What the kernel's own clock says, from one launch of its timed variant."""
    kernel, contract = PreparedKernel(hip, job.device, image), KernelContract.of(image.record)
    grid = contract.grid(sizes, sizes.get("batches", 1))
    records = np.zeros(timing.bytes(grid), np.uint8).view(np.uint32)
    with hip.on(job.device), DeviceArray(hip, job.device, view_of(records, "times")) as there:
        there.fill(records.ctypes.data)
        kernel(**{**given, timing.pointer: there})
        hip.call("hipDeviceSynchronize")
        there.fetch(records.ctypes.data)
        kernel.close()
    constant = hip.gpu(job.device).wall_clock_mhz or 100.0
    return read_timings(records, timing, constant)


def _shares(model: Modelled, spread: TimeSpread, timings: WaveTimings | None) -> tuple[Share, ...]:
    """What was measured beside the model, part by part."""
    cycles = None if timings is None else timings.cycles_per_trip
    clock = None if timings is None else timings.clock_mhz
    parts = (
        ("whole kernel, us", spread.median, model.microseconds),
        ("loop, cycles per trip", cycles, model.loop_cycles),
        ("clock, MHz", clock, model.clock_mhz),
    )
    return tuple(Share(name, found, said) for name, found, said in parts if found and said)


def torch_product_us(
    rules: Mapping[str, ArrayRule],
    sizes: Mapping[str, int],
    sets: int,
    *,
    device: int,
    runs: int,
    warm_up: int,
    apart: bool,
) -> float | None:
    """The median in microseconds; None for what is no plain product, or without torch or its GPU.

    Launches rotate over as many sets of operands, back to back or ``apart``, as the kernel's do.
    """
    if not _plain(rules) or importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    times = []
    with torch.cuda.device(device):
        operands = [
            (_operand(torch, rules["A"], "m", sizes), _operand(torch, rules["B"], "k", sizes))
            for _ in range(sets)
        ]
        for number in range(warm_up + runs):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            torch.matmul(*operands[number % sets])
            last.record()
            if apart:
                last.synchronize()
            times.append((first, last))
        torch.cuda.synchronize(device)
        return TimeSpread.of([1000 * a.elapsed_time(b) for a, b in times[warm_up:]]).median


def _plain(rules: Mapping[str, ArrayRule]) -> bool:
    """Whether a kernel computes what ``torch.matmul`` does, in the same types."""
    if rules.keys() != {"A", "B", "out"}:
        return False
    dims = [set(rules[name].dims) for name in ("A", "B", "out")]
    types = {rule.dtype for rule in rules.values()}
    return dims == [{"m", "k"}, {"n", "k"}, {"m", "n"}] and types in ({"bf16"}, {"fp16"})


def _operand(torch: Any, rule: ArrayRule, rows: str, sizes: Mapping[str, int]) -> Any:
    """A matrix by its rows, that lies in memory as the kernel has it."""
    batches = [sizes["batches"]] if "batches" in sizes else []
    shape = [*batches, *(sizes[dim] for dim in rule.dims)]
    made = torch.randn(*shape, device="cuda", dtype=getattr(torch, TORCH_TYPES[rule.dtype]))
    return made if rule.dims[0] == rows else made.mT
