"""The nominal run of a record (``happens_before.nominal_clock``), and the margins of its pairs.

An instruction takes the chip's issue cycles, a matrix instruction its passes of four; operations
complete after the chip's latency, scalar loads in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.record import GroupRecord, WaveTrace
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.emulate.pending import WaitQueue
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.happens_before.nominal_clock import NominalClock, Window, margin, play
from pipeloom.machine.chips import target_for
from pipeloom.machine.mnemonics import MNEMONICS

_PASS_CYCLES = 4


def nominal_margins(
    pairs: Pairs, group: GroupRecord, program: Sequence[MicroOp], sync: SyncPlan, arch: str
) -> list[int]:
    """Cycles between the first's end and the second's start; 0 or less where they meet."""
    target = target_for(arch)
    costs = [_cost(step, target.issue_cycles.value) for step in program]
    latencies = {
        WaitQueue.VM: target.global_latency.value,
        WaitQueue.LGKM: target.lds_latency.value,
    }
    waves = [_WaveClock(trace, sync, costs, latencies) for trace in group.waves]
    play(waves)
    return [
        margin(
            waves[v].windows[x],
            waves[w].windows[y],
            second_writes=kind in (Conflict.WAR, Conflict.WAW),
        )
        for v, x, w, y, kind, *_ in pairs.rows().tolist()
    ]


class _WaveClock(NominalClock[WaitQueue]):
    """Plays what one wave executed."""

    def __init__(
        self,
        trace: WaveTrace,
        sync: SyncPlan,
        costs: Sequence[int],
        latencies: Mapping[WaitQueue, int],
    ) -> None:
        super().__init__(WaitQueue)
        self._path, self._sync = trace.steps, sync
        self._costs, self._latencies = costs, latencies
        self.windows: list[Window] = []
        self._queues_of: dict[int, list[WaitQueue]] = {}
        for queue, times in trace.queues.items():
            for time in times:
                self._queues_of.setdefault(time, []).append(queue)

    def advance(self) -> None:
        """To the wave's next barrier, or its end."""
        for time in range(len(self.windows), len(self._path)):
            at = self._path[time]
            self._wait(at)
            issue, end = self.now, self.now + self._costs[at]
            done = 0
            for queue in self._queues_of.get(time, ()):
                done = self.enter(queue, self._latencies[queue.counter], in_order=queue.in_order)
                end = max(end, issue + 1)
            done = max(done, end)
            self.windows.append(Window(issue, done, done))
            self.now = end
            if at in self._sync.barriers:
                return
        self.ended = True

    def _wait(self, at: int) -> None:
        counts = self._sync.waits.get(at)
        for queue, left in () if counts is None else counts.left():
            self.wait(queue, left)


def _cost(step: MicroOp, issue: int) -> int:
    traits = MNEMONICS.get(step.instruction.name)
    if traits is not None and traits.passes:
        return _PASS_CYCLES * traits.passes
    return issue
