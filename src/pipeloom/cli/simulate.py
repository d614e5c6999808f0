"""``pipeloom simulate``: cycles, stalls and a timeline.

The text of ``--stream``: given as it is, in a file, or on standard input.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeloom.cli.common import verify_command
from pipeloom.cli.options import flag, option
from pipeloom.cli.printing import print_json, say
from pipeloom.cli.source_options import ProblemOptions, SimulatedSource
from pipeloom.cli.usage import UsageError, at_least
from pipeloom.drive.simulating import Simulation, prepare
from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading
from pipeloom.judge.simulate import Trace, simulate_stream
from pipeloom.judge.simulate.stream import StreamError
from pipeloom.judge.verify import Status
from pipeloom.machine.chip_file import chip_named
from pipeloom.machine.chips import ANY_CHIP
from pipeloom.show.console import TerminalConsole
from pipeloom.show.timeline import render_estimate, render_trace
from pipeloom.show.verdict_text import verdict_line

_LOOKS_LIKE_A_PATH = re.compile(r"\S*[/\\]\S*|\S+\.[A-Za-z]\w*")


STREAM: Mapping[str, Any] = MappingProxyType(
    {
        "mfma": None,
        "waves_per_simd": 1,
        "stagger": False,
        "iterations": 24,
        "lds_conflict": 1.0,
    }
)
"""Options of a stream alone, with their defaults; the machine has a default for ``mfma``."""

HAND_WRITTEN = "a hand-written loop instead of a schedule"
"""The heading of its options."""

LONGEST_CYCLES = 9
"""Digits of a cycle count; longer ones are taken as a name, and no MFMA has it."""

STREAM_HINTS = (
    ("waves_per_simd", "--waves-per-simd"),
    ("stagger=False", "no --stagger"),
    ("lds_conflict", "--lds-conflict"),
)
"""What a hint of the library says, and what this command calls it."""


@dataclass(frozen=True)
class SimulateCommand(SimulatedSource, ProblemOptions):
    """Run one workgroup on a model of one compute unit, built from public measurements
    (docs/performance-model.md says how far to trust it). A schedule without a tile shape is
    simulated for a bf16 tile. With --emitted, the instructions of the emitted kernel. With
    --stream, a hand-written loop: pipeloom simulate --stream "wv10 B R8 G2 wl0 B M16 branch"
    --waves-per-simd 2 --stagger

    Examples:
        pipeloom simulate ping_pong
        pipeloom simulate ping_pong --emitted --m 4096 --n 4096 --k 4096
        pipeloom simulate --stream "wv10 B R8 G2 wl0 B M16 branch" --waves-per-simd 2 --stagger
    """

    stream: str | None = option("--stream TEXT|FILE|-", group=HAND_WRITTEN)
    """the loop: M R T W G V X P S N B, wv(n), wl(n), prio(n), branch, run lengths (M12), ( ... )x4;
    as text, in a file, or - for standard input"""
    mfma: str | None = option("--mfma", group=HAND_WRITTEN)
    """what M is, by name or by its cycles (default 16x16x32_f16; gfx942: 16x16x16_f16)"""
    waves_per_simd: int | None = option("--waves-per-simd N", type=at_least(1), group=HAND_WRITTEN)
    """waves on each SIMD (default 1)"""
    stagger: bool | None = flag(default=None, group=HAND_WRITTEN)
    """two wave groups, the second one barrier behind"""
    iterations: int | None = option("--iterations N", type=at_least(1), group=HAND_WRITTEN)
    """how often it runs (default 24)"""
    lds_conflict: float | None = option("--lds-conflict N", group=HAND_WRITTEN)
    """bank conflict of every R, T and W: 2 for two-way (default 1, none)"""

    @property
    def hints(self) -> Sequence[tuple[str, str]]:
        """Of a stream in its own words."""
        return super().hints if self.stream is None else STREAM_HINTS

    def run(self) -> int:
        """Simulate and print."""
        if self.stream is not None:
            return self._show(self._stream_trace(self.stream), None)
        if not self.source:
            raise SpecError(
                "nothing to simulate", hint="name a schedule or a spec, or give --stream"
            )
        for name in STREAM:
            if getattr(self, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} is for --stream, not for a schedule")
        simulation = prepare(self.simulate_job())
        say((*simulation.opened.notes(), *simulation.opened.remarks()))
        return self._show(simulation.run(), simulation)

    def _show(self, trace: Trace, simulation: Simulation | None) -> int:
        estimate = None if simulation is None else simulation.estimate(trace)
        if self.json:
            extra = {} if estimate is None else {"estimate": asdict(estimate)}
            print_json({**trace_data(trace), **_what(simulation), **extra})
            return 0
        console = TerminalConsole()
        if simulation is not None:
            console.print(simulation.header)
            if simulation.emission is None:
                status = simulation.verdict().status
                console.print(
                    verdict_line(status, verify_command(simulation.opened)), soft_wrap=True
                )
                note = simulation.opened.race_note()
                if note and status is Status.RACE:
                    console.print(note)
        program = None if simulation is None else simulation.program
        console.print(render_trace(trace, program, width=min(console.width, 120)))
        if estimate is not None:
            console.print(render_estimate(estimate))
        return 0

    def _stream_trace(self, stream: str) -> Trace:
        if self.source:
            raise SpecError("give a schedule or --stream, not both", hint="drop one of the two")
        if any(getattr(self, name) is not None for name in ("m", "n", "k")):
            raise SpecError(
                "a stream has no tile shape, so there is no whole problem to estimate",
                hint="drop --m, --n and --k, or simulate a schedule",
            )
        self._refuse_with_stream()
        options = {name: getattr(self, name) for name in STREAM}
        options = {
            name: STREAM[name] if value is None else value for name, value in options.items()
        }
        mfma = options["mfma"]
        if mfma is not None and mfma.isdecimal() and len(mfma) <= LONGEST_CYCLES:
            options["mfma"] = int(mfma)
        source = read_stream(stream)
        try:
            return simulate_stream(
                source.text,
                arch=chip_named(self.arch) or ANY_CHIP,
                **options,
                jitter=self.jitter,
                seed=self.seed,
            )
        except StreamError as error:
            raise source.located(error) from error

    def _refuse_with_stream(self) -> None:
        """A stream is the loop itself: nothing about compiling a schedule applies to it."""
        given = {
            "--k-tiles": self.k_tiles is not None,
            "--set": bool(self.settings),
            "--tile": self.tile is not None,
            "--dtype": self.dtype is not None,
            "--sync": self.sync is not None,
            "--reorder": self.reorder,
            "--emitted": self.emitted,
            "--waves": self.waves is not None,
        }
        for name, is_given in given.items():
            if is_given:
                instead = "; --iterations says how long it runs" if name == "--k-tiles" else ""
                raise UsageError(f"{name} is for a schedule, not for --stream{instead}")


def _what(simulation: Simulation | None) -> dict[str, Any]:
    """The schedule that was run, and whether it was as emitted, as data."""
    if simulation is None:
        return {}
    found = simulation.emission
    return {
        "schedule": simulation.program.name,
        "tile": simulation.tile,
        "verdict": simulation.verdict().status.name,
        "emitted": None if found is None else {"kernel": found.kernel.name, **found.to_dict()},
    }


def trace_data(trace: Trace) -> dict[str, Any]:
    """The summary and the stall table as plain data."""
    stalls = [
        {
            "phase": row.phase.value,
            "position": row.position,
            "label": row.label,
            "cycles": row.cycles,
            "cause": row.cause.text,
            "waited_for": row.waited_for,
        }
        for row in trace.stall_table()
    ]
    return {**trace.summary(), "stalls": stalls}


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream and the name of where it came from; no name where it was the option's own text."""

    text: str
    name: str = ""

    def located(self, error: StreamError) -> SpecError:
        """The error as an editor wants it: with line and column for a text of several lines."""
        if not self.name:
            return error
        before = self.text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        told = error.message.removeprefix(f"stream, character {error.position}: ")
        return SpecError(f"{self.name}:{line}:{column}: {told}", hint=error.hint)


def read_stream(given: str) -> StreamSource:
    """``-`` is standard input, the path of a file that file; anything else is the stream itself."""
    if given == "-":
        return StreamSource(sys.stdin.read(), "<stdin>")
    text = given.strip()
    hint = "give an existing text file, - for standard input, or the stream itself"
    with reading(f"the stream in {text}", hint, "stream"):
        if text and len(text) < 1024 and Path(text).is_file():
            return StreamSource(read_text(text), text)
    if _LOOKS_LIKE_A_PATH.fullmatch(text):
        raise SpecError(f"there is no stream file {text}", hint=hint, field="stream")
    return StreamSource(given)
