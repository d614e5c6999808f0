"""Is a program ever wrong? Ask it under the timings and orders that leave no hiding place.

``classify`` runs a program at several trip counts, with policy ``worst`` and each wave in turn last
(``interleavings`` tells why that suffices for given trip counts), then at random for good measure.
It stops at the first wrong execution and says how to see it again:

    classify(program).correct               False
    classify(program).failure.how           Setting(trips={'T': 1}, policy='worst', ...)

Trip counts are sampled here; a proof for all of them is the verifier's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeloom.judge.execute import Executor, Outcome, adversarial_orders
from pipeloom.judge.execute.executor import Order
from pipeloom.program import Program

TRIP_COUNTS = 4
"""How many trip counts are tried, from the least."""
SEEDS = 3
"""How many inputs (three sets each) the adversarial runs take turns with."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The arguments of one run."""

    trips: Mapping[str, int]
    policy: str
    order: Order
    seed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A wrong execution, and how to repeat it."""

    how: Setting
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Classification:
    """``failure`` is the first wrong execution of ``runs``, or ``None``."""

    runs: int
    failure: Failure | None

    @property
    def correct(self) -> bool:
        """Whether no execution was wrong."""
        return self.failure is None


def sample_trips(program: Program, counts: int = TRIP_COUNTS) -> tuple[dict[str, int], ...]:
    """All trip counts the same above their least, ``counts`` of them; then each alone at its least.

    One that others exceed can show what equal ones hide.
    """
    least = program.min_trips
    even = [{name: low + n for name, low in least.items()} for n in range(counts if least else 1)]
    alone = [
        {**even[-1], name: low} for name, low in least.items() if len(least) > 1 and counts > 1
    ]
    return tuple(even + alone)


def settings(
    waves: int, trips: Sequence[Mapping[str, int]], random_runs: int = 1
) -> Iterator[Setting]:
    """The settings that ``classify`` tries: the adversarial ones, then ``random_runs`` per trip."""
    for count in trips:
        for seed, order in enumerate(adversarial_orders(waves)):
            yield Setting(count, "worst", order, seed % SEEDS)
    for seed in range(random_runs):
        for count in trips:
            yield Setting(count, "random", "random", SEEDS + seed)


def classify(
    program: Program | Executor,
    *,
    trips: Sequence[Mapping[str, int]] | None = None,
    random_runs: int = 1,
) -> Classification:
    """Run ``program`` under every one of ``settings`` until it is wrong.

    Without ``trips``: ``sample_trips``.
    """
    executor = program if isinstance(program, Executor) else Executor(program)
    counts = sample_trips(executor.program) if trips is None else trips
    runs = 0
    for setting in settings(executor.program.waves, counts, random_runs):
        runs += 1
        outcome = executor.run(
            trips=setting.trips, policy=setting.policy, order=setting.order, seed=setting.seed
        )
        if not outcome.correct:
            return Classification(runs, Failure(setting, outcome))
    return Classification(runs, None)
