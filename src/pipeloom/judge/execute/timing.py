"""When, between its issue and its retirement, a memory op touches memory.

The memory model leaves that open: a load may land the moment it is issued or as late as the wait
that retires it, and a fragment load may read LDS at any moment in between. A ``Timing`` decides:

    name      loads land      fragment loads read and fill
    early     at issue        at issue
    late      when retired    when retired
    stale     when retired    at issue         a read that did not wait finds the old tile
    overrun   at issue        when retired     a late read finds the next tile
    random    at a random point each; with the same seed the same
    worst     at every point at once: what could differ at any of them is poison

``worst`` needs no luck with latencies: what is read is defined only if no load of the same region
was in flight at any point of the read's own flight. Only the order in which the waves run is left
to choose.

Two loads of one wave to the same slice may land in either order while both are in flight: that is
what the model's wording allows, though loads are known to return in order on today's chips. A
register takes the value of the fragment load that was issued last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from pipeloom.checks import nearest
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.program import Op, Program, WaveProgram


class Moment(Enum):
    """A point of an op's flight."""

    EARLY = "at issue"
    LATE = "when retired"
    RANDOM = "at random"


@dataclass(frozen=True, slots=True)
class Timing:
    """Moments for ops that write LDS or staging, and for ops that read LDS."""

    name: str
    loads: Moment
    reads: Moment
    whole_flight: bool = False

    @property
    def is_random(self) -> bool:
        """Whether two seeds can differ."""
        return Moment.RANDOM in (self.loads, self.reads)


TIMINGS: dict[str, Timing] = {
    timing.name: timing
    for timing in (
        Timing("worst", Moment.LATE, Moment.LATE, whole_flight=True),
        Timing("late", Moment.LATE, Moment.LATE),
        Timing("early", Moment.EARLY, Moment.EARLY),
        Timing("stale", Moment.LATE, Moment.EARLY),
        Timing("overrun", Moment.EARLY, Moment.LATE),
        Timing("random", Moment.RANDOM, Moment.RANDOM),
    )
}
"""Name -> timing."""


def timing_named(name: object) -> Timing:
    """The timing of that name; raises ``ConfigError`` with the nearest."""
    if isinstance(name, str) and name in TIMINGS:
        return TIMINGS[name]
    raise ConfigError(
        f"unknown timing {name!r}", hint=nearest(str(name), TIMINGS), field="execute.timing"
    )


EXTREMES = 1 / 3
"""How often a random moment is the first possible, and how often the last."""

Event = tuple[bool, Op]
"""(lands, op): the op issues, or it lands."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The events of one wave, in its own order.

    ``ends[n]`` is how many events come before its n-th barrier (the last: before its end).
    ``starts[step]`` is how many come before that step, ``lands[op.uid]`` before that landing.
    """

    events: tuple[Event, ...]
    ends: tuple[int, ...]
    starts: tuple[int, ...]
    lands: dict[int, int] = field(default_factory=dict)


Overrides = Mapping[tuple[int, int], Moment]
"""(wave, step) -> the moment of that op."""


def timelines(
    program: Program, timing: Timing, seed: int = 0, overrides: Overrides | None = None
) -> tuple[Timeline, ...]:
    """The events of every wave under ``timing``."""
    rng = Random(seed)
    chosen = overrides or {}
    return tuple(_timeline(wave, timing, rng, chosen) for wave in program.waves)


def _timeline(wave: WaveProgram, timing: Timing, rng: Random, overrides: Overrides) -> Timeline:
    at_issue, at_line = _choose_moments(wave, timing, rng, overrides)
    events: list[Event] = []
    starts: list[int] = []
    ends: list[int] = []
    lands: dict[int, int] = {}
    in_flight: dict[int, list[Op]] = {}

    def land(op: Op) -> None:
        """Let ``op`` land, after what was issued before it to the same registers."""
        if op.uid in lands:
            return
        for register in op.fills:
            queue = in_flight.get(register, [])
            while queue and queue[0].step < op.step:
                overdue = queue.pop(0)
                if overdue.uid not in lands:
                    lands[overdue.uid] = len(events)
                    events.append((True, overdue))
        lands[op.uid] = len(events)
        events.append((True, op))

    for at, line in enumerate(wave.lines):
        starts.append(len(events))
        if at in at_line:
            for op in at_line[at]:
                land(op)
        for op in line.before:
            land(op)
        issued = line.issue
        if issued is not None:
            events.append((False, issued))
            if issued.uid in at_issue:
                land(issued)
            elif issued.accumulator is None:
                for register in issued.fills:
                    in_flight.setdefault(register, []).append(issued)
            for op in line.after:
                land(op)
        elif line.is_barrier:
            ends.append(len(events))
    for op in wave.never_retired:
        land(op)
    ends.append(len(events))
    return Timeline(tuple(events), tuple(ends), tuple(starts), lands)


def _choose_moments(
    wave: WaveProgram, timing: Timing, rng: Random, overrides: Overrides
) -> tuple[set[int], dict[int, list[Op]]]:
    """Ops (by uid) that land at issue, and ops that land before a given line. The rest are late."""
    draw = rng.random
    at_issue: set[int] = set()
    at_line: dict[int, list[Op]] = {}
    for at, line in enumerate(wave.lines):
        op = line.issue
        if op is None or op.accumulator is not None:
            continue
        moment = timing.reads if op.reads else timing.loads
        if overrides:
            moment = overrides.get((op.wave, op.step), moment)
        if not op.counted or moment is Moment.EARLY:
            at_issue.add(op.uid)
        elif moment is Moment.RANDOM:
            last = wave.retired_by[op.uid]
            side = draw()
            choice = at + int(draw() * (last - at + 1))
            if side < EXTREMES or choice == at:
                at_issue.add(op.uid)
            elif side < 1 - EXTREMES and choice < last:
                at_line.setdefault(choice, []).append(op)
    return at_issue, at_line
