"""Where a load may stand between barriers that stay.

A load ends the life of one generation of its region and begins that of the next: it must be issued
after the last read of the old one is over, everywhere, and be over before the first read of its
own. With fixed barriers that is a question of epochs alone (waits can always be added):

    X in wave v can be over before Y in wave w   iff   epoch of X in v  <  epoch of Y in w

Fragments and MMAs stay, so each load has a set of legal places of its own, and the fewest moves are
the loads that do not stand in theirs. Each moves to the earliest legal place of its phase. A load
from a section (a stretch between two barriers) without MMAs goes to another such section, behind
its fragments: that keeps the turns of memory and MMA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.judge.verify.schedules.run import Read, Run, WaveClass, Write
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.sync.dependences import meant_tile
from pipeloom.sync.frame import Frame, Stop
from pipeloom.sync.skeleton import Gap
from pipeloom.sync.stations import Stations

Spot = tuple[int, int]
"""A stop on a walk: the number of the pass through a phase, and of the stop in it."""


@dataclass(slots=True)
class _Bounds:
    """What one load, on one pass, must come after and before: spots and epochs."""

    after_spot: Spot = (-1, 0)
    before_spot: Spot = (1 << 30, 0)
    after_epoch: int = -1
    before_epoch: int = 1 << 30

    def come_before(self, spot: Spot | None, epoch: int | None) -> None:
        """Be over before a read at ``spot`` of the same wave, in ``epoch`` of another."""
        if spot is not None:
            self.before_spot = min(self.before_spot, spot)
        if epoch is not None:
            self.before_epoch = min(self.before_epoch, epoch)

    def come_after(self, spot: Spot | None, epoch: int | None) -> None:
        """Be issued after such a read."""
        if spot is not None:
            self.after_spot = max(self.after_spot, spot)
        if epoch is not None:
            self.after_epoch = max(self.after_epoch, epoch)

    def admits(self, spot: Spot, epoch: int) -> bool:
        """Whether the load may be put before the stop at ``spot``."""
        return (
            self.after_spot < spot <= self.before_spot
            and self.after_epoch < epoch < self.before_epoch
        )


class Places:
    """The legal places of every load, from the runs that matter.

    With ``loop_only`` barriers count only where both ops are in the loop: prologue and epilogue can
    be given more.
    """

    def __init__(
        self, frame: Frame, tables: list[tuple[Run, list[Stations]]], loop_only: bool = False
    ) -> None:
        self._frame = frame
        self._bounds: dict[Gap, list[tuple[Stations, int, _Bounds]]] = {}
        for run, stations in tables:
            for (group, number), bounds in sorted(_bounds(run, stations, loop_only).items()):
                walk = stations[group]
                phase, stop = walk.places[number]
                lap = walk.spots[number][0]
                self._bounds.setdefault((phase, stop), []).append((walk, lap, bounds))

    def misplaced(self) -> list[Gap]:
        """The loads that stand where no wait can make them right."""
        return [load for load in sorted(self._bounds) if not self._admits(load, load[1])]

    def settle(self, load: Gap) -> int | None:
        """The stop of its phase that ``load`` should be put before; ``None`` if none is legal."""
        phase, stop = load
        row = self._frame.stops[phase]
        legal = [place for place in range(len(row)) if self._admits(load, place)]
        sections = list(_sections(row))
        home = next(section for section in sections if stop in section)
        if not _multiplies(row, home):
            for section in sections:
                inside = [place for place in legal if place in section]
                if inside and not _multiplies(row, section):
                    behind = 1 + max((n for n in section if _reads(row[n])), default=-1)
                    return next((place for place in inside if place >= behind), inside[0])
        return legal[0] if legal else None

    def _admits(self, load: Gap, place: int) -> bool:
        return all(
            bounds.admits((lap, place), walk.epochs[lap][place])
            for walk, lap, bounds in self._bounds[load]
        )


def _sections(row: tuple[Stop, ...]) -> Iterator[range]:
    """The places between barriers; a place before a barrier belongs to what the barrier ends."""
    first = 0
    for number, stop in enumerate(row):
        if stop.is_barrier:
            yield range(first, number + 1)
            first = number + 1
    yield range(first, len(row))


def _multiplies(row: tuple[Stop, ...], section: range) -> bool:
    return any(row[number].role is OpRole.COMPUTE for number in section)


def _reads(stop: Stop) -> bool:
    return stop.role is OpRole.FRAGMENT_LOAD


def _bounds(run: Run, stations: list[Stations], loop_only: bool) -> dict[tuple[int, int], _Bounds]:
    """By group and number in its walk: what each load into LDS must come after and before."""
    number = {id(a): n for t in run.timelines for n, a in enumerate(t.accesses)}
    found: dict[tuple[int, int], _Bounds] = {}
    for kind, read, owner, write in _rivals(run):
        bounds = found.setdefault((owner.group, number[id(write.access)]), _Bounds())
        spot = stations[kind.group].spots[number[id(read.access)]] if owner is kind else None
        phases = {read.access.step.phase, write.access.step.phase}
        epoch: int | None = read.access.issue_epoch
        if (owner is kind and len(kind.waves) == 1) or (loop_only and phases != {Phase.KERNEL}):
            epoch = None
        if write.tile is None or write.tile <= meant_tile(read):
            bounds.come_before(spot, epoch)
        else:
            bounds.come_after(spot, epoch)
    return found


def _rivals(run: Run) -> Iterator[tuple[WaveClass, Read, WaveClass, Write]]:
    """Every live read of LDS and every load of the same region, by any kind of wave."""
    for kind in run.classes:
        for read in kind.reads:
            if read.is_dead:
                continue
            for owner in run.classes:
                for region in read.regions:
                    for write in owner.writes.get(region, ()):
                        if write.access.step.op.role is OpRole.GLOBAL_LOAD:
                            yield kind, read, owner, write
