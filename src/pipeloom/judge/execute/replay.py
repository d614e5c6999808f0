"""Steer a run: bring the waves into one chosen state, then let them finish.

A verifier says: "nothing orders X of wave v before Y of wave w". Whoever doubts it wants to see
that happen. ``provoke`` does it from the two accesses alone:

    execution = provoke(compiled, trips=1, first=(1, 13), second=(0, 24))
    execution.pair.state        FlightState.IN_FLIGHT: X had not retired when Y issued
    execution.correct           False: a wrong sum, or poison
    print(execution.describe())

It runs w through the issue of Y while every other wave goes only as far as w's barriers force it
to, so v is as far behind as the model allows; if X has retired even so, the pair is ordered. Then
w pauses and v runs through X, so that the two are in flight together, and the rest follows.

``replay`` takes the same steps as a script of your own:

    replay(compiled, [Hold(0, 24), RunThrough(1, 40), Land(0, 12, Moment.LATE)], trips=1)

Steps are counted as in ``kernel.walk(compiled, wave, trips)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError
from pipeloom.judge.execute.order import Order, wave_last
from pipeloom.judge.execute.outcome import Access, Execution, FlightState, PairReport, SymptomKind
from pipeloom.judge.execute.program import Op
from pipeloom.judge.execute.run import Executor, Session
from pipeloom.judge.execute.timing import Moment, timing_named
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel

if TYPE_CHECKING:
    from pipeloom.judge.execute.run import Operands


@dataclass(frozen=True, slots=True)
class RunTo:
    """Run ``wave`` until it is about to execute ``step``; others only as its barriers need."""

    wave: int
    step: int


@dataclass(frozen=True, slots=True)
class RunThrough:
    """Run ``wave`` until it has executed ``step``; others only as its barriers need.

    A load or fragment load has then been issued; it has landed only if it lands at issue.
    """

    wave: int
    step: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep ``wave`` from executing ``step`` and all after it, until the script has ended."""

    wave: int
    step: int


@dataclass(frozen=True, slots=True)
class Land:
    """Let the op of ``wave`` at ``step`` touch memory at this moment, whatever the timing says."""

    wave: int
    step: int
    moment: Moment


Directive = RunTo | RunThrough | Hold | Land


def replay(
    compiled: CompiledSchedule,
    script: Sequence[Directive],
    *,
    trips: int,
    kernel: Kernel | None = None,
    timing: str = "late",
    order: Order = "forward",
    seed: int = 0,
    undefined: str = "poison",
    operands: Operands | None = None,
) -> Execution:
    """Follow ``script``, then run to the end in ``order``; the execution has its trace.

    ``unreached`` of the result is empty, or says which directive barriers or a hold made
    impossible; the script ends there. ``Land`` directives hold for the whole run, wherever they
    stand in the script.
    """
    return Replayer(compiled, kernel).replay(
        script,
        trips=trips,
        timing=timing,
        order=order,
        seed=seed,
        undefined=undefined,
        operands=operands,
    )


def provoke(
    compiled: CompiledSchedule,
    *,
    trips: int,
    first: tuple[int, int],
    second: tuple[int, int],
    kernel: Kernel | None = None,
    operands: Operands | None = None,
) -> Execution:
    """Let ``second`` happen before ``first`` has retired, if waits and barriers let it.

    Both are (wave, step). ``first`` is what ought to come first: the load that a fragment load
    needs, the read of old data that a load overwrites, the fragment load that an MMA takes.
    The execution has its trace, and ``pair`` tells what was achieved.
    """
    return Replayer(compiled, kernel).provoke(
        trips=trips, first=first, second=second, operands=operands
    )


