"""What the simulating commands share: machine, K, jitter, the emitted kernel, the whole problem."""

from __future__ import annotations

import argparse

from pipeloom.cli.common import source_of
from pipeloom.drive.simulating import SimulateJob
from pipeloom.judge.simulate.issued import ITERATIONS
from pipeloom.machine.chips import TARGETS


def add_machine(parser: argparse.ArgumentParser) -> None:
    """The machine, the problem's K, jitter."""
    names = ", ".join(machine.arch for machine in TARGETS)
    parser.add_argument(
        "--arch",
        "--target",
        metavar="ARCH",
        help=f"one of {names} (default gfx950, or what the spec is derived for)",
    )
    parser.add_argument(
        "--k-tiles",
        type=int,
        metavar="N",
        help=f"K tiles to sum (default {ITERATIONS}, or the next number that the kernel can sum)",
    )
    parser.add_argument(
        "--jitter", type=float, default=0.0, help="stretch each load by up to this share (0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the jitter (0)")


def add_emitted(parser: argparse.ArgumentParser) -> None:
    """``--emitted``: the real instruction stream."""
    parser.add_argument(
        "--emitted",
        action="store_true",
        help="emit the kernel and simulate its own instructions: address arithmetic, wait states, "
        "setup and the store of C included. The fastest proved form unless --sync is given, "
        "because only proved schedules are emitted",
    )
    parser.add_argument(
        "--allow-timing",
        action="store_true",
        help="with --emitted: also emit a schedule whose verdict is TIMING",
    )


def add_problem(parser: argparse.ArgumentParser) -> None:
    """The problem for the whole-GPU estimate."""
    for name in ("m", "n", "k"):
        parser.add_argument(
            f"--{name}",
            type=int,
            metavar=name.upper(),
            help=f"{name.upper()} of a whole problem: with --m, --n and --k a model of its TFLOPS",
        )


def simulate_job(arguments: argparse.Namespace) -> SimulateJob:
    """The job that the arguments ask for."""
    problem = [getattr(arguments, name, None) for name in ("m", "n", "k")]
    return SimulateJob(
        source_of(arguments),
        k_tiles=arguments.k_tiles,
        jitter=arguments.jitter,
        seed=arguments.seed,
        emitted=arguments.emitted,
        allow_timing=arguments.allow_timing,
        problem=(problem[0], problem[1], problem[2]),
    )
