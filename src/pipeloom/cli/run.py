"""``pipeloom run``: emit, assemble, execute in the emulator, compare with NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from pipeloom.cli.bars import bar
from pipeloom.cli.emit import EmitOptions, cost_line
from pipeloom.cli.options import Command, flag, option, repeated
from pipeloom.cli.printing import print_json, say
from pipeloom.cli.usage import WRONG_RESULT, UsageError, at_least
from pipeloom.drive.emitting import EmitJob
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.recorded_kernels import recorded
from pipeloom.drive.run_limits import MAX_INSTRUCTIONS, MAX_MEMORY_GB, RunLimits
from pipeloom.drive.running import Ran, RunJob
from pipeloom.drive.running import run as run_job
from pipeloom.drive.running_gemms import RecordedGemm, recorded_gemm, run_recorded
from pipeloom.drive.sources import Source

PLACES = ("emulator", "gpu")
T = TypeVar("T", int, float)


def number_of(kind: type[T], text: str, option: str) -> T:
    """The number of a NAME=NUMBER."""
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option} takes NAME=NUMBER, not a value of {text!r}") from None


@dataclass(frozen=True)
class DimensionOptions(Command):
    """Sizes by dimension; those of a matrix product have options of their own."""

    m: int | None = option("--m")
    """rows of C (default {M})"""
    n: int | None = option("--n")
    """columns of C ({N})"""
    k: int | None = option("--k")
    """depth of the sums ({K})"""
    size: tuple[str, ...] = repeated("--size DIM=N")
    """the size along any dimension {ANY}"""

    M: ClassVar = "256"
    N: ClassVar = "default 256"
    K: ClassVar = "default 512"
    ANY: ClassVar = (
        "of a loop (repeatable; default: one tile, one trip); of attention q, keys, d, v, batch, "
        "q_heads and kv_heads"
    )

    def sizes_of(self) -> dict[str, int]:
        """By dimension; --m, --n and --k are short for those of a matrix product."""
        given = {dim: getattr(self, dim) for dim in ("m", "n", "k")}
        sizes = {dim: size for dim, size in given.items() if size is not None}
        for text in self.size:
            dim, _, size = text.partition("=")
            sizes[dim] = number_of(int, size, "--size")
        return sizes


@dataclass(frozen=True)
class RunCommand(EmitOptions, DimensionOptions):
    """Emit and assemble the kernel, then run its machine code on the CPU (or with --on gpu on a
    GPU): loads and LDS reads land at seeded random moments, waves interleave at random, whatever
    no wait guards is poison, and accesses that nothing orders are findings. Exit code 0 if every
    run is right, 5 if one is not.

    Examples:
        pipeloom run ping_pong --m 300 --n 200 --k 512
        pipeloom run k.hsaco
        pipeloom run k.hsaco --on gpu
        pipeloom run attention --d 64 --causal --size q=90 --size keys=130 --timings 1

    Exit codes:
        {WRONG_RESULT}: a result differs from NumPy's
    """

    scalar: tuple[str, ...] = repeated("--scalar NAME=X")
    """the value of a scalar of a loop (repeatable)"""
    seed: int = option("--seed", 0, type=at_least(0))
    """first seed (default 0)"""
    timings: int = option("--timings N", 3, type=at_least(1))
    """how many random timings to run (default 3)"""
    on: str = option("--on", PLACES[0], choices=PLACES)
    """what runs it: the emulator (default), or a gpu, through HIP; there every array lies
    between bytes that must survive"""
    device: int = option("--device N", 0, type=at_least(0))
    """the GPU's number (default 0)"""
    unproved: bool = flag()
    """run on a GPU what is not PROVED: it may hang or spoil other work"""
    no_race_check: bool = flag()
    """only compare the result: for a TIMING schedule, whose races the check would find"""
    max_memory: float = option("--max-memory GB", MAX_MEMORY_GB)
    """refuse a problem that takes more (default {MEMORY})"""
    max_instructions: int = option("--max-instructions N", MAX_INSTRUCTIONS, type=at_least(1))
    """refuse to emulate more in all (default {MAX_INSTRUCTIONS}, a quarter of an hour)"""

    MEMORY: ClassVar = f"{MAX_MEMORY_GB:g}"

    def run(self) -> int:
        """Run each seed; a verdict in one line, and what the kernel takes."""
        product = self._product()
        found = self._run_kernel() if product is None else self._run_product(product)
        if self.json:
            print_json(found.to_dict())
        else:
            _print(found)
        return WRONG_RESULT if found.wrong else 0

    def _run_kernel(self) -> Ran:
        """The kernel of a source, or of a code object that was emitted from one."""
        scalars = [text.partition("=")[::2] for text in self.scalar]
        asked, code = self._asked()
        found = run_job(
            RunJob(
                asked,
                sizes=self.sizes_of(),
                scalars={name: number_of(float, text, "--scalar") for name, text in scalars},
                seed=self.seed,
                limits=self._limits(),
                race_check=not self.no_race_check,
                code=code,
                on=self._gpu(),
            ),
            self._track,
        )
        if found.emission is not None:
            say(found.emission.notes)
        return found

    def _limits(self) -> RunLimits:
        return RunLimits(self.timings, self.max_memory, self.max_instructions)

    def _product(self) -> RecordedGemm | None:
        """What ``pipeloom gemm`` wrote, if it is that."""
        if not self.source.endswith(".hsaco"):
            return None
        return recorded_gemm(self.source)

    def _run_product(self, product: RecordedGemm) -> Ran:
        """The whole product, at the sizes of its record unless others are given."""
        self._only_code()
        if self.scalar:
            raise UsageError("a product's alpha is 1 and its beta 0 here; leave --scalar out")
        seeds = range(self.seed, self.seed + self.timings)
        return run_recorded(
            product,
            self.sizes_of(),
            seeds,
            self._limits(),
            check_races=not self.no_race_check,
            track=self._track,
            on=self._gpu(),
        )

    def _gpu(self) -> OnGpu | None:
        """The device that is asked for; None for the emulator."""
        if self.on == "gpu":
            return OnGpu(self.device, self.unproved)
        if self.device or self.unproved:
            raise UsageError("--device and --unproved are for --on gpu")
        return None

    def _only_code(self) -> None:
        """Refuse options that say how to emit what is emitted."""
        job = self.emit_job()
        if job != EmitJob(Source(self.source, progress=job.source.progress)):
            raise UsageError(f"{self.source} is emitted already, which no option can change")

    def _asked(self) -> tuple[EmitJob, bytes | None]:
        """What to emit and run; of a code object that was emitted, its job, and the code itself."""
        job = self.emit_job()
        if not self.source.endswith(".hsaco"):
            return job, None
        self._only_code()
        source, told, code = recorded(self.source)
        return EmitJob(replace(source, progress=job.source.progress), **told), code

    def _track(self, seeds: Iterable[int]) -> Iterator[int]:
        chosen = list(seeds)
        on_gpu = self.on == "gpu"
        noun = _noun(on_gpu)
        with bar(self, "running" if on_gpu else "emulating", len(chosen)) as tell:
            for number, seed in enumerate(chosen, 1):
                tell(f"{noun} {number} of {len(chosen)}", number - 1, len(chosen))
                yield seed


