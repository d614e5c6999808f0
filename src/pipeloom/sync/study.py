"""Scripts and what their runs demand: what every decision about them is taken from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pipeloom.program import Move
from pipeloom.sync.demands import Flow, Ordering
from pipeloom.sync.flow import describe, flow
from pipeloom.sync.replay import Bench, Replay
from pipeloom.sync.script import Place, Scripts, Sync
from pipeloom.sync.touches import Touches
from pipeloom.sync.walk import Event, sample_runs


@dataclass(frozen=True, slots=True)
class Change:
    """A step that synchronisation moved or, without ``move``, a barrier that it added."""

    words: str
    move: Move | None = None


@dataclass(frozen=True)
class Study:
    """Scripts, and the demands of the runs that matter."""

    scripts: Scripts
    flows: list[Flow]

    @classmethod
    def of(cls, scripts: Scripts) -> Study:
        """Run the scripts, follow the data."""
        touches = Touches(scripts.program)
        return cls(scripts, [flow(scripts, touches, run) for run in sample_runs(scripts)])

    @cached_property
    def bench(self) -> Bench:
        """Where synchronisations are tried."""
        return Bench(self.scripts, self.flows)

    @cached_property
    def bare(self) -> list[list[Replay]]:
        """Every run with nothing but the barriers that stay."""
        return [self.bench.replays(found, Sync()) for found in self.flows]

    def conflict(self, about: Place | None = None) -> str | None:
        """Two events that stand the wrong way round, one of them at ``about`` if given."""
        for found in self.flows:
            for conflict in found.conflicts:
                pair = [found.run.event(conflict.early), found.run.event(conflict.late)]
                if about is None or about in {self.scripts.places[e.gap] for e in pair}:
                    early, late = (describe(self.scripts, event) for event in pair)
                    return f"{early} comes before {late}: {conflict.what}"
        return None

    def unseparated(self) -> Iterator[tuple[Ordering, Event, Event]]:
        """The demands between waves that the barriers that stay cannot meet, whatever the waits."""
        for found, replays in zip(self.flows, self.bare, strict=True):
            for ordering in found.orderings:
                (g, x), (h, y) = ordering.first, ordering.second
                if ordering.same_wave or replays[g].issue_epoch[x] < replays[h].issue_epoch[y]:
                    continue
                yield ordering, found.run.event(ordering.first), found.run.event(ordering.second)
