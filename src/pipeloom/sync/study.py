"""Scripts and what their runs demand: what every decision about them is taken from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pipeloom.errors import OrderError
from pipeloom.program import Move
from pipeloom.sync.flow import Flow, describe
from pipeloom.sync.replay import Bench
from pipeloom.sync.script import Place, Scripts
from pipeloom.sync.touches import Touches
from pipeloom.sync.walk import Run, sample_runs


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
        touches = Touches(scripts)
        return cls(scripts, [Flow(scripts, touches, run) for run in sample_runs(scripts)])

    @cached_property
    def bench(self) -> Bench:
        """Where synchronisations are tried."""
        return Bench(self.scripts, self.flows)

    def conflict(self, about: Place | None = None) -> str | None:
        """Two events that stand the wrong way round, one of them at ``about`` if given."""
        for found in self.flows:
            for conflict in found.conflicts:
                pair = [found.run.events[n] for n in (conflict.early, conflict.late)]
                if about is None or about in {self.scripts.places[e.gap] for e in pair}:
                    early, late = (describe(self.scripts, event) for event in pair)
                    return f"{early} comes before {late}: {conflict.what}"
        return None

    def unseparated(self) -> Iterator[tuple[Run, int, int]]:
        """The demands between waves that the barriers that stay cannot meet, whatever the waits."""
        for flow in self.flows:
            epoch = flow.run.gates({}).issue_epoch
            for first, second, same_wave in flow.orderings:
                if not same_wave and epoch[first] >= epoch[second]:
                    yield flow.run, first, second


def unsavable(what: str, trouble: str, hint: str) -> OrderError:
    """For an order that ``what`` does not help, because of a ``trouble``."""
    return OrderError(f"{what}: {trouble}", hint=hint, field="order")
