"""What stands behind each product of a wave: cycles of instructions, gap by gap."""

from __future__ import annotations

from collections.abc import Sequence


class Gaps:
    """Cycles of instructions behind each product of a group, over one iteration.

    ``apart`` is by how many gaps the other wave of a SIMD, which shares the vector port, is behind.
    """

    def __init__(self, count: int, apart: int) -> None:
        self.count, self.apart = count, apart
        self.used = [0] * count
        self.port = [0] * count

    def add(self, gap: int, cost: int, *, port: int = 0, span: int = 1) -> None:
        """Something that takes ``span`` gaps from this one on, as much of each."""
        for here in range(gap, gap + span):
            self.used[here % self.count] += cost // span
            self.port[here % self.count] += port // span

    def weight(self, gap: int, cost: int, span: int = 1) -> tuple[int, int]:
        """How bad it is to add ``cost`` here: by what the port and the wave have to do already."""
        total, count = 0, self.count
        for here in (g % count for g in range(gap, gap + span)):
            others = sum(self.port[(here + n) % count] for n in (self.apart, -self.apart))
            shared = self.port[here] * 2 + (others if self.apart else 0)
            total += (shared + self.used[here]) * (cost // span)
        return total, gap


def least_cut(start: int, count: int, spans: Sequence[tuple[int, int]]) -> int:
    """The gap nearest to ``start`` at which a trip of ``count`` begins with the least under way.

    Of what takes several gaps (the first, and how many), writers cannot spread anything over the
    end of a trip.
    """

    def cut(at: int) -> int:
        found = 0
        for gap, span in spans:
            inside = (at - gap) % count
            found += min(inside, span - inside) if 0 < inside < span else 0
        return found

    near = sorted(range(start - count // 2, start + count // 2 + 1), key=lambda g: abs(g - start))
    return min(near, key=cut)
