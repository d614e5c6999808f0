"""A wave group's walk over the stops of a frame: what it passes, where, and in which epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeloom.errors import ConfigError
from pipeloom.reference.kernels.interface import Step
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.reference.resync.frame import Frame, Framed
from pipeloom.reference.resync.skeleton import Gap
from pipeloom.reference.resync.waits import Passage


@dataclass(slots=True)
class Stations:
    """One group in one run.

    A *lap* is one pass through a phase. ``places`` and ``spots`` give each data op's stop, by phase
    and by lap; ``passages`` the stops on the way to it (and its own); ``epochs[lap][stop]`` the
    barriers before each stop.
    """

    places: list[Gap] = field(default_factory=list)
    spots: list[tuple[int, int]] = field(default_factory=list)
    passages: list[list[Passage]] = field(default_factory=list)
    epochs: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class _Lap:
    phase: Phase
    iteration: int | None
    visited: set[int] = field(default_factory=set)
    own: dict[int, int] = field(default_factory=dict)
    leading: int = 0
    last: int = -1


def stations(frame: Frame, bare: Framed, steps: tuple[Step, ...]) -> Stations:
    """Follow one group's steps through the bare schedule, stop by stop.

    A barrier of the kernel's own counts at the stagger or at the end of the phase, whichever comes
    first: that is where a wait before it can stand. One before everything else needs no wait.
    """
    result = Stations()
    pending: list[Passage] = []
    epoch = 0
    for number, lap in enumerate(_laps(frame, bare, steps)):
        phase, epochs = lap.phase, []
        if lap.leading:
            pending.append(Passage((phase, 0), (phase, 0, True), (phase, 0, False), lap.leading))
            epoch += lap.leading
        for at, stop in enumerate(frame.stops[phase]):
            epochs.append(epoch)
            barriers = lap.own.get(at, 0) + (stop.is_barrier and at in lap.visited)
            pending.append(Passage((phase, at), (phase, at, True), (phase, at, False), barriers))
            epoch += barriers
            if stop.role is not None and at in lap.visited:
                result.places.append((phase, at))
                result.spots.append((number, at))
                result.passages.append(pending)
                pending = []
        result.epochs.append(epochs)
    return result


def _laps(frame: Frame, bare: Framed, steps: tuple[Step, ...]) -> list[_Lap]:
    laps: list[_Lap] = []
    for step in steps:
        if step.origin:
            if not laps:
                laps.append(_Lap(step.phase, step.iteration))
            lap = laps[-1]
            row = frame.stops[lap.phase]
            at = next(n for n in range(lap.last + 1, len(row)) if row[n].entry is None)
            if len(laps) == 1 and lap.last < 0 < at:
                lap.leading += 1
            else:
                lap.own[at] = lap.own.get(at, 0) + 1
            continue
        if step.op.role is OpRole.FENCE:
            continue
        at = bare.stop_of[step.phase][step.slot]
        key = (step.phase, step.iteration)
        if not laps or key != (laps[-1].phase, laps[-1].iteration) or at <= laps[-1].last:
            laps.append(_Lap(*key))
        lap = laps[-1]
        if any(own > at for own in lap.own):
            raise ConfigError(
                f"the kernel executes a barrier of its own inside the {step.phase.name.lower()}",
                hint="with keep_barriers its own barriers stand at the stagger or between phases",
                field="kernel",
            )
        lap.visited.add(at)
        lap.last = at
    return laps
