"""What commands on a source take: which it is, its tile, its waits, the machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pipeloom import drive
from pipeloom.cli.common import note_search, search_teller
from pipeloom.cli.options import Command, Option, argument, flag, option, repeated, several
from pipeloom.cli.printing import say
from pipeloom.cli.usage import UsageError
from pipeloom.drive.loops import SHORT, SHORT_OPTIONS
from pipeloom.drive.opening import Opened, open_source
from pipeloom.drive.simulating import SimulateJob, prepare
from pipeloom.drive.sources import FORMS, Source
from pipeloom.drive.tiling import TYPES, read_tile
from pipeloom.judge.simulate.issued import ITERATIONS
from pipeloom.machine import chips
from pipeloom.machine.chip_file import chip_named
from pipeloom.reference.compiler import Sync

if TYPE_CHECKING:
    from pipeloom.thread_trace import Overlay


def _short() -> dict[str, Option]:
    """What is short for a setting, in a group for each loop that has such."""
    found = {}
    for name, (owner, one) in SHORT_OPTIONS.items():
        switch = isinstance(one.default, bool)
        short = f"short for --set {name}={'true' if switch else 'N'}"
        text = ": ".join(filter(None, (one.metadata[SHORT], short)))
        how: dict[str, Any] = {"type": type(one.default), "metavar": "N"}
        how = {"action": "store_true", "default": None} if switch else how
        found[name] = Option((f"--{name}",), how, owner, text)
    return found


@dataclass(frozen=True)
class ChipOptions(Command):
    """Of a command that may be told a chip: which there are."""

    CHIPS: ClassVar = ", ".join(machine.arch for machine in chips.TARGETS)
    ANY_CHIP: ClassVar = chips.ANY_CHIP


@dataclass(frozen=True)
class SpecSource(ChipOptions):
    """What is named, and what is changed of it."""

    source: str = argument("NAME|SPEC|MY.py:NAME")
    """what is shipped (pipeloom list), a .json or .toml spec file, or a declaration of your own:
    my.py:Name"""
    settings: tuple[str, ...] = repeated("--set KEY=VALUE")
    """change one key of the spec, by path or by its last part if unique (repeatable): --set
    scheduling=csp --set target.latency.MMA=32"""
    waves: int | None = option("--waves N")
    """waves of a loop (gemm_tile, attention, or my.py:name): default 4, of attention 8"""

    @property
    def named(self) -> str:
        """The source, as hints name it."""
        return self.source

    def asked(self, **changes: Any) -> Source:
        """The source that is named, with the options that the command has."""
        names = ("tile", "dtype", "arch", "sync", "reorder", "waves")
        given = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if isinstance(self, TileOptions):
            given["default_tile"] = self.TILE
        if "arch" in given:
            given["arch"] = chip_named(given["arch"])
        told = search_teller(self) if sys.stderr.isatty() else note_search
        settings = (*self.settings, *self.short_settings())
        source = Source(self.source, settings, progress=told, **{**given, **changes})
        if source.reorder and source.sync in (None, "reference"):
            raise UsageError("--reorder needs --sync proven or --sync repaired")
        return source

    def short_settings(self) -> Iterator[str]:
        """Settings that the command has options of their own for."""
        return iter(())

    def opened(self) -> Opened:
        """What is named; the best so far where Ctrl-C ended the search."""
        found = open_source(self.asked(), keep_interrupted=True)
        say((*found.arch_unused(), *found.notes()))
        return found


@dataclass(frozen=True)
class SourceOptions(SpecSource):
    """With what is short for settings of some loop."""

    short: Mapping[str, Any] = several(_short)

    def short_settings(self) -> Iterator[str]:
        """Options of some loop as settings; refused where a shipped name has no such key."""
        for name, value in self.short.items():
            form = FORMS.get(self.source)
            if form is not None and name not in {one.name for one in fields(form)}:
                owner, _ = SHORT_OPTIONS[name]
                raise UsageError(f"--{name} is for {owner}, and {self.source} is none")
            yield f"{name}={json.dumps(value)}"


@dataclass(frozen=True)
class CompiledSource(SourceOptions):
    """Also what ``pipeloom compile`` wrote."""

    source: str = argument("NAME|SPEC|COMPILED.json|MY.py:NAME")
    """what is shipped (pipeloom list), a .json or .toml spec file, or a declaration of your own:
    my.py:Name, or a compiled schedule"""


def tile_type(text: str) -> str:
    """An argparse type: MxNxK; an element type, which the option once named, is left as it is."""
    if text not in TYPES and read_tile(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not MxNxK, as 256x256x64; --dtype names the element type"
        )
    return text


@dataclass(frozen=True)
class ShapeOptions(Command):
    """The tile, which as it once named a type still may."""

    tile: str | None = option("--tile MxNxK", type=tile_type)
    """the tile of one workgroup and iteration, as 256x256x64: short for --set geometry.BM=256 and
    so on"""


@dataclass(frozen=True)
class TileOptions(ShapeOptions):
    """The tile and its type."""

    dtype: str | None = option("--dtype", choices=TYPES)
    """the elements of the tile where the spec names none: 256x256x64 in bf16 or fp16, 256x256x128
    in fp8 (single_buffer: 128x128x64, 128x128x256); 'none' leaves it to the spec and the target's
    counter costs. Default: {TILE}, and what a schedule has of its own (four_wave: fp8)"""

    TILE: ClassVar = "none"
    """The type of a spec without a tile."""


@dataclass(frozen=True)
class SyncOptions(Command):
    """Waits and barriers."""

    sync: Sync | None = option("--sync", choices=get_args(Sync))
    """whose waits and barriers: the specification's (reference); those that follow from the
    dependences alone (proven); or the specification's barriers with waits that follow (repaired).
    The last two are proved free of races. Default: {SYNC}"""
    reorder: bool = flag()
    """with --sync proven or repaired: move the fewest ops where no synchronisation can save the
    order"""

    SYNC: ClassVar = "reference"
    """What is taken where neither is given, in words."""


@dataclass(frozen=True)
class ArchOptions(ChipOptions):
    """Of a command that runs nothing: what a tile or a depth is derived for."""

    arch: str | None = option("--arch --target --target-file ARCH|FILE.toml")
    """one of {CHIPS}, or a chip file of pipeloom calibrate: the chip that gemm_tile is derived for
    and that the default tile is of (default {ANY_CHIP}, or what the spec says)"""


@dataclass(frozen=True)
class MachineOptions(ChipOptions):
    """The machine, the problem's K, jitter."""

    arch: str | None = option("--arch --target --target-file ARCH|FILE.toml")
    """one of {CHIPS} (default {ANY_CHIP}, or what the spec is derived for), or a chip file that
    pipeloom calibrate wrote"""
    k_tiles: int | None = option("--k-tiles N")
    """K tiles to sum (default {USUAL_TILES}, or the next number that the kernel can sum)"""
    jitter: float = option("--jitter", 0.0)
    """stretch each load by up to this share (0)"""
    seed: int = option("--seed", 0)
    """seed of the jitter (0)"""

    USUAL_TILES: ClassVar = ITERATIONS


