"""``pipeloom emit``: the schedule as AMD assembly or a loadable code object."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeloom.cli.common import (
    Commands,
    add_json,
    add_source,
    add_sync,
    load_compiled,
    print_json,
    write_file,
)
from pipeloom.errors import SpecError
from pipeloom.spec import find_spec

if TYPE_CHECKING:
    from pipeloom.emit import EmittedKernel

_SHAPE = ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")


def add_parser(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "emit",
        help="write the kernel: AMD assembly (.s) or a code object (.hsaco)",
        description="Emit C[M,N] = A[M,K] B[N,K]^T with exactly the schedule's instructions, waits "
        "and barriers. Only proved schedules are emitted, so --sync is 'proven' here unless you "
        "say otherwise; a TIMING verdict needs --allow-timing, a RACE is never emitted. Nothing "
        "here has run on a GPU: the emulator runs it (pipeloom run).",
    )
    add_emission(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="k.s for assembly, k.hsaco for a code object"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def add_emission(parser: argparse.ArgumentParser) -> None:
    """What emitting commands share: source, target and types."""
    add_source(parser, compiled=True)
    add_sync(parser, default="proven")
    parser.add_argument("--target", default="gfx950", help="gfx950 (default) or gfx942")
    parser.add_argument("--dtype", default="bf16", help="bf16 (default), fp16 or fp8")
    parser.add_argument("--out-dtype", help="bf16, fp16 or f32; like A and B, f32 for fp8")
    parser.add_argument(
        "--allow-timing", action="store_true", help="emit a schedule whose verdict is TIMING"
    )


def emitted_kernel(arguments: argparse.Namespace) -> EmittedKernel:
    """The kernel that the arguments ask for; a spec without a tile gets the default one."""
    from pipeloom.emit import default_geometry, emit_kernel

    data = dict(find_spec(arguments.source))
    name = str(data.get("schedule"))
    tile = default_geometry(name, arguments.target, arguments.dtype)
    if "prologue" not in data and "geometry" not in data and name != "single_buffer":
        data["geometry"] = {field: getattr(tile, field) for field in _SHAPE}
    compiled = load_compiled(arguments, spec=data)
    return emit_kernel(
        compiled,
        target=arguments.target,
        dtype=arguments.dtype,
        out_dtype=arguments.out_dtype,
        geometry=compiled.geometry or tile,
        allow_timing=arguments.allow_timing,
    )


def run(arguments: argparse.Namespace) -> int:
    """Emit and write."""
    from pipeloom.emit import assemble

    suffix = Path(arguments.output).suffix if arguments.output else ".s"
    if suffix not in (".s", ".hsaco"):
        raise SpecError(
            f"{arguments.output} ends in {suffix!r}",
            hint="use .s for assembly or .hsaco for a code object",
        )
    emitted = emitted_kernel(arguments)
    if arguments.output:
        content = emitted.text if suffix == ".s" else assemble(emitted).data
        write_file(arguments.output, content)
    if arguments.json:
        print_json(
            {
                "name": emitted.name,
                "target": emitted.target,
                "resources": str(emitted.resources),
                "lines": emitted.text.count("\n"),
                "output": arguments.output,
            }
        )
    elif arguments.output:
        print(f"{emitted.name} for {emitted.target}: {emitted.resources}")
        print(f"wrote {arguments.output}")
    else:
        sys.stdout.write(emitted.text)
    return 0
