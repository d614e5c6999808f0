"""What ``bench`` times, made anew: its timed variant, a trial of it, and what the model says of it.

A schedule or a loop is known by the job that emits it, a product of ``gemm`` by its spec. Of a code
object whose record names neither, or that is not what its record gives today, only bytes are known.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pipeloom.device.images import KernelImage
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.gemm import Gemm, gemm_kernel, gemm_made_from
from pipeloom.drive.gemm_trial import ReadyGemm
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.recorded_kernels import check_remade, recorded
from pipeloom.drive.run_limits import RunLimits
from pipeloom.drive.running import RunJob, run
from pipeloom.drive.running_gemms import gemm_trials, recorded_gemm
from pipeloom.drive.simulating import SimulateJob, Simulation
from pipeloom.drive.trial import Trial
from pipeloom.errors import ScheduleError
from pipeloom.machine.target import Target
from pipeloom.machine_code.emitted import loop_cycles
from pipeloom.write import EmittedKernel, assemble, launch_record
from pipeloom.write.lower.wave_clocks import TimingRecord

MOST_COMPARED = 4
"""Tiles along a dimension of a product that is compared with NumPy."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """What the model says; None where it says nothing."""

    microseconds: float | None = None
    clock_mhz: float | None = None
    loop_cycles: float | None = None


class BenchSubject(Protocol):
    """A kernel of which more is known than its bytes."""

    @property
    def made_from(self) -> Mapping[str, Any] | None:
        """What it can be made from elsewhere; None of files and objects."""
        ...

    def timed(self) -> tuple[KernelImage, TimingRecord]:
        """The variant that times itself."""
        ...

    def trial(self, on: OnGpu, scalars: Mapping[str, float]) -> Trial:
        """A launch of small sizes there, compared with NumPy."""
        ...

    def model(self, machine: Target | None, sizes: Mapping[str, int]) -> Modelled:
        """Of a launch of such sizes, on its own chip unless another is given."""
        ...


def subject_of(code: str, image: KernelImage, notes: list[str]) -> BenchSubject | None:
    """What a code object is made from; None, with a note, where only its bytes are known."""
    try:
        product = recorded_gemm(code)
        if product is not None:
            made = gemm_kernel(product.spec)
            for kernel in made.kernels:
                check_remade(image.codes[kernel.name], assemble(kernel).data, code)
            return TimedProduct(made, product.sizes, image.record)
        source, told, data = recorded(code)
        asked = EmitJob(source, **told)
        found = emit(asked)
        check_remade(data, assemble(found.kernel).data, source.name)
    except ScheduleError as error:
        notes.append(f"no model, no times from inside, no comparison: {error.message}")
        return None
    return TimedEmission(asked, found)


def kernel_image(kernel: EmittedKernel) -> KernelImage:
    """An emitted kernel, as it is launched."""
    return KernelImage(launch_record(kernel), {kernel.name: assemble(kernel).data})


@dataclass(frozen=True, slots=True)
class TimedEmission:
    """What ``emit`` writes."""

    asked: EmitJob
    found: Emission

    @property
    def made_from(self) -> Mapping[str, Any] | None:
        """A shipped name and its settings; a file of the user's stays his own."""
        told = self.asked.to_dict()
        own = told is None or set(str(told["what"])) & {os.sep, ".", ":"}
        return None if own else told

    def timed(self) -> tuple[KernelImage, TimingRecord]:
        """Emitted once more."""
        kernel = emit(replace(self.asked, timed=True)).kernel
        assert kernel.timing is not None
        return kernel_image(kernel), kernel.timing

    def trial(self, on: OnGpu, scalars: Mapping[str, float]) -> Trial:
        """At the sizes that ``run`` takes where none are given."""
        limits = RunLimits()
        code = assemble(self.found.kernel).data
        job = RunJob(self.asked, scalars=scalars, limits=limits, code=code, on=on)
        return run(job).trials[0]

    def model(self, machine: Target | None, sizes: Mapping[str, int]) -> Modelled:
        """Its instructions simulated, and an estimate of the whole where it is a product."""
        problem = sizes.get("m"), sizes.get("n"), sizes.get("k")
        job = SimulateJob(
            self.asked.source,
            emitted=True,
            allow_timing=self.asked.allow_timing,
            problem=(None, None, None) if None in problem else problem,
        )
        found = self.found
        chip = machine or found.program.target
        simulation = Simulation(job, found.opened, found.program, chip, found)
        trace = simulation.run()
        estimate = simulation.estimate(trace)
        cycles = trace.steady_cycles_per_iteration
        if estimate is None:
            return Modelled(loop_cycles=cycles)
        return Modelled(estimate.microseconds, 1000 * estimate.clock_ghz, cycles)


@dataclass(frozen=True, slots=True)
class TimedProduct:
    """What ``gemm`` writes."""

    made: Gemm
    tuned_for: Mapping[str, int]
    record: Mapping[str, Any]

    @property
    def made_from(self) -> Mapping[str, Any] | None:
        """Its spec."""
        return gemm_made_from(self.made.spec, self.tuned_for)

    def timed(self) -> tuple[KernelImage, TimingRecord]:
        """The product with clocks; copies before and sums after are as they were."""
        made = gemm_kernel(self.made.spec, timed=True)
        assert made.kernel.timing is not None
        codes = {kernel.name: assemble(kernel).data for kernel in made.kernels}
        return KernelImage(made.contract(), codes), made.kernel.timing

    def trial(self, on: OnGpu, scalars: Mapping[str, float]) -> Trial:
        """Of a few tiles; numbers are drawn with the data."""
        tiles = {**self.made.kernel.launch.tiles, "batches": 1}
        small = {d: min(n, MOST_COMPARED * tiles[d]) for d, n in self.tuned_for.items()}
        limits = RunLimits()
        (found,) = gemm_trials(ReadyGemm.of(self.made), small, [0], limits, on=on)
        return found

    def model(self, machine: Target | None, sizes: Mapping[str, int]) -> Modelled:
        """What the tuner predicted, at the sizes that it was asked for, and the loop, simulated."""
        told = self.record.get("predicted") or {}
        chip = machine or self.made.program.target
        cycles = loop_cycles(self.made.kernel, chip)
        same = all(told.get(dim, 1) == sizes.get(dim, 1) for dim in ("m", "n", "k", "batches"))
        if not told or not same or chip != self.made.program.target:
            return Modelled(loop_cycles=cycles)
        return Modelled(float(told["microseconds"]), 1000 * float(told["clock_ghz"]), cycles)
