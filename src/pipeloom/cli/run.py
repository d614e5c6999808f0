"""``pipeloom run``: emit, assemble, execute in the emulator, compare with NumPy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from pipeloom.cli.common import add_json, add_waves, own_program_of, print_json, say
from pipeloom.cli.emit import add_emission, cost_line, emit_job
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.loops import OwnProgram
from pipeloom.drive.running import MAX_INSTRUCTIONS, MAX_MEMORY_GB, Ran, RunJob
from pipeloom.drive.running import run as run_job

WRONG_RESULT = 5
SIZES = {"m": 256, "n": 256, "k": 512}
"""Of a schedule's problem; a loop of your own is run on one tile and one trip of its loop."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Emit and assemble the kernel, then run its machine code on the CPU: loads and "
        "LDS reads land at seeded random moments, waves interleave at random, whatever no wait "
        "guards is poison, and accesses that nothing orders are findings. Exit code 0 if every run "
        "is right, 5 if one is not."
    )
    add_emission(parser)
    for name, what in (("m", "rows of C"), ("n", "columns of C"), ("k", "depth of the sums")):
        parser.add_argument(
            f"--{name}", type=int, help=f"{what} (default {SIZES[name]}; of a loop, one tile)"
        )
    add_waves(parser)
    parser.add_argument("--seed", type=at_least(0), default=0, help="first seed (default 0)")
    parser.add_argument(
        "--timings",
        type=at_least(1),
        default=3,
        metavar="N",
        help="how many random timings to run (default 3)",
    )
    parser.add_argument(
        "--no-race-check",
        action="store_true",
        help="only compare the result: for a TIMING schedule, whose races the check would find",
    )
    parser.add_argument(
        "--max-memory",
        type=float,
        default=MAX_MEMORY_GB,
        metavar="GB",
        help=f"refuse a problem that takes more (default {MAX_MEMORY_GB:g})",
    )
    parser.add_argument(
        "--max-instructions",
        type=at_least(1),
        default=MAX_INSTRUCTIONS,
        metavar="N",
        help=f"refuse to emulate more in all (default {MAX_INSTRUCTIONS}, a quarter of an hour)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run each seed; a verdict in one line, and what the kernel takes."""
    own = own_program_of(arguments)
    if own is not None:
        return _run_own(arguments, own)
    given = {n: size if (s := getattr(arguments, n)) is None else s for n, size in SIZES.items()}
    found = run_job(
        RunJob(
            emit_job(arguments),
            m=given["m"],
            n=given["n"],
            k=given["k"],
            seed=arguments.seed,
            timings=arguments.timings,
            race_check=not arguments.no_race_check,
            max_memory_gb=arguments.max_memory,
            max_instructions=arguments.max_instructions,
        ),
        _track,
    )
    say(found.emission.notes)
    if arguments.json:
        print_json(found.to_dict())
    else:
        _print(found)
    return WRONG_RESULT if found.wrong else 0


def _run_own(arguments: argparse.Namespace, own: OwnProgram) -> int:
    """A loop's or a program's kernel: one tile, unless sizes say otherwise."""
    from pipeloom.drive.programs import emit
    from pipeloom.drive.programs import run as run_kernel

    emitted = emit(own.program, ops=own.ops)
    assert emitted.launch is not None
    launch, over = emitted.launch, own.program.meaning.over
    sizes = {**launch.tiles, over: launch.least + launch.step}
    asked = {n: getattr(arguments, n) for n in SIZES if getattr(arguments, n) is not None}
    strange = [name for name in asked if name not in sizes]
    if strange:
        raise UsageError(f"{own.program.name} has no dimension {strange[0]!r}")
    sizes |= asked
    trials = [
        run_kernel(
            emitted, sizes=sizes, ops=own.ops, seed=seed, check_races=not arguments.no_race_check
        )
        for seed in _track(range(arguments.seed, arguments.seed + arguments.timings))
    ]
    wrong = [trial for trial in trials if not trial.ok]
    if arguments.json:
        print_json({"sizes": sizes, "timings": len(trials), "wrong": [t.summary() for t in wrong]})
    else:
        for trial in wrong[:5] or trials[:1]:
            print(trial.summary())
        print(f"{own.program.name}: {len(trials) - len(wrong)} of {len(trials)} timings right")
        print(emitted.resources)
    return WRONG_RESULT if wrong else 0


def _print(found: Ran) -> None:
    job, count, wrong = found.job, len(found.trials), len(found.wrong)
    for trial in found.wrong[:5]:
        print(trial.summary())
    timings = "1 timing" if count == 1 else f"{count} timings"
    every = timings if count == 1 else f"all {timings}"
    result = f"WRONG in {wrong} of {timings}" if wrong else f"equal to NumPy in {every}"
    print("\n".join((found.emission.summary(), *cost_line(found.emission))))
    print(f"M={job.m} N={job.n} K={job.k}: {result} ({found.executed} instructions emulated)")
    if not job.race_check:
        print("race check off")
    print(found.emission.kernel.resources)


def _track(seeds: Iterable[int]) -> Iterable[int]:
    from rich.console import Console
    from rich.progress import track

    return track(
        list(seeds),
        "emulating",
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
