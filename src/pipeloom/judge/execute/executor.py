"""Run a program: one workgroup, hostile timing, real numbers.

    outcome = execute(program, trips=2, policy="late", order="reverse")
    outcome.correct, outcome.outputs        # every output as the meaning says, or what went wrong
    print(outcome.describe())

A program that waits and barriers order fully gives its meaning for every policy, order and seed.
To run one program many times, keep an ``Executor``: it unrolls each trip count once.

In which order the waves run, where barriers leave it open.

Within one barrier segment an order is a permutation: each wave runs to its next barrier in turn.
The wave that comes *last* is the dangerous one. When it starts its segment, all others have
finished theirs, while its own loads and reads from the segment before were in flight throughout.
With timing ``worst``, the orders ``wave_last(waves, w)`` for all w together show every pair of
accesses that waits and barriers leave unordered:

    Let X of wave v be issued in v's segment i and retired in r, Y of wave w in i' and r'. They
    are unordered iff r >= i' and r' >= i. Take i <= i' and let v run last. If i < i', Y issues
    while X is in flight: poison. If i = i', X issues after Y: in flight if r' > i', else Y came
    wholly first; and with w last X comes first. One of the two is not the order that was meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from pipeloom.checks import check_instance, check_int, nearest
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.access_times import Timeline, timelines, timing_named
from pipeloom.judge.execute.actions import Storage
from pipeloom.judge.execute.machine import Interpreter
from pipeloom.judge.execute.outcome import Outcome
from pipeloom.judge.execute.truth import truth_for
from pipeloom.judge.execute.unrolled import Trips, WaveWalk, trip_counts, walk
from pipeloom.judge.execute.watch import Watch
from pipeloom.judge.execute.workgroup_memory import GroupMemory, WorstMemory
from pipeloom.program import VOCABULARY, Program, Region, Vocabulary

ORDERS = ("forward", "reverse", "random")
Order = str | Sequence[int]
"""``forward``, ``reverse``, ``random``, or a permutation of the waves."""


Key = tuple[tuple[str, int], ...]
MOST_EXECUTED = 1 << 23
"""Elements of all resources of a program that is run: about 1 GB of numbers and what is known of
them."""
SIZE = "resources"
"""The field of the error about programs that hold more."""


class Executor:
    """One program, ready to run at any trip count."""

    def __init__(
        self, program: Program, *, ops: Vocabulary = VOCABULARY, counter_stall: bool | None = None
    ) -> None:
        check_instance("execute", "program", program, Program)
        self.program = program
        program.meaning.check_ops(ops)
        self.ops = ops
        self.storage = Storage(program, ops)
        if self.storage.size > MOST_EXECUTED:
            raise ConfigError(
                f"program {program.name!r} holds {self.storage.size:,} elements, and execute "
                f"allocates {MOST_EXECUTED:,} at most",
                hint="verify judges it without running it; execute a smaller tile",
                field=SIZE,
            )
        self._counter_stall = counter_stall
        self._walks: dict[Key, tuple[WaveWalk, ...]] = {}
        self._timelines: dict[tuple[Key, str], tuple[Timeline, ...]] = {}

    def walks(self, trips: Trips | int) -> tuple[WaveWalk, ...]:
        """What each wave does at these trip counts."""
        counts = trip_counts(self.program, trips)
        key = tuple(sorted(counts.items()))
        if key not in self._walks:
            self._walks[key] = walk(
                self.program, self.storage, counts, counter_stall=self._counter_stall
            )
        return self._walks[key]

    def timelines(self, trips: Trips | int, policy: str, seed: int = 0) -> tuple[Timeline, ...]:
        """The events of every wave; kept for reuse where no seed matters."""
        timing = timing_named(policy)
        walks = self.walks(trips)
        if timing.name == "random":
            return timelines(walks, timing, seed)
        key = (tuple(sorted(trip_counts(self.program, trips).items())), policy)
        if key not in self._timelines:
            self._timelines[key] = timelines(walks, timing)
        return self._timelines[key]

    def run(
        self,
        *,
        trips: Trips | int,
        policy: str = "worst",
        order: Order = "forward",
        seed: int = 0,
        arrays: Mapping[str, Any] | None = None,
        explain: bool = False,
        trace: bool = False,
    ) -> Outcome:
        """One run; arguments as of ``execute``."""
        session = Session(
            self, trips, policy, seed=seed, arrays=arrays, explain=explain, trace=trace
        )
        return session.finish(order, seed)


class Session:
    """A run in progress: a machine and its memory. ``replay`` steers it; ``run`` just ends it."""

    def __init__(
        self,
        executor: Executor,
        trips: Trips | int,
        policy: str,
        *,
        seed: int,
        explain: bool,
        trace: bool,
        arrays: Mapping[str, Any] | None = None,
    ) -> None:
        check_int("execute", "seed", seed, 0)
        program = executor.program
        self.trips = trip_counts(program, trips)
        self.lines = executor.timelines(trips, policy, seed)
        walks = executor.walks(trips)
        iterations = max(0, program.iterations.at(self.trips))
        plain = program.plain_at(self.trips)
        self._truth = truth_for(
            program.meaning, iterations, seed, executor.ops, arrays, plain=plain
        )
        self._watch = Watch(self._truth, executor.storage.size) if explain else None
        kind = WorstMemory if timing_named(policy).whole_flight else GroupMemory
        self.memory = kind(executor.storage, self._truth, np.random.default_rng(seed), self._watch)
        self.machine = Interpreter(walks, self.lines, self.memory, trace=trace)

    def finish(self, order: Order = "forward", seed: int = 0) -> Outcome:
        """Run to the end and collect the outcome."""
        chosen = permutation(order, len(self.lines))
        if chosen is None:
            ended = self.machine.finish_at_random(Random(seed))
        else:
            ended = self.machine.finish(chosen)
        outputs = {}
        for node in self._truth.meaning.outputs:
            count = self._truth.outputs_of(node)
            stored = self.memory.outputs[node.name].reshape(count, *node.type.shape)
            outputs[node.name] = stored if node.region is Region.LOOP else stored[0]
        return Outcome(
            trips=self.trips,
            hang=() if ended else self.machine.standing(),
            wrong=self.memory.wrong() if ended else (),
            suspects=self._watch.suspects if self._watch is not None else (),
            trace=self.machine.trace,
            outputs=outputs,
        )


def execute(
    program: Program,
    *,
    trips: Trips | int,
    policy: str = "worst",
    order: Order = "forward",
    seed: int = 0,
    ops: Vocabulary = VOCABULARY,
    arrays: Mapping[str, Any] | None = None,
    counter_stall: bool | None = None,
    explain: bool = True,
    trace: bool = False,
) -> Outcome:
    """Run one workgroup of ``program`` and compare what it stores with its meaning.

    ``trips`` are the trip counts by name, or one number for all. ``policy`` is one of ``TIMINGS``:
    when memory is touched; ``order`` is one of ``ORDERS`` or a permutation of the waves; ``seed``
    drives the inputs and what is random in either. ``arrays`` gives inputs of your own: for each
    input its tiles in the order of iterations, for a scalar its number. ``counter_stall`` says
    whether a full counter stalls issue, None that the target does. ``explain`` lists every read of
    a wrong thing; without it a run is twice as fast. A program that races or hangs is an outcome,
    not an exception; one whose steps do not fit together raises ``StructureError``.
    """
    return Executor(program, ops=ops, counter_stall=counter_stall).run(
        trips=trips,
        policy=policy,
        order=order,
        seed=seed,
        arrays=arrays,
        explain=explain,
        trace=trace,
    )


def wave_last(waves: int, wave: int) -> tuple[int, ...]:
    """All waves upwards, with ``wave`` last."""
    return (*(w for w in range(waves) if w != wave), wave)


def adversarial_orders(waves: int) -> tuple[tuple[int, ...], ...]:
    """One order per wave, with that wave last; see the module's text for why these suffice."""
    return tuple(wave_last(waves, wave) for wave in reversed(range(waves)))


def permutation(order: Order, waves: int) -> tuple[int, ...] | None:
    """The permutation that ``order`` means; ``None`` for random."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise ConfigError(
                f"unknown order {order!r}",
                hint=f"{nearest(order, ORDERS)}, or a permutation of the {waves} waves",
                field="execute.order",
            )
        if order == "random":
            return None
        return tuple(range(waves)) if order == "forward" else tuple(reversed(range(waves)))
    chosen = tuple(order)
    if sorted(chosen) != list(range(waves)):
        raise ConfigError(
            f"order {chosen} is not a permutation of the waves 0 to {waves - 1}",
            hint="name every wave exactly once",
            field="execute.order",
        )
    return chosen
