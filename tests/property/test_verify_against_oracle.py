"""Verdicts against a small adversarial machine that knows nothing of epochs or induction.

The machine runs every wave step by step. LDS holds, per region and slice, the number of the K tile
that stands there; loads land and fragments read early, late or at random within what the model
allows. A mutant that the verifier proves must give the right sums under every policy tried, and
every finding must replay to a wrong sum.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pipeloom import CompiledSchedule, OpDesc, Phase, ScheduleEntry, build_schedule
from pipeloom.drive.programs import verify
from pipeloom.judge.verify import Replay, Status
from pipeloom.reference.kernels import (
    Accumulator,
    Kernel,
    LdsRegion,
    OpEffect,
    RegisterSet,
    WaitCounter,
    kernel_for,
)
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize

GOLDEN = Path(__file__).parents[1] / "golden" / "schedules.jsonl.gz"
Value = tuple[int | None, ...]
"""What a register holds, slice by slice; ``None`` is poison."""


@dataclass(eq=False)
class Flight:
    """An access between issue and retirement."""

    effect: OpEffect
    step: int
    entries: int
    done: bool = False
    value: Value = ()


@dataclass
class Wave:
    """One wave's program counter, registers and counters."""

    number: int
    pc: int = 0
    barriers: int = 0
    registers: dict[RegisterSet, Value] = field(default_factory=dict)
    queues: dict[WaitCounter, deque[Flight]] = field(
        default_factory=lambda: {c: deque() for c in WaitCounter}
    )
    sums: dict[Accumulator, list[tuple[Value, ...]]] = field(default_factory=dict)


