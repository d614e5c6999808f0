"""One nominal run of the record: do the latencies keep an unordered pair apart, and by how much?

A classification, not a proof (docs/verdicts.md): every wave issues in order, an instruction takes
the chip's issue cycles, a matrix instruction its passes of four; operations complete after the
chip's latency, in the order of their counter; waits and barriers block. The margin of a pair is
the time from the end of what should come first to the start of the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.record import GroupRecord, WaveTrace
from pipeloom.judge.check.retirement import NO_LGKM, NO_VM, Column, SyncPlan
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.machine.chips import target_for
from pipeloom.machine.mnemonics import MNEMONICS

_PASS_CYCLES = 4


class NominalRun:
    """When each step is issued and when its operation is over, in cycles."""

    def __init__(
        self, group: GroupRecord, program: Sequence[MicroOp], sync: SyncPlan, arch: str
    ) -> None:
        target = target_for(arch)
        self._costs = [_cost(step, target.issue_cycles.value) for step in program]
        self._latency = {
            WaitQueue.VM: target.global_latency.value,
            WaitQueue.LGKM: target.lds_latency.value,
            WaitQueue.SMEM: target.lds_latency.value,
        }
        self._sync = sync
        waves = [_WaveClock(trace) for trace in group.waves]
        running = list(waves)
        while running:
            for wave in running:
                self._advance(wave)
            running = [wave for wave in running if not wave.ended]
            release = max((wave.now for wave in running), default=0)
            for wave in running:
                wave.now = release
        self.issued: list[Column] = [np.array(wave.issued, np.int64) for wave in waves]
        self.done: list[Column] = [np.array(wave.done, np.int64) for wave in waves]

    def _advance(self, wave: _WaveClock) -> None:
        """To the wave's next barrier, or its end."""
        sync, path = self._sync, wave.trace.steps
        while wave.time < len(path):
            at = path[wave.time]
            counts = sync.waits.get(at)
            if counts is not None:
                if counts.vm < NO_VM:
                    wave.wait(WaitQueue.VM, counts.vm)
                if counts.lgkm < NO_LGKM:
                    wave.wait(WaitQueue.LGKM, counts.lgkm)
                if counts.lgkm == 0:
                    wave.wait(WaitQueue.SMEM, 0)
            end = wave.now + self._costs[at]
            for queue in wave.queues_of.get(wave.time, ()):
                done = wave.now + self._latency[queue]
                last = wave.last.get(queue, 0)
                if queue is not WaitQueue.SMEM:
                    done = max(done, last)
                wave.last[queue] = done
                wave.pending[queue].append(done)
                end = max(end, wave.now + 1)
                wave.done[wave.time] = done
            wave.issued[wave.time] = wave.now
            wave.done[wave.time] = max(wave.done[wave.time], end)
            wave.now = end
            wave.time += 1
            if at in sync.barriers:
                return
        wave.ended = True

    def margin(self, pairs: Pairs) -> Column:
        """Cycles between the first's end and the second's start; 0 or less where they meet."""
        first = np.array(
            [
                self.done[wave][time]
                for wave, time in zip(pairs.first_wave, pairs.first_time, strict=True)
            ],
            np.int64,
        )
        second = np.array(
            [
                # A write lands when it is done; a read may look from its issue on.
                (self.done if kind in (Conflict.WAR, Conflict.WAW) else self.issued)[wave][time]
                for wave, time, kind in zip(
                    pairs.second_wave, pairs.second_time, pairs.kind, strict=True
                )
            ],
            np.int64,
        )
        return second - first


class _WaveClock:
    def __init__(self, trace: WaveTrace) -> None:
        self.trace = trace
        self.now = 0
        self.time = 0
        self.ended = False
        self.issued = [0] * len(trace.steps)
        self.done = [0] * len(trace.steps)
        self.last: dict[WaitQueue, int] = {}
        self.pending: dict[WaitQueue, deque[int]] = {queue: deque() for queue in WaitQueue}
        self.queues_of: dict[int, list[WaitQueue]] = {}
        for queue, times in trace.queues.items():
            for time in times:
                self.queues_of.setdefault(time, []).append(queue)

    def wait(self, queue: WaitQueue, count: int) -> None:
        """Block until at most ``count`` operations are left."""
        left = self.pending[queue]
        while len(left) > count:
            self.now = max(self.now, left.popleft())


def _cost(step: MicroOp, issue: int) -> int:
    traits = MNEMONICS.get(step.instruction.name)
    if traits is not None and traits.passes:
        return _PASS_CYCLES * traits.passes
    return issue
