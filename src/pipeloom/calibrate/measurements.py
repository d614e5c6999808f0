"""What was measured, and how the model sees the same: cycles of a loop, or of its trip.

    loops = read_measurements("results.json")      # loops that somebody measured
    loops[0].measured, loops[0].modelled(GFX950)

A loop given as a stream stands in a file. A thread trace and a kernel that timed itself become a
``Measurement`` with the programs that they ran.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeloom.errors import SpecError
from pipeloom.files import read_data
from pipeloom.judge.simulate.run_stream import MfmaName, waves_of_stream
from pipeloom.judge.simulate.settled import steady_cycles_of
from pipeloom.machine.target import Target
from pipeloom.plain import from_plain, to_plain

ITERATIONS = 6
"""Trips that decide a figure: loops settle within a few."""
FORMAT = "pipeloom-measured-1"
USUAL_ERROR = 0.03
"""Relative error of a measurement that does not say its own: clocks, launches, neighbours."""
MOST_LOOPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStream:
    """A loop in the notation of ``simulate --stream``, and the cycles that it took."""

    id: str
    """What the loop is called."""
    source: str
    """Who measured it, where."""
    stream: str
    """One trip."""
    arch: str
    """The chip."""
    measured: float
    """Cycles of a trip, over ``per``."""
    mfma: str | None = None
    """What ``M`` is, by name; the chip's first unless given."""
    waves_per_simd: int = 1
    """Waves on each SIMD."""
    stagger: bool = False
    """Whether two groups of waves are a barrier apart."""
    simds: int | None = None
    """SIMDs that have waves; all unless given."""
    lds_conflict: float = 1.0
    """Bank conflict of every LDS access."""
    per: int = 1
    """By what the cycles of a trip are divided."""
    paths: tuple[str, ...] = ()
    """Further code paths: SIMD 1 runs the first of them."""
    error: float = USUAL_ERROR
    """Relative error of the measurement."""

    @property
    def matrix_op(self) -> MfmaName:
        """What ``M`` is, as the simulator takes it."""
        return self.mfma

    def modelled(self, machine: Target, iterations: int = ITERATIONS) -> float:
        """What the model says of it."""
        waves = waves_of_stream(
            (self.stream, *self.paths),
            machine,
            mfma=self.matrix_op,
            waves_per_simd=self.waves_per_simd,
            stagger=self.stagger,
            simds=self.simds,
            lds_conflict=self.lds_conflict,
        )
        return steady_cycles_of(waves, machine, iterations) / self.per


@dataclass(frozen=True, slots=True)
class Measurement:
    """A loop of any origin: its measured cycles, and how to model them."""

    id: str
    source: str
    arch: str
    measured: float
    modelled: Callable[[Target], float] = field(compare=False, repr=False)
    error: float = USUAL_ERROR


Measured = MeasuredStream | Measurement


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A file of measured loops."""

    format: str
    loops: tuple[MeasuredStream, ...]


def read_measurements(path: str | os.PathLike[str]) -> tuple[MeasuredStream, ...]:
    """The loops of a file, checked."""
    name = f"the measurements {path}"
    hint = "pipeloom calibrate --probes lists loops to measure, and what a file of them holds"
    data = read_data(path, name, hint, "measurements", form="JSON")
    found = from_plain(MeasuredFile, data, name=name)
    if found.format != FORMAT:
        raise SpecError(
            f"{path} has the format {found.format!r}", hint=f"use {FORMAT!r}", field="format"
        )
    if len(found.loops) > MOST_LOOPS:
        raise SpecError(
            f"{path} has {len(found.loops)} loops", hint=f"give at most {MOST_LOOPS}", field="loops"
        )
    for loop in found.loops:
        if not 0 < loop.measured < float("inf") or not 0 < loop.error < 1 or loop.per < 1:
            raise SpecError(
                f"{path}: {loop.id} took {loop.measured} cycles with an error of {loop.error}",
                hint="cycles are above 0, and an error is a share between 0 and 1",
                field="loops",
            )
    return found.loops


def measurements_text(loops: tuple[MeasuredStream, ...]) -> str:
    """The file of these loops; the same loops give the same bytes."""
    return json.dumps(to_plain(MeasuredFile(FORMAT, loops)), indent=1, sort_keys=True) + "\n"
