"""A cycle simulator of a compute unit, built from public measurements.

``simulate`` runs a program, ``simulate_stream`` a loop written as text,
``simulate_programs`` typed programs per wave; all return a ``Trace``. ``estimate_gemm`` scales one
tile to the whole chip.
"""

from __future__ import annotations

from pipeloom.judge.simulate.bank_conflicts import bank_conflict
from pipeloom.judge.simulate.engine import simulate_programs
from pipeloom.judge.simulate.estimate import Estimate, estimate_gemm
from pipeloom.judge.simulate.instruction import Kind, Track, WaveOp, WaveProgram
from pipeloom.judge.simulate.issued import simulate
from pipeloom.judge.simulate.run_stream import simulate_stream
from pipeloom.judge.simulate.stream import StreamError, parse_stream
from pipeloom.judge.simulate.trace import Cause, Event, LoopPhase, StallRow, Trace

__all__ = [
    "Cause",
    "Estimate",
    "Event",
    "Kind",
    "LoopPhase",
    "StallRow",
    "StreamError",
    "Trace",
    "Track",
    "WaveOp",
    "WaveProgram",
    "bank_conflict",
    "estimate_gemm",
    "parse_stream",
    "simulate",
    "simulate_programs",
    "simulate_stream",
]
