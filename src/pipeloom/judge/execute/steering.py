"""Steer a run: bring two accesses together in the wrong order, then let the waves finish.

A verifier says: "nothing orders X of wave v before Y of wave w". Whoever doubts it wants to see
that happen. ``provoke`` does it from the two places alone:

    outcome = provoke(program, trips=1, first=(1, "loop", 13, 0), second=(0, "loop", 24, 0))
    outcome.meeting             Meeting.IN_FLIGHT: X had not retired when Y issued
    outcome.correct             False: a wrong or undefined number
    print(outcome.describe())

It runs w through the issue of Y while every other wave goes only as far as w's barriers force it
to, so v is as far behind as the model allows; if X has retired even so, the pair is ordered. Then
v runs through X, so that the two are in flight together, and the rest follows, v last.

``replay`` takes a finding of the verifier, or any value with ``first``, ``second`` and ``counts``
or ``trips``. It tries the pair both ways round, then every hostile order at those trip counts, and
returns the first outcome that is wrong; else one in which a step read what it should not. Where
nothing shows, it tries with a few more trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pipeloom.errors import ConfigError
from pipeloom.judge.execute.access_times import Timeline, What
from pipeloom.judge.execute.executor import Executor, Session, adversarial_orders, wave_last
from pipeloom.judge.execute.outcome import Meeting, Outcome, StepAt
from pipeloom.judge.execute.unrolled import Line, Trips, trip_counts
from pipeloom.program import VOCABULARY, Program, Vocabulary

SEEDS = 4
"""How many inputs a replay tries (three sets each)."""
MORE = 2
"""Trips that it adds if nothing shows: equal start values may hide what goes wrong with others."""
POLICIES = ("late", "stale", "overrun", "early")


def provoke(
    program: Program | Executor,
    *,
    trips: Trips | int,
    first: Iterable[Any],
    second: Iterable[Any],
    policy: str = "worst",
    seed: int = 0,
    ops: Vocabulary = VOCABULARY,
    explain: bool = True,
    trace: bool = True,
) -> Outcome:
    """Let ``second`` happen before ``first`` has retired, if waits and barriers let it.

    Both are places: (wave, section, slot, trip). ``first`` is what ought to come first: the
    load that a read needs, the read of old data that a load overwrites.
    """
    executor = program if isinstance(program, Executor) else Executor(program, ops=ops)
    x, y = (
        _line(executor, trips, "provoke." + name, place)
        for name, place in (("first", first), ("second", second))
    )
    session = Session(executor, trips, policy, seed=seed, explain=explain, trace=trace)
    lines, machine = session.lines, session.machine
    v, w = x.place.wave, y.place.wave
    x_issued, y_issued = (_after_issue(lines[line.place.wave], line) for line in (x, y))
    reached = machine.advance(w, y_issued)
    position = machine.position[v]
    meeting = Meeting.NOT_ISSUED if reached else Meeting.UNREACHED
    if reached and x_issued <= position:
        retired = lines[v].written.get(x.number, x_issued - 1) < position
        meeting = Meeting.RETIRED if retired else Meeting.IN_FLIGHT
    if v != w:
        machine.run(v, x_issued)
    return replace(session.finish(wave_last(len(lines), v), seed), meeting=meeting)


def replay(
    program: Program | Executor,
    finding: Any,
    *,
    ops: Vocabulary = VOCABULARY,
    trips: Trips | int | None = None,
    explain: bool = True,
) -> Outcome:
    """See what a finding says happen: the first outcome that is wrong, or at least suspect.

    Without ``explain`` a wrong outcome has no suspects and no trace, in half the time.
    """
    executor = program if isinstance(program, Executor) else Executor(program, ops=ops)
    at = _trips(executor.program, finding) if trips is None else trips
    counts = trip_counts(executor.program, at)
    shown = _shown(executor, counts, _places(finding), explain)
    if shown.clean:
        more = {name: count + MORE for name, count in counts.items()}
        found = _shown(executor, more, _places(finding), explain)
        shown = shown if found.clean else found
    return shown


def _shown(executor: Executor, trips: Trips, places: tuple[StepAt, ...], explain: bool) -> Outcome:
    """The first attempt that is wrong, else the first that is suspect, else any."""
    outcome = suspect = None
    for attempt in _attempts(executor, trips, places):
        outcome = attempt(explain=False, trace=False)
        if not outcome.correct:
            return attempt(explain=True, trace=True) if explain else outcome
        if suspect is None and not (outcome := attempt(explain=True, trace=True)).clean:
            suspect = outcome
    assert outcome is not None
    return suspect or outcome


def _attempts(
    executor: Executor, trips: Trips | int, places: tuple[StepAt, ...]
) -> Iterator[Callable[..., Outcome]]:
    """Runs to try, each with or without an explanation: the pair itself, then hostile orders."""
    lines = [line for p in places for line in _found(executor, trips, p)[:1] if line.data]
    if len(lines) > 1:
        x, y = lines[0].place, lines[1].place
        for seed in range(SEEDS):
            for first, second in ((x, y), (y, x)):
                yield partial(provoke, executor, trips=trips, first=first, second=second, seed=seed)
    for seed in range(SEEDS):
        for order in adversarial_orders(executor.program.waves):
            yield partial(executor.run, trips=trips, order=order, seed=seed)
    for policy in POLICIES:
        for way in ("forward", "reverse"):
            yield partial(executor.run, trips=trips, policy=policy, order=way)


def _trips(program: Program, finding: Any) -> dict[str, int]:
    counts = dict(getattr(finding, "counts", ()))
    found = getattr(finding, "trips", 0)
    return counts or (dict(found) if isinstance(found, Mapping) else _all(program, found))


def _all(program: Program, trips: int) -> dict[str, int]:
    return {name: max(least, trips) for name, least in program.min_trips.items()}


def _places(finding: Any) -> tuple[StepAt, ...]:
    found = [getattr(finding, name, None) for name in ("first", "second")]
    return tuple(StepAt(p.wave, p.section, p.slot, p.iteration) for p in found if p is not None)


def _found(executor: Executor, trips: Trips | int, place: StepAt) -> list[Line]:
    """The lines at a place: one, or one per trip where it names none."""
    walks = executor.walks(trips)
    lines = walks[place.wave].lines if 0 <= place.wave < len(walks) else ()
    return [
        line
        for line in lines
        if (line.place.section, line.place.slot) == (place.section, place.slot)
        and place.trip in (None, line.place.trip)
    ]


def _line(executor: Executor, trips: Trips | int, what: str, place: Iterable[Any]) -> Line:
    """The data step at a place; a trip of None means the first."""
    wanted = StepAt(*place)
    found = _found(executor, trips, wanted)
    if not found or found[0].data is None:
        has = "is a wait, a barrier or a fence" if found else f"is not executed at trips {trips}"
        raise ConfigError(
            f"{wanted} {has}", hint="name two data steps that the waves execute", field=what
        )
    return found[0]


def _after_issue(timeline: Timeline, line: Line) -> int:
    """The number of events up to and with the issue of ``line``."""
    at = timeline.starts[line.number]
    while timeline.events[at] != (What.ISSUE, line):
        at += 1
    return at + 1
