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

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import ceil

from pipeloom.errors import OrderError
from pipeloom.order.dependences import Dependence, dependences, reached, touches_meet
from pipeloom.order.gaps import Cells, Gaps, WideWork, cut_to_cells, evenly, least_cut
from pipeloom.order.grains import is_slow, is_vector, made_operands, operand_sources
from pipeloom.order.pattern import Pattern
from pipeloom.order.problem_builder import ProblemBuilder
from pipeloom.order.slots import Slots
from pipeloom.order.tasks import Lowered, Place, Task
from pipeloom.order.unit_times import MEMORY
from pipeloom.order.weave import AHEAD, TICKS, Weaver, Woven
from pipeloom.program.costs import loop_end_cycles
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit

MOST_LAG = 3
"""Iterations by which a product may follow the one before it. The fewest are tried first."""
PASSES = 24
"""Over all vector ops, in which each may move to a gap that holds less; fewer if none does."""


def interleave(lowered: Lowered, pattern: Pattern) -> Woven:
    """Start times for the instructions of a loop with vector ops; raises ``OrderError``."""
    return _Interleaver(lowered, pattern).weave()


class _Interleaver(Weaver):
    def __init__(self, lowered: Lowered, pattern: Pattern) -> None:
        super().__init__(lowered, pattern, {})
        names = [g.name for g in lowered.groups]
        self.members = [
            [
                i
                for i, task in enumerate(self.tasks)
                if task.group == name and task.unit is not Unit.LOAD_LDS
            ]
            for name in names
        ]
        """Groups do the same work, but for loads: a small tile is loaded by one of them alone."""
        self.mine = [self.tasks[i] for i in self.members[0]]
        self.products = [self._by_node(found) for found in self.products]
        self.count = len(self.products[0])
        self.pitch = self.ii / self.count
        self.leader = self._regions()
        self.links, self.depends = lowered.once("links", self._links)
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
        links = (*dependences(self.lowered, self.mine), *self._reuse())
        between = dict.fromkeys(
            replace(x, first=self.leader[x.first], second=self.leader[x.second])
            for x in links
            if self.leader[x.first] != self.leader[x.second] or x.distance
        )
        return links, tuple(between)

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

    def _by_node(self, products: list[int]) -> list[int]:
        nodes = list(dict.fromkeys(task.node for task in self.mine))
        return sorted(products, key=lambda i: nodes.index(self.tasks[i].node))

    def _copies(self, place: Place) -> int:
        """Of a rotating register tile: results of products rotate, what is made of them waits; of
        what memory brings, as many as its latency takes."""
        if place.name in self._loaded:
            return 2 + self.pattern.early + ceil(self._loaded[place.name] / self.ii)
        if place.name in self._made:
            return 1 + self.pattern.early
        if self._made and place.name in self._held:
            return ceil(self._held[place.name] / self.count)
        return 2 if place.carried or place.name in self._results else 1

    @cached_property
    def _made(self) -> set[str]:
        return made_operands(self.lowered)

    @cached_property
    def _operand_sources(self) -> set[str]:
        return operand_sources(self.mine, self._made)

    @cached_property
    def _held(self) -> dict[str, int]:
        """Of what is read from LDS, for how many gaps: until its last product; until the vector op
        that takes it, which may be most of an iteration later."""
        uses: dict[str, list[int]] = {}
        for slot, i in enumerate(self.products[0]):
            for touch in self.tasks[i].reads:
                uses.setdefault(touch.place, []).append(slot)
        found = {}
        for task in self.mine:
            if task.unit is Unit.LDS_READ:
                place = task.writes[0].place
                used = uses.get(place, [0, self.count * 3 // 4])
                found[place] = self._ahead(task) + max(used) - min(used) + 1
        return found

    @cached_property
    def _loaded(self) -> dict[str, int]:
        """Cycles from a load of memory to registers to its data, by the place that it fills."""
        loads = [self.machine.busy(self.tasks[i])[MEMORY] for i in self.of(Unit.LOAD_LDS)]
        ahead = AHEAD * ceil(max(loads, default=0))
        return {
            t.writes[0].place: self.machine.load_latency(t) + ahead
            for t in self.mine
            if t.unit is Unit.LOAD
        }

    @cached_property
    def _results(self) -> set[str]:
        """The places of products' results."""
        return {x.place for t in self.mine if self.machine.matrix(t) for x in t.left}

    def _reuse(self) -> list[Dependence]:
        """Readers of a copy before what fills it again."""
        found: dict[Dependence, None] = {}
        for place in self.lowered.places:
            if place.space is Space.LDS or not place.rotates:
                continue
            copies = self._copies(place)
            reads = [
                (n, x) for n, t in enumerate(self.mine) for x in t.found if x.place == place.name
            ]
            fills = [
                (n, x) for n, t in enumerate(self.mine) for x in t.writes if x.place == place.name
            ]
            for n, read in reads:
                for other, fill in fills:
                    if touches_meet(place, read, fill) and fill.value == place.members[0]:
                        found[Dependence(n, other, copies - read.distance, waits=False)] = None
        return list(found)

    # --- products and reads -----------------------------------------------------------------------

    def _place_products(self, lags: Sequence[int]) -> None:
        place = {i: n for n, i in enumerate(self.members[0])}
        nodes = list(dict.fromkeys(self.tasks[i].node for i in self.products[0]))
        for slot, i in enumerate(self.products[0]):
            lag = sum(lags[: nodes.index(self.tasks[i].node)])
            self.gap[place[i]] = slot + lag * self.count

    def _place_reads(self, gaps: Gaps) -> None:
        for n, task in enumerate(self.mine):
            if task.unit in (Unit.LDS_READ, Unit.LOAD):
                self.gap[n] = self._wanted(n) - self._ahead(task)
                gaps.add(self.gap[n], self.machine.issued(task))

    def _wanted(self, n: int) -> int:
        """The gap in which something takes what a read brings: its first product; or, if vector
        ops make an operand of it, the first in which nobody needs that operand's registers any
        more."""
        readers = [x.second for x in self.after[n] if x.waits]
        direct = [self.gap[m] for m in readers if self.machine.matrix(self.mine[m])]
        if direct:
            return min(direct)
        if self.mine[n].writes[0].place not in self._operand_sources:
            return self._ready(readers)
        products = self._fed(readers)
        if not products:
            raise OrderError(
                f"{self.mine[n].label} feeds no product", hint="the order of the modulo solver"
            )
        free = max(self.gap[m] for m in products) - (1 + self.pattern.early) * self.count + 1
        return min(free, min(self.gap[m] for m in products) - 1)

    def _ready(self, tasks: Sequence[int]) -> int:
        """The first gap in which vector ops have what products give them."""
        links = reached(tasks, self.before, lambda x: x.first, self._is_product)
        return max((self.gap[x.first] + self._apart(x) for x in links), default=0)

    def _fed(self, tasks: Sequence[int]) -> set[int]:
        """The products of its iteration that vector ops lead to."""
        links = reached(tasks, self.after, lambda x: x.second, self._is_product)
        return {x.second for x in links}

    def _is_product(self, n: int) -> bool:
        return self.machine.matrix(self.mine[n]) > 0

    def _ahead(self, task: Task) -> int:
        """By how many gaps a read comes before what takes its data."""
        latency = self._loaded.get(task.writes[0].place, self.latency)
        return ceil((latency + self.pattern.lead) / self.pitch)

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
        if one.unit in (Unit.LDS_READ, Unit.LOAD) and link.waits and is_vector(two):
            return gap + self._ahead(one)
        if is_vector(one):
            later = self.machine.matrix(two) > 0 or (is_slow(one) and link.waits)
            return gap + self._span(link.first) - 1 + later
        if self.machine.matrix(one) and link.waits and is_vector(two):
            return gap + 1 + ceil(self.machine.matrix(one) / self.pitch)
        return gap

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
            if not room and self._made and able:  # no later product would have more
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
            work = sum(self.machine.issued(t) for t in self.mine if is_vector(t))
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
        left = {n for n, t in enumerate(self.mine) if is_vector(t) and self.leader[n] == n}
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
        for lags in sorted(product(range(MOST_LAG + 1), repeat=nodes - 1), key=sum):
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
        first = min(own[n] for n, t in enumerate(self.mine) if t.unit is Unit.LDS_READ)
        step = self.ii / self.pattern.barriers
        barriers = [first - 1 + n * step for n in range(self.pattern.barriers)]
        self.slots = [self._free_slots(ends, n) for n in range(len(self.members))]
        late = self._load(barriers)
        return self._timed(barriers, self._loop_start(barriers), late)

    def _times(self) -> tuple[dict[int, float], list[float]]:
        """Cycles for gaps: a product, the reads, then vector ops as they depend on each other."""
        self.gap |= {n: self.gap[first] for n, first in enumerate(self.leader) if first in self.gap}
        leaders = {n: at for at, n in enumerate(self._in_order())}
        place = {n: leaders.get(first, 0) for n, first in enumerate(self.leader)}
        ends = [float(self.machine.operands + self.machine.target.wait_cycles.value)] * self.count
        own: dict[int, float] = {}

        def key(n: int) -> tuple[bool, bool, int, int]:
            task = self.mine[self.leader[n]]
            return is_vector(task), is_slow(task), place.get(n, n), n

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

    def _free_slots(self, ends: Sequence[float], group: int) -> Slots:
        times: list[float] = []
        for gap, end in enumerate(ends):
            if end + 2 * self.machine.issue <= self.pitch:
                shifted = gap * self.pitch + end + group * self._share
                times += [shifted, shifted + self.machine.issue]
        return Slots(times, self.ii, self.machine.issue)

    def _loop_start(self, barriers: Sequence[float]) -> float:
        return self.start * self.pitch - 0.5

    def _rotate_registers(self, build: ProblemBuilder, starts: Sequence[int]) -> None:
        """An edge for every dependence, a channel for every cell."""
        for members in self.members:
            for link in self.links:
                build.connect([members[link.first]], [members[link.second]], 1, link.distance)
        for place in self.lowered.places:
            if place.rotates and place.space is not Space.LDS:
                most = self._copies(place)
                for number, (fills, held) in enumerate(self._cells(place)):
                    build.hold(place, f"{place.name} {number}", fills, held, most)

    def _cells(self, place: Place) -> Cells:
        """Of each part of a register tile that is touched as a whole, who fills and reads it."""
        return self.lowered.once(
            ("cells", place.name), lambda: cut_to_cells(self.tasks, self.members, place)
        )
