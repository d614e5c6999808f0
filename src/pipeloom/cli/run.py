"""``pipeloom run``: emit, assemble, execute in the emulator, compare with NumPy."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pipeloom.cli.bars import bar
from pipeloom.cli.emit import EMISSION, cost_line, emit_job
from pipeloom.cli.options import JSON, REPEATED, CommandUsage, flag, option
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


USAGE = CommandUsage(
    "Emit and assemble the kernel, then run its machine code on the CPU (or with --on gpu on a "
    "GPU): loads and "
    "LDS reads land at seeded random moments, waves interleave at random, whatever no wait "
    "guards is poison, and accesses that nothing orders are findings. Exit code 0 if every run "
    "is right, 5 if one is not.",
    (
        EMISSION,
        option("--m", "rows of C (default 256)", type=int),
        option("--n", "columns of C (default 256)", type=int),
        option("--k", "depth of the sums (default 512)", type=int),
        option(
            "--size DIM=N",
            "the size along any dimension of a loop (repeatable; default: one tile, one trip); of "
            "attention q, keys, d, v, batch, q_heads and kv_heads",
            **REPEATED,
        ),
        option("--scalar NAME=X", "the value of a scalar of a loop (repeatable)", **REPEATED),
        option("--seed", "first seed (default 0)", type=at_least(0), default=0),
        option(
            "--timings N", "how many random timings to run (default 3)", type=at_least(1), default=3
        ),
        option(
            "--on",
            "what runs it: the emulator (default), or a gpu, through HIP; there every array lies "
            "between bytes that must survive",
            choices=PLACES,
            default=PLACES[0],
        ),
        option("--device N", "the GPU's number (default 0)", type=at_least(0), default=0),
        flag("--unproved", "run on a GPU what is not PROVED: it may hang or spoil other work"),
        flag(
            "--no-race-check",
            "only compare the result: for a TIMING schedule, whose races the check would find",
        ),
        option(
            "--max-memory GB",
            f"refuse a problem that takes more (default {MAX_MEMORY_GB:g})",
            type=float,
            default=MAX_MEMORY_GB,
        ),
        option(
            "--max-instructions N",
            f"refuse to emulate more in all (default {MAX_INSTRUCTIONS}, a quarter of an hour)",
            type=at_least(1),
            default=MAX_INSTRUCTIONS,
        ),
        JSON,
    ),
    examples=(
        "pipeloom run ping_pong --m 300 --n 200 --k 512",
        "pipeloom run k.hsaco",
        "pipeloom run k.hsaco --on gpu",
        "pipeloom run attention --d 64 --causal --size q=90 --size keys=130 --timings 1",
    ),
    codes={WRONG_RESULT: "a result differs from NumPy's"},
)


def run(arguments: argparse.Namespace) -> int:
    """Run each seed; a verdict in one line, and what the kernel takes."""
    product = _product(arguments)
    found = _run_kernel(arguments) if product is None else _run_product(arguments, product)
    if arguments.json:
        print_json(found.to_dict())
    else:
        _print(found)
    return WRONG_RESULT if found.wrong else 0


def _run_kernel(arguments: argparse.Namespace) -> Ran:
    """The kernel of a source, or of a code object that was emitted from one."""
    scalars = [text.partition("=")[::2] for text in arguments.scalar]
    asked, code = _asked(arguments)
    found = run_job(
        RunJob(
            asked,
            sizes=sizes_of(arguments),
            scalars={name: number_of(float, text, "--scalar") for name, text in scalars},
            seed=arguments.seed,
            limits=_limits(arguments),
            race_check=not arguments.no_race_check,
            code=code,
            on=_gpu(arguments),
        ),
        partial(_track, arguments),
    )
    if found.emission is not None:
        say(found.emission.notes)
    return found


def _limits(arguments: argparse.Namespace) -> RunLimits:
    return RunLimits(arguments.timings, arguments.max_memory, arguments.max_instructions)


def _product(arguments: argparse.Namespace) -> RecordedGemm | None:
    """What ``pipeloom gemm`` wrote, if it is that."""
    if not arguments.source.endswith(".hsaco"):
        return None
    return recorded_gemm(arguments.source)


def _run_product(arguments: argparse.Namespace, product: RecordedGemm) -> Ran:
    """The whole product, at the sizes of its record unless others are given."""
    _only_code(arguments)
    if arguments.scalar:
        raise UsageError("a product's alpha is 1 and its beta 0 here; leave --scalar out")
    seeds = range(arguments.seed, arguments.seed + arguments.timings)
    return run_recorded(
        product,
        sizes_of(arguments),
        seeds,
        _limits(arguments),
        check_races=not arguments.no_race_check,
        track=partial(_track, arguments),
        on=_gpu(arguments),
    )


def _gpu(arguments: argparse.Namespace) -> OnGpu | None:
    """The device that is asked for; None for the emulator."""
    if arguments.on == "gpu":
        return OnGpu(arguments.device, arguments.unproved)
    if arguments.device or arguments.unproved:
        raise UsageError("--device and --unproved are for --on gpu")
    return None


def _only_code(arguments: argparse.Namespace) -> None:
    """Refuse options that say how to emit what is emitted."""
    job = emit_job(arguments)
    if job != EmitJob(Source(arguments.source, progress=job.source.progress)):
        raise UsageError(f"{arguments.source} is emitted already, which no option can change")


def _asked(arguments: argparse.Namespace) -> tuple[EmitJob, bytes | None]:
    """What to emit and run; of a code object that was emitted, its job, and the code itself."""
    job = emit_job(arguments)
    if not arguments.source.endswith(".hsaco"):
        return job, None
    _only_code(arguments)
    source, told, code = recorded(arguments.source)
    return EmitJob(replace(source, progress=job.source.progress), **told), code


def sizes_of(arguments: argparse.Namespace) -> dict[str, int]:
    """By dimension; --m, --n and --k are short for those of a matrix product."""
    given = {dim: getattr(arguments, dim) for dim in ("m", "n", "k")}
    sizes = {dim: size for dim, size in given.items() if size is not None}
    for text in arguments.size:
        dim, _, size = text.partition("=")
        sizes[dim] = number_of(int, size, "--size")
    return sizes


def number_of(kind: type[T], text: str, option: str) -> T:
    """The number of a NAME=NUMBER."""
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option} takes NAME=NUMBER, not a value of {text!r}") from None


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


def _track(arguments: argparse.Namespace, seeds: Iterable[int]) -> Iterator[int]:
    chosen = list(seeds)
    on_gpu = arguments.on == "gpu"
    noun = _noun(on_gpu)
    with bar(arguments, "running" if on_gpu else "emulating", len(chosen)) as tell:
        for number, seed in enumerate(chosen, 1):
            tell(f"{noun} {number} of {len(chosen)}", number - 1, len(chosen))
            yield seed


def _noun(on_gpu: bool) -> str:
    """What a trial is called: the emulator draws a timing for each, a GPU has its own."""
    return "run" if on_gpu else "timing"
