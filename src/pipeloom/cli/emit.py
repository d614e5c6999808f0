"""``pipeloom emit``: the schedule as AMD assembly or a loadable code object."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeloom import __version__
from pipeloom.cli.common import (
    add_json,
    add_source,
    add_sync,
    load_compiled,
    print_json,
    read_compiled,
    write_file,
)
from pipeloom.cli.source_file import find_source, is_compiled
from pipeloom.cli.tile import DERIVES_DEPTH, ELEMENT_BYTES, require_tile, tile_for
from pipeloom.errors import OrderError, SpecError
from pipeloom.machine.chips import target_for
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import Sync
from pipeloom.reference.ops import Phase
from pipeloom.reference.schedules import DEFAULT_TILES
from pipeloom.reference.spec import apply_settings, load_spec
from pipeloom.reference.verdict import verify
from pipeloom.reference.words import changes_text

if TYPE_CHECKING:
    from pipeloom.write import EmittedKernel

ANY_CHIP = "gfx950"
"""The target of a schedule that suits several, where none is given."""

CHOSEN_SYNC = (
    "first repaired with reordering; proven if that fails; a compiled file that is PROVED stays as "
    "it is"
)
_SHAPE = ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Emit C[M,N] = A[M,K] B[N,K]^T with exactly the schedule's instructions, waits "
        "and barriers. Only proved schedules are emitted, so waits are derived anew here unless "
        "you say otherwise; a TIMING verdict needs --allow-timing, a RACE is never emitted. "
        "Nothing here has run on a GPU: the emulator runs it (pipeloom run)."
    )
    add_emission(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="k.s for assembly, k.hsaco for a code object; k.json beside it says how to launch it",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def add_emission(parser: argparse.ArgumentParser) -> None:
    """What emitting commands share: source, target and types."""
    add_source(parser, compiled=True)
    add_sync(parser, default=CHOSEN_SYNC)
    parser.add_argument(
        "--target",
        "--arch",
        metavar="ARCH",
        dest="target",
        help="gfx950 or gfx942; by default the chip that the schedule is compiled for, and gfx950 "
        "where it is for any",
    )
    parser.add_argument(
        "--dtype",
        "--tile",
        dest="dtype",
        help="bf16, fp16 or fp8, which also gives the tile; by default that of the schedule's "
        "tile, and bf16 where it names none",
    )
    parser.add_argument("--out-dtype", help="bf16, fp16 or f32; like A and B, f32 for fp8")
    parser.add_argument(
        "--allow-timing", action="store_true", help="emit a schedule whose verdict is TIMING"
    )


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel, the schedule it is of, and whose waits and barriers that has."""

    kernel: EmittedKernel
    compiled: CompiledSchedule
    sync: str

    @property
    def tile(self) -> str:
        """``256x256x64 bf16``."""
        shape = self.kernel.geometry
        return "" if shape is None else f"{shape.BM}x{shape.BN}x{shape.BK} {self.kernel.dtype}"

    def summary(self) -> str:
        """One line: what, for what, how synchronised, with which verdict."""
        kernel = self.kernel
        counts = self.compiled.counts(Phase.KERNEL)
        changes = changes_text(self.compiled)
        return (
            f"{kernel.name} for {kernel.target}, {self.tile}: {self.sync}, {counts.barriers} "
            f"barriers per iteration, {kernel.status.name}" + (changes and f"; {changes}")
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as data, and how to launch the kernel."""
        from pipeloom.write import launch_record

        return {
            **launch_record(self.kernel),
            "pipeloom": __version__,
            "sync": self.sync,
            "barriers": self.compiled.counts(Phase.KERNEL).barriers,
        }


def emission(arguments: argparse.Namespace, k: int | None = None) -> Emission:
    """The kernel that the arguments ask for.

    A spec without a tile gets that of its dtype, one for a chip yet unnamed that of the target, and
    one whose depth is derived is for ``k`` where it is a number of whole K tiles.
    """
    from pipeloom.write import EMITTERS, default_geometry, emit_kernel

    data = dict(find_source(arguments.source))
    name = str(data.get("schedule"))
    if name in EMITTERS:
        tile = default_geometry(name, arguments.target or ANY_CHIP, arguments.dtype or "bf16")
        own = name not in DEFAULT_TILES and arguments.dtype is None
        if not is_compiled(data) and "geometry" not in data and not own:
            fields = ("elem_bytes",) if name == DERIVES_DEPTH else _SHAPE
            data["geometry"] = {field: getattr(tile, field) for field in fields}
        if name == DERIVES_DEPTH and not is_compiled(data):
            data = _fitted(arguments, data, k)
        if is_compiled(data):
            require_tile(arguments, read_compiled(arguments, data))
    compiled, sync = _synchronized(arguments, data)
    if name in EMITTERS:
        require_tile(arguments, compiled)
    kernel = emit_kernel(
        compiled,
        target=arguments.target or compiled.arch or ANY_CHIP,
        dtype=_dtype(arguments, compiled),
        out_dtype=arguments.out_dtype,
        allow_timing=arguments.allow_timing,
    )
    return Emission(kernel, compiled, sync)


def _fitted(
    arguments: argparse.Namespace, data: Mapping[str, Any], k: int | None
) -> dict[str, Any]:
    """The spec of a modulo schedule for the target and the K at hand, where it leaves them open."""
    fitted = dict(data)
    if arguments.target:
        fitted.setdefault("arch", arguments.target)
    if k is not None:
        shape = load_spec(apply_settings(fitted, arguments.settings)).geometry()
        if shape is not None and k >= shape.BK and k % shape.BK == 0:
            fitted.setdefault("k_tiles", k // shape.BK)
    return fitted


def _synchronized(
    arguments: argparse.Namespace, data: Mapping[str, Any]
) -> tuple[CompiledSchedule, str]:
    """The schedule and whose waits it has.

    Where ``--sync`` is not given: a compiled file that is proved as it is; else the barriers kept
    and the waits derived, which is the faster of the two; else both derived.
    """
    if arguments.sync is not None:
        return load_compiled(arguments, spec=data), f"sync {arguments.sync}"
    if data.get("schedule") == DERIVES_DEPTH and not is_compiled(data):
        return _load(arguments, data, "reference", reorder=False), "sync as derived"
    if is_compiled(data):
        compiled = read_compiled(arguments, data)
        if verify(compiled).proved:
            return compiled, "sync as compiled"
    try:
        return _load(arguments, data, "repaired", reorder=True), "sync repaired"
    except OrderError as error:
        print(
            f"note: the barriers cannot be kept ({error.message}), so they are derived too",
            file=sys.stderr,
        )
    return _load(arguments, data, "proven", reorder=arguments.reorder), "sync proven"


def _load(
    arguments: argparse.Namespace, data: Mapping[str, Any], sync: Sync, *, reorder: bool
) -> CompiledSchedule:
    chosen = argparse.Namespace(**{**vars(arguments), "sync": sync, "reorder": reorder})
    return load_compiled(chosen, spec=data)


def _dtype(arguments: argparse.Namespace, compiled: CompiledSchedule) -> str:
    """``--dtype``, checked against the tile; where not given the type that the tile holds."""
    given: str | None = arguments.dtype
    shape = compiled.geometry
    if shape is None:
        return given or "bf16"
    fitting = [name for name, size in ELEMENT_BYTES.items() if size == shape.elem_bytes]
    if given is None:
        return fitting[0] if fitting else "bf16"
    if given in ELEMENT_BYTES and given not in fitting:
        raise SpecError(
            f"the tile of {arguments.source} holds elements of {shape.elem_bytes} byte(s), but "
            f"{given} has {ELEMENT_BYTES[given]}",
            hint=f"emit it with --dtype {' or '.join(fitting)}, or {_retiled(arguments, compiled)}",
            field="dtype",
        )
    return given


def _retiled(arguments: argparse.Namespace, compiled: CompiledSchedule) -> str:
    """How this schedule gets a tile of ``--dtype``: a compiled file anew, a spec by its keys."""
    if is_compiled(find_source(arguments.source)):
        return (
            f"compile it anew: pipeloom compile {compiled.schedule} --tile {arguments.dtype} -o "
            f"{arguments.source}"
        )
    machine = target_for(arguments.target or compiled.arch or ANY_CHIP)
    shape = tile_for(compiled.schedule, arguments.dtype, machine)
    keys = " ".join(f"--set geometry.{key}={value}" for key, value in shape.items())
    return f"change its tile: {keys}"


def run(arguments: argparse.Namespace) -> int:
    """Emit and write."""
    from pipeloom.write import assemble

    suffix = Path(arguments.output).suffix if arguments.output else ".s"
    if suffix not in (".s", ".hsaco"):
        raise SpecError(
            f"{arguments.output} ends in {suffix!r}",
            hint="use .s for assembly or .hsaco for a code object",
        )
    beside = _sidecar(arguments.output) if suffix == ".hsaco" else None
    found = emission(arguments)
    emitted = found.kernel
    if arguments.output:
        content = emitted.text if suffix == ".s" else assemble(emitted).data
        write_file(arguments.output, content)
    if beside is not None:
        write_file(beside, json.dumps(found.to_dict(), indent=1, sort_keys=True) + "\n")
    if arguments.json:
        print_json(
            {
                **found.to_dict(),
                "lines": emitted.text.count("\n"),
                "output": arguments.output,
                "launch": None if beside is None else str(beside),
            }
        )
    elif arguments.output:
        print(found.summary())
        print(emitted.resources)
        print(f"wrote {arguments.output}" + (f", and {beside}: how to launch it" if beside else ""))
    else:
        sys.stdout.write(emitted.text)
    return 0


def _sidecar(output: str) -> Path:
    """``k.json`` of ``k.hsaco``; a file of that name that is something else is not replaced."""
    from pipeloom.write import LAUNCH_FORMAT

    path = Path(output).with_suffix(".json")
    if path.is_file() and LAUNCH_FORMAT not in path.read_text(errors="replace"):
        raise SpecError(
            f"how to launch {output} would be written to {path}, which is something else",
            hint="choose another name for the code object, or move that file away",
        )
    return path
