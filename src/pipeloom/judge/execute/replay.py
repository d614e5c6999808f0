"""Steer a run: bring two accesses together in the wrong order, then let the waves finish.

A verifier says: "nothing orders X of wave v before Y of wave w". Whoever doubts it wants to see
that happen. ``provoke`` does it from the two places alone:

    outcome = provoke(program, trips=1, first=(1, "loop", 13, 2), second=(0, "loop", 24, 3))
    outcome.meeting             Meeting.IN_FLIGHT: X had not retired when Y issued
    outcome.correct             False: a wrong or undefined number
    print(outcome.describe())

It runs w through the issue of Y while every other wave goes only as far as w's barriers force it
to, so v is as far behind as the model allows; if X has retired even so, the pair is ordered. Then
v runs through X, so that the two are in flight together, and the rest follows, v last.

``replay`` takes a finding as it is: any value with ``trips`` and ``places`` (or ``first`` and
``second``). It tries the pair both ways round, then every hostile order at those trip counts, and
returns the first outcome that shows something, or else the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pipeloom.errors import ConfigError
from pipeloom.judge.execute.order import adversarial_orders, wave_last
from pipeloom.judge.execute.outcome import Meeting, Outcome, Place
from pipeloom.judge.execute.run import Executor, Session
from pipeloom.judge.execute.timing import Timeline, What
from pipeloom.judge.execute.walk import Line, Trips
from pipeloom.program import VOCABULARY, Program, Vocabulary

SEEDS = 3
"""How many sets of inputs a replay tries: three at a time."""
POLICIES = ("worst", "late", "stale", "overrun", "early")


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

    Both are places: (wave, section, slot, iteration). ``first`` is what ought to come first: the
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
) -> Outcome:
    """See what a finding says happen: the first outcome that is not clean."""
    executor = program if isinstance(program, Executor) else Executor(program, ops=ops)
    at = _trips(executor.program, finding) if trips is None else trips
    places = _places(finding)
    outcome = None
    for outcome in _attempts(executor, at, places):
        if not outcome.correct:
            return outcome
    for seed in range(SEEDS):
        outcome = executor.run(trips=at, seed=seed, explain=True, trace=True)
        if not outcome.clean:
            break
    assert outcome is not None
    return outcome


def _attempts(
    executor: Executor, trips: Trips | int, places: tuple[Place, ...]
) -> Iterator[Outcome]:
    works = []
    for place in places:
        try:
            works.append(_line(executor, trips, "replay", place).place)
        except ConfigError:
            continue
    if len(works) > 1:
        for seed in range(SEEDS):
            for first, second in ((works[0], works[1]), (works[1], works[0])):
                yield provoke(executor, trips=trips, first=first, second=second, seed=seed)
    for seed in range(SEEDS):
        for order in adversarial_orders(executor.program.waves):
            yield executor.run(trips=trips, order=order, seed=seed, explain=True, trace=True)
    for policy in POLICIES[1:]:
        for order in ("forward", "reverse"):
            yield executor.run(trips=trips, policy=policy, order=order, explain=True, trace=True)


def _trips(program: Program, finding: Any) -> dict[str, int]:
    found = getattr(finding, "trips", None)
    if isinstance(found, int):
        return dict.fromkeys(program.min_trips, found)
    return {**program.min_trips, **(dict(found) if found is not None else {})}


def _places(finding: Any) -> tuple[Place, ...]:
    found = getattr(finding, "places", None)
    if found is None:
        found = [getattr(finding, name, None) for name in ("first", "second")]
    return tuple(_place(item) for item in found if item is not None)


def _place(item: Any) -> Place:
    if isinstance(item, tuple):
        return Place(*item[:4])
    return Place(item.wave, item.section, item.slot, item.iteration)


def _line(executor: Executor, trips: Trips | int, what: str, place: Iterable[Any]) -> Line:
    """The data step at a place; an iteration of None means the first."""
    wanted = Place(*place)
    walks = executor.walks(trips)
    lines = walks[wanted.wave].lines if 0 <= wanted.wave < len(walks) else ()
    here = [
        line
        for line in lines
        if (line.place.section, line.place.slot) == (wanted.section, wanted.slot)
    ]
    found = [l for l in here if wanted.iteration in (None, l.place.iteration)]
    if not found or found[0].action is None:
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


