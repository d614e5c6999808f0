"""Is a schedule ever wrong? Ask it under the timings and orders that leave no hiding place.

``classify`` runs a schedule at several trip counts, with timing ``worst`` and each wave in turn
last (``order`` tells why that suffices for a given trip count), then at random for good measure.
It stops at the first wrong execution and says how to see it again:

    classify(compiled).correct               False
    classify(compiled).failure.how           Setting(trips=1, timing='worst', order=(...), seed=0)

Trip counts are sampled here; a proof for all of them is the verifier's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeloom.judge.execute.order import Order, adversarial_orders
from pipeloom.judge.execute.outcome import Execution
from pipeloom.judge.execute.run import Executor
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel

TRIP_COUNTS = 4
"""How many trip counts are tried, from the kernel's least."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The arguments of one run."""

    trips: int
    timing: str
    order: Order
    seed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A wrong execution, and how to repeat it."""

    how: Setting
    execution: Execution


@dataclass(frozen=True, slots=True)
class Classification:
    """``failure`` is the first wrong execution of ``runs``, or ``None``."""

    runs: int
    failure: Failure | None

    @property
    def correct(self) -> bool:
        """Whether no execution was wrong."""
        return self.failure is None


def settings(waves: int, trips: Sequence[int], random_runs: int = 1) -> Iterator[Setting]:
    """The settings that ``classify`` tries: the adversarial ones, then ``random_runs`` per trip."""
    for count in trips:
        for order in adversarial_orders(waves):
            yield Setting(count, "worst", order, 0)
    for seed in range(random_runs):
        for count in trips:
            yield Setting(count, "random", "random", seed)


def classify(
    compiled: CompiledSchedule,
    kernel: Kernel | None = None,
    *,
    trips: Sequence[int] | None = None,
    random_runs: int = 1,
    counter_stall: bool | None = None,
) -> Classification:
    """Run ``compiled`` under every one of ``settings`` until it is wrong.

    Without ``trips``: the four smallest trip counts that the kernel takes.
    """
    executor = Executor(compiled, kernel, counter_stall=counter_stall)
    least = executor.kernel.min_trips
    counts = range(least, least + TRIP_COUNTS) if trips is None else trips
    runs = 0
    for setting in settings(executor.kernel.waves, counts, random_runs):
        runs += 1
        execution = executor.run(
            trips=setting.trips, timing=setting.timing, order=setting.order, seed=setting.seed
        )
        if not execution.correct:
            return Classification(runs, Failure(setting, execution))
    return Classification(runs, None)
