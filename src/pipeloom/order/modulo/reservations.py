"""The modulo reservation table of a search, as bit masks over the II slots.

Bit ``m`` of a mask stands for slot ``m``. Rotation and a few shifts answer "in which slots may
this op start" for all slots at once, also for occupancies of hundreds of cycles and IIs of many
thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pipeloom.order.modulo.core import Hold
from pipeloom.order.modulo.effort import SLOTS_PER_STEP, Effort


class ReservationTable:
    """How often each limited unit is held in each slot, with undo by ``remove``.

    Questions count against ``effort``, where there is one, and may raise ``OutOfEffort``.
    """

    def __init__(self, ii: int, room: Sequence[int], effort: Effort | None = None) -> None:
        self.ii = ii
        self.effort = effort
        self.cost = 1 + ii // SLOTS_PER_STEP
        self.every = (1 << ii) - 1
        # level[u][k]: slots in which unit u is held more than k times.
        self.level: list[list[int]] = [[0] * count for count in room]

    def mask(self, hold: Hold, slot: int) -> int:
        """The slots that ``hold`` takes when its op starts at ``slot``."""
        start = (slot + hold.offset) % self.ii
        run = ((1 << hold.length) - 1) << start
        return (run | run >> self.ii) & self.every

    def starts(self, holds: tuple[Hold, ...]) -> int:
        """The slots in which an op with these holds may start."""
        if self.effort is not None:
            self.effort.step(self.cost)
        allowed = self.every
        for unit, count, offset, length in _runs(holds, self.ii):
            levels = self.level[unit]
            full = levels[-count] if count <= len(levels) else self.every
            if full:
                allowed &= ~self._blocked(full, offset, length)
        return allowed & self.every

    def _blocked(self, full: int, offset: int, length: int) -> int:
        """Starts whose run of ``length`` slots from ``offset`` would meet a full slot."""
        ii = self.ii
        # Rotate so that a start at slot m looks at bit m, then smear full slots downwards.
        if offset:
            full = (full >> offset | full << (ii - offset)) & self.every
        doubled = full | full << ii
        covered = 1
        while covered < length:
            step = min(covered, length - covered)
            doubled |= doubled >> step
            covered += step
        return doubled & self.every

    def add(self, holds: tuple[Hold, ...], slot: int) -> bool:
        """Hold the units from ``slot``; False, with nothing changed, if one is full there."""
        if self.effort is not None:
            self.effort.step(self.cost)
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


@lru_cache(maxsize=4096)
def _runs(holds: tuple[Hold, ...], ii: int) -> tuple[tuple[int, int, int, int], ...]:
    """(unit, n, offset, length): from ``offset`` on, ``length`` slots are held n times or more.

    An op that holds one unit twice in the same slot needs room for two there.
    """
    runs: list[tuple[int, int, int, int]] = []
    for unit in dict.fromkeys(hold.unit for hold in holds if hold.length):
        mine = [hold for hold in holds if hold.unit == unit and hold.length]
        if len(mine) == 1:
            runs.append((unit, 1, mine[0].offset, mine[0].length))
            continue
        cuts = sorted({at % ii for h in mine for at in (h.offset, h.offset + h.length)})
        for cut, after in zip(cuts, [*cuts[1:], cuts[0] + ii], strict=True):
            count = sum((cut - hold.offset) % ii < hold.length for hold in mine)
            if count:
                runs.append((unit, count, cut, after - cut))
    return tuple(runs)


def first_free(slots: int, low: int, high: int, ii: int) -> int | None:
    """The first time in [low, high] whose slot is in ``slots``."""
    width = min(high - low + 1, ii)
    if width <= 0:
        return None
    turn = low % ii
    rotated = (slots >> turn | slots << (ii - turn)) & ((1 << width) - 1)
    return low + (rotated & -rotated).bit_length() - 1 if rotated else None


def last_free(slots: int, low: int, high: int, ii: int) -> int | None:
    """The last time in [low, high] whose slot is in ``slots``."""
    width = min(high - low + 1, ii)
    if width <= 0:
        return None
    first = high - width + 1
    turn = first % ii
    rotated = (slots >> turn | slots << (ii - turn)) & ((1 << width) - 1)
    return first + rotated.bit_length() - 1 if rotated else None
