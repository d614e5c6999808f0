"""The runs that synchronisation is derived from."""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.judge.verify.schedules.run import Run, build_run
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel

TRIPS = 4
"""Trip counts 0 to 3 hold every kind of neighbourhood; ``verify`` proves the rest."""


def sample_runs(model: Kernel, bare: CompiledSchedule) -> list[Run]:
    """The first trip counts of a schedule without waits."""
    first = model.min_trips
    runs = [build_run(model, bare, trips) for trips in range(first, first + TRIPS)]
    for run in runs:
        walks = [[a.step.op for a in t.accesses] for t in run.timelines]
        if any(walk != walks[0] for walk in walks):
            raise ConfigError(
                f"kernel {model.name}: its wave groups execute different data ops",
                hint="synchronize needs one program for all waves",
                field="kernel",
            )
    return runs
