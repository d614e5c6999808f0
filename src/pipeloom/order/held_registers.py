"""What the registers of a loop with vector ops hold, for how long, and in how many copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import ceil

from pipeloom.order.dependences import Dependence, touches_meet
from pipeloom.order.gaps import Cells, cut_to_cells
from pipeloom.order.grains import made_operands, operand_sources
from pipeloom.order.modulo import Reader
from pipeloom.order.pattern import Pattern
from pipeloom.order.problem_builder import ProblemBuilder
from pipeloom.order.slots import Slots
from pipeloom.order.staging import turns
from pipeloom.order.tasks import Lowered, Place, Task
from pipeloom.order.unit_times import MEMORY
from pipeloom.order.weave import AHEAD, Weaver
from pipeloom.program.across_rows import patch_rows
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit


class HeldRegisters(Weaver):
    """The tasks of a loop with vector ops, and the gaps of its products.

    ``mine`` are the tasks of the first group, by number; all groups do the same, but for what fills
    LDS. A *gap* lies behind each product: ``begins`` says which, of ``count`` in an iteration.
    """

    links: tuple[Dependence, ...]
    """Of single tasks of the first group."""

    def __init__(self, lowered: Lowered, pattern: Pattern) -> None:
        super().__init__(lowered, pattern, {})
        names = [g.name for g in lowered.groups]
        self.members = [
            [
                i
                for i, task in enumerate(self.tasks)
                if task.group == name
                and task.unit is not Unit.LOAD_LDS
                and not turns(lowered, task)
            ]
            for name in names
        ]
        """Groups do the same work, but for what fills LDS: a small tile is loaded by one alone."""
        self.mine = [self.tasks[i] for i in self.members[0]]
        self.products = [self._by_node(found) for found in self.products]
        self.begins = self._begins()
        self.pitch = self.ii / self.count

    def _free(self, group: int) -> Slots:
        return Slots([], self.ii, self.machine.issue)  # known when vector ops stand

    def _begins(self) -> list[int]:
        """The gap in which each product of the first group begins."""
        return list(range(len(self.products[0])))

    @property
    def count(self) -> int:
        """Gaps of an iteration."""
        return len(self.products[0])

    def _by_node(self, products: list[int]) -> list[int]:
        """Node by node; of a lone wave, those that all add to one result stand among those of
        another node: each would wait for the one before."""
        nodes = list(dict.fromkeys(task.node for task in self.mine))
        found = [[i for i in products if self.tasks[i].node == node] for node in nodes]
        found = [mine for mine in found if mine]
        if self.machine.alone and len(found) > 2:  # of two, each takes what the other gives
            found = self._mixed(found)
        return [i for mine in found for i in mine]

    def _mixed(self, nodes: Sequence[list[int]]) -> list[list[int]]:
        """Where products of a node all add to one result, among those of the node before, or of the
        next if that is the first."""
        found: list[list[int]] = []
        waits, alone = False, False
        for mine in nodes:
            chain = len(mine) > 1 and len({self.tasks[i].left for i in mine}) == 1
            if waits or (alone and chain):
                both = found.pop(), mine
                spread = [((n + 0.5) / len(x), i) for x in both for n, i in enumerate(x)]
                found.append([i for _, i in sorted(spread)])
                waits, alone = False, False
            else:
                found.append(mine)
                waits, alone = chain, not chain
        return found

    def _copies(self, place: Place) -> int:
        """Of a rotating register tile: results of products rotate, what is made of them waits; of
        what memory brings, as many as its latency takes."""
        if place.name in self._loaded:
            return 2 + self.pattern.early + ceil(self._loaded[place.name] / self.ii)
        if place.name in self._made:
            return 1 + self.pattern.early
        if (self._made or self._passes) and place.name in self._held:
            return ceil(self._held[place.name] / self.count)
        return 2 if place.carried or place.name in self._results else 1

    @cached_property
    def _passes(self) -> bool:
        """Whether results of products take turns in registers."""
        return any(place.storage for place in self.lowered.places)

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
        for slot, i in zip(self.begins, self.products[0], strict=True):
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
        return [*found, *self._turns_in_storage()]

    def _turns_in_storage(self) -> Iterator[Dependence]:
        """Readers of a place before what fills the next one in its storage, in the products' order;
        of the last one, before what fills the first one an iteration later."""
        number = {i: n for n, i in enumerate(self.members[0])}
        turns: dict[str, dict[str, int]] = {}
        for i in self.products[0]:
            for touch in self.tasks[i].writes:
                place = self.lowered.place(touch.place)
                if place is not None and place.storage:
                    turns.setdefault(place.storage, {})[place.name] = number[i]
        readers: dict[str, list[int]] = {}
        for n, task in enumerate(self.mine):
            for touch in task.found:
                readers.setdefault(touch.place, []).append(n)
        for fills in turns.values():
            names = list(fills)
            for at, name in enumerate(names):
                after = names[(at + 1) % len(names)]
                last = at == len(names) - 1
                for n in readers.get(name, ()):
                    yield Dependence(n, fills[after], int(last), waits=False)

    def _ahead(self, task: Task) -> int:
        """By how many gaps a read comes before what takes its data."""
        latency = self._loaded.get(task.writes[0].place, self.latency)
        return ceil((latency + self.pattern.lead) / self.pitch)

    def _rotate_registers(self, build: ProblemBuilder, starts: Sequence[int]) -> None:
        """An edge for every dependence, a channel for every cell."""
        for members in self.members:
            for link in self.links:
                build.connect([members[link.first]], [members[link.second]], 1, link.distance)
        for place in self.lowered.places:
            if place.rotates and place.space is not Space.LDS and not patch_rows(place.layout):
                most = self._copies(place)
                for number, (fills, held) in enumerate(self._cells(place)):
                    build.hold(place, f"{place.name} {number}", fills, held, most)
        for write in self.of(Unit.LDS_WRITE):
            if not turns(self.lowered, self.tasks[write]):
                continue
            load, task = self.source_of(write), self.tasks[write]
            turning = self.lowered.place(task.reads[0].place)
            assert turning is not None
            build.connect([load], [write], 1)
            build.hold(turning, f"{turning.name} {task.group}", [load], [Reader(write, 0, 1)])

    def _cells(self, place: Place) -> Cells:
        """Of each part of a register tile that is touched as a whole, who fills and reads it."""
        return self.lowered.once(
            ("cells", place.name), lambda: cut_to_cells(self.tasks, self.members, place)
        )
