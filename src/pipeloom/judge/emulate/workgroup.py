"""One workgroup: its waves, their interleaving, barriers, and the record of findings.

Waves take turns in a seeded random order, each for a random burst of instructions. ``clock``
counts instructions over all waves; operations in flight land when it reaches their moment, also
those of a wave that waits at a barrier. The n-th barrier of every wave releases when all have
arrived at their n-th; a barrier waits for nothing else.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter as Tally
from dataclasses import dataclass, field

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.global_memory import GlobalMemory
from pipeloom.judge.emulate.lds_shadow import LocalMemory
from pipeloom.judge.emulate.matrix_batch import carry_out
from pipeloom.judge.emulate.observe import Observer
from pipeloom.judge.emulate.observed import Defect, DefectKind, describe_place
from pipeloom.judge.emulate.pending import (
    COUNTER_LIMIT,
    Delays,
    Directed,
    Pending,
    Timing,
    WaitQueue,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import StepLimitError
from pipeloom.judge.emulate.wave import Wave, WaveState
from pipeloom.machine.source_lines import LineMap, SourceLine


class EnoughFindingsError(Exception):
    """Unwinds a run that has reached ``max_findings``."""


@dataclass(slots=True)
class DefectLog:
    """Findings of a whole launch: equal ones are kept once, and counted."""

    line_map: LineMap
    limit: int
    findings: list[Defect] = field(default_factory=list)
    seen: set[tuple[DefectKind, int, int | None]] = field(default_factory=set)

    def add(self, finding: Defect) -> None:
        key = (finding.kind, finding.pc, finding.cause_pc)
        if key in self.seen:
            return
        self.seen.add(key)
        self.findings.append(finding)
        if len(self.findings) >= self.limit:
            raise EnoughFindingsError

    def source(self, pc: int) -> SourceLine | None:
        return self.line_map.get(pc)


class Workgroup:
    """Runs the waves of one workgroup to their end."""

    def __init__(
        self,
        program: list[MicroOp],
        memory: GlobalMemory,
        lds: LocalMemory,
        ledger: DefectLog,
        workgroup_id: tuple[int, int, int],
        seed: int,
        timing: Timing | Directed,
        max_instructions: int,
        counter_stall: bool,
        observer: Observer | None = None,
    ) -> None:
        self.program = program
        self.memory = memory
        self.lds = lds
        self.ledger = ledger
        self.workgroup_id = workgroup_id
        self.rng = random.Random(seed)
        self.delays = Delays(self.rng, timing)
        self.max_burst = self.rng.choice((2, 8, 32, 256))
        self.max_instructions = max_instructions
        self.counter_stall = counter_stall
        self.observer = observer
        self.waves: list[Wave] = []
        self.clock = 0
        self.events: list[tuple[int, int, Wave, Pending]] = []
        self.issued = 0

    # --- findings ----------------------------------------------------------------------------

    def place(self, pc: int) -> str:
        return describe_place(pc, self.ledger.source(pc))

    def report(
        self,
        kind: DefectKind,
        wave: Wave,
        instruction: Decoded,
        message: str,
        *,
        cause: Decoded | None = None,
    ) -> None:
        """Record a defect; raises EnoughFindingsError at the limit."""
        cause_pc = None if cause is None else cause.pc
        self.ledger.add(
            Defect(
                kind=kind,
                message=message,
                pc=instruction.pc,
                instruction=instruction.name,
                workgroup=self.workgroup_id,
                wave=wave.index,
                source=self.ledger.source(instruction.pc),
                cause_pc=cause_pc,
                cause=None if cause_pc is None else self.ledger.source(cause_pc),
            )
        )

    # --- operations in flight ------------------------------------------------------------------

    def issue(self, wave: Wave, pending: Pending) -> None:
        """Put an operation in flight and decide when it lands."""
        if self.observer is not None:
            self.observer.issue(wave, pending)
        queue, limit = wave.queues[pending.counter], COUNTER_LIMIT.get(pending.counter)
        ahead = queue[-1] if queue and limit is not None else None
        queue.append(pending)
        if self.counter_stall and limit is not None and len(queue) > limit:
            # The counter is full: the issue stalls until the oldest is done.
            self.retire(wave, queue.popleft())
            wave.refresh_in_flight()
        if pending.registers:
            wave.in_flight |= pending.registers
            wave.dirty |= pending.registers
        delay = self.delays.draw(pending.instruction.pc)
        if delay is None:
            pending.due = -1
            return
        due = self.clock + delay
        if ahead is not None and not ahead.landed:
            # In order: not before the operation ahead of it, and never if that one waits.
            if ahead.due < 0:
                pending.due = -1
                return
            due = max(due, ahead.due)
        pending.due = due
        if due <= self.clock:
            _land(wave, pending)
        else:
            self.issued += 1
            heapq.heappush(self.events, (due, self.issued, wave, pending))

    def retire(self, wave: Wave, pending: Pending) -> int:
        """A wait of the wave covers this operation: it has landed; the registers it wrote."""
        if self.observer is not None:
            self.observer.retire(wave, pending)
        _land(wave, pending)
        if pending.access > 0:
            self.lds.retire(pending.access, wave.barriers)
        return pending.registers

    def wait(self, wave: Wave, left: tuple[tuple[WaitQueue, int], ...]) -> None:
        """s_waitcnt: retire all but the newest so many operations of each queue."""
        retired = 0
        for name, count in left:
            queue = wave.queues[name]
            while len(queue) > count:
                retired |= self.retire(wave, queue.popleft())
        if retired:
            wave.refresh_in_flight()

    def _land_due(self) -> None:
        events = self.events
        while events and events[0][0] <= self.clock:
            _, _, wave, pending = heapq.heappop(events)
            _land(wave, pending)

    def _land_held(self, timing: Timing | Directed) -> None:
        """What a directed timing holds back lands now, behind all that is ahead in its queue."""
        assert isinstance(timing, Directed)
        for wave in self.waves:
            for queue in wave.queues.values():
                operations = list(queue)
                held = [i for i, one in enumerate(operations) if one.instruction.pc in timing.held]
                for pending in operations[: held[-1] + 1 if held else 0]:
                    _land(wave, pending)

    # --- running -------------------------------------------------------------------------------

    def run(self, counts: Tally[str]) -> None:
        """Run every wave to s_endpgm; ``counts`` gains one per executed instruction."""
        if self.observer is not None:
            self.observer.begin(self)
        running = list(self.waves)
        tallies = [0] * len(self.program)
        try:
            while running:
                wave = self._pick(running)
                self._burst(wave, 1 + int(self.rng.random() * self.max_burst), tallies)
                if wave.state is not WaveState.RUNNING:
                    running.remove(wave)
                    if not running:
                        running = self._release()
            for wave in self.waves:
                for queue in wave.queues.values():
                    for pending in queue:
                        _land(wave, pending)
        finally:
            for step, count in zip(self.program, tallies, strict=True):
                if count:
                    counts[step.instruction.name] += count

    def _pick(self, running: list[Wave]) -> Wave:
        """Whose turn it is."""
        timing = self.delays.timing
        if isinstance(timing, Directed):
            best = min(timing.rank(wave.index) for wave in running)
            running = [wave for wave in running if timing.rank(wave.index) == best]
        return running[int(self.rng.random() * len(running))]

    def _burst(self, wave: Wave, length: int, tallies: list[int]) -> None:
        program = self.program
        events = self.events
        observer = self.observer
        timing = self.delays.timing
        release = timing.release if isinstance(timing, Directed) else None
        clock = self.clock
        if clock > self.max_instructions:
            raise StepLimitError(
                f"the workgroup {self.workgroup_id} issued more than {self.max_instructions} "
                "instructions",
                hint="raise max_instructions (check: --max-instructions), or look for a loop that "
                "never ends",
            )
        for _ in range(length):
            at = wave.next
            step = program[at]
            tallies[at] += 1
            if observer is not None:
                observer.execute(wave, step)
            if wave.held & step.touched and not step.holds:
                carry_out(wave)
            if wave.dirty & step.touched:
                step.screen(wave, step)
            wave.next = at + 1
            step.run(wave)
            clock += 1
            self.clock = clock
            if step.instruction.pc == release:
                self._land_held(timing)
            if events and events[0][0] <= clock:
                self._land_due()
            if wave.state is not WaveState.RUNNING:
                break

    def _release(self) -> list[Wave]:
        """All waves stand at a barrier or have ended: let the waiting ones go on."""
        waiting = [wave for wave in self.waves if wave.state is WaveState.AT_BARRIER]
        ended = [wave for wave in self.waves if wave.state is WaveState.ENDED]
        if waiting and ended:
            wave = waiting[0]
            short = ended[0]
            self.report(
                DefectKind.BARRIER_MISMATCH,
                wave,
                self.program[wave.next - 1].instruction,
                f"{len(waiting)} of {len(self.waves)} waves wait at their barrier {wave.barriers}, "
                f"but wave {short.index} ended after {short.barriers}",
            )
        for wave in waiting:
            wave.state = WaveState.RUNNING
        return waiting


def _land(wave: Wave, pending: Pending) -> None:
    """Move the data of an operation, once."""
    if not pending.landed:
        if wave.held & pending.registers:
            carry_out(wave)
        pending.landed = True
        pending.land()
