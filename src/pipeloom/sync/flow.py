"""What must be ordered, read off the data flow.

Registers are a wave's own, so its program order says who reads what. LDS is shared, and there the
values decide: a read is meant to see the writes of its value, by whatever group, and must be over
before the next ones. An ``Ordering`` is one such demand between two events of one run: the first
must have *retired* when the second is *issued*. Only what reaches an output makes demands.

Groups with one script agree in program order, or nothing can help: an ``OrderConflict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeloom.errors import OrderError
from pipeloom.program import Box, NodeKind
from pipeloom.program.tiles import contains, overlap, subtract
from pipeloom.sync.script import Scripts
from pipeloom.sync.touches import Touch, Touches
from pipeloom.sync.walk import Event, Run, Walk

Who = tuple[int, int]
"""An event: group, number in its walk."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """``first`` must have retired when ``second`` is issued, in the same wave or in others."""

    first: Who
    second: Who
    same_wave: bool


@dataclass(frozen=True, slots=True)
class OrderConflict:
    """``early`` comes before ``late`` in the script, but has to come after it."""

    early: Who
    late: Who
    what: str


@dataclass(frozen=True, slots=True)
class Rivals:
    """A live read and a write of the same bytes of LDS, in one wave or in two (or both).

    ``newer`` says whether the write is of a later generation than the read means.
    """

    read: Who
    write: Who
    newer: bool
    same_wave: bool
    cross_wave: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """The demands of one run, and what every legal order must respect.

    ``kept`` are pairs of events of one wave that registers hold in their order.
    """

    run: Run
    orderings: tuple[Ordering, ...]
    conflicts: tuple[OrderConflict, ...]
    rivals: tuple[Rivals, ...]
    kept: tuple[tuple[Who, Who], ...]


def flow(scripts: Scripts, touches: Touches, run: Run) -> Flow:
    """The orderings that make every live read see its own value, and the order's conflicts."""
    return _Study(scripts, touches, run).result()


@dataclass(slots=True)
class _Exchange:
    """A read of LDS, and what it asks for: before it, after it, and what cannot be."""

    read: Touch
    meant: list[Touch] = field(default_factory=list)
    orders: list[tuple[Touch, Touch]] = field(default_factory=list)
    conflicts: list[OrderConflict] = field(default_factory=list)


