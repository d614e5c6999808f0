"""Emit, assemble, execute in the emulator, compare with NumPy; refused before it is too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import Any

from pipeloom.device.hip import DeviceInfo
from pipeloom.device.images import KernelImage
from pipeloom.drive.emitting import Emission, EmitJob, emit, fitted, open_to_emit
from pipeloom.drive.heads import by_head
from pipeloom.drive.loops import LoopSource
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.opening import Opened
from pipeloom.drive.recorded_kernels import check_remade
from pipeloom.drive.run_limits import THREE_TIMINGS, RunLimits
from pipeloom.drive.sources import Named, Source
from pipeloom.drive.trial import Launchable, Trial, run_program, scalar_values
from pipeloom.errors import SpecError
from pipeloom.machine_code.executed_lines import loops
from pipeloom.program import Meaning
from pipeloom.write import EmittedKernel, Launch, assemble, launch_record
from pipeloom.write.launch import check_dimensions, check_sizes
from pipeloom.write.lower.global_arrays import dimensions

BYTES_PER_INPUT = 32
"""Of an element of an input: as drawn, as f32, encoded, and exactly, for NumPy's sum."""

BYTES_PER_OUTPUT = 40
"""Of an element of an output: as written, the exact sum, both again for the comparison."""

USUAL: Mapping[str, int] = MappingProxyType({"m": 256, "n": 256, "k": 512})
"""The sizes of a matrix product where none are given."""

PIXELS = 4
"""The size along a dimension of an array that is not a tile's, where none is given."""

Track = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True, slots=True)
class RunJob:
    """What to run, once per timing. Sizes that are left out are chosen; scalars are not."""

    emit: EmitJob
    sizes: Mapping[str, int] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    limits: RunLimits = THREE_TIMINGS
    race_check: bool = True
    code: bytes | None = None
    """The code object that must come out of it, where there is one already."""
    on: OnGpu | None = None
    """The GPU that runs it; the emulator unless given."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Each run, its sizes, and the kernel that was run.

    ``emission`` is how that was emitted; None of a product's, which are made by their spec.
    """

    kernel: EmittedKernel
    sizes: Mapping[str, int]
    trials: tuple[Trial, ...]
    race_check: bool
    emission: Emission | None = None
    gpu: DeviceInfo | None = None
    """What ran it, where that was no emulator."""

    @property
    def wrong(self) -> tuple[Trial, ...]:
        """The runs with a finding, a wrong element or an output that nothing was compared of."""
        return tuple(trial for trial in self.trials if not trial.ok)

    @property
    def executed(self) -> int:
        """Instructions of all runs."""
        return sum(trial.executed for trial in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernel": self.kernel.name,
            **({"sizes": dict(self.sizes)} if self.emission is None else self.emission.to_dict()),
            "race_check": self.race_check,
            "on": "the emulator" if self.gpu is None else str(self.gpu),
            "runs": len(self.trials),
            "wrong": [trial_data(trial) for trial in self.wrong],
            "instructions": self.executed,
        }


def run(job: RunJob | EmitJob | Source | Named, track: Track = iter) -> Ran:
    """Run the kernel of a source in the emulator; ``track`` may watch the seeds go by."""
    if not isinstance(job, RunJob):
        job = RunJob(job if isinstance(job, EmitJob) else EmitJob(Source.of(job)))
    opened = open_to_emit(job.emit)
    job, asked = _check_early(job, opened), job.emit
    own = opened.own and isinstance(opened.origin, LoopSource)
    if not job.code:
        usual = None if own else USUAL["k"]
        asked = replace(asked, k=job.sizes.get(opened.meaning.over, usual))
    found = emit(asked, fitted(opened, asked.k))
    kernel = found.kernel
    sizes = _sizes(kernel.launch, job.sizes)
    _check_depth(kernel.launch, sizes, own)
    check_memory(job.limits, needed_bytes(kernel.launch.meaning, sizes), sizes)
    if job.on is None:
        check_work(job.limits, kernel, sizes)
    code = assemble(kernel)
    if job.code is not None:
        check_remade(job.code, code.data, job.emit.source.name)
    ready, runner = Launchable.load(kernel, code), None
    if job.on is not None:
        image = KernelImage(launch_record(kernel), {kernel.name: code.data})
        runner = job.on.runner(image)
    trials = tuple(
        run_program(
            kernel,
            ready,
            sizes=sizes,
            seed=seed,
            scalars=job.scalars,
            ops=found.opened.ops,
            check_races=job.race_check,
            runner=runner,
        )
        for seed in track(range(job.seed, job.seed + job.limits.timings))
    )
    gpu = None if job.on is None else job.on.gpu
    return Ran(kernel, sizes, trials, job.race_check, found, gpu)


def _check_early(job: RunJob, opened: Opened) -> RunJob:
    """The job with sizes by its kernel's dimensions.

    What no kernel takes is refused before the search, which takes its time.
    """
    meaning = opened.meaning
    job = replace(job, sizes=by_head(dimensions(meaning), job.sizes))
    check_dimensions(meaning, job.sizes)
    sizes = _open_sizes(meaning, job.sizes)
    check_sizes(meaning, sizes)
    scalar_values(meaning, job.scalars)
    check_memory(job.limits, needed_bytes(meaning, sizes), sizes)
    return job


