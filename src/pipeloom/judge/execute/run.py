"""Run a schedule: with numbers (``execute``) or with tile numbers only (``dry_run``).

    compiled = build_schedule("ping_pong")
    a, b = operands(compiled, trips=2)
    execution = execute(compiled, a, b, trips=2, timing="late", order="reverse")
    execution.correct, execution.c          # True and exactly a @ b.T, or the race made visible
    print(execution.describe())

A schedule that waits and barriers order fully gives A @ B.T for every timing, order and seed.
To run one schedule many times, keep an ``Executor``: it unrolls each trip count once.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from pipeloom.checks import check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.arrays import ArrayMemory, PairedMemory, small_operands
from pipeloom.judge.execute.machine import Memory, Target
from pipeloom.judge.execute.order import Order, permutation
from pipeloom.judge.execute.outcome import Execution, Status
from pipeloom.judge.execute.program import Program, prepare
from pipeloom.judge.execute.timing import Moment, Timeline, Timing, timelines, timing_named
from pipeloom.judge.execute.tokens import TokenMemory
from pipeloom.machine.chips import stalling_counters
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel, kernel_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.integer[Any]]
    Operands = tuple[Integers, Integers]

UNDEFINED = ("poison", "memory")


class Executor:
    """One schedule, ready to run at any trip count.

    ``counter_stall`` says whether an issue past a counter's limit stalls until the oldest access
    is done; by default only where the chip's vendor says so, which is nowhere today.
    """

    def __init__(
        self,
        compiled: CompiledSchedule,
        kernel: Kernel | None = None,
        *,
        counter_stall: bool | None = None,
    ) -> None:
        check_instance("execute", "compiled", compiled, CompiledSchedule)
        self.compiled = compiled
        if kernel is not None:
            check_instance("execute", "kernel", kernel, Kernel)
        self.kernel = kernel_for(compiled) if kernel is None else kernel
        self._stalling = stalling_counters(compiled.arch, counter_stall)
        self._programs: dict[int, Program] = {}
        self._timelines: dict[tuple[int, str], tuple[Timeline, ...]] = {}

    def program(self, trips: int) -> Program:
        """The schedule unrolled for ``trips``."""
        check_int("execute", "trips", trips, self.kernel.min_trips)
        if trips not in self._programs:
            self._programs[trips] = prepare(self.compiled, self.kernel, trips, self._stalling)
        return self._programs[trips]

    def run(
        self,
        *,
        trips: int,
        timing: str = "worst",
        order: Order = "forward",
        seed: int = 0,
        undefined: str = "poison",
        operands: Operands | None = None,
        trace: bool = False,
    ) -> Execution:
        """One run. Without ``operands`` it moves tile numbers only, and there is no C."""
        session = Session(
            self, trips, timing, seed=seed, undefined=undefined, operands=operands, trace=trace
        )
        return session.finish(order, seed)

    def timelines(
        self,
        trips: int,
        timing: Timing,
        seed: int = 0,
        overrides: Mapping[tuple[int, int], Moment] | None = None,
    ) -> tuple[Timeline, ...]:
        """The events of every wave; kept for reuse where no seed or override matters."""
        program = self.program(trips)
        if timing.is_random or overrides:
            return timelines(program, timing, seed, overrides)
        key = (trips, timing.name)
        if key not in self._timelines:
            self._timelines[key] = timelines(program, timing)
        return self._timelines[key]


class Session:
    """A run in progress: a machine and its memory. ``replay`` steers it; ``run`` just ends it."""

    def __init__(
        self,
        executor: Executor,
        trips: int,
        timing: str,
        *,
        seed: int = 0,
        undefined: str = "poison",
        operands: Operands | None = None,
        trace: bool = False,
        overrides: Mapping[tuple[int, int], Moment] | None = None,
    ) -> None:
        chosen = timing_named(timing)
        poison = _is_poison(undefined, chosen)
        check_int("execute", "seed", seed, 0)
        self.program = executor.program(trips)
        self.lines = executor.timelines(trips, chosen, seed, overrides)
        whole = chosen.whole_flight
        self._tokens = TokenMemory(self.program, poison=poison, whole_flight=whole)
        self._arrays: ArrayMemory | None = None
        memory: Memory = self._tokens
        if operands is not None:
            a, b = operands
            self._arrays = ArrayMemory(self.program, a, b, poison=poison, whole_flight=whole)
            memory = PairedMemory(self._tokens, self._arrays)
        self.machine = Target(self.program, self.lines, memory, trace=trace)

    def finish(self, order: Order = "forward", seed: int = 0) -> Execution:
        """Run to the end and collect the outcome."""
        chosen = permutation(order, len(self.lines))
        if chosen is None:
            status = self.machine.finish_at_random(Random(seed))
        else:
            status = self.machine.finish(chosen)
        c = poisoned = None
        if self._arrays is not None and status is Status.FINISHED:
            c, poisoned = self._arrays.result()
        return Execution(
            status,
            self._tokens.symptoms() if status is Status.FINISHED else (),
            self._tokens.poisoned_reads(),
            self.machine.standing() if status is Status.DEADLOCK else (),
            self.machine.trace,
            c,
            poisoned,
        )


def execute(
    compiled: CompiledSchedule,
    a: Integers,
    b: Integers,
    *,
    trips: int,
    kernel: Kernel | None = None,
    timing: str = "worst",
    order: Order = "forward",
    seed: int = 0,
    undefined: str = "poison",
    trace: bool = False,
    counter_stall: bool | None = None,
) -> Execution:
    """Run ``compiled`` on A [M, K] and B [N, K], and return C = A @ B.T as the schedule makes it.

    ``trips`` is the loop's trip count; K must be ``kernel.tiles(trips)`` equal tiles. ``timing``
    is one of ``TIMINGS``, ``order`` one of ``ORDERS`` or a permutation of the waves, ``seed``
    drives what is random in either. ``undefined`` says what a place shows from the issue of its
    write to the landing: ``poison``, or its old content (``memory``), which gives the plausible
    wrong numbers that a GPU would give. ``counter_stall`` is that of ``Executor``. Raises
    ``ConfigError`` for arguments that do not fit; a schedule that races or deadlocks is an outcome,
    not an exception.
    """
    return Executor(compiled, kernel, counter_stall=counter_stall).run(
        trips=trips,
        timing=timing,
        order=order,
        seed=seed,
        undefined=undefined,
        operands=(a, b),
        trace=trace,
    )


def dry_run(
    compiled: CompiledSchedule,
    *,
    trips: int,
    kernel: Kernel | None = None,
    timing: str = "worst",
    order: Order = "forward",
    seed: int = 0,
    undefined: str = "poison",
    trace: bool = False,
    counter_stall: bool | None = None,
) -> Execution:
    """As ``execute``, on tile numbers instead of data: says whether C would be right, and why not.

    It is correct exactly when ``execute`` gives A @ B.T, and much faster.
    """
    return Executor(compiled, kernel, counter_stall=counter_stall).run(
        trips=trips, timing=timing, order=order, seed=seed, undefined=undefined, trace=trace
    )


def operands(
    compiled: CompiledSchedule, *, trips: int, kernel: Kernel | None = None, seed: int = 0
) -> Operands:
    """The smallest A and B that ``execute`` takes at ``trips``, in random small integers."""
    check_int("execute", "seed", seed, 0)
    return small_operands(Executor(compiled, kernel).program(trips), seed)


def _is_poison(undefined: object, timing: Timing) -> bool:
    if undefined not in UNDEFINED:
        raise ConfigError(
            f"undefined is {undefined!r}, but must be 'poison' or 'memory'",
            hint="'poison' shows every undefined read, 'memory' the old content",
            field="execute.undefined",
        )
    if timing.whole_flight and undefined == "memory":
        raise ConfigError(
            f"timing {timing.name!r} looks at every moment at once, so it cannot show memory",
            hint="use undefined='memory' with timing late, early, stale, overrun or random",
            field="execute.undefined",
        )
    return undefined == "poison"
