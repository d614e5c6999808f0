"""Which tile, and which machine, a command means where the spec leaves it open.

A schedule by name is compiled without a tile; a command that counts instructions gives it one.
The element type says how deep the tile is, the machine which matrix instruction it is made of:

    ping_pong      256x256, 128 bytes of K         bf16 on gfx950: BK 64, MMA_K 32
    single_buffer  128x128, at least two MMAs of K bf16 on gfx942: BK 64, MMA_K 16
    gemm_tile      derives its depth itself, from the size of an element and its own machine
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pipeloom.cli.source_file import find_source, is_compiled
from pipeloom.errors import SpecError
from pipeloom.machine.chips import MACHINES, target_for
from pipeloom.machine.target import Target
from pipeloom.plain import key_paths
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.schedules import DEFAULT_TILES, SCHEDULES
from pipeloom.reference.spec import apply_settings
from pipeloom.reference.words import sync_text, tile_text

ELEMENT_BYTES: Mapping[str, int] = MappingProxyType({"bf16": 2, "fp16": 2, "fp8": 1})
"""The element types that ``--tile`` names."""

ROW_BYTES = 128
"""Bytes of K in a row of the tile."""

DMA_BYTES = 16
"""Bytes per lane of the loads that the double-buffered tiles are counted for."""

DERIVES_DEPTH = "gemm_tile"
"""Finds BK and MMA_K itself, from its machine and the size of an element."""


def add_tile(parser: argparse.ArgumentParser, *, default: str = "none") -> None:
    """``--tile``; ``default`` is what a spec without a tile gets where the option is not given.

    It can also be spelt as ``pipeloom emit`` does.
    """
    parser.add_argument(
        "--tile",
        "--dtype",
        choices=("none", *ELEMENT_BYTES),
        help="the tile where the spec names none: 256x256x64 in bf16 or fp16, 256x256x128 in fp8 "
        "(single_buffer: 128x128x64, 128x128x256); 'none' leaves it to the spec and the target's "
        f"counter costs. Default: {default}, and what a schedule has of its own (four_wave: fp8)",
    )
    parser.set_defaults(default_tile=default)


def add_arch(parser: argparse.ArgumentParser) -> None:
    """``--arch`` of a command that runs nothing: what a tile or a depth is derived for."""
    names = ", ".join(machine.arch for machine in MACHINES)
    parser.add_argument(
        "--arch",
        "--target",
        metavar="ARCH",
        help=f"one of {names}: what gemm_tile is derived for, and a --tile made for (default "
        "gfx950, or what the spec says)",
    )
    parser.set_defaults(arch_derives=True)


def tile_for(schedule: str, elements: str, machine: Target) -> dict[str, int]:
    """The ``[geometry]`` of a shipped schedule for elements of this type on this machine."""
    size = ELEMENT_BYTES[elements]
    if schedule == DERIVES_DEPTH:
        return {"elem_bytes": size}
    dtype = "fp8" if size == 1 else "f16"
    depth = max(
        op.k
        for op in machine.matrix_ops
        if (op.m, op.n, op.dtype, op.scaled) == (16, 16, dtype, False)
    )
    rows = ROW_BYTES // size
    if schedule == "single_buffer":
        return {"BK": max(rows, 2 * depth), "MMA_K": depth, "elem_bytes": size}
    widest = machine.dma_max_bytes_per_lane.value
    if widest < DMA_BYTES:
        raise SpecError(
            f"{schedule} loads {DMA_BYTES} bytes per lane straight to LDS, but {machine.arch} "
            f"loads at most {widest}",
            hint=f"for {machine.arch} use single_buffer or gemm_tile; or give a tile whose counts "
            "are made for narrow loads, with geometry.vm_per_load_a and _b",
            field="geometry",
        )
    return {"BK": rows, "MMA_K": depth, "elem_bytes": size}


def with_tile(arguments: argparse.Namespace, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec with the tile that ``--tile``, or the command by default, gives it.

    ``--arch`` is also what gemm_tile is derived for, unless its spec says so itself.
    """
    name, tile = str(data.get("schedule")), given_tile(arguments)
    arch = getattr(arguments, "arch", None)
    if name == DERIVES_DEPTH and arch is not None:
        data = {"arch": target_for(arch).arch, **data}
    if tile == "none":
        return data
    machine = target_for(arch or "gfx950")
    if tile is None:
        default = getattr(arguments, "default_tile", "none")
        if not _gets_default_tile(data, default):
            return data
        return {"geometry": tile_for(name, default, machine), **data}
    if name in SCHEDULES and not _takes_tile(name):
        takers = [schedule for schedule in SCHEDULES if _takes_tile(schedule)]
        raise SpecError(
            f"{name} has no tile shape that --tile could set",
            hint=f"drop --tile; it is for {', '.join(takers)}",
            field="geometry",
        )
    if "geometry" in data:
        raise SpecError(
            f"{arguments.source} names its own tile, which --tile does not replace",
            hint="drop --tile, or change the tile with --set geometry.BK=... and the like",
            field="geometry",
        )
    return {"geometry": tile_for(name, tile, machine), **data}


