"""What must be ordered in a run, read off the data flow.

Who reads which write of *registers* follows from a wave's program order. *LDS* is shared, and there
the values decide: a read is meant to see the writes of its value, by whatever group, and must be
over before the next ones. Groups with one script agree in program order, or nothing can help: a
conflict. Only what reaches an output makes demands, but for one: nobody reads registers whose load
is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from pipeloom.errors import OrderError
from pipeloom.sync.script import Scripts
from pipeloom.sync.touches import StorageTouch, Touches, Value
from pipeloom.sync.walk import Execution, Run, Walk


class OrderDemand(NamedTuple):
    """``first`` must have retired when ``second`` is issued, in the same wave or in others."""

    first: int
    second: int
    same_wave: bool


class OrderConflict(NamedTuple):
    """Event ``early`` comes before ``late`` in the script, but has to come after it."""

    early: int
    late: int
    what: str


class Rivals(NamedTuple):
    """A live read and a write of the same bytes of LDS, in one wave or in two (or both).

    ``newer`` says whether the write is of a later generation than the read means.
    """

    read: int
    write: int
    newer: bool
    same_wave: bool
    cross_wave: bool


class LdsAccess(NamedTuple):
    """An event that touches LDS, and the value that is meant."""

    event: int
    touch: StorageTouch
    value: Value | None

    @property
    def age(self) -> int:
        """The iteration of its value; -1 where none is known, or for what comes before."""
        return -1 if self.value is None else self.value[1]


Around = tuple[list[LdsAccess], list[LdsAccess]]
"""Of a group's writes, the last before those that a read means, and the first after the read."""


@dataclass(slots=True)
class Exchange:
    """A read of LDS, and what it asks for.

    ``meant`` are the writes that it reads; ``around`` has those around them, by group.
    """

    read: LdsAccess
    meant: list[LdsAccess] = field(default_factory=list)
    around: list[Around] = field(default_factory=list)
    conflicts: list[OrderConflict] = field(default_factory=list)

    def conflict(self, early: LdsAccess, late: LdsAccess, what: str) -> None:
        """Note that two stand the wrong way round."""
        self.conflicts.append(OrderConflict(early.event, late.event, what))


class Demands:
    """What one run asks for."""

    def __init__(self, run: Run, orderings: Sequence[OrderDemand] = ()) -> None:
        self.run = run
        self.orderings = orderings


