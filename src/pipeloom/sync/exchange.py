"""Which writes of LDS a read means, which come before those, and which next.

LDS is shared, and there the values decide: a read is meant to see the writes of its value, by
whatever group, and must be over before the next ones. Groups with one script agree in program
order, or nothing can help: a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeloom.sync.demands import OrderConflict, Rivals
from pipeloom.sync.touches import Touch, Touches


@dataclass(slots=True)
class Exchange:
    """A read of LDS, and what it asks for.

    ``meant`` are the writes that it reads, ``orders`` pairs of which the first must be over before
    the second, ``conflicts`` what cannot be.
    """

    read: Touch
    meant: list[Touch] = field(default_factory=list)
    orders: list[tuple[Touch, Touch]] = field(default_factory=list)
    conflicts: list[OrderConflict] = field(default_factory=list)

    def conflict(self, early: Touch, late: Touch, what: str) -> None:
        """Note that two stand the wrong way round."""
        self.conflicts.append(OrderConflict(early.who, late.who, what))


Around = tuple[Sequence[Touch], Sequence[Touch]]
"""Writes before those that are meant, and after the read."""


@dataclass(frozen=True, slots=True)
class Lds:
    """The writes of one run, by place and group; ``script_of`` each group."""

    touches: Touches
    script_of: Sequence[int]
    writes: Mapping[tuple[str, int], Sequence[Touch]]

    def exchange(self, read: Touch) -> Exchange:
        """What a read asks for."""
        found = Exchange(read)
        by_group: dict[int, list[Touch]] = {}
        for write in self._overlapping(read):
            by_group.setdefault(write.group, []).append(write)
        around = [self._around(found, writes) for writes in by_group.values()]
        for older, newer in around:
            found.orders += [(write, meant) for write in older for meant in found.meant]
            found.orders += [(read, write) for write in self._first(newer, read)]
        found.orders += [(meant, read) for meant in found.meant]
        return found

    def rivals(self, read: Touch) -> Iterator[Rivals]:
        """Every write of the same bytes."""
        for write in self._overlapping(read):
            same, cross, _ = self.touches.related(read, write)
            newer = not self._is_meant(write, read) and write.age > read.age
            yield Rivals(read.who, write.who, newer, same, cross)

    def _overlapping(self, read: Touch) -> Iterator[Touch]:
        for write in self.writes.get((read.resource, read.copy), ()):
            if write.who != read.who and any(self.touches.related(write, read)[:2]):
                yield write

    def _is_meant(self, write: Touch, read: Touch) -> bool:
        return write.value == read.value and self.touches.related(write, read)[2]

    def _around(self, found: Exchange, writes: list[Touch]) -> Around:
        """Add the writes of one group that are meant, and return those around them."""
        read = found.read
        matches = [n for n, w in enumerate(writes) if self._is_meant(w, read)]
        if not matches:
            return self._strangers(found, writes)
        comparable = self.script_of[writes[0].group] == self.script_of[read.group]
        before = [n for n in matches if writes[n].event < read.event]
        if comparable and not before:
            found.conflict(read, writes[matches[0]], "the load must come first")
            return (), ()
        last = before[-1] if comparable else matches[0]
        while not comparable and last + 1 in matches:
            last += 1
        first = last
        while first - 1 in matches:
            first -= 1
        found.meant.extend(writes[first : last + 1])
        newer = [w for n, w in enumerate(writes) if n > last and n not in matches]
        if comparable and newer and newer[0].event < read.event:
            what = "it loads the next generation before the last read of the old one"
            found.conflict(newer[0], read, what)
            return (), ()
        return writes[max(0, first - 1) : first], newer

    def _strangers(self, found: Exchange, writes: list[Touch]) -> Around:
        """Writes of a group that never writes what the read means: generations decide."""
        read = found.read
        older = [w for w in writes if w.age <= read.age]
        newer = [w for w in writes if w.age > read.age]
        if writes[0].group == read.group:
            for write in older:
                if write.event > read.event:
                    found.conflict(read, write, "it writes an older generation")
            for write in newer:
                if write.event < read.event:
                    found.conflict(write, read, "it writes a newer generation too early")
        return older[-1:], newer

    def _first(self, newer: Sequence[Touch], read: Touch) -> list[Touch]:
        """The first of a group's writes that the read's own wave makes, and that others make.

        Whoever issues a later one has issued these before.
        """
        chosen: dict[int, Touch] = {}
        for write in newer:
            for kind, applies in enumerate(self.touches.related(read, write)[:2]):
                if applies:
                    chosen.setdefault(kind, write)
        return list(dict.fromkeys(chosen.values()))
