"""Time a kernel on a GPU honestly, beside what the model says of it.

    bench(BenchJob("k.hsaco", {"m": 4096, "n": 4096, "k": 4096})).summary()

Data are random, because they set power, and power the clock. Launches rotate over so many sets of
arrays that they take more than the last-level cache (256 MB) holds. The clock, and what a trip of
the loop takes, come from inside: from the same kernel with the few instructions more that time it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import pipeloom
from pipeloom.checks import check_int
from pipeloom.device.contracts import KernelContract
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import DeviceInfo, Hip
from pipeloom.device.images import KernelImage
from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.device.stopwatch import TimeSpread, timed_launches
from pipeloom.device.tensors import view_of
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.heads import by_head
from pipeloom.drive.recorded_kernels import recorded
from pipeloom.drive.simulating import SimulateJob, prepare
from pipeloom.drive.sources import Source
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.machine.dtypes import dtype_for
from pipeloom.write import EmittedKernel, assemble, launch_record
from pipeloom.write.timings import WaveTimings, read_timings

FORMAT = "pipeloom-bench-1"
USUAL = 4096
"""The size along a dimension that is cut into tiles, where none is given."""
BATCH = {"heads": 16}
ROTATE_MB = 512
DRAWN = 1 << 20
"""Random codes that arrays are filled from."""
MOST_SETS = 256
Array = npt.NDArray[Any]


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
    gpu, kernel, asked = hip.gpu(job.device), None, _asked(job)
    if job.kernel.endswith(".hsaco"):
        image = KernelImage.read(job.kernel)
    else:
        kernel = emit(asked or EmitJob(Source(job.kernel))).kernel
        image = _image(kernel)
    image.require_proved(job.unproved)
    ready = PreparedKernel(hip, job.device, image)
    sizes = sizes_of(image.record, job.sizes)
    with ExitStack() as stack:
        arrays = made_up_arrays(ready.rules, sizes, job.seed)
        one = sum(array.nbytes for array in arrays.values())
        sets = max(1, min(MOST_SETS, -(-job.rotate_mb * 10**6 // max(one, 1))))
        numbers = {name: _number(image.record, name) for name in ready.scalars}
        launches = []
        placed: dict[str, DeviceArray] = {}
        for number in range(sets):
            placed = _placed(stack, hip, job.device, arrays, number)
            launches.append(ready.bind(**placed, **numbers))
        times = timed_launches(
            hip,
            job.device,
            launches,
            runs=job.runs,
            warm_up=job.warm_up,
            apart=job.apart,
            track=track,
        )
        timings, notes = _inside(hip, job, asked, sizes, {**placed, **numbers})
        torch_us = torch_product_us(image.record, sizes, job, sets)
    spread = TimeSpread.of(times)
    model, shares = _model(asked, image.record, sizes, spread, timings, notes)
    return Benched(
        str(image.record["kernel"]),
        sizes,
        gpu,
        hip.version,
        spread,
        _flops(image.record, sizes),
        sets,
        sets * one / 1e6,
        job.warm_up,
        job.apart,
        timings,
        model,
        torch_us,
        tuple(shares),
        tuple(notes),
    )


def _asked(job: BenchJob) -> EmitJob | None:
    """How the kernel is emitted; None where only its bytes are known, as of a product."""
    if not job.kernel.endswith(".hsaco"):
        return job.emit or EmitJob(Source(job.kernel))
    try:
        source, told, _ = recorded(job.kernel)
    except SpecError:
        return None
    return EmitJob(source, **told)


def _image(kernel: EmittedKernel) -> KernelImage:
    return KernelImage(launch_record(kernel), {kernel.name: assemble(kernel).data})


def sizes_of(record: Mapping[str, Any], given: Mapping[str, int]) -> dict[str, int]:
    """The size of every dimension: the given one, that of the record, or a usual one."""
    contract = KernelContract.of(record)
    dims = dict.fromkeys(d for r in contract.arrays.values() for d in (*r.batch, *r.dims))
    told: dict[str, int] = dict((record.get("made_from") or {}).get("sizes") or {})
    given = by_head(tuple(dims), given)
    unknown = [dim for dim in given if dim not in dims and dim != "batches"]
    if unknown:
        raise SpecError(
            f"{record['kernel']} has no dimension {unknown[0]!r}",
            hint=f"it has {', '.join(dims)}",
            field=unknown[0],
        )
    cut = {word for formula in record["grid"] for word in re.findall(r"\w+", formula)}
    sizes = {}
    for dim in dims:
        usual = USUAL if dim in cut or dim == record["over"] else int(record["tile"].get(dim, 1))
        if dim in record["batch"]:
            usual = BATCH.get(dim, 1)
        sizes[dim] = {**told, **given}.get(dim) or usual
    over, step = record["over"], record["k_step"]
    if over in sizes and over not in given and over not in told:
        beyond = max(sizes[over] - record["k_min"], 0)
        sizes[over] = record["k_min"] + (beyond // step * step if step else 0)
    return sizes


def made_up_arrays(
    rules: Mapping[str, ArrayRule], sizes: Mapping[str, int], seed: int
) -> dict[str, Array]:
    """Normal numbers in every array, in its own type; scales of blocks near 1."""
    found = {}
    for number, rule in enumerate(rules.values()):
        rng = np.random.default_rng([seed, number])
        shape = [sizes[dim] for dim in (*rule.batch, *rule.dims)]
        shape[-1] = -(-shape[-1] // rule.covers) * min(rule.bits, 8) // 8
        if rule.dtype == "f32":
            drawn = rng.standard_normal(DRAWN).astype(np.float32)
        elif rule.dtype == "e8m0":
            drawn = rng.integers(125, 130, DRAWN).astype(np.uint8)
        elif rule.bits < 8:
            drawn = rng.integers(0, 256, DRAWN).astype(np.uint8)
        else:
            codes = dtype_for(rule.dtype).encode(rng.standard_normal(DRAWN).astype(np.float32))
            drawn = codes.astype(f"u{rule.bits // 8}")
        found[rule.name] = np.resize(drawn, shape)
    return found


def _placed(
    stack: ExitStack, hip: Hip, device: int, arrays: Mapping[str, Array], number: int
) -> dict[str, DeviceArray]:
    """A set of arrays on the device, each begun elsewhere in the random numbers."""
    found = {}
    for name, array in arrays.items():
        own = np.roll(array, 4093 * number) if number else array
        there = stack.enter_context(DeviceArray(hip, device, view_of(own, name)))
        there.fill(own.ctypes.data)
        found[name] = there
    return found


def _number(record: Mapping[str, Any], name: str) -> float:
    parts = (record, record.get("then") or {})
    return float(next((one["scalars"][name] for one in parts if name in one.get("scalars", {})), 1))


def _flops(record: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Of a product; 0 of anything else."""
    if {"m", "n", "k"} <= sizes.keys():
        return 2 * sizes["m"] * sizes["n"] * sizes["k"]
    if {"q", "keys", "d", "v"} <= sizes.keys():
        heads = prod(sizes.get(dim, 1) for dim in record["batch"])
        return 2 * heads * sizes["q"] * sizes["keys"] * (sizes["d"] + sizes["v"])
    return 0


