"""When, between its issue and its retirement, an access touches memory.

The memory model leaves that open: a counted step reads memory, and later writes, at any moment
from its issue to the wait that retires it. A ``Latencies`` decides:

    name      what writes LDS       what reads LDS
    early     all at issue          all at issue
    late      all when retired      all when retired
    stale     all when retired      reads at issue, writes its registers when retired
    overrun   all at issue          all when retired
    random    each at a random point; with the same seed the same
    worst     at every point at once: what could differ at any of them is undefined

``worst`` needs no luck with latencies: what is read is defined only if nothing that would change it
was in flight at any point of the read's own flight. Only the order in which the waves run is left
to choose. The others give real numbers, as a GPU would: old content until the write.

Two accesses of one wave in flight to the same place may land in either order: that is what the
model's wording allows, though loads are known to return in order on today's chips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from random import Random

from pipeloom.checks import check_known
from pipeloom.judge.execute.actions import Side
from pipeloom.judge.execute.unrolled import Line, WaveWalk


class FlightPoint(Enum):
    """A point of an access's flight."""

    EARLY = "at issue"
    LATE = "when retired"
    RANDOM = "at random"


@dataclass(frozen=True, slots=True)
class Latencies:
    """Moments for steps that write LDS (or read global memory), and for those that read LDS."""

    name: str
    writers: FlightPoint
    readers: FlightPoint
    results: FlightPoint | None = None
    whole_flight: bool = False


TIMINGS: dict[str, Latencies] = {
    timing.name: timing
    for timing in (
        Latencies("worst", FlightPoint.LATE, FlightPoint.LATE, whole_flight=True),
        Latencies("late", FlightPoint.LATE, FlightPoint.LATE),
        Latencies("early", FlightPoint.EARLY, FlightPoint.EARLY),
        Latencies("stale", FlightPoint.LATE, FlightPoint.EARLY, FlightPoint.LATE),
        Latencies("overrun", FlightPoint.EARLY, FlightPoint.LATE),
        Latencies("random", FlightPoint.RANDOM, FlightPoint.RANDOM),
    )
}
"""Name -> timing."""


def timing_named(name: object) -> Latencies:
    """The timing of that name; raises ``ConfigError`` with the nearest."""
    check_known(name, [*TIMINGS], f"unknown timing {name!r}", "execute.timing")
    return TIMINGS[str(name)]


class What(IntEnum):
    """Events of a step: it issues; it reads memory; it writes."""

    ISSUE = 0
    READ = 1
    WRITE = 2


Event = tuple[What, Line]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The events of one wave, in its own order.

    ``ends[n]`` is how many events come before its n-th barrier (the last: before its end).
    ``starts[line]`` is how many come before that line; ``written[line]`` before its write.
    """

    events: tuple[Event, ...]
    ends: tuple[int, ...]
    starts: tuple[int, ...]
    written: Mapping[int, int]


def timelines(walks: Sequence[WaveWalk], timing: Latencies, seed: int = 0) -> tuple[Timeline, ...]:
    """The events of every wave under ``timing``."""
    rng = Random(seed)
    return tuple(_timeline(wave, timing, rng) for wave in walks)


def _timeline(wave: WaveWalk, timing: Latencies, rng: Random) -> Timeline:
    events: list[Event] = []
    starts: list[int] = []
    ends: list[int] = []
    written: dict[int, int] = {}
    reads, writes = _chosen(wave, timing, rng)
    have_read: set[int] = set()

    def read(line: Line) -> None:
        if line.number not in have_read:
            have_read.add(line.number)
            if not timing.whole_flight:
                events.append((What.READ, line))

    def write(line: Line) -> None:
        if line.number not in written:
            read(line)
            written[line.number] = len(events)
            events.append((What.WRITE, line))

    for line in wave.lines:
        starts.append(len(events))
        for other in reads.get(line.number, ()):
            read(other)
        for other in writes.get(line.number, ()):
            write(other)
        for other in line.before:
            write(other)
        if line.is_barrier:
            ends.append(len(events))
        elif line.data is not None:
            events.append((What.ISSUE, line))
            if line.counted:
                for other in reads.get(~line.number, ()):
                    read(other)
                for other in writes.get(~line.number, ()):
                    write(other)
                for other in line.after:
                    write(other)
    for line in wave.left:
        write(line)
    ends.append(len(events))
    return Timeline(tuple(events), tuple(ends), tuple(starts), written)


def _chosen(
    wave: WaveWalk, timing: Latencies, rng: Random
) -> tuple[dict[int, list[Line]], dict[int, list[Line]]]:
    """Reads and writes that happen before a given line (``~line``: at its issue).

    What is not listed happens when the step retires.
    """
    reads: dict[int, list[Line]] = {}
    writes: dict[int, list[Line]] = {}
    for line in wave.lines:
        if not line.counted:
            continue
        reader = line.action.reads_lds and line.action.write.side is not Side.LDS
        read_at = timing.readers if reader else timing.writers
        write_at = (timing.results or read_at) if reader else read_at
        first = _point(line, read_at, rng, line.number)
        if first is None:
            continue
        reads.setdefault(first, []).append(line)
        second = _point(line, write_at, rng, max(first, line.number))
        if second is not None:
            writes.setdefault(second, []).append(line)
    return reads, writes


def _point(line: Line, moment: FlightPoint, rng: Random, earliest: int) -> int | None:
    if moment is FlightPoint.LATE:
        return None
    if moment is FlightPoint.EARLY:
        return ~line.number if earliest == line.number else earliest
    side = rng.random()
    point = rng.randint(earliest, line.last)
    if side < EXTREMES or point == line.number:
        return ~line.number if earliest == line.number else earliest
    return None if side > 1 - EXTREMES or point >= line.last else point


EXTREMES = 1 / 3
"""How often a random moment is the first possible, and how often the last."""