class Flow(Demands):
    """The demands of one run: ``orderings`` that make every live read see its own value, and the
    ``conflicts`` of the order."""

    def __init__(self, scripts: Scripts, touches: Touches, run: Run) -> None:
        super().__init__(run)
        self._scripts, self._touches = scripts, touches
        self._values: dict[tuple[str, int | None], Value] = {}
        self._overlapping: dict[tuple[tuple[str, int], int, int], list[list[LdsAccess]]] = {}
        self._writes: dict[tuple[str, int], list[LdsAccess]] = {}
        at = zip(run.groups, run.events, strict=True)
        self._sites = [touches.sites[group][event.gap] for group, event in at]
        self._sources: list[set[int]] = [set() for _ in run.events]
        self._unset: dict[int, str] = {}
        exchanges = [self._exchange(read) for read in self._lds(self._follow())]
        self._live = self._reaching_outputs(exchanges)
        self._exchanges = [e for e in exchanges if self._live[e.read.event]]
        for number, name in self._unset.items():
            if self._live[number]:
                raise _unset(scripts, run.events[number], name)
        for exchange in self._exchanges:
            self._check_found(exchange)
        found = (conflict for exchange in self._exchanges for conflict in exchange.conflicts)
        self.conflicts = tuple({(c.early, c.late): c for c in found}.values())
        self.orderings = list(dict.fromkeys((*self._in_registers(), *self._in_lds())))

    def _value(self, touch: StorageTouch, number: int) -> Value | None:
        """What a touch of an event is meant to hold."""
        if touch.node is None:
            return None
        key = (touch.node, self.run.events[number].iteration)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._touches.value(*key, self.run.iterations)
        return found

    def _waves(self) -> Iterator[tuple[Walk, int]]:
        """One wave of each kind that uses other parts of the registers than the others."""
        for walk in self.run.walks:
            for kind in range(self._touches.kinds[walk.group]):
                yield walk, kind

    def _touching(
        self, walk: Walk, kind: int
    ) -> Iterator[tuple[int, StorageTouch, tuple[int, ...]]]:
        """What a wave's events touch of registers, and the cells of that."""
        for number in walk.events:
            site = self._sites[number]
            for touch, cells in zip(site.registers, site.cells[kind], strict=True):
                yield number, touch, cells

    def _follow(self) -> list[tuple[int, int, StorageTouch]]:
        """Find the writes of registers that each event reads, and reads that no write precedes.

        Returns who uses what a copy brought: the copy, its user, the user's touch.
        """
        used: list[tuple[int, int, StorageTouch]] = []
        sites, starts = self._sites, self._touches.starts
        for walk, kind in self._waves():
            held: dict[int, tuple[int, ...]] = {}
            for number, touch, cells in self._touching(walk, kind):
                if touch.reads:
                    seen: set[int] = set()
                    for cell in cells:
                        if cell in held:
                            seen.update(held[cell])
                        elif starts[touch.place[0]] is None:
                            self._unset.setdefault(number, touch.place[0])
                    self._sources[number] |= seen
                    if touch.node is not None:
                        used += [(w, number, touch) for w in seen if sites[w].work.is_copy]
                if touch.writes:
                    sure = sites[number].work.when is None
                    for cell in cells:
                        held[cell] = (number,) if sure else (*held.get(cell, ()), number)
        return used

    def _lds(self, used: list[tuple[int, int, StorageTouch]]) -> list[LdsAccess]:
        """Note the writes of LDS by place; returns the reads."""
        wanted, moved = self._wanted(used), self._moved()
        reads = []
        for number, site in enumerate(self._sites):
            for touch in site.lds:
                value = self._value(touch, number)
                if touch.writes:
                    brought = LdsAccess(number, touch, moved.get(number, value))
                    self._writes.setdefault(touch.place, []).append(brought)
                if touch.reads:
                    value = wanted.get(number, value) if site.work.is_copy else value
                    reads.append(LdsAccess(number, touch, value))
        return reads

    def _wanted(self, used: list[tuple[int, int, StorageTouch]]) -> dict[int, Value | None]:
        """What the users of each copy take it for, where they agree: better than its own claim."""
        found: dict[int, set[Value | None]] = {}
        for writer, user, touch in sorted(used, key=itemgetter(1), reverse=True):
            passed_on = found.get(user) if self._sites[user].work.is_copy else None
            found.setdefault(writer, set()).update(passed_on or {self._value(touch, user)})
        return {n: next(iter(values)) for n, values in found.items() if len(values) == 1}

    def _moved(self) -> dict[int, Value]:
        """What a copy out of registers moves: what was brought there, whatever it claims."""
        found: dict[int, Value] = {}
        for number, site in enumerate(self._sites):
            touch = next(iter((*site.registers, *site.lds)), None)
            if site.work.is_copy and touch is not None:
                values = {found.get(source) for source in self._sources[number]}
                value = values.pop() if len(values) == 1 else self._value(touch, number)
                if value is not None:
                    found[number] = value
        return found

    def _others(self, read: LdsAccess) -> Iterable[list[LdsAccess]]:
        """All writes of the bytes that an event reads, by group; its own is none of them."""
        own = read.event if any(touch.writes for touch in self._sites[read.event].lds) else -1
        key = (read.touch.place, read.touch.shape, own)
        if key not in self._overlapping:
            by_group: dict[int, list[LdsAccess]] = {}
            for write in self._writes.get(read.touch.place, ()):
                if write.event != own and any(self._touches.related(write.touch, read.touch)[:2]):
                    by_group.setdefault(write.touch.group, []).append(write)
            self._overlapping[key] = list(by_group.values())
        return self._overlapping[key]

    def _is_meant(self, write: LdsAccess, read: LdsAccess) -> bool:
        return write.value == read.value and self._touches.related(write.touch, read.touch)[2]

    def _exchange(self, read: LdsAccess) -> Exchange:
        """What a read asks for."""
        found = Exchange(read)
        for writes in self._others(read):
            meant = [n for n, write in enumerate(writes) if self._is_meant(write, read)]
            around = self._among(found, writes, meant) if meant else self._strangers(found, writes)
            found.around.append(around)
        return found

    def _among(self, found: Exchange, writes: list[LdsAccess], meant: list[int]) -> Around:
        """Add the writes of one group that are ``meant``, and return those around them."""
        read, scripts, walks = found.read, self._scripts.script_of, self.run.walks
        mine, theirs = read.touch.group, writes[0].touch.group
        comparable = scripts[mine] == scripts[theirs]
        # the event of that group that stands where the read does
        here = read.event + walks[theirs].events.start - walks[mine].events.start
        before = [n for n in meant if writes[n].event < here]
        if comparable and not before:
            found.conflict(read, writes[meant[0]], "the load must come first")
            return [], []
        last = before[-1] if comparable else meant[0]
        while not comparable and last + 1 in meant:
            last += 1
        first = last
        while first - 1 in meant:
            first -= 1
        found.meant += writes[first : last + 1]
        newer = [writes[n] for n in range(last + 1, len(writes)) if n not in meant]
        if comparable and newer and newer[0].event < here:
            what = "it loads the next generation before the last read of the old one"
            found.conflict(newer[0], read, what)
            return [], []
        return writes[max(0, first - 1) : first], self._first(newer, read)

    def _strangers(self, found: Exchange, writes: list[LdsAccess]) -> Around:
        """Writes of a group that never writes what the read means: generations decide."""
        read = found.read
        older = [w for w in writes if w.age <= read.age]
        newer = [w for w in writes if w.age > read.age]
        if writes[0].touch.group == read.touch.group:
            for write in older:
                if write.event > read.event:
                    found.conflict(read, write, "it writes an older generation")
            for write in newer:
                if write.event < read.event:
                    found.conflict(write, read, "it writes a newer generation too early")
        return older[-1:], self._first(newer, read)

    def _first(self, newer: Iterable[LdsAccess], read: LdsAccess) -> list[LdsAccess]:
        """The first of a group's writes that the read's own wave makes, and that others make.

        Whoever issues a later one has issued these before.
        """
        chosen: dict[int, LdsAccess] = {}
        for write in newer:
            for kind, applies in enumerate(self._touches.related(write.touch, read.touch)[:2]):
                if applies:
                    chosen.setdefault(kind, write)
        return list(dict.fromkeys(chosen.values()))

    def _reaching_outputs(self, exchanges: Sequence[Exchange]) -> bytearray:
        """By event, whether an output depends on it."""
        meant: dict[int, list[int]] = {}
        for exchange in exchanges:
            writes = [write.event for write in exchange.meant]
            meant.setdefault(exchange.read.event, []).extend(writes)
        live = bytearray(len(self._sites))
        stack = [number for number, site in enumerate(self._sites) if site.stores]
        while stack:
            number = stack.pop()
            if not live[number]:
                live[number] = True
                stack += self._sources[number]
                stack += meant.get(number, ())
        return live

    def _in_registers(self) -> Iterator[OrderDemand]:
        """A load before its users, live or not, and before a live write of the same registers."""
        places = self.run.places
        for number, sources in enumerate(self._sources):
            for source in sorted(sources):
                if places[source] >= 0:
                    yield OrderDemand(source, number, True)
        for walk, kind in self._waves():
            flying: dict[int, list[int]] = {}
            for number, touch, cells in self._touching(walk, kind):
                for cell in cells if touch.writes else ():
                    for load in flying.pop(cell, ()) if self._live[number] else ():
                        if load != number:
                            yield OrderDemand(load, number, True)
                    if places[number] >= 0:
                        flying.setdefault(cell, []).append(number)

    def _in_lds(self) -> Iterator[OrderDemand]:
        known: set[tuple[int, ...]] = set()
        for exchange in self._exchanges:
            read, meant = exchange.read, exchange.meant
            for older, newer in exchange.around:
                for write in older:
                    key = (write.event, *(m.event for m in meant))
                    if key not in known:
                        known.add(key)
                        yield from (o for m in meant for o in self._ordered(write, m))
                for write in newer:
                    yield from self._ordered(read, write)
            for write in meant:
                yield from self._ordered(write, read)

    def _ordered(self, first: LdsAccess, second: LdsAccess) -> Iterator[OrderDemand]:
        same, cross, _ = self._touches.related(first.touch, second.touch)
        if same and self.run.places[first.event] >= 0:
            yield OrderDemand(first.event, second.event, True)
        if cross:
            yield OrderDemand(first.event, second.event, False)

    @cached_property
    def kept(self) -> set[tuple[int, int]]:
        """Pairs of events of one wave that registers hold in their order."""
        found = {(w, number) for number, seen in enumerate(self._sources) for w in seen}
        for walk, kind in self._waves():
            readers: dict[tuple[str, int], list[tuple[set[int], int]]] = {}
            for number, touch, touched in self._touching(walk, kind):
                mine, cells = readers.setdefault(touch.place, []), set(touched)
                if touch.reads:
                    mine.append((cells, number))
                if touch.writes:
                    found |= {(r, number) for c, r in mine if r != number and c & cells}
                    mine[:] = [pair for pair in mine if not pair[0] <= cells]
        return found

    @cached_property
    def rivals(self) -> list[Rivals]:
        """Every live read of LDS with every write of the same bytes."""
        found = []
        for read in (exchange.read for exchange in self._exchanges):
            for write in (w for writes in self._others(read) for w in writes):
                same, cross, _ = self._touches.related(write.touch, read.touch)
                newer = not self._is_meant(write, read) and write.age > read.age
                found.append(Rivals(read.event, write.event, newer, same, cross))
        return found

    def _check_found(self, exchange: Exchange) -> None:
        read = exchange.read
        if exchange.meant or exchange.conflicts or read.value is None:
            return
        resource = read.touch.place[0]
        if self._touches.starts[resource] is None:
            name, iteration = read.value
            raise OrderError(
                f"nothing brings {name} of iteration {iteration} to {resource}, where "
                f"{describe(self._scripts, self.run.events[read.event])} is meant to read it",
                hint="the schedule loses data: no synchronisation and no order can repair that",
            )


def _unset(scripts: Scripts, event: Execution, name: str) -> OrderError:
    return OrderError(
        f"{describe(scripts, event)} reads registers {name} before anything loads them",
        hint="load them first; no synchronisation can repair this",
    )


def describe(scripts: Scripts, event: Execution) -> str:
    """``loop[3] read A0 of iteration 2``, by its place in the section that was given."""
    s, r, p = scripts.places[event.gap]
    row = scripts.scripts[s].rows[r]
    served = "" if event.iteration is None else f" of iteration {event.iteration}"
    return f"{row.section.name}{row.name(p)}{served}"