def _inside(
    hip: Hip,
    job: BenchJob,
    asked: EmitJob | None,
    sizes: Mapping[str, int],
    given: Mapping[str, Any],
) -> tuple[WaveTimings | None, list[str]]:
    """What the kernel's own clock says, from one launch of its timed variant."""
    if asked is None:
        return None, ["no times from inside: products of gemm have no timed variant"]
    try:
        timed = emit(replace(asked, timed=True)).kernel
    except ScheduleError as error:
        return None, [f"no times from inside: {error.message}"]
    assert timed.timing is not None
    kernel = PreparedKernel(hip, job.device, _image(timed))
    records = np.zeros(timed.timing.bytes(timed.launch.grid(sizes)), np.uint8).view(np.uint32)
    with hip.on(job.device), DeviceArray(hip, job.device, view_of(records, "times")) as there:
        there.fill(records.ctypes.data)
        kernel(**given, **{timed.timing.pointer: there})
        hip.call("hipDeviceSynchronize")
        there.fetch(records.ctypes.data)
    constant = hip.gpu(job.device).wall_clock_mhz or 100.0
    return read_timings(records, timed.timing, constant), []


def torch_product_us(
    record: Mapping[str, Any], sizes: Mapping[str, int], job: BenchJob, sets: int
) -> float | None:
    """The median of ``torch.matmul`` for the same product; None where torch, or its GPU, is not."""
    names = {"bf16": "bfloat16", "fp16": "float16"}
    plain = {"m", "n", "k"} == set(sizes) and record["dtype"] in names and not record["scalars"]
    if not plain or importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    m, n, k = (sizes[dim] for dim in ("m", "n", "k"))
    options = {"device": f"cuda:{job.device}", "dtype": getattr(torch, names[record["dtype"]])}
    operands = [
        (torch.randn(m, k, **options), torch.randn(n, k, **options).t()) for _ in range(sets)
    ]
    times = []
    for number in range(job.warm_up + job.runs):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        torch.matmul(*operands[number % sets])
        last.record()
        times.append((first, last))
    torch.cuda.synchronize(job.device)
    return TimeSpread.of([1000 * a.elapsed_time(b) for a, b in times[job.warm_up :]]).median


def _model(
    asked: EmitJob | None,
    record: Mapping[str, Any],
    sizes: Mapping[str, int],
    spread: TimeSpread,
    timings: WaveTimings | None,
    notes: list[str],
) -> tuple[float | None, list[Share]]:
    """What the model says of the whole and of its parts, beside what was measured."""
    told = record.get("predicted") or {}
    if asked is None:
        same = all(told.get(dim) == sizes.get(dim) for dim in ("m", "n", "k"))
        if not told or not same:
            return None, []
        model = float(told["microseconds"])
        return model, [Share("whole kernel, us", spread.median, model)]
    problem = tuple(sizes.get(dim) for dim in ("m", "n", "k"))
    whole = None not in problem
    job = SimulateJob(
        asked.source,
        emitted=True,
        allow_timing=asked.allow_timing,
        problem=(problem[0], problem[1], problem[2]) if whole else (None, None, None),
    )
    shares = []
    try:
        simulation = prepare(job)
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
