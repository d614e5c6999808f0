"""Cycles per K tile of a finished schedule, under the costs that the modulo schedule was made with.

Each wave group issues its entries in order. A wait blocks the group until its counter is low
enough, an MMA until the matrix unit is free and then for its own length, a barrier until every
group is there; memory ops go on in the background, each unit serving one op at a time. Issue
slots and barriers cost nothing here, as in ``costs``: what is left is what an *order* loses by
itself, by waiting for data that it asked for too late.

    in_order_cycles(build_schedule("four_wave"), TileCosts(tile, machine))
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pipeloom.errors import ConfigError
from pipeloom.order.modulo import Reservation
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Counter, Effect, Kernel, Step, kernel_for
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.pipelining.costs import ISSUE, TileCosts
from pipeloom.reference.pipelining.loop import OpCycles

WAITS = {int(OpTag.WAIT_VM): Counter.VM, int(OpTag.WAIT_LGKM): Counter.LGKM}
OPERANDS = ("A", "B")
WARM_TRIPS, MORE_TRIPS = 8, 8


@dataclass(slots=True)
class _Group:
    """One wave group on its way through the program."""

    share: float
    wave: int
    steps: tuple[Step, ...]
    at: int = 0
    now: float = 0
    barriers: int = 0
    waiting: bool = False
    flying: dict[Counter, deque[float]] = field(
        default_factory=lambda: {counter: deque() for counter in Counter}
    )
    landed: dict[Counter, float] = field(default_factory=lambda: dict.fromkeys(Counter, 0.0))


def in_order_cycles(
    compiled: CompiledSchedule, costs: TileCosts, kernel: Kernel | None = None
) -> float:
    """Steady-state cycles per K tile: the difference of two long runs, per tile."""
    model = kernel_for(compiled) if kernel is None else kernel
    first = _Replay(compiled, costs, model, WARM_TRIPS).run()
    second = _Replay(compiled, costs, model, WARM_TRIPS + MORE_TRIPS).run()
    return (second - first) / (MORE_TRIPS * model.tiles_per_iteration)


class _Replay:
    def __init__(
        self, compiled: CompiledSchedule, costs: TileCosts, kernel: Kernel, trips: int
    ) -> None:
        self._costs = costs
        self._kernel = kernel
        self._free: dict[str, float] = {}
        self._groups = [
            _Group(
                len(members) / kernel.waves, members[0], kernel.walk(compiled, members[0], trips)
            )
            for members in kernel.groups
        ]

    def run(self) -> float:
        """Play to the end; when the last group is done."""
        while True:
            ready = [g for g in self._groups if not g.waiting and g.at < len(g.steps)]
            if not ready:
                if not any(group.waiting for group in self._groups):
                    return max(group.now for group in self._groups)
                self._release()
                continue
            self._step(min(ready, key=lambda group: group.now))

    def _release(self) -> None:
        """All groups stand at a barrier or at the end: let the least advanced barrier go."""
        number = min(group.barriers for group in self._groups if group.waiting)
        here = [g for g in self._groups if g.waiting and g.barriers == number]
        time = max(group.now for group in here)
        for group in here:
            group.now, group.waiting = time, False

    def _step(self, group: _Group) -> None:
        step = group.steps[group.at]
        group.at += 1
        tag = step.op.tag
        if tag in WAITS:
            self._drain(group, WAITS[tag], step.op.wait_value)
        elif tag == OpTag.BARRIER:
            group.barriers += 1
            group.waiting = True
        elif not step.op.is_framework:
            self._issue(group, step)

    def _issue(self, group: _Group, step: Step) -> None:
        effect = self._kernel.effect(step, group.wave)
        cycles = self._cycles(step, effect)
        uses = [use for use in cycles.uses if use.unit != ISSUE]
        start = group.now
        for use in uses:
            start = max(start, self._free.get(use.unit, 0.0) - use.offset)
        if step.op.role is OpRole.COMPUTE:
            self._hold(uses, start, group.share)
            group.now = start + group.share * cycles.latency
            return
        for use in uses:
            if use.offset == 0:
                self._hold([use], start, group.share)
        assert effect.counter is not None
        done = max(start + cycles.latency, group.landed[effect.counter])
        group.landed[effect.counter] = done
        for _ in range(effect.entries):
            self._drain(group, effect.counter, effect.counter.limit - 1)
            group.flying[effect.counter].append(done)

    def _hold(self, uses: list[Reservation], start: float, share: float) -> None:
        for use in uses:
            self._free[use.unit] = start + share * use.occupancy

    def _drain(self, group: _Group, counter: Counter, allowed: int) -> None:
        queue = group.flying[counter]
        while len(queue) > allowed:
            group.now = max(group.now, queue.popleft())

    def _cycles(self, step: Step, effect: Effect) -> OpCycles:
        role = step.op.role
        regions = [*effect.lds_writes, *(read.region for read in effect.lds_reads)]
        operand = regions[0].operand if regions else ""
        if role is OpRole.COMPUTE:
            return self._costs.mma()
        if operand in OPERANDS and role is OpRole.FRAGMENT_LOAD:
            return self._costs.fragment(operand)
        if operand in OPERANDS and role is OpRole.GLOBAL_LOAD:
            return self._costs.load(operand)
        raise ConfigError(
            f"no tile cost for role {role.name} of the {self._kernel.name} kernel",
            hint="in_order_cycles takes loads and fragments of A and B, and MMAs",
            field="OpDesc.role",
        )