class _Study:
    def __init__(self, scripts: Scripts, touches: Touches, run: Run) -> None:
        self._scripts = scripts
        self._touches = touches
        self._run = run
        self._by_event: dict[Who, list[Touch]] = {}
        self._writes: dict[tuple[str, int, int], list[Touch]] = {}
        for walk in run.walks:
            for number, event in enumerate(walk.events):
                found = list(touches.of(walk.group, number, event, run.iterations))
                self._by_event[walk.group, number] = found
                for touch in found:
                    if touch.writes and touches.is_lds(touch):
                        key = (touch.resource, touch.copy, walk.group)
                        self._writes.setdefault(key, []).append(touch)

    def result(self) -> Flow:
        sources: dict[Who, set[Who]] = {}
        unset: dict[Who, str] = {}
        kept: dict[tuple[Who, Who], None] = {}
        for walk in self._run.walks:
            for wave in self._kinds(walk):
                self._reach(walk, wave, sources, unset, kept)
        exchanges = [
            self._exchange(touch)
            for found in self._by_event.values()
            for touch in found
            if touch.reads and self._touches.is_lds(touch)
        ]
        for exchange in exchanges:
            who = (exchange.read.group, exchange.read.event)
            sources.setdefault(who, set()).update((w.group, w.event) for w in exchange.meant)
        live = _reachable(self._stores(), sources)
        for who in sorted(live & unset.keys()):
            raise OrderError(
                f"{self.words(who)} reads registers {unset[who]} before anything loads them",
                hint="load them first; no synchronisation can repair this",
            )
        orderings: dict[Ordering, None] = {}
        rivals: list[Rivals] = []
        conflicts: dict[tuple[Who, Who], OrderConflict] = {}
        for walk in self._run.walks:
            for ordering in self._register_orderings(walk, live, sources):
                orderings.setdefault(ordering)
        for exchange in exchanges:
            if (exchange.read.group, exchange.read.event) in live:
                if not exchange.meant and not exchange.conflicts:
                    self._lost(exchange.read)
                rivals.extend(self._rivals(exchange.read))
                for conflict in exchange.conflicts:
                    conflicts.setdefault((conflict.early, conflict.late), conflict)
                for first, second in exchange.orders:
                    for ordering in self._orderings(first, second):
                        orderings.setdefault(ordering)
        return Flow(
            self._run,
            tuple(orderings),
            tuple(conflicts.values()),
            tuple(rivals),
            tuple(kept),
        )

    def words(self, who: Who) -> str:
        """An event by place and label."""
        return describe(self._scripts, self._event(who))

    def _event(self, who: Who) -> Event:
        return self._run.walks[who[0]].events[who[1]]

    # --- registers --------------------------------------------------------------------------------

    def _kinds(self, walk: Walk) -> Iterator[int]:
        """One wave of each kind that uses other parts of the registers than the others."""
        seen: set[tuple[Box, ...]] = set()
        for wave in range(len(self._scripts.program.groups[walk.group].waves)):
            kind = tuple(
                touch.boxes[wave]
                for number in range(len(walk.events))
                for touch in self._by_event[walk.group, number]
                if len(touch.boxes) > 1 and not self._touches.is_lds(touch)
            )
            if kind not in seen:
                seen.add(kind)
                yield wave

    def _registers(self, who: Who, wave: int) -> Iterator[tuple[Touch, Box]]:
        for touch in self._by_event[who]:
            if not self._touches.is_lds(touch):
                yield touch, touch.boxes[wave] if len(touch.boxes) > 1 else touch.boxes[0]

    def _reach(
        self,
        walk: Walk,
        wave: int,
        sources: dict[Who, set[Who]],
        unset: dict[Who, str],
        kept_order: dict[tuple[Who, Who], None],
    ) -> None:
        """Which writes each read of registers sees in program order."""
        held: dict[tuple[str, int], list[tuple[Box, int]]] = {}
        users: dict[tuple[str, int], list[tuple[Box, int]]] = {}
        for number, event in enumerate(walk.events):
            who = (walk.group, number)
            found = sources.setdefault(who, set())
            for touch, box in self._registers(who, wave):
                place = (touch.resource, touch.copy)
                state = held.setdefault(place, [])
                if touch.reads:
                    rest = [box]
                    for part, writer in state:
                        if overlap(part, box) is not None:
                            found.add((walk.group, writer))
                            kept_order.setdefault(((walk.group, writer), who))
                            rest = [r for old in rest for r in subtract(old, part)]
                    if rest and self._touches.start(touch) is None:
                        unset.setdefault(who, touch.resource)
                    users.setdefault(place, []).append((box, number))
                if touch.writes:
                    kept = state
                    if event.work.when is None:
                        kept = [(r, w) for part, w in state for r in subtract(part, box)]
                    held[place] = [*kept, (box, number)]
                    for part, user in users.get(place, ()):
                        if user != number and overlap(part, box) is not None:
                            kept_order.setdefault(((walk.group, user), who))
                    users[place] = [u for u in users.get(place, ()) if not contains(box, u[0])]

    def _register_orderings(
        self, walk: Walk, live: set[Who], sources: dict[Who, set[Who]]
    ) -> Iterator[Ordering]:
        """A load before its users; and before a live write of the same registers."""
        for number in range(len(walk.events)):
            who = (walk.group, number)
            if who in live:
                for source in sorted(sources[who]):
                    shares = source[0] == walk.group and source[1] < number
                    if shares and self._through_registers(source, who):
                        yield from self._own(source, who)
        for wave in self._kinds(walk):
            flying: dict[tuple[str, int], list[tuple[Box, int]]] = {}
            for number in range(len(walk.events)):
                who = (walk.group, number)
                for touch, box in self._registers(who, wave):
                    if not touch.writes:
                        continue
                    state = flying.setdefault((touch.resource, touch.copy), [])
                    if who in live:
                        for part, writer in state:
                            if writer != number and overlap(part, box) is not None:
                                yield from self._own((walk.group, writer), who)
                        state[:] = [s for s in state if not contains(box, s[0])]
                    state.append((box, number))

    def _through_registers(self, source: Who, user: Who) -> bool:
        written = {t.resource for t in self._by_event[source] if t.writes}
        return any(
            t.reads and t.resource in written and not self._touches.is_lds(t)
            for t in self._by_event[user]
        )

    def _own(self, first: Who, second: Who) -> Iterator[Ordering]:
        if self._event(first).work.counter is not None:
            yield Ordering(first, second, True)

    # --- LDS --------------------------------------------------------------------------------------

    def _exchange(self, read: Touch) -> _Exchange:
        found = _Exchange(read)
        around = []
        for group in range(len(self._run.walks)):
            rivals = [
                w
                for w in self._writes.get((read.resource, read.copy, group), ())
                if w.event != read.event or group != read.group
                if any(self._touches.related(w, read)[:2])
            ]
            if rivals:
                around.append(self._around(found, rivals, group))
        for older, newer in around:
            for write in older:
                found.orders.extend((write, meant) for meant in found.meant)
            found.orders.extend((read, write) for write in newer)
        found.orders.extend((meant, read) for meant in found.meant)
        return found

    def _around(
        self, found: _Exchange, rivals: list[Touch], group: int
    ) -> tuple[list[Touch], list[Touch]]:
        """The last writes of one group before those that the read means, and the next after it.

        Adds to ``found`` the writes that are meant, and what cannot be.
        """
        read = found.read
        matches = [n for n, w in enumerate(rivals) if self._is_meant(w, read)]
        script = self._scripts.script_of
        comparable = script[group] == script[read.group]
        if not matches:
            return self._strangers(found, rivals, group)
        if comparable:
            before = [n for n in matches if rivals[n].event < read.event]
            if not before:
                self._conflict(found, read, rivals[matches[0]], "the load must come first")
                return [], []
            last = before[-1]
        else:
            last = matches[0]
            while last + 1 in matches:
                last += 1
        first = last
        while first - 1 in matches:
            first -= 1
        found.meant.extend(rivals[first : last + 1])
        newer = [w for n, w in enumerate(rivals) if n > last and n not in matches]
        if comparable and newer and newer[0].event < read.event:
            what = "it loads the next generation before the last read of the old one"
            self._conflict(found, newer[0], read, what)
            return [], []
        return rivals[max(0, first - 1) : first], self._nearest(newer, read)

    def _strangers(
        self, found: _Exchange, rivals: list[Touch], group: int
    ) -> tuple[list[Touch], list[Touch]]:
        """Writes of a group that never writes what the read means: generations decide."""
        read = found.read
        older = [w for w in rivals if _age(w) <= _age(read)]
        newer = [w for w in rivals if _age(w) > _age(read)]
        if group == read.group:
            for write in older:
                if write.event > read.event:
                    self._conflict(found, read, write, "it writes an older generation")
            for write in newer:
                if write.event < read.event:
                    self._conflict(found, write, read, "it writes a newer generation too early")
        return older[-1:], self._nearest(newer, read)

    def _rivals(self, read: Touch) -> Iterator[Rivals]:
        for group in range(len(self._run.walks)):
            for write in self._writes.get((read.resource, read.copy, group), ()):
                same, cross, _ = self._touches.related(read, write)
                if (same or cross) and (group, write.event) != (read.group, read.event):
                    newer = not self._is_meant(write, read) and _age(write) > _age(read)
                    whose = (read.group, read.event), (group, write.event)
                    yield Rivals(*whose, newer, same, cross)

    def _nearest(self, newer: Sequence[Touch], read: Touch) -> list[Touch]:
        """The first writes after a read, in the read's own wave and in others; they cover the rest.

        Whoever issues a later one has issued these before.
        """
        chosen: dict[int, Touch] = {}
        for write in newer:
            for kind, applies in enumerate(self._touches.related(read, write)[:2]):
                if applies:
                    chosen.setdefault(kind, write)
        return list(dict.fromkeys(chosen.values()))

    def _is_meant(self, write: Touch, read: Touch) -> bool:
        return write.value == read.value and self._touches.related(write, read)[2]

    def _conflict(self, found: _Exchange, early: Touch, late: Touch, what: str) -> None:
        pair = (early.group, early.event), (late.group, late.event)
        found.conflicts.append(OrderConflict(*pair, what))

    def _orderings(self, first: Touch, second: Touch) -> Iterator[Ordering]:
        pair = (first.group, first.event), (second.group, second.event)
        same, cross, _ = self._touches.related(first, second)
        if same and self._event(pair[0]).work.counter is not None:
            yield Ordering(*pair, True)
        if cross:
            yield Ordering(*pair, False)

    def _stores(self) -> Iterator[Who]:
        meaning = self._scripts.program.meaning
        for walk in self._run.walks:
            for number, event in enumerate(walk.events):
                for access in event.work.writes:
                    name = access.resource
                    if name in meaning and meaning[name].kind is NodeKind.OUTPUT:
                        yield walk.group, number

    def _lost(self, read: Touch) -> None:
        if read.value is None or self._touches.start(read) is not None:
            return
        name, iteration = read.value
        raise OrderError(
            f"nothing brings {name} of iteration {iteration} to {read.resource}, where "
            f"{self.words((read.group, read.event))} is meant to read it",
            hint="the schedule loses data: no synchronisation and no order can repair that",
        )


def _age(touch: Touch) -> int:
    return -1 if touch.value is None else touch.value[1]


def _reachable(roots: Iterable[Who], sources: dict[Who, set[Who]]) -> set[Who]:
    found: set[Who] = set()
    stack = list(roots)
    while stack:
        who = stack.pop()
        if who not in found:
            found.add(who)
            stack.extend(sources.get(who, ()))
    return found


def describe(scripts: Scripts, event: Event) -> str:
    """``loop[3] read A0 of iteration 2``, by its place in the section that was given."""
    s, r, p = scripts.places[event.gap]
    row = scripts.scripts[s].rows[r]
    served = "" if event.iteration is None else f" of iteration {event.iteration}"
    return f"{row.section.name}{row.name(p)}{served}"