class Target:
    """Executes a schedule under a policy; ``run`` says whether every sum came out right."""

    def __init__(self, compiled: CompiledSchedule, kernel: Kernel, trips: int) -> None:
        self.kernel, self.trips = kernel, trips
        walks = [kernel.walk(compiled, w, trips) for w in range(kernel.waves)]
        self.programs = [
            [(step, kernel.effect(step, w)) for step in walk] for w, walk in enumerate(walks)
        ]
        self.waves = [Wave(w) for w in range(kernel.waves)]
        self.lds: dict[LdsRegion, list[int | None]] = {}
        self.when: Callable[[Wave, Flight, bool], str] = lambda wave, flight, load: "late"

    def run(self, pick: Callable[[list[Wave]], Wave], rng: random.Random | None = None) -> bool:
        """Run to the end, choosing among the waves that can go on with ``pick``."""
        while ready := [w for w in self.waves if self._ready(w)]:
            self._step(pick(ready))
            if rng is not None:
                for wave in self.waves:
                    for queue in wave.queues.values():
                        for flight in queue:
                            if not flight.done and rng.random() < 0.05:
                                self._perform(wave, flight)
        assert all(w.pc == len(self.programs[w.number]) for w in self.waves), "hang"
        return all(self._right(w) for w in self.waves)

    def _ready(self, wave: Wave) -> bool:
        program = self.programs[wave.number]
        if wave.pc >= len(program):
            return False
        if program[wave.pc][0].op.tag != OpTag.BARRIER:
            return True
        arrived = [
            w.barriers > wave.barriers or (w.barriers == wave.barriers and self._at_barrier(w))
            for w in self.waves
        ]
        return all(arrived)

    def _at_barrier(self, wave: Wave) -> bool:
        program = self.programs[wave.number]
        return wave.pc < len(program) and program[wave.pc][0].op.tag == OpTag.BARRIER

    def _step(self, wave: Wave) -> None:
        step, effect = self.programs[wave.number][wave.pc]
        wave.pc += 1
        tag = step.op.tag
        if tag == OpTag.BARRIER:
            wave.barriers += 1
        elif tag == OpTag.WAIT_VM:
            self._drain(wave, WaitCounter.VM, step.op.wait_value)
        elif tag == OpTag.WAIT_LGKM:
            self._drain(wave, WaitCounter.LGKM, step.op.wait_value)
        elif not step.op.is_framework:
            self._issue(wave, effect, step.index)

    def _issue(self, wave: Wave, effect: OpEffect, step: int) -> None:
        poison: Value = (None,) * self.kernel.waves
        read = tuple(wave.registers.get(r, poison) for r in effect.register_reads)
        if effect.counter is None:
            assert effect.accumulator is not None
            wave.sums.setdefault(effect.accumulator, []).append(read)
            return
        self._drain(wave, effect.counter, effect.counter.limit - 1)
        flight = Flight(effect, step, effect.entries)
        if effect.tile is not None:
            flight.value = (effect.tile,) * self.kernel.waves
        elif read:
            flight.value = read[0]
        for register in effect.register_writes:
            wave.registers[register] = poison
        wave.queues[effect.counter].append(flight)
        if self.when(wave, flight, not effect.lds_reads) == "early":
            self._perform(wave, flight)
        self._drain(wave, effect.counter, effect.counter.limit)

    def _perform(self, wave: Wave, flight: Flight) -> None:
        flight.done = True
        empty: list[int | None] = [None] * self.kernel.waves
        for region in flight.effect.lds_writes:
            self.lds.setdefault(region, list(empty))[wave.number] = flight.value[wave.number]
        for look in flight.effect.lds_reads:
            flight.value = tuple(self.lds.get(look.region, empty))

    def _drain(self, wave: Wave, counter: WaitCounter, allowed: int) -> None:
        queue = wave.queues[counter]
        while (excess := sum(f.entries for f in queue) - allowed) > 0:
            flight = queue[0]
            if flight.entries > excess:
                flight.entries -= excess
                return
            queue.popleft()
            if not flight.done:
                self._perform(wave, flight)
            for register in flight.effect.register_writes:
                if not any(register in f.effect.register_writes for f in queue):
                    wave.registers[register] = flight.value

    def _right(self, wave: Wave) -> bool:
        expected = Tally(range(self.kernel.tiles(self.trips)))
        for accumulator in self.kernel.accumulators():
            mmas = wave.sums.get(accumulator, [])
            slots = range(self.kernel.waves)
            for a in slots:
                for b in slots:
                    pairs = Tally((m[0][a], m[-1][b]) for m in mmas)
                    if pairs != Tally({(t, t): n for t, n in expected.items()}):
                        return False
        return True


def replay(compiled: CompiledSchedule, kernel: Kernel, how: Replay) -> bool:
    """Run a counterexample; whether the sums came out right after all."""
    machine = Target(compiled, kernel, how.trips)
    opposite = {"early": "late", "late": "early"}

    def when(wave: Wave, flight: Flight, is_load: bool) -> str:
        policy = how.loads if is_load else how.fragments
        return opposite[policy] if (wave.number, flight.step) in how.exceptions else policy

    machine.when = when
    rank = {wave: at for at, wave in enumerate(how.wave_order)}
    return machine.run(lambda ready: min(ready, key=lambda w: rank[w.number]))


def survives(compiled: CompiledSchedule, kernel: Kernel, seed: int) -> bool:
    """Whether the sums are right under extreme and random policies."""
    rng = random.Random(seed)
    for trips in range(4):
        for loads in ("early", "late"):
            for fragments in ("early", "late"):
                order = list(range(kernel.waves))
                rng.shuffle(order)
                if not replay(compiled, kernel, Replay(trips, tuple(order), loads, fragments)):
                    return False
        machine = Target(compiled, kernel, trips)
        machine.when = lambda wave, flight, load: rng.choice(("early", "late", "late"))
        if not machine.run(rng.choice, rng):
            return False
    return True


