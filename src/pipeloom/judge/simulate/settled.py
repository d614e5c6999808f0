"""The steady cycles of a loop from as little of its run as decides them.

A run is simulated until the state of the machine at the begin of a trip is one that it was in
before, counted from its own time. What follows then is what followed there, so that all later trips
are known without being run: the figure is the same as that of the whole trace. A loop that never
repeats exactly is run until the last trip of its steady window has begun.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.judge.simulate.engine import Simulator, check_run
from pipeloom.judge.simulate.instruction import Kind, WaveProgram
from pipeloom.judge.simulate.steady import busy_cycles, observed_cycles, steady_window
from pipeloom.judge.simulate.units import Simd, SimulatedWave
from pipeloom.machine.target import Target


def steady_cycles_of(programs: Sequence[WaveProgram], machine: Target, iterations: int) -> float:
    """What ``simulate_programs(...).steady_cycles_per_iteration`` says, for less."""
    check_run(programs, machine, iterations)
    if not iterations:
        return 0.0
    run = _Settling(tuple(programs), machine, iterations)
    run.issue()
    observed = observed_cycles(run.marks(), iterations, run.loop_end)
    return max(observed, *busy_cycles(programs, machine).values())


class _Settling(Simulator):
    """A run that stops where it repeats, or where nothing that comes counts."""

    def __init__(self, programs: tuple[WaveProgram, ...], machine: Target, iterations: int) -> None:
        super().__init__(programs, machine, iterations, 0.0, 0)
        self._last = steady_window(iterations)[1]
        self._short = len(programs)  # waves that have not begun the last trip that counts
        self._seen: dict[object, tuple[int, int]] = {}
        self._repeated: tuple[int, int] | None = None
        # Waves that no barrier holds together are compared by the time of the whole loop.
        together = len(self.workgroups) == 1
        self._meet = together and all(any(i.kind is Kind.BARRIER for i in p.loop) for p in programs)

    def trip_begins(self, wave: SimulatedWave, now: int) -> None:
        if not self._meet:
            return
        self._short -= wave.iteration == self._last
        self.stopped = not self._short
        if self.stopped or wave.number or wave.iteration >= self._last:
            return
        # Others may still do what comes before this wave issues again.
        present = min(now, self.heap[0][0]) if self.heap else now
        state = now - present, self._state(present)
        if state in self._seen:
            trip, time = self._seen[state]
            self._repeated = wave.iteration - trip, now - time
            self.stopped = True
        self._seen[state] = wave.iteration, now

    def marks(self) -> list[list[int]]:
        """Of all waves, those of trips that were not run too."""
        found = [list(wave.marks) for wave in self.waves]
        if self._repeated is not None:
            trips, cycles = self._repeated
            for mark in found:
                while len(mark) <= self.iterations:
                    mark.append(mark[-trips] + cycles)
        return found

    def loop_end(self) -> int:
        """When the last wave has left the loop and the last MFMA of the loop has finished."""
        ends = [wave.marks[-1] for wave in self.waves]
        for number, at, iteration, *_, done, _, _ in self.events:
            matrix = self.waves[number].ops[at][0] == Kind.MFMA
            if matrix and 0 <= iteration < self.iterations:
                ends.append(done)
        return max(ends)

    def _state(self, now: int) -> object:
        """All that decides what happens from ``now`` on; what is over by then holds up nobody."""
        lds, memory = self.lds, self.memory
        first = self.waves[0].iteration
        flying = sorted(entry for entry in memory.outstanding if entry[0] > now)
        simds = {wave.simd_number: wave.simd for wave in self.waves}
        return (
            tuple(_wave(wave, first, now, self.memory.latency) for wave in self.waves),
            tuple(_simd(simd, now) for simd in simds.values()),
            tuple(_entry(entry, now) for entry in sorted(self.heap)),
            tuple(sorted(wave.number for at in self.standing.values() for wave, _, _ in at)),
            max(lds.array_free - now, 0),
            tuple(tuple(max(t - now, 0) for t in queue[-lds.depth :]) for queue in lds.queues),
            max(memory.texture_free - now, 0),
            max(memory.memory_free - now, memory.latency),
            tuple((back - now, size) for back, _, size in flying),
        )


def _entry(entry: tuple[int, int, int, int], now: int) -> tuple[int, int, int, int]:
    """Of the engine's queue: a wave since it was ready, or data that lands, which is no wave's."""
    time, order, ready, number = entry
    return time - now, order, ready - now if number >= 0 else 0, number


def _wave(wave: SimulatedWave, first: int, now: int, long: int) -> object:
    return (
        wave.at,
        wave.iteration - first,
        wave.priority,
        wave.ready - now,
        max(wave.mfma_start - now, -long),  # what may not follow it closely
        max(wave.mfma_end - now, 0),
        _outstanding(wave.vm, now),
        _outstanding(wave.lgkm, now),
        _outstanding(wave.texture, now),
        tuple((v, t - now) for v, (t, _) in sorted(wave.values.items()) if t > now),
    )


def _outstanding(times: Sequence[int], now: int) -> tuple[int, ...]:
    """What is still to come, the last first; times do not fall."""
    found = []
    for time in reversed(times):
        if time <= now:
            break
        found.append(time - now)
    return tuple(found)


def _simd(simd: Simd, now: int) -> object:
    times = (
        simd.matrix_free, simd.valu_free, simd.salu_free, simd.lds_port, simd.vmem_port,
        simd.return_free,
    )  # fmt: skip
    return simd.matrix_passes, *(max(time - now, 0) for time in times)
