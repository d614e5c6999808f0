"""``pipeloom run``: emit, assemble, execute in the emulator, compare with NumPy."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pipeloom.cli.common import add_json, print_json
from pipeloom.cli.emit import add_emission, emission
from pipeloom.cli.usage import at_least
from pipeloom.errors import SpecError

if TYPE_CHECKING:
    from pipeloom.drive.trial import Trial

WRONG_RESULT = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Emit and assemble the kernel, then run its machine code on the CPU: loads and "
        "LDS reads land at seeded random moments, waves interleave at random, whatever no wait "
        "guards is poison, and accesses that nothing orders are findings. Exit code 0 if every run "
        "is right, 5 if one is not."
    )
    add_emission(parser)
    parser.add_argument("--m", type=int, default=256, help="rows of C (default 256)")
    parser.add_argument("--n", type=int, default=256, help="columns of C (default 256)")
    parser.add_argument("--k", type=int, default=512, help="depth of the sums (default 512)")
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
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run each seed; a verdict in one line, and what the kernel takes."""
    from rich.console import Console
    from rich.progress import track

    from pipeloom.drive.trial import Launchable, run_gemm
    from pipeloom.write import assemble

    found = emission(arguments, arguments.k)
    emitted = found.kernel
    _check_depth(arguments.k, emitted.k_min, emitted.k_step)
    ready = Launchable.load(emitted, assemble(emitted))
    seeds = range(arguments.seed, arguments.seed + arguments.timings)
    progress = Console(stderr=True)
    trials = [
        run_gemm(
            emitted,
            ready,
            M=arguments.m,
            N=arguments.n,
            K=arguments.k,
            seed=seed,
            check_races=not arguments.no_race_check,
        )
        for seed in track(
            seeds, "emulating", console=progress, disable=not sys.stderr.isatty(), transient=True
        )
    ]
    wrong = [trial for trial in trials if not trial.ok]
    if arguments.json:
        print_json(
            {
                "kernel": emitted.name,
                **found.to_dict(),
                "race_check": not arguments.no_race_check,
                "runs": len(trials),
                "wrong": [_as_data(trial) for trial in wrong],
                "instructions": sum(trial.executed for trial in trials),
            }
        )
        return WRONG_RESULT if wrong else 0
    for trial in wrong[:5]:
        print(trial.summary())
    shape = f"M={arguments.m} N={arguments.n} K={arguments.k}"
    count = len(trials)
    timings = "1 timing" if count == 1 else f"{count} timings"
    every = timings if count == 1 else f"all {timings}"
    result = f"WRONG in {len(wrong)} of {timings}" if wrong else f"equal to NumPy in {every}"
    executed = sum(trial.executed for trial in trials)
    print(found.summary())
    print(f"{shape}: {result} ({executed} instructions emulated)")
    if arguments.no_race_check:
        print("race check off")
    print(emitted.resources)
    return WRONG_RESULT if wrong else 0


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
