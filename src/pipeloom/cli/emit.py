"""``pipeloom emit``: the schedule as AMD assembly or a loadable code object."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pipeloom import drive
from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import json_text, print_json, say
from pipeloom.cli.source_options import CompiledSource, ShapeOptions, SyncOptions
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.device.images import record_path
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.files import write_file, write_files
from pipeloom.write import EmittedKernel, GateError, assemble


@dataclass(frozen=True)
class EmitOptions(CompiledSource, SyncOptions, ShapeOptions):
    """What emitting commands share: source, target and types."""

    arch: str | None = option("--target --arch --target-file ARCH|FILE.toml")
    """one of {CHIPS}; by default the chip that the schedule is compiled for, and {ANY_CHIP} where
    it is for any"""
    dtype: str | None = option("--dtype")
    """bf16, fp16 or fp8, which also gives the tile; by default that of the schedule's tile, and
    bf16 where it names none"""
    k_tiles: int | None = option("--k-tiles N", type=at_least(1))
    """iterations of a loop that the kernel is derived for; others that it computes are whole trips
    more or less"""
    out_dtype: str | None = option("--out-dtype")
    """bf16, fp16 or f32; like A and B, f32 for fp8"""
    allow_timing: bool = flag()
    """emit a schedule whose verdict is TIMING"""
    timed: bool = flag()
    """every wave records when it began, looped and ended, its trips and where it ran, in a buffer
    that is one argument more; the loop is the same"""

    SYNC: ClassVar = (
        "the fastest proved form: as it is where it is PROVED, repaired or proven, each simulated; "
        "a compiled file that is PROVED stays as it is"
    )

    def emit_job(self) -> EmitJob:
        """The job that the arguments ask for."""
        return EmitJob(
            self.asked(k_tiles=self.k_tiles),
            out_dtype=self.out_dtype,
            allow_timing=self.allow_timing,
            timed=self.timed,
        )


@dataclass(frozen=True)
class EmitCommand(EmitOptions):
    """Emit the kernel with exactly the schedule's instructions, waits and barriers. Only proved
    schedules are emitted, so waits are derived anew here unless you say otherwise; a TIMING
    verdict needs --allow-timing, a RACE is never emitted. Nothing here has run on a GPU: the
    emulator runs it (pipeloom run).

    Examples:
        pipeloom emit ping_pong -o k.s
        pipeloom emit gemm_tile --target gfx942 --dtype fp16 -o k.hsaco
        pipeloom emit ping_pong --timed -o timed.hsaco
    """

    output: str | None = option("-o --output FILE")
    """k.s for assembly, k.hsaco for a code object; k.json beside it says how to launch it,
    k.witness.json why it is right"""
    witness: bool | None = option("--witness", action=argparse.BooleanOptionalAction)
    """beside a code object K.witness.json, what the proof rests on: bytes of LDS by pc, why each
    wait is there (runs the kernel in the emulator); written unless --no-witness"""

    def run(self) -> int:
        """Emit and write."""
        output = Path(self.output or "k.s")
        if (suffix := output.suffix) not in (".s", ".hsaco"):
            raise SpecError(
                f"{self.output} ends in {suffix!r}",
                hint="use .s for assembly or .hsaco for a code object",
            )
        beside = record_path(output) if suffix == ".hsaco" else None
        if self.witness and beside is None:
            raise UsageError("--witness needs a code object: -o K.hsaco")
        found = emit(self.emit_job())
        say(found.notes)
        emitted = found.kernel
        proof = self._witness(emitted) if beside is not None else None
        witness = output.with_suffix(".witness.json") if proof is not None else None
        if beside is not None:
            records = {beside: found.to_dict(), **({} if witness is None else {witness: proof})}
            texts = {path: json_text(record) for path, record in records.items()}
            write_files({output: assemble(emitted).data, **texts})
        elif self.output:
            write_file(self.output, emitted.text)
        if self.json:
            print_json(
                {
                    **found.to_dict(),
                    "lines": emitted.text.count("\n"),
                    "output": self.output,
                    "launch": None if beside is None else str(beside),
                    "witness": None if witness is None else str(witness),
                }
            )
        elif self.output:
            print("\n".join((found.summary(), *cost_line(found), str(emitted.resources))))
            launch = f", and {beside}: how to launch it" if beside else ""
            rests = f", and {witness}: what its proof rests on" if witness else ""
            print(f"wrote {self.output}{launch}{rests}")
        else:
            say(cost_line(found))
            sys.stdout.write(emitted.text)
        return 0

    def _witness(self, emitted: EmittedKernel) -> dict[str, Any] | None:
        """``k.witness.json``; a kernel that the witness finds wrong is not written.

        What cannot be run says why, and only fails where it was asked for.
        """
        if self.witness is False:
            return None
        try:
            return drive.witnessing.emitted_witness(emitted, allow_timing=self.allow_timing)
        except GateError:
            raise
        except ScheduleError as error:
            if self.witness:
                raise
            say((f"no witness was written: {error.message}",))
            return None


def cost_line(found: Emission) -> tuple[str, ...]:
    """What the chosen form costs, where one was chosen."""
    return () if found.choice is None else (f"{found.sync}: {found.choice.cost()}",)
