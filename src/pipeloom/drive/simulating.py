"""Cycles of a program, or of the kernel emitted from it.

By default the steps of a program stand for the instructions that they say they issue; ``emitted``
emits the kernel first and runs its own lines. A ``Simulation`` runs for as many K tiles as asked,
so that a report can show a shorter run than it measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeloom.declare.gemm_problem import GemmProblem, some_type
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.opening import Opened, open_source
from pipeloom.drive.sources import Source, find_source, refuse_changes
from pipeloom.errors import ConfigError, SpecError
from pipeloom.judge.simulate import Trace
from pipeloom.judge.simulate.estimate import (
    Estimate,
    estimate_gemm,
    stores_output,
    traced_cost,
)
from pipeloom.judge.simulate.issued import ITERATIONS, simulate, trips_for, usual_iterations
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.judge.verify import Verdict, verify
from pipeloom.machine.target import Target
from pipeloom.machine_code import simulate_emitted
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.show.headers import sync_text, tile_text
from pipeloom.show.step_rows import trip_counts


@dataclass(frozen=True, slots=True)
class SimulateJob:
    """What to simulate, for how long; ``problem`` is the (M, N, K) of a whole-GPU estimate."""

    source: Source
    k_tiles: int | None = None
    jitter: float = 0.0
    seed: int = 0
    emitted: bool = False
    allow_timing: bool = False
    problem: tuple[int | None, int | None, int | None] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is to be run: a program, or with ``emission`` the kernel emitted from it."""

    job: SimulateJob
    opened: Opened
    program: Program
    machine: Target
    emission: Emission | None = None

    @property
    def header(self) -> str:
        """What it is about."""
        return (
            self.opened.header() if self.emission is None else f"emitted {self.emission.summary()}"
        )

    @property
    def tile(self) -> str:
        """The tile in words."""
        return self.opened.tile_text() if self.emission is None else tile_text(self.program)

    @property
    def sync(self) -> str:
        """How waits and barriers came about."""
        return sync_text(self.program) if self.emission is None else self.emission.sync

    def verdict(self) -> Verdict:
        """Whether what is run can race."""
        return verify(self.program, ops=self.opened.ops)

    def iterations_of(self, trips: int) -> int:
        """K tiles of that many trips of the main loop, or of its least number."""
        program = self.program
        least = max(program.trips[-1].least, trips) if program.trips else 0
        return program.iterations.at(trip_counts(program, least))

    def run(self, k_tiles: int | None = None) -> Trace:
        """The trace over that many K tiles; by default the job's, else 32 or the next possible."""
        k_tiles = self.job.k_tiles if k_tiles is None else k_tiles
        if k_tiles is None:
            k_tiles = usual_iterations(self.program)
        trips_for(self.program, k_tiles)
        try:
            return self._trace(k_tiles)
        except ConfigError as error:
            if not (error.field or "").endswith("iterations"):
                raise
            hint = f"use a smaller --k-tiles; the steady state needs about {ITERATIONS}"
            raise ConfigError(error.message, hint=hint, field="k_tiles") from error

    def _trace(self, k_tiles: int) -> Trace:
        jitter, seed = self.job.jitter, self.job.seed
        if self.emission is None:
            return simulate(
                self.program, self.machine, iterations=k_tiles, jitter=jitter, seed=seed
            )
        kernel = self.emission.kernel
        return simulate_emitted(kernel, self.machine, k_tiles, jitter=jitter, seed=seed)

    def estimate(self, trace: Trace) -> Estimate | None:
        """The whole-GPU model for the job's problem; ``None`` where there is none."""
        m, n, k = self.job.problem
        if m is None and n is None and k is None:
            return None
        if m is None or n is None or k is None:
            raise SpecError(
                "the whole-GPU estimate needs all of --m, --n and --k", hint="give three"
            )
        tile, program = self.opened.tile(), self.program
        if tile is None or not {"m", "n", "k"} <= tile.keys():
            raise SpecError(
                f"{program.name} is no product of an M x K and a K x N matrix, which the whole-GPU "
                "estimate is of",
                hint="drop --m, --n and --k",
                field="problem",
            )
        if not trace.iterations:
            raise SpecError(
                "the whole-GPU estimate needs the loop to run, and with --k-tiles "
                f"{self.job.k_tiles} it does not",
                hint="drop --k-tiles",
                field="k_tiles",
            )
        depth = tile["k"]
        least = program.iterations.at(program.min_trips) * depth
        if min(m, n, k) > 0 and k < least:
            step = program.step * depth
            raise SpecError(
                f"K = {k} is less than the {least} that {program.name} sums at least",
                hint=f"use --k {least}, {least + step}, {least + 2 * step}, ...",
                field="k",
            )
        out = program.meaning.outputs[0].type.dtype.bits / 8
        element = max((n.type.dtype.bits / 8 for n in program.meaning.inputs), default=4.0)
        block, stored = Block(tile["m"], tile["n"], depth), stores_output(trace)
        store = block.m * block.n * out / trace.machine.store_bytes_per_clk.value
        outside = program.iterations.at(trip_counts(program, 0))
        cost = traced_cost(trace, outside, program.step, store if stored else 0.0)
        problem = GemmProblem(m, n, k, some_type(element), some_type(out))
        return estimate_gemm(trace.machine, problem, block, cost, stored=stored)


def prepare(job: SimulateJob, *, needs_tile: bool = True) -> Simulation:
    """What a job asks to simulate; a schedule that could have a tile must have one.

    Without ``needs_tile`` one may come back that has none, and cannot run.
    """
    if job.emitted:
        return _prepare_emitted(job)
    if job.allow_timing:
        raise SpecError(
            "--allow-timing is for emitting, and any schedule can be simulated",
            hint="drop it, or add --emitted",
        )
    opened = open_source(job.source)
    if needs_tile:
        opened.require_tile()
    return Simulation(job, opened, opened.program(), opened.machine())


def _prepare_emitted(job: SimulateJob) -> Simulation:
    source = job.source
    if source.dtype is not None and isinstance(named := find_source(source), CompiledSchedule):
        refuse_changes(source, named)
    typed = replace(source, dtype=source.element_type)
    found = emit(EmitJob(typed, allow_timing=job.allow_timing))
    return Simulation(job, found.opened, found.program, found.program.target, found)
