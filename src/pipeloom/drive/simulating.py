"""Cycles of a schedule, or of the kernel emitted from it.

By default a schedule's ops stand for instruction counts; ``emitted`` emits the kernel first and
runs its own lines. A ``Simulation`` runs for as many K tiles as asked, so that a report can show
a shorter run than it measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeloom.drive.emitting import Emission, EmitJob, emit, is_compiled_file
from pipeloom.drive.programs import as_program, simulate
from pipeloom.drive.sources import Source, Subject, open_source
from pipeloom.errors import ConfigError, InternalError, SpecError
from pipeloom.judge.simulate import Trace
from pipeloom.judge.simulate.estimate import Estimate, GemmProblem, TileTiming, estimate_gemm
from pipeloom.judge.simulate.lower import trips_for
from pipeloom.judge.verify import Verdict, verify
from pipeloom.machine.target import Target
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import steps_of
from pipeloom.reference.words import tile_text
from pipeloom.write.gemm.tile import OUTPUT_BYTES

K_TILES = 32


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
    """What is to be run: a schedule, or with ``emission`` the kernel emitted from it."""

    job: SimulateJob
    subject: Subject
    compiled: CompiledSchedule
    machine: Target
    kernel: Kernel
    emission: Emission | None
    header: str
    elements: str | None

    @property
    def tile(self) -> str:
        """The tile in words."""
        return tile_text(self.compiled, self.elements)

    @property
    def program(self) -> Program:
        """What judges take, and pages and tables show."""
        return as_program(self.compiled, self.kernel, self.machine)

    def verdict(self) -> Verdict:
        """Whether what is run can race."""
        return verify(self.program)

    def run(self, k_tiles: int | None = None) -> Trace:
        """The trace over that many K tiles; by default the job's, else 32 or the next possible."""
        kernel = self.kernel
        k_tiles = self.job.k_tiles if k_tiles is None else k_tiles
        if k_tiles is None:
            least = max(K_TILES, kernel.tiles(kernel.min_trips))
            k_tiles = least + (kernel.tiles(0) - least) % kernel.tiles_per_iteration
        trips_for(self.program, k_tiles)
        try:
            return self._trace(kernel, k_tiles)
        except ConfigError as error:
            if not (error.field or "").endswith("iterations"):
                raise
            hint = f"use a smaller --k-tiles; the steady state needs about {K_TILES}"
            raise ConfigError(error.message, hint=hint, field="k_tiles") from error

    def _trace(self, kernel: Kernel, k_tiles: int) -> Trace:
        jitter, seed = self.job.jitter, self.job.seed
        if self.emission is None:
            return simulate(self.compiled, self.machine, kernel, k_tiles, jitter=jitter, seed=seed)
        from pipeloom.lift import simulate_emitted

        program = self.program
        found = [(group.waves, steps_of(program, n)) for n, group in enumerate(program.groups)]
        steps = {wave: known for waves, known in found for wave in waves}
        return simulate_emitted(
            self.emission.kernel,
            self.machine,
            k_tiles,
            steps=[steps[wave] for wave in sorted(steps)],
            jitter=jitter,
            seed=seed,
        )

    def estimate(self, trace: Trace) -> Estimate | None:
        """The whole-GPU model for the job's problem; ``None`` where there is none."""
        m, n, k = self.job.problem
        if m is None and n is None and k is None:
            return None
        if m is None or n is None or k is None:
            raise SpecError(
                "the whole-GPU estimate needs all of --m, --n and --k", hint="give three"
            )
        shape, kernel = self.compiled.geometry, self.kernel
        if shape is None:
            raise InternalError("a simulated schedule has a tile shape")
        if not trace.iterations:
            raise SpecError(
                "the whole-GPU estimate needs the loop to run, and with --k-tiles "
                f"{self.job.k_tiles} it does not",
                hint="drop --k-tiles",
                field="k_tiles",
            )
        per_iteration = kernel.tiles_per_iteration * shape.BK
        least = kernel.tiles(kernel.min_trips) * shape.BK
        if min(m, n, k) > 0 and k < least:
            more = f"{least + per_iteration}, {least + 2 * per_iteration}"
            raise SpecError(
                f"K = {k} is less than the {least} that the {kernel.name} kernel sums at least",
                hint=f"use --k {least}, {more}, ...",
                field="k",
            )
        timing = TileTiming.from_trace(
            trace,
            tile_m=shape.BM,
            tile_n=shape.BN,
            k_per_iteration=per_iteration,
            k_outside_loop=kernel.tiles(0) * shape.BK,
        )
        out = 2.0 if self.emission is None else OUTPUT_BYTES[self.emission.kernel.out_dtype]
        problem = GemmProblem(m, n, k, input_bytes=shape.elem_bytes, output_bytes=out)
        return estimate_gemm(trace.machine, problem, timing)


def prepare(job: SimulateJob, *, needs_tile: bool = True) -> Simulation:
    """What a job asks to simulate; a schedule that could have a tile must have one.

    Without ``needs_tile`` one may come back that has none, and cannot run.
    """
    source = job.source
    if job.emitted:
        return _prepare_emitted(job)
    if job.allow_timing:
        raise SpecError(
            "--allow-timing is for emitting, and any schedule can be simulated",
            hint="drop it, or add --emitted",
        )
    subject = open_source(source)
    machine, compiled = subject.machine(), subject.compiled()
    if needs_tile:
        subject.require_tile(compiled)
    kernel = subject.kernel(compiled)
    header = subject.header(compiled)
    return Simulation(job, subject, compiled, machine, kernel, None, header, source.tile)


def _prepare_emitted(job: SimulateJob) -> Simulation:
    source = job.source
    is_file = is_compiled_file(source)
    if source.tile is not None and is_file:
        raise SpecError(
            f"{source.name} is a compiled schedule, which --tile cannot change",
            hint="apply --tile to its spec: pipeloom compile SPEC --tile ... -o FILE",
        )
    subject = open_source(source if is_file else replace(source, tile="none"))
    machine = subject.machine()
    plain = replace(source, tile=None, default_tile="none", arch=None)
    dtype = None if source.tile == "none" else source.tile
    found = emit(EmitJob(plain, target=machine.arch, dtype=dtype, allow_timing=job.allow_timing))
    kernel = subject.kernel(found.compiled)
    header = f"emitted {found.summary()}"
    return Simulation(
        job, subject, found.compiled, machine, kernel, found, header, found.kernel.dtype
    )
