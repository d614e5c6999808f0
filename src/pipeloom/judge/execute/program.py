"""A schedule unrolled for every wave, ready to run: what to issue, what retires where.

A ``Program`` is a ``Kernel``'s answer for one trip count, with names replaced by small numbers and
with every retirement worked out (see ``counters``). Each step of a wave becomes a ``Line``:

    step 12  fragment A(0, 0)    issues op 12
    step 13  wait_lgkm(0)        retires op 12
    step 14  barrier             ends the wave's segment

Nothing here depends on timing, so one program serves any number of runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pipeloom.judge.execute.counters import OutstandingOps
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import (
    Accumulator,
    Counter,
    Effect,
    Kernel,
    Part,
    Region,
    Register,
    Step,
)
from pipeloom.reference.ops import OpTag

_WAITS = {int(OpTag.WAIT_VM): Counter.VM, int(OpTag.WAIT_LGKM): Counter.LGKM}


class Op(NamedTuple):
    """A data op of one wave. Regions, registers and accumulators are numbers into the program.

    Sources, of which one is set: ``tile``, ``reads``, ``takes``. An op with an ``accumulator``
    multiplies what it takes; every other op carries its source to ``writes`` and ``fills``.
    """

    uid: int
    wave: int
    step: int
    tile: int | None
    reads: tuple[int, ...]
    parts: tuple[Part, ...]
    takes: tuple[int, ...]
    writes: tuple[int, ...]
    fills: tuple[int, ...]
    accumulator: int | None
    counted: bool


class Line(NamedTuple):
    """What one step does: ops that retire before its issue, the issue, ops that retire after."""

    before: tuple[Op, ...] = ()
    issue: Op | None = None
    after: tuple[Op, ...] = ()
    is_barrier: bool = False


_Places = tuple[
    tuple[int, ...],
    tuple[Part, ...],
    tuple[int, ...],
    tuple[int, ...],
    tuple[int, ...],
    int | None,
    bool,
]
_NOTHING = Line()
_BARRIER = Line(is_barrier=True)


@dataclass(frozen=True, slots=True, eq=False)
class WaveProgram:
    """One line per step, and the ops that are still in flight after the last.

    ``retired_by`` maps an op's uid to the number of the line that retires it; past the end if none
    does.
    """

    steps: tuple[Step, ...]
    lines: tuple[Line, ...]
    never_retired: tuple[Op, ...]
    barrier_steps: tuple[int, ...]
    retired_by: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Every wave's lines for one trip count."""

    kernel: Kernel
    trips: int
    tiles: int
    waves: tuple[WaveProgram, ...]
    regions: tuple[Region, ...]
    registers: tuple[Register, ...]
    accumulators: tuple[Accumulator, ...]
    op_count: int

    def ops(self, wave: int) -> Iterable[Op]:
        """The data ops of ``wave`` in program order."""
        return (line.issue for line in self.waves[wave].lines if line.issue is not None)


def prepare(
    compiled: CompiledSchedule, kernel: Kernel, trips: int, stalling: Collection[str] = ()
) -> Program:
    """Unroll ``compiled`` for every wave of ``kernel`` at ``trips``.

    The counters named in ``stalling`` stall when full.
    """
    builder = _Builder(kernel, stalling)
    walks = {
        wave: walk
        for members in kernel.groups
        for walk in [kernel.walk(compiled, members[0], trips)]
        for wave in members
    }
    waves = tuple(builder.wave(walks[wave], wave) for wave in range(kernel.waves))
    return Program(
        kernel,
        trips,
        kernel.tiles(trips),
        waves,
        tuple(builder.regions),
        tuple(builder.registers),
        tuple(builder.accumulators),
        builder.op_count,
    )


class _Builder:
    """Numbers regions, registers and accumulators in the order in which they are met."""

    def __init__(self, kernel: Kernel, stalling: Collection[str]) -> None:
        self.kernel = kernel
        self.stalling = stalling
        self.regions: dict[Region, int] = {}
        self.registers: dict[Register, int] = {}
        self.accumulators: dict[Accumulator, int] = {
            accumulator: n for n, accumulator in enumerate(kernel.accumulators())
        }
        self.op_count = 0
        self._places: dict[int, tuple[Effect, _Places]] = {}

    def wave(self, steps: tuple[Step, ...], wave: int) -> WaveProgram:
        counters = {
            counter: OutstandingOps[Op](counter.limit, counter.label in self.stalling)
            for counter in Counter
        }
        lines: list[Line] = []
        barriers: list[int] = []
        for step in steps:
            tag = step.op.tag
            if tag in _WAITS:
                retired = counters[_WAITS[tag]].wait(step.op.wait_value)
                lines.append(Line(before=tuple(retired)) if retired else _NOTHING)
            elif tag == OpTag.BARRIER:
                barriers.append(step.index)
                lines.append(_BARRIER)
            elif step.op.is_framework:
                lines.append(_NOTHING)
            else:
                effect = self.kernel.effect(step, wave)
                op = self._op(effect, step.index, wave)
                if effect.counter is None:
                    lines.append(Line(issue=op))
                else:
                    before, after = counters[effect.counter].issue(op, max(1, effect.entries))
                    lines.append(Line(tuple(before), op, tuple(after)))
        left = [op for counter in Counter for op in counters[counter].left()]
        left.sort(key=lambda op: op.step)
        retired_by = dict.fromkeys((op.uid for op in left), len(lines))
        for at, line in enumerate(lines):
            for op in line.before + line.after:
                retired_by[op.uid] = at
        return WaveProgram(steps, tuple(lines), tuple(left), tuple(barriers), retired_by)

    def _op(self, effect: Effect, step: int, wave: int) -> Op:
        """Kernels share effects between steps, so each one is numbered once, by identity."""
        known = self._places.get(id(effect))
        if known is None:
            known = self._places[id(effect)] = (effect, self._number(effect))
        self.op_count += 1
        return Op(self.op_count - 1, wave, step, effect.tile, *known[1])

    def _number(self, effect: Effect) -> _Places:
        regions, registers, sums = self.regions, self.registers, self.accumulators
        return (
            tuple(regions.setdefault(r.region, len(regions)) for r in effect.lds_reads),
            tuple(r.part for r in effect.lds_reads),
            tuple(registers.setdefault(r, len(registers)) for r in effect.register_reads),
            tuple(regions.setdefault(r, len(regions)) for r in effect.lds_writes),
            tuple(registers.setdefault(r, len(registers)) for r in effect.register_writes),
            None if effect.accumulator is None else sums.setdefault(effect.accumulator, len(sums)),
            effect.counter is not None,
        )
