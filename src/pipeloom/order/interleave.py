"""Vector work between products: a loop of several products with what is computed from one to the
next, all of it in single instructions.

    products    node by node, at the pace of the matrix unit; behind each of a wave lies a *gap*
    reads       so many gaps before the first product of their fragment; what an operand is
                computed of, as early as that operand's registers are free for it
    vector ops  first as early as a gap has room, then moved until all gaps hold about as much; what
                lies between two products of a tile may take more than an iteration, then the later
                product lags
    barriers    evenly spaced, the first before the first read
    loads       as in ``weave``

What does not fit under one product goes on under the next, whichever node that is of: the split of
work between products is a result. Groups of waves do the same, with ``stagger`` one barrier apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil

from pipeloom.errors import OrderError
from pipeloom.order.dependences import Dependence, dependences, reached
from pipeloom.order.gaps import Gaps, WideWork, evenly, least_cut
from pipeloom.order.grains import is_between, is_read, is_slow, leaves
from pipeloom.order.held_registers import HeldRegisters
from pipeloom.order.pattern import Pattern
from pipeloom.order.slots import Slots
from pipeloom.order.tasks import Lowered
from pipeloom.order.weave import TICKS, Woven
from pipeloom.program.costs import loop_end_cycles
from pipeloom.program.steps import Unit

MOST_LAG = 3
"""Iterations by which a product may follow the one before it. The fewest are tried first."""
PASSES = 24
"""Over all vector ops, in which each may move to a gap that holds less; fewer if none does."""


def interleave(lowered: Lowered, pattern: Pattern) -> Woven:
    """Start times for the instructions of a loop with vector ops; raises ``OrderError``."""
    return Interleaver(lowered, pattern).weave()


class Interleaver(HeldRegisters):
    """One loop being ordered: each wave has products and vector ops among each other."""

    def __init__(self, lowered: Lowered, pattern: Pattern) -> None:
        super().__init__(lowered, pattern)
        self.leader = self._regions()
        known = "links", pattern.cluster
        self.links, self.depends = lowered.once(known, self._links)
        self.gap: dict[int, int] = {}
        """Behind which product a task stands, by its number within the first group."""
        self._spans: dict[int, int] = {}
        before: list[list[Dependence]] = [[] for _ in self.mine]
        after: list[list[Dependence]] = [[] for _ in self.mine]
        for link in self.depends:
            after[link.first].append(link)
            before[link.second].append(link)
        self.before, self.after = before, after

    def _links(self) -> tuple[tuple[Dependence, ...], tuple[Dependence, ...]]:
        """Of single tasks; and between regions, by their first."""
        links = (*dependences(self.lowered, self.mine), *self._reuse(), *self._in_lds())
        between = dict.fromkeys(
            replace(x, first=self.leader[x.first], second=self.leader[x.second])
            for x in links
            if self.leader[x.first] != self.leader[x.second] or x.distance
        )
        return links, tuple(between)

    def _in_lds(self) -> Iterator[Dependence]:
        """What is written to LDS before what is read there."""
        writes = [(n, t.writes[0].place) for n, t in enumerate(self.mine) if leaves(t)]
        for n, task in enumerate(self.mine):
            if task.unit is Unit.LDS_READ:
                place = task.reads[0].place
                yield from (Dependence(m, n, 0, waits=True) for m, x in writes if x == place)

    def _regions(self) -> list[int]:
        """By task, the first of those under its condition, which stand together; else itself."""
        first: dict[tuple[str, str], int] = {}
        found = []
        for n, task in enumerate(self.mine):
            if task.when is None:
                found.append(n)
            else:
                found.append(first.setdefault((task.when, task.reads[-1].place), n))
        return found

    # --- products and reads -----------------------------------------------------------------------

    def _place_products(self, lags: Sequence[int]) -> None:
        place = {i: n for n, i in enumerate(self.members[0])}
        nodes = list(dict.fromkeys(self.tasks[i].node for i in self.products[0]))
        for slot, i in zip(self.begins, self.products[0], strict=True):
            lag = sum(lags[: nodes.index(self.tasks[i].node)])
            self.gap[place[i]] = slot + lag * self.count

    def _place_reads(self, gaps: Gaps) -> None:
        for n, task in enumerate(self.mine):
            if is_read(task):
                self.gap[n] = self._read_gap(n, gaps)
                gaps.add(self.gap[n], self.machine.issued(task))

    def _read_gap(self, n: int, gaps: Gaps) -> int:
        """Where a read stands."""
        return self._wanted(n) - self._ahead(self.mine[n])

    def _wanted(self, n: int) -> int:
        """The gap in which something takes what a read brings: its first product; or, if vector
        ops make an operand of it, the first in which nobody needs that operand's registers any
        more."""
        readers = [x.second for x in self.after[n] if x.waits]
        direct = [self.gap[m] for m in readers if self.machine.matrix(self.mine[m])]
        if direct:
            return min(direct)
        if self.mine[n].writes[0].place not in self._operand_sources:
            # Where results pass LDS registers are short: what was read late would hold up others.
            if any(map(leaves, self.mine)):
                return min(self._ready([reader]) for reader in readers)
            return self._ready(readers)
        products = self._fed(readers)
        if not products:
            raise OrderError(
                f"{self.mine[n].label} feeds no product", hint="the order of the modulo solver"
            )
        free = max(self.gap[m] for m in products) - (1 + self.pattern.early) * self.count + 1
        return min(free, min(self.gap[m] for m in products) - 1)

    def _ready(self, tasks: Sequence[int]) -> int:
        """The first gap in which vector ops have what products give them; of those that take none,
        the one for which the first of them that what they make goes to has it."""
        links = reached(tasks, self.before, lambda x: x.first, self._is_product)
        if links:
            return max(self.gap[x.first] + self._apart(x) for x in links)
        later = {x.second for n in tasks for x in self.after[n] if x.waits and not x.distance}
        return min((self._ready([n]) for n in sorted(later)), default=0)

    def _fed(self, tasks: Sequence[int]) -> set[int]:
        """The products of its iteration that vector ops lead to."""
        links = reached(tasks, self.after, lambda x: x.second, self._is_product)
        return {x.second for x in links}

    def _is_product(self, n: int) -> bool:
        return self.machine.matrix(self.mine[n]) > 0

    def _keep_free(self, gaps: Gaps) -> None:
        """Room for the end of the loop; little where waves meet: who comes last computes alone."""
        for number in range(self.pattern.barriers):
            gap = self._first_read() + number * self.count // self.pattern.barriers
            for before, cycles in enumerate(self.pattern.quiet):
                gaps.add(gap - before, cycles, port=cycles)
        self.start = self._first_read() + self.count // (2 * self.pattern.barriers)
        gaps.add(self.start - 1, loop_end_cycles(self.machine.target))

    def _first_read(self) -> int:
        return min(self.gap[n] for n, t in enumerate(self.mine) if t.unit is Unit.LDS_READ)

    # --- vector ops -------------------------------------------------------------------------------

    def _apart(self, link: Dependence) -> int:
        """By how many gaps at least the second comes after the first, less their iterations."""
        one, two = self.mine[link.first], self.mine[link.second]
        gap = -link.distance * self.count
        if leaves(one) and two.unit is Unit.LDS_READ:
            return gap + self._before_barrier(link.second)
        if is_read(one) and link.waits and is_between(two):
            return gap + self._ahead(one)
        if is_between(one):
            later = self.machine.matrix(two) > 0 or (is_slow(one) and link.waits)
            # Within a gap reads stand first, then others in the order of one iteration.
            later = later or (link.distance > 0 and (is_between(two) or is_read(two)))
            return gap + self._span(link.first) - 1 + later
        if self.machine.matrix(one) and link.waits and is_between(two):
            return gap + 1 + ceil(self.machine.matrix(one) / self.pitch)
        return gap

    def _before_barrier(self, n: int) -> int:
        """By how many gaps a write to LDS comes before a read: a barrier stands between them, at
        which it is done."""
        if n not in self.gap:
            return 0
        step = self.count / self.pattern.barriers
        behind = int((self.gap[n] - self._first_read()) % step)
        return behind + ceil((self.latency + self.machine.barrier) / self.pitch)

    def _earliest(self, n: int) -> int:
        known = [x for x in self.before[n] if x.first in self.gap and x.first != n]
        return max((self.gap[x.first] + self._apart(x) for x in known), default=0)

    def _latest(self, n: int) -> int:
        known = [x for x in self.after[n] if x.second in self.gap and x.second != n]
        return min((self.gap[x.second] - self._apart(x) for x in known), default=1 << 30)

    def _place_vectors(self, gaps: Gaps) -> None:
        """As early as they can, as far as gaps have room; then each where it weighs least."""
        order = self._in_order()
        limit = self._limits(order)
        for n in order:
            (cost, port, span), low = self._cost(n), self._earliest(n)
            able = range(low, min(limit[n], low + self.count - 1) + 1)
            room = [g for g in able if gaps.has_room(g, cost, span, self.pattern.room)]
            if not room and able and self._fits_anywhere(n):
                room = [min(able, key=lambda g: gaps.weight(g, cost, span))]
            if not room:
                raise OrderError(
                    f"{self.mine[n].label} does not fit between its products",
                    hint="more room between products, or a later product",
                )
            self.gap[n] = room[0]
            gaps.add(room[0], cost, port=port, span=span)
        for _ in range(PASSES):
            if not sum(self._moved(n, gaps) for n in (*order, *reversed(order))):
                break
        self._part(order, gaps)
        for n in order:
            if not self._fits(n):
                raise OrderError(
                    f"{self.mine[n].label} has no place in its iteration", hint="a later product"
                )

    def _fits_anywhere(self, n: int) -> bool:
        """Whether no later product would have more room for it."""
        return bool(self._made) or self._passes

    def _part(self, order: Sequence[int], gaps: Gaps) -> None:
        """What makes operands as far apart as can be, where nothing else has to give way."""
        wide = [n for n in order if self._span(n) > 1]
        stood = {n: self.gap.pop(n) for n in wide}
        limits = ((self._earliest(n), self._latest(n)) for n in wide)
        work = [WideWork(stood[n], *at, *self._cost(n)) for n, at in zip(wide, limits, strict=True)]
        self.gap |= dict(zip(wide, evenly(work, gaps), strict=True))
        if not all(map(self._fits, order)):
            self.gap |= stood

    def _fits(self, n: int) -> bool:
        return self._earliest(n) <= self.gap[n] <= self._latest(n)

    def _cost(self, n: int) -> tuple[int, int, int]:
        """Cycles of a vector op, those of the vector port, and gaps."""
        task = self.mine[n]
        return self.machine.issued(task), self.machine.cost(task).vector, self._span(n)

    def _span(self, n: int) -> int:
        """The gaps that a vector op takes. Those that make operands are spread by writers, as all
        are on average; others are shorter, and have one."""
        if n not in self._spans:
            task = self.mine[n]
            made = any(touch.place in self._made for touch in task.left)
            work = sum(self.machine.issued(t) for t in self.mine if is_between(t))
            share = max(work / self.count, self.machine.issue)
            self._spans[n] = ceil(self.machine.issued(task) / share) if made else 1
        return self._spans[n]

    def _moved(self, n: int, gaps: Gaps) -> bool:
        """Move one to the best gap between what it waits for and what waits for it."""
        (cost, port, span), now = self._cost(n), self.gap[n]
        gaps.add(now, -cost, port=-port, span=span)
        low, high = self._earliest(n), self._latest(n)
        places = range(low, min(high, low + self.count - 1) + 1)
        best = min((gaps.weight(g, cost, span) for g in places), default=(0, now))
        better = best[0] < gaps.weight(now, cost, span)[0] or now not in places
        self.gap[n] = best[1] if better else now
        gaps.add(self.gap[n], cost, port=port, span=span)
        return better

    def _in_order(self) -> list[int]:
        """Vector ops, each after those of its iteration that it depends on; urgent ones first."""
        left = {n for n, t in enumerate(self.mine) if is_between(t) and self.leader[n] == n}
        limit = self._limits(sorted(left))
        found: list[int] = []
        while left:
            ready = [
                n
                for n in left
                if not any(
                    x.first in left and x.distance <= 0 and x.first != n for x in self.before[n]
                )
            ]
            if not ready:
                raise OrderError("vector ops wait for each other", hint="another order of members")
            chosen = min(ready, key=lambda n: (limit[n], n))
            left.remove(chosen)
            found.append(chosen)
        return found

    def _limits(self, vector: Sequence[int]) -> dict[int, int]:
        """The last gap of each, by the products that follow it."""
        limit = {n: self._latest(n) for n in vector}
        for _ in vector:
            before = dict(limit)
            for n in reversed(vector):
                for link in self.after[n]:
                    if link.second in limit and link.distance <= 0:
                        limit[n] = min(limit[n], limit[link.second] - self._apart(link))
            if before == limit:
                break
        return limit

    # --- all of it --------------------------------------------------------------------------------

    def weave(self) -> Woven:
        nodes = len({self.tasks[i].node for i in self.products[0]})
        problem: OrderError | None = None
        least = min(self.pattern.lag, MOST_LAG * (nodes - 1))  # one node lags behind none
        for lags in sorted(product(range(MOST_LAG + 1), repeat=nodes - 1), key=sum):
            if sum(lags) < least:
                continue
            try:
                return self._woven(lags)
            except OrderError as error:
                problem = problem or error
        assert problem is not None
        raise problem

    def _woven(self, lags: Sequence[int]) -> Woven:
        self.gap, self.at = {}, {}
        gaps = Gaps(self.count, round(self._share / self.pitch))
        self._place_products(lags)
        self._place_reads(gaps)
        self._keep_free(gaps)
        self._place_vectors(gaps)
        spans = ((self.gap[n], self._span(n)) for n in self._in_order())
        self.start = least_cut(self.start, self.count, [*spans])
        own, ends = self._times()
        for group, members in enumerate(self.members):
            for n, i in enumerate(members):
                if n in own:
                    self.at[i] = own[n] + group * self._share
        barriers = self._barrier_times(own)
        self._free_slots(ends)
        late = self._load(barriers)
        return self._timed(barriers, self._loop_start(barriers), late)

    def _barrier_times(self, own: Mapping[int, float]) -> list[float]:
        first = min(own[n] for n, t in enumerate(self.mine) if t.unit is Unit.LDS_READ)
        step = self.ii / self.pattern.barriers
        return [first - 1 + n * step for n in range(self.pattern.barriers)]

    def _times(self) -> tuple[dict[int, float], list[float]]:
        """Cycles for gaps: a product, the reads, then vector ops as they depend on each other."""
        self.gap |= {n: self.gap[first] for n, first in enumerate(self.leader) if first in self.gap}
        leaders = {n: at for at, n in enumerate(self._in_order())}
        place = {n: leaders.get(first, 0) for n, first in enumerate(self.leader)}
        ends = self._begun()
        own: dict[int, float] = {}

        def key(n: int) -> tuple[bool, bool, int, int]:
            task = self.mine[self.leader[n]]
            return is_between(task), is_slow(task), place.get(n, n), n

        for n in sorted(self.gap, key=key):
            task, gap, first = self.mine[n], self.gap[n], self.leader[n]
            if self.machine.matrix(task):
                own[n] = gap * self.pitch
            elif first != n:  # right behind the first of its region, which counts for all
                region = [m for m, leader in enumerate(self.leader) if leader == first]
                own[n] = own[first] + region.index(n) / TICKS
            else:
                end, issue = ends[gap % self.count], self.machine.issue
                late = max(0.0, end - self.pitch + 1)  # what has no room keeps its order
                own[n] = gap * self.pitch + end - late + min(late / issue, TICKS - 1) / TICKS
                ends[gap % self.count] += self.machine.issued(task)
        return own, ends

    def _begun(self) -> list[float]:
        """When a wave is through with the product of each gap."""
        return [float(self.machine.operands + self.machine.target.wait_cycles.value)] * self.count

    def _free_slots(self, ends: Sequence[float]) -> None:
        """Where there is room for loads."""
        self.writing = self.slots = [
            self._slots_in(range(self.count), ends, n * self._share)
            for n in range(len(self.members))
        ]

    def _slots_in(self, gaps: Sequence[int], ends: Sequence[float], shift: float) -> Slots:
        times: list[float] = []
        for gap in gaps:
            if ends[gap] + 2 * self.machine.issue <= self.pitch:
                begin = gap * self.pitch + ends[gap] + shift
                times += [begin, begin + self.machine.issue]
        return Slots(times, self.ii, self.machine.issue)

    def _loop_start(self, barriers: Sequence[float]) -> float:
        return self.start * self.pitch - 0.5
