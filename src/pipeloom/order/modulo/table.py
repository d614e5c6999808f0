"""The modulo reservation table of a search, as bit masks over the II slots.

Bit ``m`` of a mask stands for slot ``m``. Rotation and a few shifts answer "in which slots may
this op start" for all slots at once, also for occupancies of hundreds of cycles.
"""

from __future__ import annotations

from pipeloom.order.modulo.core import Hold


class ReservationTable:
    """How often each limited unit is held in each slot, with undo by ``remove``."""

    def __init__(self, ii: int, capacity: tuple[int, ...], base: tuple[int, ...]) -> None:
        self.ii = ii
        self.every = (1 << ii) - 1
        self.room = [limit - held for limit, held in zip(capacity, base, strict=True)]
        # level[u][k]: slots in which unit u is held more than k times.
        self.level: list[list[int]] = [[0] * max(0, room) for room in self.room]

    def overfull(self) -> bool:
        """Whether occupancies longer than the II alone exceed a capacity."""
        return any(room < 0 for room in self.room)

    def mask(self, hold: Hold, slot: int) -> int:
        """The slots that ``hold`` takes when its op starts at ``slot``."""
        start = (slot + hold.offset) % self.ii
        run = ((1 << hold.length) - 1) << start
        return (run | run >> self.ii) & self.every

    def starts(self, holds: tuple[Hold, ...]) -> int:
        """The slots in which an op with these holds may start."""
        allowed = self.every
        for hold in holds:
            if hold.length == 0:
                continue
            levels = self.level[hold.unit]
            full = levels[-1] if levels else self.every
            if full == 0:
                continue
            allowed &= ~self._blocked(full, hold)
        if allowed and _shares_unit(holds):
            allowed = self._recheck(allowed, holds)
        return allowed & self.every

    def _blocked(self, full: int, hold: Hold) -> int:
        """Starts whose run of ``length`` slots from ``offset`` would meet a full slot."""
        ii = self.ii
        # Rotate so that a start at slot m looks at bit m, then smear full slots downwards.
        shift = hold.offset
        if shift:
            full = (full >> shift | full << (ii - shift)) & self.every
        doubled = full | full << ii
        covered = 1
        while covered < hold.length:
            step = min(covered, hold.length - covered)
            doubled |= doubled >> step
            covered += step
        return doubled & self.every

    def _recheck(self, allowed: int, holds: tuple[Hold, ...]) -> int:
        """The exact test for ops that hold one unit twice, which masks alone cannot see."""
        exact = 0
        for slot in range(self.ii):
            if allowed >> slot & 1 and self.add(holds, slot):
                exact |= 1 << slot
                self.remove(holds, slot)
        return exact

    def add(self, holds: tuple[Hold, ...], slot: int) -> bool:
        """Hold the units from ``slot``; False, with nothing changed, if one is full there."""
        for position, hold in enumerate(holds):
            mask = self.mask(hold, slot)
            levels = self.level[hold.unit]
            if mask and (not levels or levels[-1] & mask):
                self.remove(holds[:position], slot)
                return False
            for k in range(len(levels)):
                carry = levels[k] & mask
                levels[k] |= mask
                mask = carry
        return True

    def remove(self, holds: tuple[Hold, ...], slot: int) -> None:
        """Undo ``add``."""
        for hold in holds:
            mask = self.mask(hold, slot)
            levels = self.level[hold.unit]
            for k in range(len(levels) - 1, -1, -1):
                held = levels[k] & mask
                levels[k] &= ~mask
                mask &= ~held


def _shares_unit(holds: tuple[Hold, ...]) -> bool:
    return len(holds) > 1 and len({hold.unit for hold in holds}) < len(holds)
