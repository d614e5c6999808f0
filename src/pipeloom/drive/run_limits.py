"""What a run in the emulator may take before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

MAX_MEMORY_GB = 2.0
MAX_INSTRUCTIONS = 10_000_000
"""About a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What a run may take, all its timings together."""

    timings: int = 1
    max_memory_gb: float = MAX_MEMORY_GB
    max_instructions: int = MAX_INSTRUCTIONS


THREE_TIMINGS = RunLimits(timings=3)
