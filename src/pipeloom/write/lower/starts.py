"""Which registers a product starts, and which have to be written before.

A sum that starts at 0 needs no register of zeros: its first matrix instruction takes the constant
as what it adds to. That holds where the first product stands in straight code, ahead of any loop
and of anything else that touches the sum; a loop's products add to what is there.
"""

from __future__ import annotations

from collections.abc import Iterable


class Starts:
    """The registers of one group of waves that still hold their start, by place."""

    def __init__(self) -> None:
        self._open: dict[str, set[int]] = {}
        self._needed: dict[str, set[int]] = {}

    def begin(self, place: str, count: int, zero: bool) -> None:
        """``place`` has ``count`` registers with a start value."""
        (self._open if zero else self._needed)[place] = set(range(count))

    def take(self, place: str, first: int, count: int) -> bool:
        """Whether a product is the first to touch these registers, which then start with it."""
        mine = set(range(first, first + count))
        if not mine <= self._open.get(place, set()):
            return False
        self._open[place] -= mine
        return True

    def close(self, places: Iterable[str]) -> None:
        """Something else touches a place: what it holds so far must be there."""
        for place in places:
            if place in self._open:
                self._needed.setdefault(place, set()).update(self._open.pop(place))

    def close_all(self) -> None:
        """A loop begins."""
        self.close(tuple(self._open))

    def needed(self, place: str) -> list[int]:
        """The registers that have to be written before the first step."""
        return sorted(self._needed.get(place, set()))