def machine_of(arguments: argparse.Namespace, data: Mapping[str, Any]) -> Target:
    """The machine to simulate: ``--arch``, else the one that the spec is derived for, else gfx950.

    ``data`` is the spec, or a compiled schedule.
    """
    given: str | None = arguments.arch
    derived = None
    if is_compiled(data):
        derived = data.get("arch")
    elif data.get("schedule") == DERIVES_DEPTH:
        derived = apply_settings(data, arguments.settings).get("arch")
    if given is None or derived is None:
        return target_for(str(given or derived or "gfx950"))
    machine = target_for(given)
    if target_for(str(derived)) is not machine:
        raise SpecError(
            f"{arguments.source} is derived for {derived}, not for {machine.arch}",
            hint="drop --arch, or the spec's own arch",
            field="arch",
        )
    return machine


def tile_header(arguments: argparse.Namespace, compiled: CompiledSchedule) -> str:
    """``ping_pong, 256x256x64 bf16``: what every command says it is about."""
    return f"{compiled.schedule}, {tile_text(compiled, given_tile(arguments))}"


def require_tile(arguments: argparse.Namespace, compiled: CompiledSchedule) -> None:
    """Refuse a schedule that could have a tile and has none, where the figures need one."""
    if compiled.geometry is None and _takes_tile(compiled.schedule):
        raise SpecError(
            f"{arguments.source} has no tile shape, so its ops have no instruction counts",
            hint=_with_a_tile(arguments, compiled),
            field="geometry",
        )


def given_tile(arguments: argparse.Namespace) -> str | None:
    """What ``--tile`` says, where the command has the option and it was given."""
    tile: str | None = getattr(arguments, "tile", None)
    return tile


def say_untiled(compiled: CompiledSchedule) -> None:
    """Warn, where a schedule is written that could have a tile and has none."""
    if compiled.geometry is None and _takes_tile(compiled.schedule):
        print(
            "note: no tile shape: this file can be verified, not simulated or emitted; add "
            "--tile bf16",
            file=sys.stderr,
        )


def say_arch_unused(arguments: argparse.Namespace, data: Mapping[str, Any]) -> None:
    """A note where ``--arch`` only derives and there is nothing to derive for it."""
    if not getattr(arguments, "arch_derives", False) or arguments.arch is None:
        return
    derives = data.get("schedule") == DERIVES_DEPTH or given_tile(arguments) not in (None, "none")
    if is_compiled(data) or not derives:
        print(
            f"note: nothing about {arguments.source} is derived for a chip here, so --arch changes "
            "nothing",
            file=sys.stderr,
        )


def verify_command(arguments: argparse.Namespace) -> str:
    """The ``pipeloom verify`` that is about exactly the schedule of these arguments."""
    words = ["pipeloom", "verify", str(arguments.source)]
    for setting in arguments.settings:
        words += ["--set", setting]
    data = find_source(arguments.source)
    tile, default = given_tile(arguments), getattr(arguments, "default_tile", "none")
    if tile is None and not is_compiled(data) and _gets_default_tile(data, default):
        tile = default
    if tile not in (None, "none"):
        words += ["--tile", str(tile)]
    for option in ("sync", "arch"):
        value = getattr(arguments, option, None)
        if value:
            words += [f"--{option}", value]
    if getattr(arguments, "reorder", False):
        words.append("--reorder")
    return shlex.join(words)


def _with_a_tile(arguments: argparse.Namespace, compiled: CompiledSchedule) -> str:
    """How to get this schedule with a tile; for a compiled file, the command that writes it anew.

    Its notes tell whether its waits were derived, and so which command that is.
    """
    if not is_compiled(find_source(arguments.source)):
        return "give --tile bf16 (or fp16, fp8)"
    made = sync_text(compiled)
    words = ["pipeloom", "fix" if made else "compile", compiled.schedule, "--tile", "bf16"]
    if "barriers kept" in made:
        words.append("--keep-barriers")
    if " moved" in made or " added" in made:
        words.append("--reorder")
    return f"write it anew: {shlex.join([*words, '-o', str(arguments.source)])} (or fp16, fp8)"


def _gets_default_tile(data: Mapping[str, Any], default: str) -> bool:
    return (
        default != "none" and str(data.get("schedule")) in DEFAULT_TILES and "geometry" not in data
    )


def _takes_tile(schedule: str) -> bool:
    return schedule in SCHEDULES and any(
        path.startswith("geometry.") for path in key_paths(SCHEDULES[schedule])
    )
