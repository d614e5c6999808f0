"""``pipeloom emit``: the schedule as AMD assembly or a loadable code object."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pipeloom import drive
from pipeloom.cli.common import source_of
from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import json_text, print_json, say
from pipeloom.cli.source_options import CHIPS, SHAPE, source, sync
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.device.images import record_path
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.files import write_file, write_files
from pipeloom.machine.chips import ANY_CHIP
from pipeloom.write import EmittedKernel, GateError, assemble

CHOSEN_SYNC = (
    "the fastest proved form: as it is where it is PROVED, repaired or proven, each simulated; a "
    "compiled file that is PROVED stays as it is"
)


EMISSION = (
    source(compiled=True),
    sync(default=CHOSEN_SYNC),
    option(
        "--target --arch --target-file ARCH|FILE.toml",
        f"one of {CHIPS}; by default the chip that the schedule is compiled for, and {ANY_CHIP} "
        "where it is for any",
        dest="arch",
    ),
    option(
        "--dtype",
        "bf16, fp16 or fp8, which also gives the tile; by default that of the schedule's tile, "
        "and bf16 where it names none",
    ),
    SHAPE,
    option(
        "--k-tiles N",
        "iterations of a loop that the kernel is derived for; others that it computes are whole "
        "trips more or less",
        type=at_least(1),
    ),
    option("--out-dtype", "bf16, fp16 or f32; like A and B, f32 for fp8"),
    flag("--allow-timing", "emit a schedule whose verdict is TIMING"),
    flag(
        "--timed",
        "every wave records when it began, looped and ended, its trips and where it ran, in a "
        "buffer that is one argument more; the loop is the same",
    ),
)
"""What emitting commands share: source, target and types."""

USAGE = CommandUsage(
    "Emit the kernel with exactly the schedule's instructions, waits and barriers. Only "
    "proved schedules are emitted, so waits are derived anew here unless "
    "you say otherwise; a TIMING verdict needs --allow-timing, a RACE is never emitted. "
    "Nothing here has run on a GPU: the emulator runs it (pipeloom run).",
    (
        EMISSION,
        option(
            "-o --output FILE",
            "k.s for assembly, k.hsaco for a code object; k.json beside it says how to launch it, "
            "k.witness.json why it is right",
        ),
        option(
            "--witness",
            "beside a code object K.witness.json, what the proof rests on: bytes of LDS by pc, "
            "why each wait is there (runs the kernel in the emulator); written unless --no-witness",
            action=argparse.BooleanOptionalAction,
        ),
        JSON,
    ),
    examples=(
        "pipeloom emit ping_pong -o k.s",
        "pipeloom emit gemm_tile --target gfx942 --dtype fp16 -o k.hsaco",
        "pipeloom emit ping_pong --timed -o timed.hsaco",
    ),
)


def emit_job(arguments: argparse.Namespace) -> EmitJob:
    """The job that the arguments ask for."""
    return EmitJob(
        source_of(arguments, k_tiles=arguments.k_tiles),
        out_dtype=arguments.out_dtype,
        allow_timing=arguments.allow_timing,
        timed=arguments.timed,
    )


def cost_line(found: Emission) -> tuple[str, ...]:
    """What the chosen form costs, where one was chosen."""
    return () if found.choice is None else (f"{found.sync}: {found.choice.cost()}",)


def run(arguments: argparse.Namespace) -> int:
    """Emit and write."""
    suffix = Path(arguments.output).suffix if arguments.output else ".s"
    if suffix not in (".s", ".hsaco"):
        raise SpecError(
            f"{arguments.output} ends in {suffix!r}",
            hint="use .s for assembly or .hsaco for a code object",
        )
    beside = record_path(arguments.output) if suffix == ".hsaco" else None
    if arguments.witness and beside is None:
        raise UsageError("--witness needs a code object: -o K.hsaco")
    found = emit(emit_job(arguments))
    say(found.notes)
    emitted = found.kernel
    proof = _witness(arguments, emitted) if beside is not None else None
    witness = Path(arguments.output).with_suffix(".witness.json") if proof is not None else None
    if beside is not None:
        records = {beside: found.to_dict(), **({} if witness is None else {witness: proof})}
        texts = {path: json_text(record) for path, record in records.items()}
        write_files({Path(arguments.output): assemble(emitted).data, **texts})
    elif arguments.output:
        write_file(arguments.output, emitted.text)
    if arguments.json:
        print_json(
            {
                **found.to_dict(),
                "lines": emitted.text.count("\n"),
                "output": arguments.output,
                "launch": None if beside is None else str(beside),
                "witness": None if witness is None else str(witness),
            }
        )
    elif arguments.output:
        print("\n".join((found.summary(), *cost_line(found), str(emitted.resources))))
        launch = f", and {beside}: how to launch it" if beside else ""
        rests = f", and {witness}: what its proof rests on" if witness else ""
        print(f"wrote {arguments.output}{launch}{rests}")
    else:
        say(cost_line(found))
        sys.stdout.write(emitted.text)
    return 0


def _witness(arguments: argparse.Namespace, emitted: EmittedKernel) -> dict[str, Any] | None:
    """``k.witness.json``; a kernel that the witness finds wrong is not written.

    What cannot be run says why, and only fails where it was asked for.
    """
    if arguments.witness is False:
        return None
    try:
        return drive.witnessing.emitted_witness(emitted, allow_timing=arguments.allow_timing)
    except GateError:
        raise
    except ScheduleError as error:
        if arguments.witness:
            raise
        say((f"no witness was written: {error.message}",))
        return None
