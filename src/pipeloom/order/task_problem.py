"""The tasks of one iteration as a modulo scheduling problem.

    found values          a flow edge from every task that leaves the value there, at its distance;
                          through LDS, plus the barrier's cycles
    rotating place        a channel: taken by its first writer, returned by its last reader; LDS by
                          its bytes, registers by a common limit on copies
    place handed on       one copy for all iterations: each reader before the next writer

Times are in steps of a matrix instruction, rounded up, so a schedule of the problem is one of the
loop, and an II that a unit's exact busy time forces is the least for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeloom.errors import ConfigError
from pipeloom.order.dependences import next_member
from pipeloom.order.modulo import Op, Reader, Reservation
from pipeloom.order.prices import RESERVED_VGPRS, Prices, registers_kept
from pipeloom.order.problem_builder import LoopProblem, ProblemBuilder
from pipeloom.order.tasks import Lowered, Place, Touch
from pipeloom.program.nodes import Region
from pipeloom.program.resources import Space
from pipeloom.program.steps import Unit
from pipeloom.program.vocabulary import PRODUCTS

USUAL_LOADS = 16
"""Loads per iteration whose addresses ``RESERVED_VGPRS`` has room for."""
SMALL = 8
"""Registers per lane up to which a tile may have more copies than others."""
FEW_COPIES = 4


def loop_problem(
    lowered: Lowered,
    *,
    depth: int | None = None,
    stages: int | None = None,
    global_latency: int | None = None,
) -> LoopProblem:
    """What an order of the tasks must respect; ``depth`` limits the copies of every place."""
    prices = Prices(lowered, global_latency)
    build = _TaskProblem(lowered, prices)
    rotating = [p for p in lowered.places if p.rotates and build.is_channel(p)]
    most = _copies(lowered, rotating)
    if depth is not None:
        most = {p.name: min(most.get(p.name, depth), _at_least(p, depth)) for p in rotating}
    build.flow()
    build.in_place()
    for place in rotating:
        build.rotate(place, most.get(place.name))
    ops = [build.op(i) for i in range(len(build.tasks))]
    problem = build.problem(
        ops, prices.units, time_unit="step", lds=_lds_left(lowered), stages=stages
    )
    return LoopProblem(problem, build.tasks, prices.quantum, tuple(build.places))


class _TaskProblem(ProblemBuilder):
    """Edges and channels from what tasks find and leave."""

    def __init__(self, lowered: Lowered, prices: Prices) -> None:
        super().__init__(lowered)
        self._costs = [prices.of(task) for task in self.tasks]
        self._quantum = prices.quantum
        self._publish = prices.publish

    def op(self, number: int) -> Op:
        task, price = self.tasks[number], self._costs[number]
        loads = any(i.unit in (Unit.LOAD, Unit.LOAD_LDS) for i in task.issues)
        uses = tuple(self._in_steps(use) for use in price.uses)
        return Op(task.label, self._steps(price.latency), uses, loads)

    def writers(self, place: Place, value: str | None = None) -> list[int]:
        return [
            i
            for i, task in enumerate(self.tasks)
            if any(t.place == place.name and value in (None, t.value) for t in task.left)
        ]

    def is_channel(self, place: Place) -> bool:
        """Whether iterations hand it on: what only the end of the kernel reads needs one copy."""
        found = any(t.place == place.name for task in self.tasks for t in task.found)
        return found and bool(self.writers(place))

    def _found(self) -> Iterator[tuple[int, Touch, Place]]:
        """What tasks find in storage."""
        for reader, task in enumerate(self.tasks):
            for touch in task.found:
                place = self.lowered.place(touch.place)
                if place is not None:
                    yield reader, touch, place

    def flow(self) -> None:
        """Writers before readers of what they wrote."""
        for reader, touch, place in self._found():
            crossing = self._publish if place.space is Space.LDS else 0
            for writer in self.writers(place, touch.value):
                latency = self._steps(self._costs[writer].latency + crossing)
                self.connect([writer], [reader], latency, touch.distance)

    def in_place(self) -> None:
        """Readers of what the next member of the place will overwrite, before that one."""
        for reader, touch, place in self._found():
            after = next_member(place, touch)
            if after is not None:
                value, distance = after
                writers = [w for w in self.writers(place, value) if w != reader]
                hold = self._steps(self._costs[reader].hold)
                self.connect([reader], writers, hold, distance)

    def rotate(self, place: Place, most: int | None) -> None:
        """The channel of a place."""
        extra = self._publish if place.space is Space.LDS else 0
        readers = dict.fromkeys(
            Reader(i, touch.distance, self._steps(self._costs[i].hold + extra))
            for i, touch, where in self._found()
            if where is place
        )
        self.hold(place, place.name, self.writers(place), readers, most)

    def _steps(self, cycles: int) -> int:
        return -(-cycles // self._quantum)

    def _in_steps(self, use: Reservation) -> Reservation:
        first = use.offset // self._quantum
        return Reservation(use.unit, self._steps(use.offset + use.occupancy) - first, first)


def _at_least(place: Place, depth: int) -> int:
    """A limit that leaves a carry beside its update."""
    return max(depth, 2) if place.carried else depth


def _lds_left(lowered: Lowered) -> int:
    """LDS bytes for what rotates."""
    kept = [p for p in lowered.places if p.space is Space.LDS and not p.rotates]
    total = lowered.target.lds_kib.value * 1024
    left = total - sum(p.type.dtype.bytes(p.type.elements) for p in kept)
    if left < 1:
        raise ConfigError(
            f"{lowered.meaning.name}: {', '.join(p.name for p in kept)} take all of the "
            f"{total} bytes of LDS",
            hint="stage smaller tiles",
            field="staged",
        )
    return left


def _in_turn(lowered: Lowered, tiles: list[Place]) -> int:
    """Registers that operands of one product may take over from those of another."""
    products: dict[str, int] = {}
    for place in tiles:
        users = {
            task.node
            for task in lowered.of(Region.LOOP)
            if any(touch.place == place.name for touch in task.reads)
        }
        loaded = all(lowered.meaning[name].kind.is_input for name in place.members)
        if loaded and len(users) == 1:
            user = users.pop()
            if lowered.meaning[user].op in PRODUCTS:
                products[user] = products.get(user, 0) + place.registers
    return sum(products.values()) - max(products.values(), default=0)


def _copies(lowered: Lowered, rotating: list[Place]) -> dict[str, int]:
    """How many copies of each rotating register tile there is room for.

    Rotation without moves needs whole copies, and limits fixed beforehand keep the count
    independent of the schedule: the same for all tiles, but small ones (row factors) may have a few
    more, and a carry that somebody needs beside its update has two at least. Matrix results may lie
    in AGPRs, all else in VGPRs that can be named; each load of an iteration has an address.
    """
    target = lowered.target
    waves = sum(len(group.waves) for group in lowered.groups)
    share = target.vgpr_share(waves)
    in_matrix, others = registers_kept(lowered)
    others += sum(p.registers for p in lowered.places if p.rotates and p not in rotating)
    loads = sum(
        issue.count
        for task in lowered.of(Region.LOOP)
        for issue in task.issues
        if issue.unit in (Unit.LOAD, Unit.LOAD_LDS) and lowered.group(task.group).computes
    )
    reserved = RESERVED_VGPRS + max(0, loads - USUAL_LOADS)
    left = min(share - in_matrix, target.direct_vgprs.value) - others - reserved
    tiles = [p for p in rotating if p.space is not Space.LDS]
    least = {p.name: 2 if p.carried else 1 for p in tiles}
    one = sum(p.registers * least[p.name] for p in tiles)
    needed = one - _in_turn(lowered, tiles)
    if left < needed:
        raise ConfigError(
            f"{lowered.meaning.name}: a wave has {share} registers per lane; matrix results take "
            f"{in_matrix}, other kept values {others}, addresses {reserved}, and one iteration "
            f"needs {needed} more",
            hint=target.more_room(waves),
            field="waves",
        )
    each = max(1, left // one) if one else 1
    most = {name: count * each for name, count in least.items()}
    left -= one * each
    for place in sorted(tiles, key=lambda p: p.registers):
        more = FEW_COPIES - most[place.name]
        if place.registers <= SMALL and 0 < more * place.registers <= left:
            most[place.name] += more
            left -= more * place.registers
    return {p.name: most[p.name] for p in tiles if p.registers}