def _canonical(kind: str) -> list[Mapping[str, Any]]:
    """Their specs: a few are drawn and built."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
        cases = [json.loads(line) for line in stream]
    return [
        case["spec"]
        for case in cases
        if case["case"].startswith(f"canonical/{kind}/") and case["expect"] == "ok"
    ]


def renumber(entries: list[ScheduleEntry]) -> tuple[ScheduleEntry, ...]:
    return tuple(replace(e, time_slot=slot) for slot, e in enumerate(entries))


def mutate(compiled: CompiledSchedule, rng: random.Random) -> CompiledSchedule:
    """One small change: drop, loosen, tighten, move, swap, or lose the stagger."""
    phases = {p: list(compiled.phase(p)) for p in Phase}
    phase = rng.choice(list(Phase))
    entries = phases[phase]
    kind = rng.choice(("drop", "loosen", "tighten", "move", "swap", "stagger"))
    waits = [i for i, e in enumerate(entries) if e.op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM)]
    syncs = waits + [i for i, e in enumerate(entries) if e.op.tag == OpTag.BARRIER]
    stagger = compiled.warp_stagger_index
    if kind == "stagger":
        stagger = len(compiled.prologue) + 1
    elif kind == "swap":
        at = rng.randrange(len(entries) - 1)
        entries[at], entries[at + 1] = entries[at + 1], entries[at]
    elif kind == "drop" and syncs:
        entries.pop(rng.choice(syncs))
    elif kind == "move" and syncs:
        entry = entries.pop(rng.choice(syncs))
        entries.insert(rng.randrange(len(entries) + 1), entry)
    elif waits:
        at = rng.choice(waits)
        op = entries[at].op
        is_vm = op.tag == OpTag.WAIT_VM
        by = compiled.config.vm_per_load_a if is_vm else 1
        count = max(0, op.wait_value + (by if kind == "loosen" else -by))
        changed = OpDesc.wait_vm(count) if is_vm else OpDesc.wait_lgkm(count)
        entries[at] = replace(entries[at], op=changed)
    return replace(
        compiled,
        prologue=renumber(phases[Phase.PROLOGUE]),
        kernel=renumber(phases[Phase.KERNEL]),
        epilogue=renumber(phases[Phase.EPILOGUE]),
        warp_stagger_index=stagger,
    )


def judge(compiled: CompiledSchedule, seed: int) -> str:
    """Compare a verdict with the machine; the word for what disagrees, or ''."""
    kernel = kernel_for(compiled)
    verdict = verify(lift(compiled))
    if verdict.proved:
        return "" if survives(compiled, kernel, seed) else "missed"
    for finding in verdict.findings:
        if finding.status is Status.PROVED:
            continue
        assert finding.counterexample is not None
        first, second = finding.first, finding.second
        loads = first is not None and first.op[:5] == second.op[:5] == "load "
        if loads and first is not None and first.entry != second.entry:
            continue  # two steps may slice a box differently; here every wave has one slice
        if replay(compiled, kernel, finding.counterexample.replay):
            return f"false alarm: {finding.describe()}"
    return ""


KINDS = ["ping_pong", "four_wave", "single_buffer"]


@pytest.mark.parametrize("kind", KINDS)
def test_canonical_schedules_and_mutants(kind: str) -> None:
    """Reference schedules: most mutants are wrong, and every finding must replay."""
    rng = random.Random(20260801)
    originals = _canonical(kind)
    for number in range(8):
        original = build_schedule(rng.choice(originals))
        mutant = original if number == 0 else mutate(original, rng)
        assert judge(mutant, number) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_synchronised_schedules_and_mutants(kind: str) -> None:
    """Proved schedules: a mutant is either still right or found out."""
    rng = random.Random(20260802)
    original = synchronize(build_schedule(rng.choice(_canonical(kind))), reorder=True)
    proved = 0
    for number in range(8):
        mutant = original if number == 0 else mutate(original, rng)
        assert judge(mutant, number) == ""
        proved += verify(lift(mutant)).proved
    assert 1 <= proved < 8
