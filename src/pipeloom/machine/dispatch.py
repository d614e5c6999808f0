"""Which XCD a workgroup goes to, and an order of blocks that suits that."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class TileOrder:
    """A block of C for every workgroup, whatever the grid: neighbours run together on one XCD.

    Workgroups go to XCDs in turn, by their number (AMD, CDNA3 white paper). Of every
    ``xcds * per_xcd`` of them, each XCD gets as many that follow each other; and those go down
    ``heights`` rows of blocks before they go to the next column, so that they cover a rectangle.
    ``heights`` has, by the least number of blocks, how many; the first from 0 on.
    """

    xcds: int
    per_xcd: int
    heights: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, target: Target, rows: int, columns: int) -> TileOrder:
        """For blocks of so many elements: rectangles of least rows and columns, or nearly.

        Of those that are nearly as good the highest: XCDs lie side by side along rows.
        """
        xcds, most = target.xcds.value, target.cus.value // target.xcds.value
        found = []
        for share, least in ((16, 0), (4, 8), (1, 2)):
            tiles = max(1, most // share)
            reach = {h: h * rows + tiles / h * columns for h in range(1, tiles + 1)}
            near = NEAR * min(reach.values())
            height = max(h for h, size in reach.items() if size <= near)
            found.append((xcds * most // least if least else 0, height))
        return cls(xcds, most, tuple(found))

    def place(self, row: int, column: int, rows: int, columns: int) -> tuple[int, int]:
        """Which block the workgroup of a row and column takes, of so many; what kernels compute."""
        total = rows * columns
        if total >= DIVISIBLE:
            return row, column
        number, chunk = row * columns + column, self.xcds * self.per_xcd
        begin = number // chunk * chunk
        length = min(chunk, total - begin)
        at, xcd = divmod(number - begin, self.xcds)
        each, more = divmod(length, self.xcds)
        number = begin + xcd * each + min(xcd, more) + at
        high = min([h for least, h in self.heights if total >= least][-1], rows)
        band, inside = divmod(number, high * columns)
        column, down = divmod(inside, min(rows - band * high, high))
        return band * high + down, column

    def reach(self, rows: int, columns: int, *, chip: bool = False) -> tuple[float, float]:
        """Rows and columns of blocks that what runs together covers, summed over all of C.

        Together run a round of an XCD, or of the whole ``chip``; many rounds are like the first.
        """
        total, chunk = rows * columns, self.xcds * self.per_xcd
        seen = min(total, SAMPLED * chunk)
        high = min([h for least, h in self.heights if total >= least][-1], rows)
        band, inside = np.divmod(np.arange(seen), high * columns)
        column, down = np.divmod(inside, np.minimum(rows - band * high, high))
        row = band * high + down
        covered = [0, 0]
        for begin in range(0, seen, chunk):
            each, more = divmod(min(chunk, seen - begin), 1 if chip else self.xcds)
            ends = [begin + n * each + min(n, more) for n in range(1 if chip else self.xcds)]
            for start, end in pairwise([*ends, min(begin + chunk, seen)]):
                covered[0] += len(set(row[start:end].tolist()))
                covered[1] += len(set(column[start:end].tolist()))
        return covered[0] * total / seen, covered[1] * total / seen


SAMPLED = 16
"""Rounds of the chip that are looked at for all of them."""
NEAR = 1.07
"""Rectangles whose rows and columns are so much more than the least are as good."""
DIVISIBLE = 1 << 21
"""Below this, f32 divides whole numbers exactly (``Memory.divide``)."""
