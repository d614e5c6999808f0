"""Registers along a wave's path: who needs a load, which loads reach nothing, what data decide.

All of it follows from the path alone, whatever the waits are; waves on equal paths share it.

Registers that may hold something else for a given reason, step by step along a path.

Three questions are of this kind, and differ in what a load brings: which registers depend on data
in memory (``register_flow``), on how often a loop ran (``drift``), on which wave it is
(``store_sources``). Only registers are followed: a value that goes through memory is answered by
``loaded``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.judge.check.pairs import Conflict
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.check.static import (
    EXEC_BITS,
    SCALARS,
    Static,
    lanes_of_path,
    path_statics,
    statics,
)
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.register_numbers import ALL_LANES, M0, VGPR, each_register
from pipeloom.judge.emulate.step import MicroOp

Loaded = Callable[[int, bool], bool]
"""Whether what the load at a time brings is meant, given whether its operands are."""


@dataclass(frozen=True, slots=True)
class PathFlow:
    """What a path says about its registers.

    ``needs`` are rows (time of a load, time of the first step that needs it, kind, register);
    ``apart`` (time of a load, time of a step) where both touch a register in different lanes;
    ``dead`` the times of loads whose result reaches no store, no address and no branch.

    The rest is what data in memory decide, other than the kernel's arguments: ``by_data`` rows
    (time, what) of branches, of LDS accesses and of register uses; ``scattered`` the times of
    accesses to global memory whose addresses or lanes they decide, ``derived`` those of stores of
    what was computed from them. ``beyond_sizes`` are the rows of ``by_data`` that stay if sizes
    which scalar loads bring before any loop, as attention reads how many keys there are, count as
    arguments.
    """

    needs: tuple[tuple[int, int, int, int], ...]
    apart: frozenset[tuple[int, int]]
    dead: frozenset[int]
    by_data: tuple[tuple[int, str], ...]
    beyond_sizes: tuple[tuple[int, str], ...]
    scattered: frozenset[int]
    derived: frozenset[int]


_Times = tuple[tuple[int, int], ...]
_Key = tuple[bytes, _Times, frozenset[int], frozenset[int], _Times, _Times]


class FlowReader:
    """Reads paths; equal ones once."""

    def __init__(self, program: Sequence[MicroOp]) -> None:
        self.statics = statics(program)
        self._known: dict[_Key, PathFlow] = {}

    def read(self, trace: WaveTrace, sizes: frozenset[int] = frozenset()) -> PathFlow:
        """The flow of one wave; ``sizes`` are times of scalar loads of what nobody writes."""
        key = (
            trace.path().tobytes(),
            tuple(trace.masks),
            frozenset(trace.foreign),
            sizes,
            tuple(trace.joined.items()),
            tuple((time, id(step)) for time, step in trace.moved.items()),
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(trace, sizes)
        return found

    def _read(self, trace: WaveTrace, sizes: frozenset[int]) -> PathFlow:
        steps = path_statics(trace, self.statics)
        lanes = lanes_of_path(trace)
        needs, apart = _needs(steps, lanes, trace)
        sources = trace.foreign | trace.reads_lds

        def tainted(by: set[int]) -> Taint:
            return Taint(trace, steps, lanes, lambda time, asked: asked or time in by)

        data = tainted(sources)
        scattered, derived = set(), set()
        for time, step in enumerate(steps):
            held = data.held
            if step.place and (step.place | EXEC_BITS) & held:
                scattered.add(time)
            if step.stored & held:
                derived.add(time)
            data.advance(time)
        decided = beyond = _decided(steps, apart, tainted(sources))
        if decided and sizes:
            early = {time for time in sizes if time < _first_loop(trace)}
            beyond = _decided(steps, apart, tainted(sources - early))
        dead = _dead(steps, _unmasked(trace, steps, lanes), trace)
        return PathFlow(
            tuple(needs),
            apart,
            dead,
            tuple(decided),
            tuple(beyond),
            frozenset(scattered),
            frozenset(derived),
        )


def _first_loop(trace: WaveTrace) -> int:
    """When the first loop begins; the end of the path where there is none."""
    path = trace.path()
    back = np.flatnonzero(path[1:] <= path[:-1])
    if not back.size:
        return len(path)
    return min(int(np.flatnonzero(path == head)[0]) for head in set(path[back + 1].tolist()))


def _decided(
    steps: Sequence[Static], apart: frozenset[tuple[int, int]], data: Taint
) -> list[tuple[int, str]]:
    """What data decide of the order of accesses, and when."""
    masked: set[int] = set()
    decided: list[tuple[int, str]] = []
    for time, step in enumerate(steps):
        held = data.held
        if data.masked:
            masked.add(time)
        if step.branch and step.reads & held:
            decided.append((time, "a branch"))
        if step.local and (step.local | EXEC_BITS) & held:
            decided.append((time, "an LDS address"))
        if step.indexed and held >> M0 & 1:
            decided.append((time, "which register is used"))
        data.advance(time)
    decided += [
        (time, "which lanes use a register")
        for first, time in sorted(apart)
        if first in masked or time in masked
    ]
    return decided


def _unmasked(trace: WaveTrace, steps: Sequence[Static], lanes: list[int]) -> list[bool]:
    """Per time, whether all lanes are active whatever the registers hold."""
    anything = Taint(trace, steps, lanes, lambda time, asked: True, ~EXEC_BITS)
    result = []
    for time, mask in enumerate(lanes):
        result.append(mask == ALL_LANES and not anything.masked)
        anything.advance(time)
    return result


def _needs(
    steps: list[Static], lanes: list[int], trace: WaveTrace
) -> tuple[list[tuple[int, int, int, int]], frozenset[tuple[int, int]]]:
    """For every load, the first step that reads or writes one of its registers; and steps that do
    so in other lanes only."""
    loads: dict[int, list[tuple[WaitQueue, int, int]]] = {}
    for time, counter, registers, active in trace.loads:
        loads.setdefault(time, []).append((counter, registers, active))
    waiting: dict[int, list[tuple[int, WaitQueue, int]]] = {}
    bits = 0
    found: dict[tuple[int, int], tuple[int, int]] = {}
    apart = set()
    for time, step in enumerate(steps):
        here = loads.get(time, ())
        for register in each_register(step.touched & bits):
            reads = bool(step.reads >> register & 1)
            kind = Conflict.REGISTER_READ if reads else Conflict.REGISTER_WRITE
            mine = 1 if register < VGPR else ALL_LANES if step.whole else lanes[time]
            left = []
            for first, counter, active in waiting[register]:
                in_order = not reads and counter.in_order
                if in_order and any(c is counter and r >> register & 1 for c, r, _ in here):
                    continue
                if mine & active:
                    found.setdefault((first, time), (int(kind), register))
                else:
                    apart.add((first, time))
                    left.append((first, counter, active))
            waiting[register] = left
            bits ^= (not left) << register
        for counter, registers, active in here:
            bits |= registers
            for register in each_register(registers):
                waiting.setdefault(register, []).append((time, counter, active))
    needs = [(*times, *what) for times, what in found.items()]
    return needs, frozenset(apart)


def _dead(steps: list[Static], unmasked: list[bool], trace: WaveTrace) -> frozenset[int]:
    """Loads whose registers nothing lasting depends on, backwards from the end."""
    loads = {time for time, _, _, _ in trace.loads}
    live = EXEC_BITS
    dead = set()
    for time in range(len(steps) - 1, -1, -1):
        step = steps[time]
        if not step.lasting and not step.writes & live:
            if time in loads:
                dead.add(time)
            continue
        every = step.whole or unmasked[time]
        live &= ~(step.overwrites if every else step.overwrites & SCALARS)
        live |= step.reads | EXEC_BITS
    return frozenset(dead)


class Taint:
    """The registers meant, before the next step of a wave."""

    def __init__(
        self,
        trace: WaveTrace,
        steps: Sequence[Static],
        lanes: Sequence[int],
        loaded: Loaded,
        held: int = 0,
    ) -> None:
        self.held = held
        self._trace, self._steps, self._lanes, self._loaded = trace, steps, lanes, loaded
        self._loads = {time for time, _, _, _ in trace.loads}

    @property
    def masked(self) -> bool:
        """Whether EXEC is meant: other lanes might be active."""
        return bool(self.held & EXEC_BITS)

    def step(self, time: int) -> Static:
        """The step at a time."""
        return self._steps[time]

    def advance(self, time: int) -> None:
        """Execute the step at ``time``."""
        step = self.step(time)
        if not step.writes:
            return
        asked = bool(step.reads & self.held)
        if time in self._loads:
            hit = self._loaded(time, asked)
        else:
            hit = asked or (self.masked and not step.scalar)
        if step.joins and self._all_on(time, step):
            self.held &= ~step.writes
            return
        saves = step.saves if self.masked else 0
        if hit:
            self.held = self.held & ~step.saves | step.writes & ~step.saves | saves
        else:
            every = step.whole or (self._lanes[time] == ALL_LANES and not self.masked)
            self.held &= ~(step.overwrites if every else step.overwrites & SCALARS)
            self.held |= saves

    def _all_on(self, time: int, step: Static) -> bool:
        """EXEC |= the mask that the wave began with, which is not meant itself."""
        added = self._trace.joined.get(time)
        return added == self._lanes[0] and not step.reads & ~EXEC_BITS & self.held
