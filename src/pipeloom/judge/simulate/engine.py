"""The compute unit, exact to the cycle and event by event.

Every wave issues its instructions in order. For the next instruction of a wave the engine asks the
units for the first cycle at which it can issue; the wave with the earliest such cycle goes next,
ties to the higher ``s_setprio``, then to the oldest wave of its SIMD (LLVM D124246 describes older
waves holding up younger ones), then to the wave that has waited longest. What is modelled:

- an MFMA holds its SIMD's matrix unit for its cycles and its own wave for the first 8 (operand
  reads); VALU of the same wave issues under the rest, of another wave under all of it;
- VALU shares its SIMD's vector issue port with the issue of MFMAs; a SIMD issues one scalar
  instruction per 4 cycles;
- an instruction that needs what an MFMA or VALU instruction of its wave gives waits for that;
- an LDS operation takes a place in the queue of its SIMD pair, then the LDS array for bytes over
  bandwidth times conflict, then the return path of its SIMD, then a fixed latency;
- a ds_write starts only when its wave's last MFMA has finished, and keeps its wave;
- a global load takes a place in its wave's queue, a place under the cap of bytes in flight, the
  texture path, the memory latency, and the compute unit's share of the bandwidth; a load to LDS
  then writes through the LDS array; a store takes the same way at its own, lower rate, and no
  place under the cap;
- vmcnt and lgkmcnt retire in order; a wait waits for the entry that makes its count true, and
  issuing past the counter's limit waits too;
- the n-th barrier of a workgroup releases when each of its waves is at its n-th, or has ended.

Example: two MFMAs of 32 cycles with six VALU between them take 64 cycles, with seven 68.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush, heappushpop
from itertools import chain

from pipeloom.checks import check_instance, check_int, check_number
from pipeloom.errors import ConfigError, InternalError
from pipeloom.judge.simulate.instruction import (
    GLOBAL_KINDS,
    LDS_KINDS,
    VALU_KINDS,
    Kind,
    WaveOp,
    WaveProgram,
)
from pipeloom.judge.simulate.trace import Cause, Event, Trace
from pipeloom.judge.simulate.units import (
    Earliest,
    GlobalPath,
    Issued,
    Lds,
    Op,
    ScalarUnit,
    Simd,
    SimulatedWave,
    VectorUnits,
)
from pipeloom.machine.target import Target, Traffic
from pipeloom.program.costs import barrier_cycles

MAX_EVENTS = 20_000_000
MAX_JITTER = 10.0

_NO_COUNT = 1 << 30

_AskEarliest = Callable[[SimulatedWave, Op, int], Earliest]
_DoIssue = Callable[[SimulatedWave, Op, int, int], Issued]


def simulate_programs(
    programs: Sequence[WaveProgram],
    machine: Target,
    iterations: int,
    *,
    jitter: float = 0.0,
    seed: int = 0,
) -> Trace:
    """Run the waves of a workgroup, or of several, on one compute unit.

    ``iterations`` is the trip count of every wave's loop (0 runs prologue and epilogue only).
    ``jitter`` stretches each global access's latency by a random share of up to that much (0.5
    means up to half again), drawn from ``seed``; 0 is the deterministic model. The same arguments
    always give the same trace.
    """
    check_run(programs, machine, iterations, jitter, seed)
    return Simulator(tuple(programs), machine, iterations, jitter, seed).run()


def total_cycles_of(programs: Sequence[WaveProgram], machine: Target, iterations: int) -> int:
    """What ``simulate_programs(...).total_cycles`` says, without a trace."""
    check_run(programs, machine, iterations)
    return Simulator(tuple(programs), machine, iterations, 0.0, 0).last_cycle()


def check_run(
    programs: Sequence[WaveProgram],
    machine: Target,
    iterations: int,
    jitter: float = 0.0,
    seed: int = 0,
) -> None:
    """Refuse what cannot be simulated."""
    if not programs:
        raise ConfigError("no waves to simulate", hint="give at least one WaveProgram")
    check_int("simulation", "iterations", iterations, 0)
    check_number(
        "simulation",
        "jitter",
        jitter,
        0.0,
        MAX_JITTER,
        hint=f"use 0 (none) to {MAX_JITTER:g} (up to eleven times the latency)",
    )
    check_instance("simulation", "seed", seed, int)
    simds = machine.simds.value
    for number, program in enumerate(programs):
        if not 0 <= program.simd < simds:
            raise ConfigError(
                f"wave {number} is on SIMD {program.simd}",
                hint=f"{machine.arch} has SIMDs 0 to {simds - 1}",
                field="simd",
            )
        if not (program.prologue or program.loop or program.epilogue):
            raise ConfigError(
                f"wave {number} has no instructions", hint="give it a loop", field="loop"
            )
    work = sum(len(p.prologue) + len(p.loop) * iterations + len(p.epilogue) for p in programs)
    if work > MAX_EVENTS:
        raise ConfigError(
            f"{work} instructions are more than the {MAX_EVENTS} a trace may hold",
            hint="simulate fewer iterations; the steady state needs a few dozen",
            field="iterations",
        )


_Numbers = tuple[int, int, int, int, float, int]


def lower(instruction: WaveOp, machine: Target, values: dict[str, int]) -> Op:
    """The instruction as numbers; units.py documents the fields of each opcode at ``issue``.

    ``values`` numbers the values of a wave; new ones are entered.
    """
    return _bound(instruction, machine, values, _numbers(instruction, machine))


def _bound(instruction: WaveOp, machine: Target, values: dict[str, int], numbers: _Numbers) -> Op:
    """``numbers`` with the values that the instruction needs and gives."""
    onto = () if instruction.chain is None else (instruction.chain,)
    needs = tuple(values.setdefault(v, len(values)) for v in (*onto, *instruction.needs))
    gives: tuple[int, ...] = ()
    late = 0
    if instruction.kind is Kind.MFMA:
        late = machine.mfma_dependent_extra.value
    elif instruction.kind in VALU_KINDS:
        late = machine.valu_dependent_cycles.value - machine.valu_cycles.value
    if instruction.kind is Kind.MFMA or instruction.kind in VALU_KINDS:
        gives = tuple(values.setdefault(v, len(values)) for v in (*onto, *instruction.gives))
    return (*numbers, needs, gives, late)


def _lowered(parts: tuple[tuple[WaveOp, ...], ...], machine: Target) -> list[Op]:
    values: dict[str, int] = {}
    numbers: dict[object, _Numbers] = {}  # many instructions, few kinds of them
    found = []
    for one in chain.from_iterable(parts):
        counts = one.vm, one.lgkm, one.amount
        key = (one.kind, id(one.matrix_op), one.bytes_per_lane, one.conflict, counts)
        known = numbers.get(key)
        if known is None:
            known = numbers[key] = _numbers(one, machine)
        found.append(_bound(one, machine, values, known))
    return found


def _numbers(instruction: WaveOp, machine: Target) -> _Numbers:
    kind = instruction.kind
    code = int(kind)
    cost = instruction.cost(machine)
    if kind is Kind.MFMA:
        return (code, cost.matrix, cost.held, 0, 0.0, 0)
    if kind in LDS_KINDS:
        unloaded = replace(instruction, conflict=1.0).cost(machine)
        tail = machine.lds_latency.value - machine.lds_queue_delay.value
        tail -= max(unloaded.array, unloaded.back)
        return (code, cost.array, cost.back, cost.held, 0.0, max(0, tail))
    if kind in GLOBAL_KINDS:
        return (code, cost.texture, cost.array, cost.loaded, cost.memory, 0)
    if kind is Kind.WAIT:
        # A count at or above the counter's limit encodes "no wait".
        vm = _NO_COUNT if instruction.vm is None else instruction.vm
        lgkm = _NO_COUNT if instruction.lgkm is None else instruction.lgkm
        vm = vm if vm < machine.counting(Traffic.GLOBAL).limit.value else _NO_COUNT
        lgkm = lgkm if lgkm < machine.counting(Traffic.LDS).limit.value else _NO_COUNT
        return (code, vm, lgkm, machine.wait_cycles.value, 0.0, 0)
    issue = cost.held
    if kind is Kind.NOP:
        issue += machine.nop_cycles_per_count.value * instruction.amount
    elif kind is Kind.BRANCH:
        issue = machine.branch_cycles.value
    return (code, issue, instruction.amount, 0, 0.0, 0)


def _earliest_scalar(wave: SimulatedWave, op: Op, now: int) -> Earliest:
    return now, Cause.NONE, -1


def _issue_scalar(wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
    return now + op[1], now + op[1]


def _issue_set_prio(wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
    wave.priority = op[2]
    return now + op[1], now + op[1]


def _earliest_wait(wave: SimulatedWave, op: Op, now: int) -> Earliest:
    start, cause, source = now, Cause.NONE, -1
    vm, lgkm = op[1], op[2]
    if len(wave.vm) > vm and wave.vm[-1 - vm] > start:
        start, cause, source = wave.vm[-1 - vm], Cause.LOADS, wave.vm_event[-1 - vm]
    if len(wave.lgkm) > lgkm and wave.lgkm[-1 - lgkm] > start:
        start, cause, source = wave.lgkm[-1 - lgkm], Cause.LDS_DATA, wave.lgkm_event[-1 - lgkm]
    return start, cause, source


def _issue_wait(wave: SimulatedWave, op: Op, now: int, event: int) -> Issued:
    return now + op[3], now


class Simulator:
    """One simulation: the waves, the units and the queue of what happens next.

    Events are plain tuples, in the order of ``Event``'s fields, until somebody asks for a trace.
    """

    def __init__(
        self,
        programs: tuple[WaveProgram, ...],
        machine: Target,
        iterations: int,
        jitter: float,
        seed: int,
    ) -> None:
        self.programs = programs
        self.machine = machine
        self.iterations = iterations
        self.events: list[tuple[int, int, int, int, int, int, int, Cause, int]] = []
        self.heap: list[tuple[int, int, int, int]] = []  # (cycle, rank, ready, wave)
        self.lds = Lds(machine)
        self.memory = GlobalPath(machine, jitter, seed)
        self.waves = self._waves()
        self.workgroups: dict[int, list[SimulatedWave]] = {}
        for wave in self.waves:
            self.workgroups.setdefault(programs[wave.number].workgroup, []).append(wave)
        # (wave, event, arrival) of the waves standing at the barrier of their workgroup.
        self.standing: dict[int, list[tuple[SimulatedWave, int, int]]] = {
            number: [] for number in self.workgroups
        }
        self.stopped = False

    def _waves(self) -> list[SimulatedWave]:
        machine = self.machine
        simds = [Simd() for _ in range(machine.simds.value)]
        waves = []
        known: dict[tuple[int, ...], list[Op]] = {}  # waves of a group have the same instructions
        for number, program in enumerate(self.programs):
            residents = sum(other.simd == program.simd for other in self.programs)
            wake = barrier_cycles(machine, residents)
            age = sum(other.simd == program.simd for other in self.programs[:number])
            wave = SimulatedWave(number, program.simd, simds[program.simd], wake, age)
            parts = (program.prologue, program.loop, program.epilogue)
            ops = known.get(key := tuple(map(id, parts)))
            wave.ops = known[key] = _lowered(parts, machine) if ops is None else ops
            wave.loop_start = len(program.prologue)
            wave.loop_end = wave.loop_start + len(program.loop)
            wave.turns = frozenset((wave.loop_start, wave.loop_end, len(wave.ops)))
            waves.append(wave)
        return waves

    def _handlers(
        self,
    ) -> tuple[list[_AskEarliest], list[_DoIssue]]:
        """What to ask and what to do for each opcode."""
        vector, lds, memory = VectorUnits(self.machine), self.lds, self.memory
        earliest: list[_AskEarliest] = [_earliest_scalar] * len(Kind)
        issue: list[_DoIssue] = [_issue_scalar] * len(Kind)
        earliest[Kind.MFMA], issue[Kind.MFMA] = vector.earliest_matrix, vector.issue_matrix
        for kind in (Kind.VALU, Kind.TRANS):
            earliest[kind], issue[kind] = vector.earliest_valu, vector.issue_valu
        earliest[Kind.PACKED], issue[Kind.PACKED] = vector.earliest_packed, vector.issue_packed
        scalar = ScalarUnit(self.machine)
        earliest[Kind.SALU], issue[Kind.SALU] = scalar.earliest, scalar.issue
        earliest[Kind.SCALAR_LOAD], issue[Kind.SCALAR_LOAD] = scalar.earliest, scalar.load
        earliest[Kind.LDS_READ], issue[Kind.LDS_READ] = lds.earliest_read, lds.issue
        earliest[Kind.LDS_WRITE], issue[Kind.LDS_WRITE] = lds.earliest_write, lds.issue
        for kind in GLOBAL_KINDS:
            earliest[kind], issue[kind] = memory.earliest, memory.issue
        earliest[Kind.WAIT], issue[Kind.WAIT] = _earliest_wait, _issue_wait
        issue[Kind.SET_PRIO] = _issue_set_prio
        return earliest, issue

    def run(self) -> Trace:
        """Issue everything and return the record."""
        total = self.last_cycle()
        return Trace(
            machine=self.machine,
            programs=self.programs,
            iterations=self.iterations,
            events=tuple(map(Event._make, self.events)),
            marks=tuple(tuple(wave.marks) for wave in self.waves),
            total_cycles=total,
        )

    def last_cycle(self) -> int:
        """Issue everything: when the last is done."""
        self.issue()
        stuck = [wave.number for wave in self.waves if wave.ended_at is None]
        if stuck:
            raise InternalError(f"waves {stuck} never ended")
        return max((max(event[5], event[6]) for event in self.events), default=0)

    def issue(self) -> None:
        """Issue everything, or until stopped."""
        for wave in self.waves:
            self._go_on(wave, 0)
        self._drain_heap()

    def trip_begins(self, wave: SimulatedWave, now: int) -> None:
        """A wave is ready for another trip, or for what follows the loop; may stop the run."""

    def _drain_heap(self) -> None:
        earliest, issue = self._handlers()
        heap, waves, events = self.heap, self.waves, self.events
        landings = self.memory.landings
        barrier = int(Kind.BARRIER)
        later: tuple[int, int, int, int] | None = None  # what goes to the queue before the next
        while (heap or later) and not self.stopped:
            now, order, ready, number = heappushpop(heap, later) if later else heappop(heap)
            later = None
            if number < 0:  # a load's data lands in LDS and takes -number cycles of the array
                self.lds.land(now, -number)
                continue
            wave = waves[number]
            op = wave.ops[wave.at]
            code = op[0]
            if code == barrier:
                self._arrive(wave, now)
                continue
            start, cause, source = earliest[code](wave, op, now)
            for value in op[6]:
                ready_at, maker = wave.values.get(value, (0, -1))
                if ready_at > start:
                    start, cause, source = ready_at, Cause.DEPENDENCE, maker
            if start > now:
                wave.held = (cause, source)
                later = (start, order, ready, number)
                continue
            cause, source = wave.held if now > ready else (Cause.NONE, -1)
            wave.last_event = len(events)
            free, done = issue[code](wave, op, now, wave.last_event)
            for value in op[7]:
                wave.values[value] = (done + op[8], wave.last_event)
            events.append((number, wave.at, wave.iteration, ready, now, free, done, cause, source))
            while landings:
                landed, cycles = landings.pop()
                heappush(heap, (landed, -1_000_000, 0, -cycles))
            wave.at += 1
            if wave.at in wave.turns:
                self._go_on(wave, free)
            else:
                wave.ready = free
                later = (free, wave.age - 1_000 * wave.priority, free, number)

    def _go_on(self, wave: SimulatedWave, now: int) -> None:
        """Queue the wave's next instruction, stepping over loop boundaries; or end the wave."""
        wave.ready = now
        if wave.at == wave.loop_start and wave.iteration == -1:
            wave.iteration = 0
            wave.marks.append(now)
            if self.iterations == 0 or wave.loop_start == wave.loop_end:
                wave.marks.extend([now] * self.iterations)
                wave.iteration = self.iterations
                wave.at = wave.loop_end
        elif wave.at == wave.loop_end and 0 <= wave.iteration < self.iterations:
            wave.iteration += 1
            wave.marks.append(now)
            if wave.iteration < self.iterations:
                wave.at = wave.loop_start
            self.trip_begins(wave, now)
        if wave.at < len(wave.ops):
            heappush(self.heap, (now, wave.age - 1_000 * wave.priority, now, wave.number))
            return
        wave.ended_at = now
        self._release_if_complete(self.programs[wave.number].workgroup)

    def _arrive(self, wave: SimulatedWave, now: int) -> None:
        """The wave stands at its barrier; its event is completed on release."""
        workgroup = self.programs[wave.number].workgroup
        self.standing[workgroup].append((wave, len(self.events), now))
        self.events.append(
            (wave.number, wave.at, wave.iteration, wave.ready, now, now, now, Cause.NONE, -1)
        )
        self._release_if_complete(workgroup)

    def _release_if_complete(self, workgroup: int) -> None:
        """Release the barrier when every wave of the workgroup stands at it or has ended.

        None of them can be a barrier ahead of another, so there is only ever one to release.
        """
        standing, waves = self.standing[workgroup], self.workgroups[workgroup]
        ended = [wave for wave in waves if wave.ended_at is not None]
        if not standing or len(standing) + len(ended) < len(waves):
            return
        now, last_event = max((arrival, index) for _, index, arrival in standing)
        for wave in ended:
            if wave.ended_at is not None and wave.ended_at > now:
                now, last_event = wave.ended_at, wave.last_event
        self.standing[workgroup] = []
        for wave, index, arrival in standing:
            free = now + wave.wake
            held = (Cause.OTHER_WAVE, last_event) if now > arrival else (Cause.NONE, -1)
            self.events[index] = (
                wave.number, wave.at, wave.iteration, wave.ready, now, free, free, *held,
            )  # fmt: skip
            wave.last_event = index
            wave.at += 1
        for wave, _, _ in standing:
            self._go_on(wave, now + wave.wake)