def _print(found: Ran) -> None:
    for trial in found.wrong[:5]:
        print(trial.summary())
    made = found.emission
    lines = (found.kernel.name,) if made is None else (made.summary(), *cost_line(made))
    print("\n".join(lines))
    count, wrong = len(found.trials), len(found.wrong)
    noun = _noun(found.gpu is not None)
    timings = f"1 {noun}" if count == 1 else f"{count} {noun}s"
    every = timings if count == 1 else f"all {timings}"
    result = f"WRONG in {wrong} of {timings}" if wrong else f"equal to NumPy in {every}"
    shown = " ".join(f"{dim}={size}" for dim, size in found.sizes.items())
    how = f"{found.executed} instructions emulated"
    if found.gpu is not None:
        how = f"on GPU {found.gpu}"
    print(f"{shown}: {result} ({how})")
    if not found.race_check:
        print("race check off")
    if (timed := getattr(found.trials[-1], "timings", None)) is not None:
        figures = timed.to_dict()
        parts = ", ".join(f"{part} {figures[part]:.0f}" for part in ("prologue", "epilogue"))
        unit = "instructions of the emulator" if found.gpu is None else "cycles of the shader clock"
        print(
            f"timed: {figures['waves']} waves, {figures['cycles_per_trip']:.0f} per trip, {parts}, "
            f"in {unit}"
        )
    print(found.kernel.resources)


def _noun(on_gpu: bool) -> str:
    """What a trial is called: the emulator draws a timing for each, a GPU has its own."""
    return "run" if on_gpu else "timing"
