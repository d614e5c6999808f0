"""Emit, assemble, execute in the emulator, compare with NumPy; refused before it is too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.sources import Named, Source
from pipeloom.errors import SpecError

if TYPE_CHECKING:
    from pipeloom.drive.trial import Trial
    from pipeloom.write import EmittedKernel

MAX_MEMORY_GB = 2.0
MAX_INSTRUCTIONS = 10_000_000
"""About a quarter of an hour."""

BYTES_PER_INPUT = 32
"""Of an element of A or B: as drawn, as f32, encoded, and exactly, for NumPy's sum."""

BYTES_PER_OUTPUT = 40
"""Of an element of C: as written, the exact sum, both again for the comparison."""

Track = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True, slots=True)
class RunJob:
    """What to run: C[M,N] = A[M,K] B[N,K]^T, once per timing."""

    emit: EmitJob
    m: int = 256
    n: int = 256
    k: int = 512
    seed: int = 0
    timings: int = 3
    race_check: bool = True
    max_memory_gb: float = MAX_MEMORY_GB
    max_instructions: int = MAX_INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Ran:
    """Each run, and the kernel that was run."""

    job: RunJob
    emission: Emission
    trials: tuple[Trial, ...]

    @property
    def wrong(self) -> tuple[Trial, ...]:
        """The runs with a finding or a wrong element."""
        return tuple(trial for trial in self.trials if not trial.ok)

    @property
    def executed(self) -> int:
        """Instructions of all runs."""
        return sum(trial.executed for trial in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernel": self.emission.kernel.name,
            **self.emission.to_dict(),
            "race_check": self.job.race_check,
            "runs": len(self.trials),
            "wrong": [_as_data(trial) for trial in self.wrong],
            "instructions": self.executed,
        }


def run(job: RunJob | EmitJob | Source | Named, track: Track = iter) -> Ran:
    """Run the kernel of a source in the emulator; ``track`` may watch the seeds go by."""
    if not isinstance(job, RunJob):
        job = RunJob(job if isinstance(job, EmitJob) else EmitJob(Source.of(job)))
    _check_size(job)
    found = emit(job.emit)
    kernel = found.kernel
    _check_depth(job.k, kernel.k_min, kernel.k_step)
    _check_work(job, kernel)
    from pipeloom.drive.trial import Launchable, run_gemm
    from pipeloom.write import assemble

    ready = Launchable.load(kernel, assemble(kernel))
    trials = tuple(
        run_gemm(kernel, ready, M=job.m, N=job.n, K=job.k, seed=seed, check_races=job.race_check)
        for seed in track(range(job.seed, job.seed + job.timings))
    )
    return Ran(job, found, trials)


def needed_bytes(m: int, n: int, k: int) -> int:
    """Memory of one run, about."""
    return (m + n) * k * BYTES_PER_INPUT + m * n * BYTES_PER_OUTPUT


def needed_instructions(kernel: EmittedKernel, m: int, n: int, k: int) -> int:
    """Instructions of one run, about: every line once per wave, those of the loop per iteration."""
    from pipeloom.lift.walk import loop_lines

    head, back = loop_lines(kernel.lines)
    columns, rows, _ = kernel.grid(m, n)
    per_wave = len(kernel.lines) + max(k // kernel.k_step - 1, 0) * (back - head)
    return columns * rows * kernel.waves * per_wave


def _check_size(job: RunJob) -> None:
    """Refuse what does not fit in memory, before anything is allocated."""
    if min(job.m, job.n, job.k) < 1:
        return
    needed = needed_bytes(job.m, job.n, job.k) / 1e9
    if needed > job.max_memory_gb:
        raise SpecError(
            f"M={job.m} N={job.n} K={job.k} takes about {needed:.1f} GB of memory to run and "
            f"compare, over the limit of {job.max_memory_gb:g} GB",
            hint="run a smaller problem, which shows the same kernel; or raise the limit: "
            f"--max-memory {needed + 0.5:.0f}",
            field="max_memory",
        )


def _check_work(job: RunJob, kernel: EmittedKernel) -> None:
    if kernel.geometry is None:
        return
    needed = needed_instructions(kernel, job.m, job.n, job.k) * job.timings
    if needed > job.max_instructions:
        columns, rows, _ = kernel.grid(job.m, job.n)
        raise SpecError(
            f"M={job.m} N={job.n} K={job.k} is about {needed:.1e} instructions to emulate "
            f"({columns * rows} workgroups, {job.timings} timings), over the limit of "
            f"{job.max_instructions:.1e}",
            hint="run a smaller problem or fewer --timings; or raise the limit: "
            f"--max-instructions {needed}",
            field="max_instructions",
        )


def _check_depth(k: int, least: int, step: int) -> None:
    """Refuse a K that the kernel cannot sum, with the nearest ones that it can."""
    if k >= least and (k - least) % step == 0:
        return
    below = least + max(k - least, 0) // step * step
    near = f"K = {least}, the least" if k < least else f"K = {below} or {below + step}"
    raise SpecError(
        f"K is {k}, but the schedule starts with {least} and steps by {step}",
        hint=f"use {near}; or pad K with zeros",
        field="k",
    )


def _as_data(trial: Trial) -> dict[str, Any]:
    m, n, k = trial.shape
    return {
        "m": m,
        "n": n,
        "k": k,
        "seed": trial.seed,
        "findings": [str(finding) for finding in trial.findings],
        "wrong_elements": trial.wrong,
        "bytes_outside": trial.spoilt,
        "instructions": trial.executed,
    }