def _open_sizes(meaning: Meaning, given: Mapping[str, int]) -> dict[str, int]:
    """A size for every dimension; what is not given is usual in a product, else a tile."""
    placed = [node.at for node in meaning.inputs if node.at is not None]
    derived = {dim for place in placed for dim in place.derived()}
    tile = {dim: size for dim, size in meaning.tile.items() if dim not in derived}
    usual = USUAL if tile.keys() == USUAL.keys() else tile
    for place in placed:
        tile |= {**dict.fromkeys(place.dims, PIXELS), **place.fixed()}
    sizes = {**tile, **usual, **dict.fromkeys(meaning.batch, 1), **given}
    return meaning.all_sizes(sizes)


def _sizes(launch: Launch, given: Mapping[str, int]) -> dict[str, int]:
    """The same for a kernel, which has a least size along its loop, and takes whole trips more."""
    meaning = launch.meaning
    sizes, over = _open_sizes(meaning, given), meaning.over
    if over in launch.tiles and over not in given:
        beyond = USUAL[over] - launch.least if launch.tiles.keys() == USUAL.keys() else 1
        trips = max(0, -(-beyond // launch.step)) if launch.step else 0
        sizes[over] = launch.least + trips * launch.step
    return sizes


def needed_bytes(meaning: Meaning, sizes: Mapping[str, int]) -> int:
    """Memory of one run, about."""
    return sum(
        prod(sizes[dim] for dim in node.dims) * per
        for nodes, per in ((meaning.inputs, BYTES_PER_INPUT), (meaning.outputs, BYTES_PER_OUTPUT))
        for node in nodes
    )


def needed_instructions(kernel: EmittedKernel, sizes: Mapping[str, int]) -> int:
    """Instructions of one run, about: every line once per wave, those of a loop per iteration."""
    launch = kernel.launch
    longest = max((back - head for head, back in loops(kernel.lines)), default=0)
    size = sizes.get(launch.meaning.over, launch.least)
    trips = max(-(-(size - launch.least) // launch.step), 0) if launch.step else 0
    return prod(launch.grid(sizes)) * kernel.waves * (len(kernel.lines) + trips * longest)


def check_memory(limits: RunLimits, needed_bytes: int, sizes: Mapping[str, int]) -> None:
    """Refuse what does not fit in memory, before anything is allocated."""
    needed = needed_bytes / 1e9
    if needed > limits.max_memory_gb:
        raise SpecError(
            f"{_words(sizes)} takes about {needed:.1f} GB of memory to "
            f"run and compare, over the limit of {limits.max_memory_gb:g} GB",
            hint="run a smaller problem, which shows the same kernel; or raise the limit: "
            f"--max-memory {needed + 0.5:.0f}",
            field="max_memory",
        )


def check_work(
    limits: RunLimits, kernel: EmittedKernel, sizes: Mapping[str, int], batches: int = 1
) -> None:
    """Refuse what would be emulated for too long."""
    if min(sizes.values(), default=1) < 1:
        return  # the launch says what is wrong
    needed = needed_instructions(kernel, sizes) * limits.timings * batches
    if needed > limits.max_instructions:
        raise SpecError(
            f"{_words(sizes)} is about {needed:.1e} instructions to emulate "
            f"({prod(kernel.launch.grid(sizes))} workgroups, {limits.timings} timings), over the "
            f"limit of {limits.max_instructions:.1e}",
            hint="run a smaller problem or fewer --timings; or raise the limit: "
            f"--max-instructions {needed}",
            field="max_instructions",
        )


def _words(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{dim}={size}" for dim, size in sizes.items())


def _check_depth(launch: Launch, sizes: Mapping[str, int], fits: bool) -> None:
    """Refuse a size along the loop that the kernel cannot compute, with the nearest that it can."""
    over, least, step = launch.meaning.over, launch.least, launch.step
    size = sizes.get(over, least)
    if (
        launch.meaning.ragged
        or launch.placing.ragged
        or size == least
        or (step and size > least and (size - least) % step == 0)
    ):
        return
    fitted = f"or whole tiles of {launch.tiles[over]}, for which it is derived; " if fits else ""
    below = least + (max(size - least, 0) // step * step if step else 0)
    near = f"{over} = {below} or {below + step}" if size > least and step else f"{over} = {least}"
    raise SpecError(
        f"{over} is {size}, but the kernel starts with {least} and steps by {step}",
        hint=f"use {near}; {fitted}or pad {over} with zeros",
        field=over,
    )


def trial_data(trial: Trial) -> dict[str, Any]:
    """A run as plain data."""
    return {
        **trial.sizes,
        "seed": trial.seed,
        "findings": [str(finding) for finding in trial.findings],
        "wrong_elements": sum(trial.wrong.values()),
        "unbounded_elements": sum(trial.unbounded.values()),
        "bytes_outside": trial.spoilt,
        "instructions": trial.executed,
    }
