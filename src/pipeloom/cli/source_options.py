"""What commands on a source take: which it is, its tile, its waits, the machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import get_args

from pipeloom.cli.options import REPEATED, Option, flag, grouped, option
from pipeloom.drive.loops import SHORT, SHORT_OPTIONS
from pipeloom.drive.tiling import TYPES, read_tile
from pipeloom.judge.simulate.issued import ITERATIONS
from pipeloom.machine.chips import ANY_CHIP, TARGETS
from pipeloom.reference.compiler import Sync

CHIPS = ", ".join(machine.arch for machine in TARGETS)


def source(
    *, compiled: bool = False, required: bool = True, short: bool = True
) -> tuple[Option, ...]:
    """``NAME|SPEC``, ``--set`` and ``--waves``; with ``compiled`` also what ``compile`` wrote.

    ``short`` adds what is short for settings of some loop, where the command takes it.
    """
    text = (
        "what is shipped (pipeloom list), a .json or .toml spec file, or a declaration of your "
        "own: my.py:Name"
    )
    found = (
        option(
            "source",
            f"{text}, or a compiled schedule" if compiled else text,
            metavar="NAME|SPEC|COMPILED.json|MY.py:NAME" if compiled else "NAME|SPEC|MY.py:NAME",
            nargs=None if required else "?",
        ),
        option(
            "--set KEY=VALUE",
            "change one key of the spec, by path or by its last part if unique (repeatable): "
            "--set scheduling=csp --set target.latency.MMA=32",
            dest="settings",
            **REPEATED,
        ),
        option(
            "--waves N",
            "waves of a loop (gemm_tile, attention, or my.py:name): default 4, of attention 8",
            type=int,
        ),
    )
    return (*found, *_short()) if short else found


def _short() -> Iterator[Option]:
    """What is short for a setting, in a group for each loop that has such."""
    for name, (owner, one) in SHORT_OPTIONS.items():
        what = one.metadata[SHORT]
        if isinstance(one.default, bool):
            text = ": ".join(filter(None, (what, f"short for --set {name}=true")))
            made = flag(f"--{name}", text, default=None)
        else:
            text = ": ".join(filter(None, (what, f"short for --set {name}=N")))
            made = option(f"--{name} N", text, type=type(one.default))
        yield from grouped(owner, made)


LAUNCH = (
    option(
        "--launch LAUNCH.json",
        "of a kernel file (.hsaco, .co, .o, .s): grid, block and arguments; pipeloom check "
        "FILE --template writes one to fill in",
        action="append",
    ),
    option("--kernel NAME", "which, where a kernel file holds several"),
)


MEASURED = option(
    "--measured FOLDER",
    "a thread trace that rocprofv3 --att wrote, laid over the simulation of what its waves "
    "executed; with a schedule, the trace must be of the kernel that emit writes of it",
)


def sync(*, default: str = "reference") -> tuple[Option, ...]:
    """``--sync`` and ``--reorder``; ``default`` says in words what is taken where neither is."""
    return (
        option(
            "--sync",
            "whose waits and barriers: the specification's (reference); those that follow from "
            "the dependences alone (proven); or the specification's barriers with waits that "
            f"follow (repaired). The last two are proved free of races. Default: {default}",
            choices=get_args(Sync),
        ),
        flag(
            "--reorder",
            "with --sync proven or repaired: move the fewest ops where no synchronisation can "
            "save the order",
        ),
    )


def _tile(text: str) -> str:
    """An argparse type: MxNxK; an element type, which the option once named, is left as it is."""
    if text not in TYPES and read_tile(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not MxNxK, as 256x256x64; --dtype names the element type"
        )
    return text


SHAPE = option(
    "--tile MxNxK",
    "the tile of one workgroup and iteration, as 256x256x64: short for --set geometry.BM=256 and "
    "so on",
    type=_tile,
)
"""As it once named a type, it still may."""


def tile(*, default: str = "none") -> tuple[Option, ...]:
    """``--tile`` and ``--dtype``; ``default`` is the type of a spec without a tile.

    It can also be spelt as ``pipeloom emit`` does.
    """
    return (
        SHAPE,
        option(
            "--dtype",
            "the elements of the tile where the spec names none: 256x256x64 in bf16 or fp16, "
            "256x256x128 in fp8 (single_buffer: 128x128x64, 128x128x256); 'none' leaves it to the "
            f"spec and the target's counter costs. Default: {default}, and what a schedule has of "
            "its own (four_wave: fp8)",
            choices=TYPES,
        ),
        Option((), {"default_tile": default}),
    )


ARCH = option(
    "--arch --target --target-file ARCH|FILE.toml",
    f"one of {CHIPS}, or a chip file of pipeloom calibrate: the chip that gemm_tile is "
    f"derived for and that the default tile is of (default {ANY_CHIP}, or what the spec says)",
)
"""Of a command that runs nothing: what a tile or a depth is derived for."""

MACHINE = (
    option(
        "--arch --target --target-file ARCH|FILE.toml",
        f"one of {CHIPS} (default {ANY_CHIP}, or what the spec is derived for), or a chip file "
        "that pipeloom calibrate wrote",
    ),
    option(
        "--k-tiles N",
        f"K tiles to sum (default {ITERATIONS}, or the next number that the kernel can sum)",
        type=int,
    ),
    option("--jitter", "stretch each load by up to this share (0)", type=float, default=0.0),
    option("--seed", "seed of the jitter (0)", type=int, default=0),
)
"""The machine, the problem's K, jitter."""

EMITTED = (
    flag(
        "--emitted",
        "emit the kernel and simulate its own instructions: address arithmetic, wait states, "
        "setup and the store of C included. The fastest proved form unless --sync is given, "
        "because only proved schedules are emitted",
    ),
    flag("--allow-timing", "with --emitted: also emit a schedule whose verdict is TIMING"),
)
"""The real instruction stream."""

PROBLEM = tuple(
    option(
        f"--{name.lower()} {name}",
        f"{name} of a whole problem: with --m, --n and --k a model of its TFLOPS",
        type=int,
    )
    for name in "MNK"
)
"""The problem for the whole-GPU estimate."""
