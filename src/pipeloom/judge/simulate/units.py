"""The shared parts of a compute unit: who may start when, and when it is done.

Each part answers two questions about a lowered instruction. ``earliest`` gives the first cycle from
``now`` on at which it can issue, with the cause and the event that hold it up; it commits nothing.
``issue`` commits it at ``now`` and gives when its wave is free again and when its effect is
complete. All parts serve in issue order with known service times, so completion is known at issue.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from heapq import heappop, heappush

from pipeloom.judge.simulate.trace import Cause
from pipeloom.machine.target import Target, Traffic

# An instruction as the engine runs it: opcode, then numbers whose meaning is the opcode's own
# (engine.lower lists them); then the values that it needs, those that it gives, and the cycles from
# its end until a dependent can issue.
Op = tuple[int, int, int, int, float, int, tuple[int, ...], tuple[int, ...], int]

# The first possible cycle, what holds it up until then, and the event that does.
Earliest = tuple[int, Cause, int]

# When the wave may issue again, and when the effect is complete.
Issued = tuple[int, int]


@dataclass(slots=True, eq=False)
class Simd:
    """One SIMD: the matrix unit, the vector and scalar issue ports, the ports to the memories."""

    matrix_free: int = 0
    matrix_passes: int = 0  # cycles of the last MFMA
    matrix_event: int = -1
    valu_free: int = 0
    valu_event: int = -1
    salu_free: int = 0
    salu_event: int = -1
    lds_port: int = 0
    vmem_port: int = 0
    return_free: int = 0


@dataclass(slots=True, eq=False)
class SimulatedWave:
    """One wave: its place in the program and what it has outstanding."""

    number: int
    simd_number: int
    simd: Simd
    wake: int  # cycles from a barrier's release to this wave's next issue
    age: int  # 0 for the oldest wave of its SIMD
    ops: list[Op] = field(default_factory=list)
    loop_start: int = 0
    loop_end: int = 0
    turns: frozenset[int] = frozenset()  # where the loop begins or ends, or all does
    at: int = 0
    iteration: int = -1
    ready: int = 0
    priority: int = 0
    held: tuple[Cause, int] = (Cause.NONE, -1)
    ended_at: int | None = None
    last_event: int = -1
    marks: list[int] = field(default_factory=list)
    mfma_start: int = -1_000_000
    mfma_end: int = 0
    vm: list[int] = field(default_factory=list)  # when each load retires, in issue order
    vm_event: list[int] = field(default_factory=list)
    lgkm: list[int] = field(default_factory=list)
    lgkm_event: list[int] = field(default_factory=list)
    texture: list[int] = field(default_factory=list)  # when each load leaves the texture path
    values: dict[int, tuple[int, int]] = field(default_factory=dict)  # value -> (ready, event)


class VectorUnits:
    """The matrix unit and the vector ALU of every SIMD; they share one issue port per SIMD."""

    __slots__ = ("issue_cycles", "packed_after", "switch")

    def __init__(self, machine: Target) -> None:
        self.issue_cycles = machine.issue_cycles.value
        self.packed_after = machine.packed_after_mfma_cycles.value
        self.switch = machine.mfma_switch_cycles.value

    def earliest_matrix(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """Free matrix unit and free port; after an MFMA of another length some cycles more."""
        simd = wave.simd
        start, cause, source = self.earliest_valu(wave, op, now)
        free = simd.matrix_free
        if simd.matrix_passes not in (0, op[1]):
            free += self.switch
        if free > start:
            start, cause, source = free, Cause.MATRIX_UNIT, simd.matrix_event
        return start, cause, source

    def issue_matrix(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(cycles, cycles its wave is held)."""
        simd = wave.simd
        end = now + op[1]
        simd.matrix_free = wave.mfma_end = end
        simd.matrix_passes = op[1]
        simd.matrix_event = simd.valu_event = event
        simd.valu_free = now + self.issue_cycles
        wave.mfma_start = now
        return now + op[2], end

    def earliest_valu(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """A free port."""
        simd = wave.simd
        if simd.valu_free > now:
            return simd.valu_free, Cause.VALU_PORT, simd.valu_event
        return now, Cause.NONE, -1

    def issue_valu(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(issue cycles)."""
        simd = wave.simd
        simd.valu_free = now + op[1]
        simd.valu_event = event
        return now + op[1], now + op[1]

    def earliest_packed(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """As a VALU, but never within some cycles of its wave's MFMA."""
        start, cause, source = self.earliest_valu(wave, op, now)
        if wave.mfma_start + self.packed_after > start:
            start = wave.mfma_start + self.packed_after
            cause, source = Cause.MATRIX_UNIT, wave.simd.matrix_event
        return start, cause, source

    def issue_packed(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """As a VALU, but the matrix unit loses the same cycles: packed f32 never hides."""
        simd = wave.simd
        simd.matrix_free = max(simd.matrix_free, now) + op[1]
        return self.issue_valu(wave, op, now, event)


class ScalarUnit:
    """The scalar ALU and cache: scalar instructions share one issue port per SIMD.

    The cache is taken to answer as fast as LDS; kernels read arguments and little else there.
    """

    __slots__ = ("cycles", "latency")

    def __init__(self, machine: Target) -> None:
        self.cycles = machine.salu_cycles.value
        self.latency = machine.lds_latency.value

    def earliest(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """A free port."""
        simd = wave.simd
        if simd.salu_free > now:
            return simd.salu_free, Cause.ISSUE_PORT, simd.salu_event
        return now, Cause.NONE, -1

    def issue(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(cycles its wave is held)."""
        wave.simd.salu_free = now + self.cycles
        wave.simd.salu_event = event
        return now + op[1], now + op[1]

    def load(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(cycles its wave is held); counted by lgkmcnt."""
        free, _ = self.issue(wave, op, now, event)
        done = max(now + self.latency, wave.lgkm[-1] if wave.lgkm else 0)
        wave.lgkm.append(done)
        wave.lgkm_event.append(event)
        return free, done


class Lds:
    """The LDS of a compute unit: queues per SIMD pair, one array, a return path per SIMD."""

    __slots__ = ("array_free", "delay", "depth", "limit", "queue_events", "queues", "simds")

    def __init__(self, machine: Target) -> None:
        self.simds = machine.lds_queue_simds.value
        self.depth = machine.lds_queue_depth.value
        self.delay = machine.lds_queue_delay.value
        self.limit = machine.counting(Traffic.LDS).limit.value
        self.array_free = 0
        count = -(-machine.simds.value // self.simds)
        # When each operation leaves its queue, in issue order: entry -depth bounds the next.
        self.queues: list[list[int]] = [[] for _ in range(count)]
        self.queue_events: list[list[int]] = [[] for _ in range(count)]

    def earliest_read(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """A free port, a place in the queue, and room in lgkmcnt."""
        start, cause, source = now, Cause.NONE, -1
        if wave.simd.lds_port > start:
            start, cause = wave.simd.lds_port, Cause.ISSUE_PORT
        pair = wave.simd_number // self.simds
        queue = self.queues[pair]
        if len(queue) >= self.depth and queue[-self.depth] > start:
            start, cause = queue[-self.depth], Cause.LDS_QUEUE
            source = self.queue_events[pair][-self.depth]
        if len(wave.lgkm) >= self.limit and wave.lgkm[-self.limit] > start:
            start, cause = wave.lgkm[-self.limit], Cause.LDS_COUNTER
            source = wave.lgkm_event[-self.limit]
        return start, cause, source

    def earliest_write(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """As a read, and not under an MFMA of its own wave (GT: 23 cycles lost per write)."""
        start, cause, source = self.earliest_read(wave, op, now)
        if wave.mfma_end > start:
            start, cause, source = wave.mfma_end, Cause.LDS_WRITE_DATA, wave.simd.matrix_event
        return start, cause, source

    def issue(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(array cycles, return cycles, cycles its wave is held, -, latency after the return)."""
        simd = wave.simd
        begin = max(now + self.delay, self.array_free)
        end = self.array_free = begin + op[1]
        if op[2]:
            end = max(max(begin, simd.return_free) + op[2], end)
            simd.return_free = end
        pair = wave.simd_number // self.simds
        self.queues[pair].append(end)
        self.queue_events[pair].append(event)
        simd.lds_port = now + 1
        done = end + op[5]
        if wave.lgkm and wave.lgkm[-1] > done:
            done = wave.lgkm[-1]  # retires in order
        wave.lgkm.append(done)
        wave.lgkm_event.append(event)
        return now + op[3], done

    def land(self, now: int, cycles: int) -> None:
        """Data of a load from global memory is written into the array."""
        self.array_free = max(self.array_free, now) + cycles


class GlobalPath:
    """From a compute unit to memory: the texture path, the bytes in flight, the bandwidth share."""

    __slots__ = (
        "bytes_in_flight", "cap", "capped", "depth", "issue_cycles", "jitter", "landings",
        "latency", "limit", "memory_free", "outstanding", "random", "texture_free",
    )  # fmt: skip

    def __init__(self, machine: Target, jitter: float, seed: int) -> None:
        self.depth = machine.vmem_queue_depth.value
        self.limit = machine.counting(Traffic.GLOBAL).limit.value
        self.latency = machine.global_latency.value
        self.cap = machine.global_bytes_in_flight.value
        self.issue_cycles = machine.issue_cycles.value
        self.jitter = jitter
        self.random = random.Random(seed)
        self.texture_free = 0
        self.memory_free = 0.0
        self.outstanding: list[tuple[int, int, int]] = []  # heap of (returns, event, bytes)
        self.bytes_in_flight = 0
        self.capped: dict[int, int] = {}  # loads that the cap held back -> the load it waited for
        self.landings: list[tuple[int, int]] = []  # (when, LDS cycles), for the engine to collect

    def earliest(self, wave: SimulatedWave, op: Op, now: int) -> Earliest:
        """A free port, a place in the wave's queue and room in vmcnt."""
        start, cause, source = now, Cause.NONE, -1
        if wave.simd.vmem_port > start:
            start, cause = wave.simd.vmem_port, Cause.ISSUE_PORT
        if len(wave.texture) >= self.depth and wave.texture[-self.depth] > start:
            start, cause = wave.texture[-self.depth], Cause.VMEM_QUEUE
            source = wave.vm_event[-self.depth]
            if source in self.capped:
                cause, source = Cause.BYTES_IN_FLIGHT, self.capped[source]
        if len(wave.vm) >= self.limit and wave.vm[-self.limit] > start:
            start, cause = wave.vm[-self.limit], Cause.VMEM_COUNTER
            source = wave.vm_event[-self.limit]
        return start, cause, source

    def issue(self, wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
        """(texture cycles, LDS cycles on landing, bytes in flight, cycles of bandwidth share)."""
        begin = max(self.texture_free, now)
        if op[3]:
            begin = self._room(begin, op[3], event)
        self.texture_free = begin + op[1]
        wave.texture.append(self.texture_free)
        latency = float(self.latency)
        if self.jitter:
            latency *= 1.0 + self.jitter * self.random.random()
        arrival = max(self.texture_free + latency, self.memory_free)
        self.memory_free = arrival + op[4]
        done = math.ceil(arrival)
        if op[3]:
            heappush(self.outstanding, (done, event, op[3]))
            self.bytes_in_flight += op[3]
            if op[2]:
                self.landings.append((done, op[2]))
        if wave.vm and wave.vm[-1] > done:
            done = wave.vm[-1]  # retires in order
        wave.vm.append(done)
        wave.vm_event.append(event)
        wave.simd.vmem_port = now + 1
        return now + self.issue_cycles, done

    def _room(self, begin: int, wanted: int, event: int) -> int:
        """When from ``begin`` on enough loads have returned for ``wanted`` bytes more.

        Loads still in the queue ahead of the texture path are not in flight: the cap is the
        cache's, and the queue in front of it keeps taking instructions while the cap holds.
        """
        outstanding = self.outstanding
        while outstanding and outstanding[0][0] <= begin:
            self.bytes_in_flight -= heappop(outstanding)[2]
        while outstanding and self.bytes_in_flight + wanted > self.cap:
            begin, source, returned = heappop(outstanding)
            self.bytes_in_flight -= returned
            self.capped[event] = source
        return begin
