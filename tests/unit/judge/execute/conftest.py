"""A kernel of two waves and one tile, for tests that fit on one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pipeloom import CompiledSchedule, OpDesc, Phase, ScheduleEntry, build_schedule
from pipeloom.reference.kernels import (
    NO_EFFECT,
    Accumulator,
    Counter,
    Effect,
    Kernel,
    LdsRead,
    Part,
    Region,
    Register,
    Step,
    WalkBuilder,
)

Litmus = Callable[..., tuple[CompiledSchedule, Kernel]]
LOAD, FRAGMENT, MMA = 0, 3, 5


class LitmusKernel(Kernel):
    """Two waves, one group, one stage of A and of B, one accumulator; no loop."""

    name = "litmus"
    waves = 2
    groups: tuple[tuple[int, ...], ...] = ((0, 1),)

    def __init__(self, tiles: int, fragment_entries: int, only: dict[int, int]) -> None:
        self._tiles = tiles
        self._fragment_entries = fragment_entries
        self._only = only

    @property
    def tiles_per_iteration(self) -> int:
        return 1

    def tiles(self, trips: int) -> int:
        return self._tiles

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Accumulator(0, 0),)

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        walk = WalkBuilder()
        for slot, entry in enumerate(compiled.prologue):
            if self._only.get(slot, wave) == wave:
                walk.entry(entry, slot, 0, entry.op.stage if entry.op.tag == LOAD else None)
        return walk.done()

    def effect(self, step: Step, wave: int) -> Effect:
        op = step.op
        if op.is_framework:
            return NO_EFFECT
        operand = "AB"[op.channel]
        if op.tag == LOAD:
            writes = (Region(operand, 0, 0),)
            return Effect(Counter.VM, 4, tile=step.tile, lds_writes=writes)
        if op.tag == FRAGMENT:
            return Effect(
                Counter.LGKM,
                self._fragment_entries,
                lds_reads=(LdsRead(Region(operand, 0, 0), Part(wave, 2)),),
                register_writes=(Register(operand, op.subtile),),
            )
        return Effect(
            register_reads=(Register("A", op.subtile), Register("B", op.subtile)),
            accumulator=Accumulator(0, 0),
        )


class WavesDiffer(LitmusKernel):
    """As above, but each wave walks steps of its own."""

    groups = ((0,), (1,))


_WORDS = {
    "barrier": OpDesc.barrier(),
    "mma": OpDesc(MMA),
    "mma1": OpDesc(MMA, subtile=1),
    "fence": OpDesc.schedule_barrier(),
    "read.a": OpDesc(FRAGMENT, channel=0),
    "read.b": OpDesc(FRAGMENT, channel=1),
    "read.a1": OpDesc(FRAGMENT, channel=0, subtile=1),
    "read.b1": OpDesc(FRAGMENT, channel=1, subtile=1),
}


def _op(word: str) -> OpDesc:
    """``load.a3`` loads tile 3 of A; ``vm4`` and ``lgkm0`` wait; the rest is in the table."""
    if word in _WORDS:
        return _WORDS[word]
    if word.startswith("load."):
        return OpDesc(LOAD, channel="ab".index(word[5]), stage=int(word[6:] or 0))
    if word.startswith("vm"):
        return OpDesc.wait_vm(int(word[2:]))
    assert word.startswith("lgkm"), word
    return OpDesc.wait_lgkm(int(word[4:]))


@pytest.fixture(scope="session")
def litmus() -> Litmus:
    """A schedule of one phase in words, and the kernel that runs it.

    A word may name the only wave that has it: ``0:barrier``.
    """
    base = build_schedule("four_wave")

    def make(
        text: str, tiles: int = 1, fragment_entries: int = 4
    ) -> tuple[CompiledSchedule, Kernel]:
        words: Sequence[str] = text.split()
        only = {n: int(word[0]) for n, word in enumerate(words) if word[1] == ":"}
        ops = [_op(word[2:] if word[1] == ":" else word) for word in words]
        entries = tuple(ScheduleEntry(op, n, Phase.PROLOGUE) for n, op in enumerate(ops))
        form = WavesDiffer if only else LitmusKernel
        compiled = replace(base, prologue=entries, kernel=(), epilogue=(), kernel_deps=())
        return compiled, form(tiles, fragment_entries, only)

    return make
