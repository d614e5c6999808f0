"""Toy: a kernel small enough to judge by hand, with programs written as one line of words.

    toy.compiled(prologue="load", kernel="...", epilogue="vm0 bar frag lg0 mma")

Words: ``load`` (or ``load1`` into stage 1; ``load@1`` with k_offset K1), ``frag`` / ``frag1`` (from
stage 1) into register A0, ``direct`` (its K tile to A0 past LDS, on the VM counter), ``mma``,
``vm<n>`` and ``lg<n>`` waits, ``bar``. Each trip sums one tile.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pipeloom import (
    CompiledSchedule,
    KOffsetKind,
    OpDesc,
    OpRole,
    Phase,
    ScheduleEntry,
    build_schedule,
)
from pipeloom.reference.kernels import (
    Accumulator,
    EntryRun,
    Kernel,
    LdsRead,
    LdsRegion,
    OpEffect,
    Part,
    RegisterSet,
    WaitCounter,
    WalkBuilder,
)

LOAD, FRAG, MMA, DIRECT = 0, 3, 5, 7


class ToyKernel(Kernel):
    """``waves`` waves, one group each; ``lag`` makes the last one execute barriers late."""

    name = "toy"

    def __init__(self, waves: int = 2, vm: int = 1, lgkm: int = 1, lag: bool = False) -> None:
        self.waves, self.vm, self.lgkm, self.lag = waves, vm, lgkm, lag
        self.groups = tuple((wave,) for wave in range(waves))
        self.uneven = False

    @property
    def tiles_per_iteration(self) -> int:
        return 1

    def tiles(self, trips: int) -> int:
        return trips + 1

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Accumulator(0, 0),)

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[EntryRun, ...]:
        walk = WalkBuilder()
        lags = self.lag and wave == self.waves - 1
        if lags:
            walk.own_barrier("stagger", Phase.PROLOGUE, 0)
        walk.entries(compiled.prologue, 0)
        for trip in range(trips):
            walk.entries(compiled.kernel, trip + 1, trip)
        walk.entries(compiled.epilogue, trips + 1)
        if self.lag and not lags and not self.uneven:
            walk.own_barrier("closing", Phase.EPILOGUE, trips + 1)
        return walk.done()

    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        region = LdsRegion("A", step.op.stage, 0)
        if step.op.tag == LOAD:
            return OpEffect(WaitCounter.VM, self.vm, tile=step.tile, lds_writes=(region,))
        if step.op.tag == FRAG:
            return OpEffect(
                WaitCounter.LGKM,
                self.lgkm,
                lds_reads=(LdsRead(region, Part(0, 1)),),
                register_writes=(RegisterSet("A", 0),),
            )
        if step.op.tag == DIRECT:
            register = RegisterSet("A", 0)
            return OpEffect(WaitCounter.VM, self.vm, tile=step.tile, register_writes=(register,))
        if step.op.tag == MMA:
            return OpEffect(register_reads=(RegisterSet("A", 0),), accumulator=Accumulator(0, 0))
        return OpEffect()


class Toy:
    """Builds toy schedules."""

    Kernel = ToyKernel

    def __init__(self) -> None:
        self._base = build_schedule("ping_pong")

    def compiled(
        self, prologue: str = "", kernel: str = "", epilogue: str = ""
    ) -> CompiledSchedule:
        """A schedule from three lines of words."""
        return replace(
            self._base,
            schedule="toy",
            program=None,
            kernel_deps=(),
            prologue=self._entries(prologue, Phase.PROLOGUE),
            kernel=self._entries(kernel, Phase.KERNEL),
            epilogue=self._entries(epilogue, Phase.EPILOGUE),
        )

    def words(self, entries: tuple[ScheduleEntry, ...]) -> str:
        """The line that describes ``entries``."""
        return " ".join(self._word(entry.op) for entry in entries)

    def _entries(self, line: str, phase: Phase) -> tuple[ScheduleEntry, ...]:
        ops = [self._op(word) for word in line.split()]
        return tuple(ScheduleEntry(op, slot, phase) for slot, op in enumerate(ops))

    def _op(self, word: str) -> OpDesc:
        found = re.fullmatch(r"(load|frag|direct|mma|vm|lg|bar|prio)(\d*)(?:@(-?\d))?", word)
        assert found, word
        kind, number = found[1], int(found[2] or 0)
        offset = {"1": KOffsetKind.K1, "-1": KOffsetKind.K_PREV}.get(found[3], KOffsetKind.K0)
        simple = {
            "vm": OpDesc.wait_vm(number),
            "lg": OpDesc.wait_lgkm(number),
            "prio": OpDesc.set_prio(number % 4),
            "bar": OpDesc.barrier(),
            "load": OpDesc(LOAD, number, 0, offset, latency=200, role=OpRole.GLOBAL_LOAD),
            "frag": OpDesc(FRAG, number, latency=20, role=OpRole.FRAGMENT_LOAD),
            "direct": OpDesc(DIRECT, 0, 0, offset, latency=200, role=OpRole.GLOBAL_LOAD),
            "mma": OpDesc(MMA, latency=16, role=OpRole.COMPUTE),
        }
        return simple[kind]

    def _word(self, op: OpDesc) -> str:
        if not op.is_framework:
            name = {LOAD: "load", FRAG: "frag", MMA: "mma", DIRECT: "direct"}[op.tag]
            offset = {KOffsetKind.K1: "@1", KOffsetKind.K_PREV: "@-1"}.get(op.k_offset, "")
            return f"{name}{op.stage or ''}{offset}"
        names = {128: "bar", 129: f"vm{op.wait_value}", 130: f"lg{op.wait_value}"}
        return names.get(op.tag, f"prio{op.wait_value}")


@pytest.fixture(scope="session")
def toy() -> Toy:
    return Toy()
