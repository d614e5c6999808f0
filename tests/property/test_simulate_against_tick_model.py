"""The event-driven engine against a second model that steps every cycle.

The second model is written from the description of the machine alone: it scans lists where the
engine computes times, and shares no code with it beyond the instruction type. Both must issue every
instruction of every wave in the same cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeloom.judge.simulate import Kind, WaveOp, WaveProgram, simulate_programs
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target


@dataclass
class TickWave:
    number: int
    simd: int
    age: int
    alone: bool
    workgroup: int
    code: list[WaveOp]
    at: int = 0
    ready: int = 0
    priority: int = 0
    at_barrier: bool = False
    loads: list[int] = field(default_factory=list)  # retire times of all loads so far
    lds: list[int] = field(default_factory=list)
    texture: list[int] = field(default_factory=list)
    chain: dict[str, int] = field(default_factory=dict)
    mfma_issue: int = -1000
    mfma_end: int = 0
    issued: list[int] = field(default_factory=list)

    def ended(self, now: int) -> bool:
        return self.at == len(self.code) and self.ready <= now

    def outstanding(self, times: list[int], now: int) -> int:
        return sum(time > now for time in times)


class TickModel:
    """One compute unit, one cycle at a time."""

    def __init__(self, programs: list[tuple[int, int, list[WaveOp]]], machine: Target) -> None:
        self.m = machine
        count = machine.simds.value
        self.waves = []
        for number, (simd, workgroup, code) in enumerate(programs):
            age = sum(other == simd for other, _, _ in programs[:number])
            alone = sum(other == simd for other, _, _ in programs) == 1
            self.waves.append(TickWave(number, simd, age, alone, workgroup, code))
        self.matrix_until = [0] * count
        self.matrix_length: list[int | None] = [None] * count
        self.port_until = [0] * count
        self.scalar_until = [0] * count
        self.lds_issued_at = [-1] * count
        self.vmem_issued_at = [-1] * count
        self.return_until = [0] * count
        self.array_until = 0
        self.leaves_queue: list[list[int]] = [[], []]
        self.texture_until = 0
        self.memory_until = 0.0
        self.returning: list[tuple[int, int]] = []
        self.landing: list[tuple[int, int]] = []

    def run(self) -> list[list[int]]:
        now = 0
        while any(wave.at < len(wave.code) or wave.at_barrier for wave in self.waves):
            for when, cycles in [item for item in self.landing if item[0] == now]:
                self.array_until = max(self.array_until, when) + cycles
            self.release(now)
            waiting = [w for w in self.waves if w.at < len(w.code) and w.ready <= now]
            for wave in sorted(waiting, key=lambda w: (-w.priority, w.age, w.ready, w.number)):
                if wave.at_barrier or wave.ready > now:
                    continue
                if self.can_issue(wave, wave.code[wave.at], now):
                    self.issue(wave, wave.code[wave.at], now)
            now += 1
            assert now < 200_000
        return [wave.issued for wave in self.waves]

    def can_issue(self, wave: TickWave, op: WaveOp, now: int) -> bool:
        m, simd = self.m, wave.simd
        if op.kind in (Kind.MFMA, Kind.VALU, Kind.TRANS, Kind.PACKED):
            if self.port_until[simd] > now:
                return False
            if op.chain is not None and wave.chain.get(op.chain, 0) > now:
                return False
            if op.kind is Kind.MFMA:
                assert op.matrix_op is not None
                same = self.matrix_length[simd] in (None, op.matrix_op.cycles.value)
                return self.matrix_until[simd] <= now - (0 if same else m.mfma_switch_cycles.value)
            if op.kind is Kind.PACKED:
                return now - wave.mfma_issue >= m.packed_after_mfma_cycles.value
            return True
        if op.kind in (Kind.LDS_READ, Kind.LDS_WRITE):
            in_queue = sum(time > now for time in self.leaves_queue[simd // 2])
            if in_queue >= m.lds_queue_depth.value or self.lds_issued_at[simd] == now:
                return False
            if wave.outstanding(wave.lds, now) >= m.counter("lgkmcnt").limit.value:
                return False
            return op.kind is Kind.LDS_READ or wave.mfma_end <= now
        if op.kind in (Kind.GLOBAL_TO_LDS, Kind.GLOBAL_TO_VGPR, Kind.GLOBAL_STORE):
            if self.vmem_issued_at[simd] == now:
                return False
            if wave.outstanding(wave.texture, now) >= m.vmem_queue_depth.value:
                return False
            return wave.outstanding(wave.loads, now) < m.counter("vmcnt").limit.value
        if op.kind is Kind.SALU:
            return self.scalar_until[simd] <= now
        if op.kind is Kind.WAIT:
            vm = 10**6 if op.vm is None or op.vm >= m.counter("vmcnt").limit.value else op.vm
            lgkm = (
                10**6 if op.lgkm is None or op.lgkm >= m.counter("lgkmcnt").limit.value else op.lgkm
            )
            return (
                wave.outstanding(wave.loads, now) <= vm and wave.outstanding(wave.lds, now) <= lgkm
            )
        return True

    def issue(self, wave: TickWave, op: WaveOp, now: int) -> None:
        m, simd = self.m, wave.simd
        wave.issued.append(now)
        wave.at += 1
        held = m.issue_cycles.value
        if op.kind is Kind.MFMA:
            assert op.matrix_op is not None
            self.port_until[simd] = now + 4
            wave.mfma_issue = now
            wave.mfma_end = self.matrix_until[simd] = now + op.matrix_op.cycles.value
            self.matrix_length[simd] = op.matrix_op.cycles.value
            held = m.mfma_operand_cycles.value
            if op.matrix_op.scaled:
                held += m.mfma_scale_cycles.value
            if op.chain is not None:
                wave.chain[op.chain] = wave.mfma_end + m.mfma_dependent_extra.value
        elif op.kind in (Kind.VALU, Kind.TRANS, Kind.PACKED):
            held = 8 if op.kind is Kind.TRANS else 4
            self.port_until[simd] = now + held
            if op.kind is Kind.PACKED:
                self.matrix_until[simd] = max(self.matrix_until[simd], now) + held
            if op.chain is not None:
                wave.chain[op.chain] = now + held + 4
        elif op.kind in (Kind.LDS_READ, Kind.LDS_WRITE):
            held = self.use_lds(wave, op, now)
        elif op.kind in (Kind.GLOBAL_TO_LDS, Kind.GLOBAL_TO_VGPR, Kind.GLOBAL_STORE):
            self.use_memory(wave, op, now)
        elif op.kind is Kind.SALU:
            self.scalar_until[simd] = now + m.salu_cycles.value
        elif op.kind is Kind.NOP:
            held += 4 * op.amount
        elif op.kind is Kind.BRANCH:
            held = m.branch_cycles.value
        elif op.kind is Kind.SET_PRIO:
            wave.priority = op.amount
        elif op.kind is Kind.BARRIER:
            wave.at_barrier = True
        wave.ready = now + held
        if wave.at_barrier:
            self.release(now)

    def release(self, now: int) -> None:
        """A workgroup's barrier opens when all that have not ended stand at it."""
        for workgroup in {w.workgroup for w in self.waves}:
            mine = [w for w in self.waves if w.workgroup == workgroup]
            if all(w.at_barrier or w.ended(now) for w in mine):
                self.open([w for w in mine if w.at_barrier], now)

    def open(self, standing: list[TickWave], now: int) -> None:
        for wave in standing:
            wave.at_barrier = False
            wake = self.m.barrier_alone_cycles if wave.alone else self.m.barrier_shared_cycles
            wave.ready = now + wake.value
            wave.issued[-1] = now

    def use_lds(self, wave: TickWave, op: WaveOp, now: int) -> int:
        m, simd = self.m, wave.simd
        free_of_conflict = -(-op.bytes // m.lds_bytes_per_clk.value)
        array = round(free_of_conflict * op.conflict)
        begin = max(now + m.lds_queue_delay.value, self.array_until)
        self.array_until = end = begin + array
        usual = free_of_conflict
        held = m.issue_cycles.value
        if op.kind is Kind.LDS_READ:
            back = -(-op.bytes // m.lds_return_bytes_per_clk.value)
            end = max(end, max(begin, self.return_until[simd]) + back)
            self.return_until[simd] = end
            usual = max(usual, back)
        else:
            held += m.lds_write_cycles_per_dword.value * (op.bytes_per_lane // 4)
        self.leaves_queue[simd // 2].append(end)
        done = end + m.lds_latency.value - m.lds_queue_delay.value - usual
        wave.lds.append(max([done, *wave.lds[-1:]]))
        self.lds_issued_at[simd] = now
        return held

    def use_memory(self, wave: TickWave, op: WaveOp, now: int) -> None:
        m = self.m
        moved = -(-op.bytes // m.vmem_bytes_per_clk.value)
        begin = max(self.texture_until, now)
        while op.kind is not Kind.GLOBAL_STORE and not self.fits(op, begin):
            begin += 1
        self.texture_until = begin + max(m.vmem_min_cycles.value, moved)
        wave.texture.append(self.texture_until)
        arrival = float(self.texture_until + m.global_latency.value)
        store = op.kind is Kind.GLOBAL_STORE
        rate = m.store_bytes_per_clk.value if store else m.global_bytes_per_clk.value
        arrival = max(arrival, self.memory_until)
        self.memory_until = arrival + op.bytes / rate
        if not store:
            whole = int(-(-arrival // 1))
            self.returning.append((whole, op.bytes))
            if op.kind is Kind.GLOBAL_TO_LDS:
                self.landing.append((whole, -(-op.bytes // m.lds_bytes_per_clk.value)))
        retires = int(-(-arrival // 1))
        wave.loads.append(max([retires, *wave.loads[-1:]]))
        self.vmem_issued_at[wave.simd] = now

    def fits(self, op: WaveOp, when: int) -> bool:
        flying = sum(size for time, size in self.returning if time > when)
        return flying == 0 or flying + op.bytes <= self.m.global_bytes_in_flight.value


def instructions(machine: Target) -> st.SearchStrategy[WaveOp]:
    chains = st.sampled_from([None, None, "a", "b"])
    widths = st.sampled_from([4, 8, 16])
    conflicts = st.sampled_from([1.0, 2.0, 1.667, 4.0])
    to_lds = st.just(machine is GFX950)
    return st.one_of(
        st.builds(WaveOp.mfma, st.sampled_from(machine.matrix_ops), chain=chains),
        st.builds(WaveOp.valu, st.sampled_from([Kind.VALU, Kind.TRANS, Kind.PACKED]), chain=chains),
        st.builds(WaveOp.lds_read, widths, conflict=conflicts),
        st.builds(WaveOp.lds_write, widths, conflict=conflicts),
        st.builds(WaveOp.global_load, widths, to_lds=to_lds),
        st.builds(WaveOp.global_store, widths),
        st.builds(WaveOp.wait, vm=st.integers(0, 5), lgkm=st.integers(0, 17)),
        st.builds(WaveOp.wait, lgkm=st.integers(0, 3)),
        st.builds(WaveOp.nop, st.integers(0, 3)),
        st.builds(WaveOp.set_prio, st.integers(0, 3)),
        st.just(WaveOp.salu()),
        st.just(WaveOp.branch()),
        st.just(WaveOp.barrier()),
    )


@st.composite
def workgroups(draw: st.DrawFn) -> tuple[Target, list[tuple[int, int, list[WaveOp]]]]:
    machine = draw(st.sampled_from([GFX950, GFX942]))
    if draw(st.booleans()):
        machine = machine.with_value("global_bytes_in_flight", 4096, "test")
        machine = machine.with_value("global_latency", 90, "test")
    bodies = draw(
        st.lists(st.lists(instructions(machine), min_size=1, max_size=24), min_size=1, max_size=3)
    )
    places = st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1]))  # SIMD, workgroup
    waves = draw(st.lists(places, min_size=1, max_size=6))
    repeat = draw(st.integers(1, 3))
    return machine, [(*at, bodies[i % len(bodies)] * repeat) for i, at in enumerate(waves)]


@settings(max_examples=150, deadline=None)
@given(workgroups())
def test_every_instruction_issues_in_the_same_cycle(
    case: tuple[Target, list[tuple[int, int, list[WaveOp]]]],
) -> None:
    machine, programs = case
    expected = TickModel(programs, machine).run()
    waves = [
        WaveProgram(simd=simd, loop=(), prologue=tuple(code), workgroup=workgroup)
        for simd, workgroup, code in programs
    ]
    trace = simulate_programs(waves, machine, 0)
    found: list[list[int]] = [[] for _ in programs]
    for event in sorted(trace.events, key=lambda e: (e.wave, e.position)):
        found[event.wave].append(event.start)
    assert found == expected
