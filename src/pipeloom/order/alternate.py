"""Products and vector work in turns: one group of waves multiplies while the other computes.

    group 0     products of all nodes | max, exponentials, sums, rounding | products ...
    group 1     vector ops            | products                          | vector ops ...

Where vector ops take about as long as products, a wave that has both among each other issues all
the time, and each of its products is late. In turns, products follow each other at the pace of the
matrix unit, and nothing of their wave asks for the vector port but what fits behind them: reads,
loads, addresses. A barrier stands between turns.

A gap (``interleave``) is as long as one matrix instruction. A turn has as many as a wave has matrix
instructions, and then as many follow without a product as the other groups have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeloom.order.dependences import Dependence
from pipeloom.order.gaps import Gaps
from pipeloom.order.interleave import Interleaver
from pipeloom.order.pattern import Pattern
from pipeloom.order.slots import Slots
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import Woven
from pipeloom.program.costs import loop_end_cycles
from pipeloom.program.steps import Unit


def alternate(lowered: Lowered, pattern: Pattern) -> Woven:
    """Start times for the instructions of a loop whose groups take turns of ``pattern.cluster``
    matrix instructions; raises ``OrderError``."""
    return _Alternating(lowered, pattern).weave()


class _Alternating(Interleaver):
    @property
    def count(self) -> int:
        """Gaps of an iteration: one for every matrix instruction of all groups."""
        return sum(map(self._length, self.products[0])) * len(self.products)

    def _length(self, task: int) -> int:
        return sum(x.count for x in self.tasks[task].issues if x.unit is Unit.MATRIX)

    def _begins(self) -> list[int]:
        turn, groups, first = self.pattern.cluster, len(self.products), 0
        begins, self.busy = [], list[int]()
        for i in self.products[0]:
            begins.append(first // turn * turn * groups + first % turn)
            self.busy += range(begins[-1], begins[-1] + self._length(i))
            first += self._length(i)
        return begins

    @property
    def _share(self) -> float:
        return self.pattern.cluster * self.ii / self.count

    def _by_node(self, products: list[int]) -> list[int]:
        """Those of all nodes evenly among each other: products of one node may add to one result,
        and each would wait for the one before."""
        total = Counter[str]()
        middle = {}
        for i in super()._by_node(products):
            node = self.tasks[i].node
            middle[i] = total[node] + self._length(i) / 2
            total[node] += self._length(i)
        return sorted(middle, key=lambda i: middle[i] / total[self.tasks[i].node])

    def _read_gap(self, n: int, gaps: Gaps) -> int:
        """The last of a turn of products that has room for it and comes behind what takes its
        registers before."""
        wanted, busy = super()._read_gap(n, gaps), set(self.busy)
        links = [x for x in self.before[n] if x.first in self.gap]
        low = max((self.gap[x.first] + self._apart(x) for x in links), default=wanted)
        room = self.pitch - self.machine.operands - 2 * self.machine.issue
        for gap in range(wanted, max(low, wanted - self.count), -1):
            if gap % self.count in busy and gaps.used[gap % self.count] <= room:
                return gap
        return wanted

    def _keep_free(self, gaps: Gaps) -> None:
        """What products take, and what their gaps count for more; the end of the loop."""
        taken = self.machine.operands + sum(self.pattern.quiet)
        for gap in self.busy:
            gaps.add(gap, taken, port=self.machine.issue)
        self.start = self.pattern.cluster // 2
        gaps.add(self.start - 1, loop_end_cycles(self.machine.target))

    def _apart(self, link: Dependence) -> int:
        one, two = self.mine[link.first], self.mine[link.second]
        if self.machine.matrix(one) and two.when is not None:
            return -link.distance * self.count  # jumped over as a rule, it waits for nothing
        return super()._apart(link)

    def _fits_anywhere(self, n: int) -> bool:
        return True

    def _latest(self, n: int) -> int:
        """What is jumped over stands behind the last product before it, where its wave waits for
        the other group."""
        latest = super()._latest(n)
        return min(latest, self._earliest(n)) if self._is_tied(n) else latest

    def _is_tied(self, n: int) -> bool:
        return self.mine[n].when is not None and self.leader[n] == n

    def _barrier_times(self, own: Mapping[int, float]) -> list[float]:
        count = round(self.ii / self._share)
        return [n * self.ii / count - 0.5 for n in range(count)]

    def _begun(self) -> list[float]:
        ends = [0.0] * self.count
        for gap in self.busy:
            ends[gap] = float(self.machine.operands + self.machine.target.wait_cycles.value)
        return ends

    def _free_slots(self, ends: Sequence[float]) -> None:
        """Loads stand among products; writes to LDS, which wait for their wave's products to end,
        do not."""
        between = [gap for gap in range(self.count) if gap not in set(self.busy)]
        shifts = [n * self._share for n in range(len(self.members))]
        self.slots = [self._slots_in(self.busy, ends, shift) for shift in shifts]
        self.writing = [
            Slots([gap * self.pitch + shift for gap in between], self.ii, self.pitch)
            for shift in shifts
        ]