class Replayer:
    """``replay`` and ``provoke`` for many counterexamples of one schedule."""

    def __init__(
        self,
        compiled: CompiledSchedule,
        kernel: Kernel | None = None,
        *,
        counter_stall: bool | None = None,
    ) -> None:
        self._executor = Executor(compiled, kernel, counter_stall=counter_stall)

    def replay(
        self,
        script: Sequence[Directive],
        *,
        trips: int,
        timing: str = "late",
        order: Order = "forward",
        seed: int = 0,
        undefined: str = "poison",
        operands: Operands | None = None,
    ) -> Execution:
        """As the function of that name."""
        lands: dict[tuple[int, int], Moment] = {}
        for directive in script:
            _check_directive(directive)
            op = _op_at(self._executor, trips, Access(directive.wave, directive.step))
            if isinstance(directive, Land):
                _check_land(directive, op, timing)
                lands[directive.wave, directive.step] = directive.moment
        session = Session(
            self._executor,
            trips,
            timing,
            seed=seed,
            undefined=undefined,
            operands=operands,
            trace=True,
            overrides=lands,
        )
        unreached = _follow(session, script)
        return replace(session.finish(order, seed), unreached=unreached)

    def provoke(
        self,
        *,
        trips: int,
        first: tuple[int, int],
        second: tuple[int, int],
        operands: Operands | None = None,
    ) -> Execution:
        """As the function of that name."""
        x, y = _access("first", first), _access("second", second)
        early, late = (_op_at(self._executor, trips, access) for access in (x, y))
        if early is None or late is None:
            at = x if early is None else y
            raise ConfigError(
                f"{at} is a wait, a barrier or a fence: it touches no memory",
                hint="name two data ops",
                field="provoke.first" if early is None else "provoke.second",
            )
        session = Session(self._executor, trips, "worst", operands=operands, trace=True)
        machine, lines = session.machine, session.lines
        x_issued, y_issued = (
            _after_issue(lines[op.wave].events, lines[op.wave].starts[op.step], op)
            for op in (early, late)
        )
        reached = machine.advance(y.wave, y_issued)
        position = machine.position[x.wave]
        state = FlightState.NOT_ISSUED if reached else FlightState.UNREACHED
        if reached and x_issued <= position:
            retired = lines[x.wave].lands.get(early.uid, x_issued - 1) < position
            state = FlightState.RETIRED if retired else FlightState.IN_FLIGHT
        if x.wave != y.wave:
            machine.run(x.wave, x_issued)
        execution = session.finish(wave_last(len(lines), x.wave))
        unreached = "" if reached else f"{y} cannot be reached: the waves deadlock before it"
        pair = PairReport(x, y, state, _is_witnessed(execution, x, y))
        if not pair.unordered:
            pair = replace(pair, witnessed=False)
        return replace(execution, pair=pair, unreached=unreached)


def _check_directive(directive: object) -> None:
    if not isinstance(directive, Directive):
        raise ConfigError(
            f"{directive!r} is not a directive",
            hint="use RunTo, RunThrough, Hold or Land",
            field="replay.script",
        )


def _access(name: str, pair: object) -> Access:
    if isinstance(pair, tuple) and len(pair) == 2:
        return Access(*pair)
    raise ConfigError(
        f"provoke.{name} is {pair!r}, but must be a pair (wave, step)",
        hint="a finding's place has both: (place.wave, place.step)",
        field=f"provoke.{name}",
    )


def _op_at(executor: Executor, trips: int, access: Access) -> Op | None:
    program = executor.program(trips)
    check_int("replay", "wave", access.wave, 0, len(program.waves) - 1)
    lines = program.waves[access.wave].lines
    check_int("replay", "step", access.step, 0, len(lines) - 1)
    return lines[access.step].issue


def _check_land(directive: Land, op: Op | None, timing: str) -> None:
    if timing_named(timing).whole_flight:
        raise ConfigError(
            f"timing {timing!r} looks at every moment of each flight at once",
            hint="use Land with timing early, late, stale, overrun or random",
            field="replay.timing",
        )
    if op is None or not op.counted:
        at = Access(directive.wave, directive.step)
        raise ConfigError(
            f"{at} is never in flight, so it has no moment to choose",
            hint="name a load or a fragment load",
            field="replay.script",
        )


def _after_issue(events: Sequence[tuple[bool, Op]], start: int, op: Op) -> int:
    """The number of events up to and with the issue of ``op``, which begins at ``start``."""
    at = start
    while events[at][0] or events[at][1].uid != op.uid:
        at += 1
    return at + 1


def _follow(session: Session, script: Sequence[Directive]) -> str:
    """Do what the script says; returns the directive that was impossible, in words."""
    holds: dict[int, int] = {}
    for directive in script:
        if isinstance(directive, Land):
            continue
        line = session.lines[directive.wave]
        at = line.starts[directive.step]
        if isinstance(directive, Hold):
            holds[directive.wave] = min(at, holds.get(directive.wave, at))
            if session.machine.position[directive.wave] > at:
                return f"{directive} comes too late: the wave is past that step"
            continue
        if isinstance(directive, RunThrough):
            following = directive.step + 1
            at = line.starts[following] if following < len(line.starts) else len(line.events)
        if not session.machine.advance(directive.wave, at, holds):
            return f"{directive} is impossible: a barrier before it needs a wave that cannot come"
    return ""


def _is_witnessed(execution: Execution, first: Access, second: Access) -> bool:
    """Whether a wrong result names the pair: a poisoned read of one during the other's flight, a
    multiplication that did not wait for its operand, or one of another tile that a read fetched."""
    pair = {first, second}
    if any(read.consumed and pair <= {read.at, *read.causes} for read in execution.poisoned_reads):
        return True
    return any(
        first in symptom.sources
        if symptom.at == second
        else symptom.kind is not SymptomKind.POISON and bool(pair & set(symptom.sources))
        for symptom in execution.symptoms
    )