@dataclass(frozen=True)
class EmittedOptions(Command):
    """The real instruction stream."""

    emitted: bool = flag()
    """emit the kernel and simulate its own instructions: address arithmetic, wait states, setup and
    the store of C included. The fastest proved form unless --sync is given, because only proved
    schedules are emitted"""
    allow_timing: bool = flag()
    """with --emitted: also emit a schedule whose verdict is TIMING"""


@dataclass(frozen=True)
class ProblemOptions(Command):
    """The problem for the whole-GPU estimate."""

    m: int | None = option("--m M")
    """M of a whole problem: with --m, --n and --k a model of its TFLOPS"""
    n: int | None = option("--n N")
    """N of a whole problem: with --m, --n and --k a model of its TFLOPS"""
    k: int | None = option("--k K")
    """K of a whole problem: with --m, --n and --k a model of its TFLOPS"""


@dataclass(frozen=True)
class SimulatedSource(CompiledSource, TileOptions, SyncOptions, EmittedOptions, MachineOptions):
    """What is simulated, and how; a command has other things that it can be given instead."""

    source: str = argument("NAME|SPEC|COMPILED.json|MY.py:NAME", "", nargs="?")
    """what is shipped (pipeloom list), a .json or .toml spec file, or a declaration of your own:
    my.py:Name, or a compiled schedule"""

    TILE: ClassVar = "bf16"

    def simulate_job(self) -> SimulateJob:
        """The job that the arguments ask for."""
        problem = (self.m, self.n, self.k) if isinstance(self, ProblemOptions) else (None,) * 3
        return self.job(SimulateJob, source=self.asked(), problem=problem)


@dataclass(frozen=True)
class LaunchOptions(Command):
    """Kernels that others wrote."""

    launch: tuple[str, ...] = repeated("--launch LAUNCH.json")
    """of a kernel file (.hsaco, .co, .o, .s): grid, block and arguments; pipeloom check FILE
    --template writes one to fill in"""
    kernel: str | None = option("--kernel NAME")
    """which, where a kernel file holds several"""


@dataclass(frozen=True)
class MeasuredSource(SimulatedSource, LaunchOptions):
    """What is simulated, of a kernel file too, or what a GPU measured."""

    measured: str = option("--measured FOLDER", "")
    """a thread trace that rocprofv3 --att wrote, laid over the simulation of what its waves
    executed; with a schedule, the trace must be of the kernel that emit writes of it"""

    def measured_overlay(self) -> Overlay:
        """A thread trace, laid over the simulation; of the named kernel, where one is named."""
        if self.launch:
            raise UsageError("--measured needs no --launch: the trace says what ran")
        if not self.source:
            return drive.measuring.lay_over_trace(self.measured, machine=chip_named(self.arch))
        job = replace(self.simulate_job(), emitted=True)
        return drive.measuring.lay_over_trace(self.measured, of=prepare(job).emission)
