"""Who reads which write of registers: a wave's own, so its program order decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeloom.program import Box
from pipeloom.program.tiles import contains, overlap, subtract
from pipeloom.sync.demands import Ordering, Who
from pipeloom.sync.touches import Touch, Touches, Value
from pipeloom.sync.walk import Walk

Places = dict[tuple[str, int], list[tuple[Box, int]]]
"""Parts of each copy of a register resource, and the event that each belongs to."""


@dataclass(slots=True)
class Registers:
    """One group's registers in one run; ``found`` are the touches of each of its events.

    ``sources`` are the writes that each event's reads see, ``unset`` reads that no write precedes,
    ``kept`` the pairs whose order nobody may change.
    """

    walk: Walk
    found: Sequence[Sequence[Touch]]
    touches: Touches
    sources: list[set[int]] = field(default_factory=list)
    unset: dict[int, str] = field(default_factory=dict)
    kept: dict[tuple[int, int], None] = field(default_factory=dict)
    _claims: list[tuple[int, int, Value]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sources = [set() for _ in self.walk.events]
        for wave in self._waves():
            self._follow(wave)

    def wanted(self) -> dict[int, Value]:
        """What the users of each copy take it for, where they agree: better than its own claim."""
        found: dict[int, set[Value]] = {}
        for writer, user, claim in sorted(self._claims, reverse=True):
            is_copy = self.walk.events[user].work.is_copy
            found.setdefault(writer, set()).update(found.get(user, {claim}) if is_copy else {claim})
        return {n: values.pop() for n, values in found.items() if len(values) == 1}

    def moved(self) -> dict[int, Value]:
        """What a copy out of registers moves: what was brought there, whatever it claims."""
        found: dict[int, Value] = {}
        for number, touches in enumerate(self.found):
            values = {found.get(source) for source in self.sources[number]}
            if not self.walk.events[number].work.is_copy:
                continue
            value = values.pop() if len(values) == 1 else next((t.value for t in touches), None)
            if value is not None:
                found[number] = value
        return found

    def orderings(self, live: set[Who]) -> Iterator[Ordering]:
        """A load before its users, live or not, and before a live write of the same registers."""
        pairs: dict[tuple[int, int], None] = {}
        for number, sources in enumerate(self.sources):
            pairs |= dict.fromkeys((source, number) for source in sorted(sources))
        for wave in self._waves():
            pairs |= dict.fromkeys(self._overwritten(wave, live))
        for first, second in pairs:
            if self.walk.events[first].work.counter is not None:
                yield Ordering((self.walk.group, first), (self.walk.group, second), True)

    def _waves(self) -> list[int]:
        """One wave of each kind that uses other parts of the registers than the others."""
        kinds: dict[tuple[Box, ...], int] = {}
        apart = [t for _, t in self._touched() if len(t.boxes) > 1]
        for wave in range(max((len(t.boxes) for t in apart), default=1)):
            kinds.setdefault(tuple(t.boxes[wave] for t in apart), wave)
        return list(kinds.values())

    def _touched(self) -> Iterator[tuple[int, Touch]]:
        for number, found in enumerate(self.found):
            for touch in found:
                if not self.touches.is_lds(touch):
                    yield number, touch

    def _follow(self, wave: int) -> None:
        held: Places = {}
        users: Places = {}
        for number, touch in self._touched():
            box, place = touch.box(wave), (touch.resource, touch.copy)
            writers, readers = held.setdefault(place, []), users.setdefault(place, [])
            if touch.reads:
                seen = [(part, w) for part, w in writers if overlap(part, box) is not None]
                self.sources[number].update(w for _, w in seen)
                self.kept |= dict.fromkeys((w, number) for _, w in seen)
                if touch.value is not None:
                    self._claims += [(w, number, touch.value) for _, w in seen]
                rest = [box]
                for part, _ in seen:
                    rest = [r for old in rest for r in subtract(old, part)]
                if rest and self.touches.start(touch) is None:
                    self.unset.setdefault(number, touch.resource)
                readers.append((box, number))
            if touch.writes:
                if self.walk.events[number].work.when is None:
                    writers[:] = [(r, w) for part, w in writers for r in subtract(part, box)]
                writers.append((box, number))
                for part, reader in readers:
                    if reader != number and overlap(part, box) is not None:
                        self.kept.setdefault((reader, number))
                readers[:] = [r for r in readers if not contains(box, r[0])]

    def _overwritten(self, wave: int, live: set[Who]) -> Iterator[tuple[int, int]]:
        """Writes that may still be in flight when a live one of the same registers is issued."""
        flying: Places = {}
        for number, touch in self._touched():
            if not touch.writes:
                continue
            box = touch.box(wave)
            state = flying.setdefault((touch.resource, touch.copy), [])
            if (self.walk.group, number) in live:
                for part, writer in state:
                    if writer != number and overlap(part, box) is not None:
                        yield writer, number
                state[:] = [s for s in state if not contains(box, s[0])]
            state.append((box, number))
