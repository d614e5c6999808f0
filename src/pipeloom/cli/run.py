"""``pipeloom run``: emit, assemble, execute in the emulator, compare with NumPy."""

from __future__ import annotations

import argparse
import sys

from pipeloom.cli.common import Commands, add_json, print_json
from pipeloom.cli.emit import add_emission, emitted_kernel


def add_parser(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "run",
        help="run the emitted kernel in the emulator and compare with NumPy",
        description="Emit and assemble the kernel, then run its machine code on the CPU: loads and "
        "LDS reads land at seeded random moments, waves interleave at random, whatever no wait "
        "guards is poison. Exit code 0 if every run is right, 1 if one is not.",
    )
    add_emission(parser)
    parser.add_argument("--m", type=int, default=256, help="rows of C (default 256)")
    parser.add_argument("--n", type=int, default=256, help="columns of C (default 256)")
    parser.add_argument("--k", type=int, default=512, help="depth of the sums (default 512)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    parser.add_argument(
        "--timings", type=int, default=3, help="how many random timings to run (default 3)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run each seed; a verdict in one line, and what the kernel takes."""
    from rich.console import Console
    from rich.progress import track

    from pipeloom.emit import assemble
    from pipeloom.trial import Launchable, run_gemm

    emitted = emitted_kernel(arguments)
    ready = Launchable.load(emitted, assemble(emitted))
    seeds = range(arguments.seed, arguments.seed + max(arguments.timings, 1))
    progress = Console(stderr=True)
    trials = [
        run_gemm(
            emitted,
            ready,
            M=arguments.m,
            N=arguments.n,
            K=arguments.k,
            seed=seed,
            check_races=not arguments.allow_timing,
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
                "target": emitted.target,
                "resources": str(emitted.resources),
                "runs": len(trials),
                "wrong": [trial.summary() for trial in wrong],
                "instructions": sum(trial.executed for trial in trials),
            }
        )
        return 1 if wrong else 0
    for trial in wrong[:5]:
        print(trial.summary())
    shape = f"M={arguments.m} N={arguments.n} K={arguments.k}"
    verdict = f"WRONG in {len(wrong)} of {len(trials)}" if wrong else "equal to NumPy in all"
    print(f"{emitted.name}, {emitted.target}, {arguments.dtype}, {shape}: {verdict} ", end="")
    print(f"{len(trials)} timings ({sum(t.executed for t in trials)} instructions emulated)")
    print(str(emitted.resources))
    return 1 if wrong else 0
