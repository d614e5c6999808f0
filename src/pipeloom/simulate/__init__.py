"""A cycle simulator of a compute unit, built from public measurements.

``simulate`` runs a compiled schedule, ``simulate_stream`` a loop written as text,
``simulate_programs`` typed programs per wave; all return a ``Trace``. ``estimate_gemm`` scales one
tile to the whole chip.
"""

from __future__ import annotations

from pipeloom.simulate.engine import simulate_programs
from pipeloom.simulate.instruction import Instruction, Kind, Unit, WaveProgram
from pipeloom.simulate.run_stream import simulate_stream
from pipeloom.simulate.schedule import simulate
from pipeloom.simulate.stream import StreamError, parse_stream
from pipeloom.simulate.trace import Cause, Event, Phase, StallRow, Trace

__all__ = [
    "Cause",
    "Event",
    "Instruction",
    "Kind",
    "Phase",
    "StallRow",
    "StreamError",
    "Trace",
    "Unit",
    "WaveProgram",
    "parse_stream",
    "simulate",
    "simulate_programs",
    "simulate_stream",
]
