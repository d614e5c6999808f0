"""What must be ordered, read off the data flow.

Who reads what follows from program order in registers (``register_reads``) and from values in LDS
(``exchange``). Only what reaches an output makes demands, but for one: nobody reads registers whose
load is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pipeloom.errors import OrderError
from pipeloom.program import NodeKind
from pipeloom.sync.demands import Flow, OrderConflict, Ordering, Rivals, Who
from pipeloom.sync.exchange import Exchange, Lds
from pipeloom.sync.register_reads import Registers
from pipeloom.sync.script import Scripts
from pipeloom.sync.touches import Touch, Touches
from pipeloom.sync.walk import Event, Run


def flow(scripts: Scripts, touches: Touches, run: Run) -> Flow:
    """The orderings that make every live read see its own value, and the order's conflicts."""
    found = [
        [list(touches.of(w.group, n, event, run.iterations)) for n, event in enumerate(w.events)]
        for w in run.walks
    ]
    registers = [Registers(walk, found[walk.group], touches) for walk in run.walks]
    moved, wanted = ([own.moved() for own in registers], [own.wanted() for own in registers])
    writes: dict[tuple[str, int], list[Touch]] = {}
    reads: list[Touch] = []
    for touch in (t for group in found for event in group for t in event if touches.is_lds(t)):
        is_copy = run.event(touch.who).work.is_copy
        if touch.writes:
            value = moved[touch.group].get(touch.event, touch.value)
            place = writes.setdefault((touch.resource, touch.copy), [])
            place.append(replace(touch, value=value))
        if touch.reads:
            value = wanted[touch.group].get(touch.event, touch.value) if is_copy else touch.value
            reads.append(replace(touch, value=value))
    lds = Lds(touches, scripts.script_of, writes)
    exchanges = [lds.exchange(touch) for touch in reads]

    sources: dict[Who, set[Who]] = {}
    for own in registers:
        for number, seen in enumerate(own.sources):
            sources[own.walk.group, number] = {(own.walk.group, source) for source in seen}
    for exchange in exchanges:
        sources[exchange.read.who].update(write.who for write in exchange.meant)
    live = _reachable(_stores(scripts, run), sources)

    orderings: dict[Ordering, None] = {}
    for own in registers:
        for number, name in own.unset.items():
            if (own.walk.group, number) in live:
                raise _unset(scripts, own.walk.events[number], name)
        orderings |= dict.fromkeys(own.orderings(live))
    conflicts: dict[tuple[Who, Who], OrderConflict] = {}
    rivals: list[Rivals] = []
    for exchange in exchanges:
        if exchange.read.who in live:
            _check_found(scripts, touches, run, exchange)
            conflicts |= {(c.early, c.late): c for c in exchange.conflicts}
            rivals.extend(lds.rivals(exchange.read))
            for first, second in exchange.orders:
                orderings |= dict.fromkeys(_orderings(touches, run, first, second))
    kept = [((g.walk.group, x), (g.walk.group, y)) for g in registers for x, y in g.kept]
    return Flow(run, tuple(orderings), tuple(conflicts.values()), tuple(rivals), tuple(kept))


def _stores(scripts: Scripts, run: Run) -> Iterator[Who]:
    meaning = scripts.program.meaning
    for walk in run.walks:
        for number, event in enumerate(walk.events):
            names = [a.resource for a in event.work.writes]
            if any(n in meaning and meaning[n].kind is NodeKind.OUTPUT for n in names):
                yield walk.group, number


def _reachable(roots: Iterable[Who], sources: Mapping[Who, set[Who]]) -> set[Who]:
    found: set[Who] = set()
    stack = list(roots)
    while stack:
        who = stack.pop()
        if who not in found:
            found.add(who)
            stack.extend(sources.get(who, ()))
    return found


def _orderings(touches: Touches, run: Run, first: Touch, second: Touch) -> Iterator[Ordering]:
    same, cross, _ = touches.related(first, second)
    if same and run.event(first.who).work.counter is not None:
        yield Ordering(first.who, second.who, True)
    if cross:
        yield Ordering(first.who, second.who, False)


def _check_found(scripts: Scripts, touches: Touches, run: Run, exchange: Exchange) -> None:
    read = exchange.read
    if exchange.meant or exchange.conflicts or read.value is None:
        return
    if touches.start(read) is None:
        name, iteration = read.value
        raise OrderError(
            f"nothing brings {name} of iteration {iteration} to {read.resource}, where "
            f"{describe(scripts, run.event(read.who))} is meant to read it",
            hint="the schedule loses data: no synchronisation and no order can repair that",
        )


def _unset(scripts: Scripts, event: Event, name: str) -> OrderError:
    return OrderError(
        f"{describe(scripts, event)} reads registers {name} before anything loads them",
        hint="load them first; no synchronisation can repair this",
    )


def describe(scripts: Scripts, event: Event) -> str:
    """``loop[3] read A0 of iteration 2``, by its place in the section that was given."""
    s, r, p = scripts.places[event.gap]
    row = scripts.scripts[s].rows[r]
    served = "" if event.iteration is None else f" of iteration {event.iteration}"
    return f"{row.section.name}{row.name(p)}{served}"
