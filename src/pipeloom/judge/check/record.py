"""What each wave of a run executed and touched, kept to be judged without running again.

    recorder = Recorder(kernel)
    run_kernel(kernel, ..., observer=recorder, check_races=False)
    recorder.groups[0].waves[3].path      # positions in the program, in the order of execution

A *time* is the place of a step in its wave's path. Nothing here depends on when data moved: the
emulator issues in program order, and what a wave executes depends on its timing only where the
kernel races. Global accesses are kept as cells (dwords, or bytes where an access is no whole
dword) of the launch's buffers; what falls outside every buffer is kept apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Indices, Places, Words
from pipeloom.judge.emulate import AddressSpace, CodeKernel, Effect, LaneAccess
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.ds import is_sub_dword
from pipeloom.judge.emulate.executable import build_program
from pipeloom.judge.emulate.operands import ScalarReader, scalar_source
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import EXEC, LANES, SCC, VGPR, WORD
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave
from pipeloom.judge.emulate.workgroup import Workgroup

Digest = npt.NDArray[np.uint64]
"""A number by register; of a vector register, one that tells its lanes' values apart."""

ARGUMENTS = "the kernarg segment"
"""The buffer that holds the kernel's arguments; what a wave reads there is no data."""

LDS = -1
"""The ``buffer`` of an access to LDS."""


_CLOCKS = ("s_memtime", "s_memrealtime")

TOLD_EVERY = 10_000
"""Instructions between two signs of life."""

KEPT_HEADS = 18
"""Of the last trips of a loop it is known what registers held: two of the longest periods."""


@dataclass(frozen=True, slots=True, eq=False)
class CellAccess:
    """Bytes that one operation touches, as sorted cells of LDS or of a buffer.

    ``values`` are what a write stores, cell by cell, where that is known at issue.
    """

    wave: int
    time: int
    effect: Effect
    queue: WaitQueue
    buffer: int
    cells: Places
    values: Words | None = None
    key: int = 0
    """Equal for equal ``cells``: loops touch the same bytes again and again."""
    lanewise: int = 0
    """Equal where, moreover, each lane has the same ones."""


@dataclass(slots=True, eq=False)
class WaveTrace:
    """One wave: what it executed, and which of it went into which counter's queue."""

    index: int
    steps: list[int] = field(default_factory=list)
    masks: list[tuple[int, int]] = field(default_factory=list)
    """(time, EXEC) wherever EXEC changed."""
    queues: dict[WaitQueue, list[int]] = field(default_factory=lambda: {c: [] for c in WaitQueue})
    """Counter -> times of the operations that count in it."""
    loads: list[tuple[int, WaitQueue, int, int]] = field(default_factory=list)
    """(time, counter, registers, lanes) of every operation that writes registers."""
    outside: list[tuple[int, Effect, str]] = field(default_factory=list)
    """(time, what it does, where) of global accesses outside every buffer."""
    foreign: set[int] = field(default_factory=set)
    """Times of loads of anything but the kernel's arguments, the clock included."""
    reads_lds: set[int] = field(default_factory=set)
    """Times of loads from LDS."""
    heads: dict[int, deque[tuple[int, Digest]]] = field(default_factory=dict)
    """Position of a loop's first instruction -> its last times, with what registers held then."""
    joined: dict[int, int] = field(default_factory=dict)
    """Time of an ``EXEC |= lanes`` -> the lanes."""
    start: Digest | None = None
    """What registers held at first."""
    moved: dict[int, MicroOp] = field(default_factory=dict)
    """Time of an instruction whose registers M0 moves -> what it was with them moved."""
    local: dict[int, tuple[LaneAccess, ...]] = field(default_factory=dict)
    """Position in the program -> what it touches in LDS, lane by lane, the first time."""

    def path(self) -> Places:
        """Positions in the program, one per time."""
        return np.array(self.steps, np.int64)


@dataclass(slots=True, eq=False)
class GroupRecord:
    """One workgroup; ``accesses`` are in the order of issue, over all waves."""

    place: tuple[int, int, int]
    waves: list[WaveTrace]
    lds_bytes: int
    accesses: list[CellAccess] = field(default_factory=list)


class Recorder:
    """An observer of the emulator that keeps what a judge needs."""

    def __init__(self, kernel: CodeKernel, tell: Callable[[int], None] | None = None) -> None:
        """``tell`` is called every so often with the number of instructions executed."""
        self._tell, self._executed = tell, 0
        self.kernel = kernel
        self.program: tuple[MicroOp, ...] = build_program(kernel.code, kernel.arch)
        self.groups: list[GroupRecord] = []
        self.buffers: list[str] = []
        self._positions = {s.instruction.pc: at for at, s in enumerate(self.program)}
        self._joins = {
            at: read
            for at, step in enumerate(self.program)
            if (read := joins_lanes(step.instruction)) is not None
        }
        memory, local = _has_small_parts(self.program)
        self.granules = (1 if memory else 4, 1 if local else 4)
        self._keys: dict[bytes, int] = {}
        self._sets: dict[tuple[bytes, int, int], _CellSet] = {}
        self._lanewise: dict[tuple[bytes, int, int, bytes], int] = {}
        self._group: GroupRecord | None = None
        self._bases: Places = np.empty(0, np.int64)
        self._ends: Places = np.empty(0, np.int64)
        self._numbers: list[int] = []
        self._describe: Callable[[int], str] = str

    # --- the emulator calls these --------------------------------------------------------------

    def begin(self, group: Workgroup) -> None:
        """A workgroup starts."""
        self._group = GroupRecord(
            group.workgroup_id,
            [WaveTrace(wave.index) for wave in group.waves],
            group.lds.size,
        )
        self.groups.append(self._group)
        buffers = sorted(enumerate(group.memory.buffers), key=lambda one: one[1].base)
        self.buffers = [buffer.name for buffer in group.memory.buffers]
        self._numbers = [number for number, _ in buffers]
        self._bases = np.array([buffer.base for _, buffer in buffers], np.int64)
        self._ends = np.array([buffer.base + buffer.size for _, buffer in buffers], np.int64)
        self._describe = group.memory.describe

    def execute(self, wave: Wave, step: MicroOp) -> None:
        """One step of a wave."""
        assert self._group is not None
        trace = self._group.waves[wave.index]
        if not trace.masks or trace.masks[-1][1] != wave.exec_mask:
            trace.masks.append((len(trace.steps), wave.exec_mask))
        self._executed += 1
        if self._tell is not None and not self._executed % TOLD_EVERY:
            self._tell(self._executed)
        position = self._positions[step.instruction.pc]
        if trace.start is None:
            trace.start = _digest(wave)
        if position in self._joins:
            trace.joined[len(trace.steps)] = self._joins[position](wave)
        if step.moved is not None:
            trace.moved[len(trace.steps)] = step.moved(wave)
        if trace.steps and position <= trace.steps[-1]:
            kept = trace.heads.setdefault(position, deque(maxlen=KEPT_HEADS))
            kept.append((len(trace.steps), _digest(wave)))
        trace.steps.append(position)

    def issue(self, wave: Wave, pending: Pending) -> None:
        """An operation goes in flight."""
        assert self._group is not None
        trace = self._group.waves[wave.index]
        time = len(trace.steps) - 1
        trace.queues[pending.counter].append(time)
        if pending.registers:
            trace.loads.append((time, pending.counter, pending.registers, pending.lanes))
        if pending.instruction.name in _CLOCKS:
            trace.foreign.add(time)
        if pending.touches and pending.touches[0].space is AddressSpace.LDS:
            trace.local.setdefault(trace.steps[time], pending.touches)
        for touch in pending.touches:
            if touch.space is AddressSpace.LDS:
                if touch.effect is not Effect.WRITE:
                    trace.reads_lds.add(time)
                self._add(
                    trace,
                    time,
                    pending.counter,
                    touch,
                    LDS,
                    touch.addresses,
                    touch.lanes,
                    touch.values,
                )
            else:
                self._global(trace, time, pending.counter, touch)

    def retire(self, wave: Wave, pending: Pending) -> None:
        """Retirement follows from the waits; the judge works it out by itself."""

    # --- cells -----------------------------------------------------------------------------------

    def _global(self, trace: WaveTrace, time: int, queue: WaitQueue, touch: LaneAccess) -> None:
        addresses = touch.addresses
        at = np.searchsorted(self._bases, addresses, side="right") - 1
        inside = (at >= 0) & (addresses + touch.size <= self._ends[at])
        if not inside.all():
            stray = int(addresses[~inside][0])
            trace.outside.append((time, touch.effect, self._describe(stray)))
        for place in np.unique(at[inside]).tolist():
            mine = inside & (at == place)
            number = self._numbers[place]
            if touch.effect is not Effect.WRITE and self.buffers[number] != ARGUMENTS:
                trace.foreign.add(time)
            values = None if touch.values is None else touch.values[mine]
            offsets = addresses[mine] - self._bases[place]
            self._add(trace, time, queue, touch, number, offsets, touch.lanes[mine], values)

    def _add(
        self,
        trace: WaveTrace,
        time: int,
        queue: WaitQueue,
        touch: LaneAccess,
        buffer: int,
        offsets: Places,
        lanes: Indices,
        values: Words | None,
    ) -> None:
        """Enter an access; equal sets of bytes are kept once."""
        assert self._group is not None
        if not offsets.size:
            return
        granule = self.granules[buffer == LDS]
        known = (offsets.tobytes(), touch.size, granule)
        found = self._sets.get(known)
        if found is None:
            cells, first = _cells(offsets, touch.size, granule)
            key = self._keys.setdefault(cells.tobytes(), len(self._keys))
            found = self._sets[known] = _CellSet(key, cells, first)
        data = None
        if values is not None and found.first is not None:
            parts = values if granule == 4 else np.ascontiguousarray(values).view(np.uint8)
            if parts.shape[1] * granule >= touch.size:
                data = parts[:, : touch.size // granule].ravel()[found.first].astype(np.uint32)
        self._group.accesses.append(
            CellAccess(
                trace.index,
                time,
                touch.effect,
                queue,
                buffer,
                found.cells,
                data,
                found.key,
                self._lanewise.setdefault((*known, lanes.tobytes()), len(self._lanewise)),
            )
        )


def joins_lanes(one: Decoded) -> ScalarReader | None:
    """Of ``s_or_b64 exec, exec, lanes``, what reads the lanes; None of any other instruction."""
    if one.name != "s_or_b64" or one.fields["sdst"] != EXEC:
        return None
    sources = one.fields["ssrc0"], one.fields["ssrc1"]
    if EXEC not in sources:
        return None
    return scalar_source(sources[sources[0] == EXEC], 2, one).read


_WEIGHTS = np.random.default_rng(0).integers(1, 2**63, LANES, np.uint64) | np.uint64(1)


def _digest(wave: Wave) -> Digest:
    scalars = np.zeros(VGPR, np.uint64)
    scalars[: len(wave.s)] = wave.s
    scalars[EXEC], scalars[EXEC + 1] = wave.exec_mask & WORD, wave.exec_mask >> 32
    scalars[SCC] = int(wave.scc)
    return np.concatenate([scalars, (wave.v * _WEIGHTS).sum(axis=1)])


@dataclass(frozen=True, slots=True, eq=False)
class _CellSet:
    key: int
    cells: Places
    first: Indices | None
    """Which part of the data each cell gets; None where parts are no whole cells."""


def _cells(offsets: Places, size: int, granule: int) -> tuple[Places, Indices | None]:
    """The cells of accesses of ``size`` bytes; partly touched dwords count as touched."""
    if granule == 1 or not ((offsets & 3).any() or size & 3):
        count = size // granule
        spread = (offsets // granule)[:, None] + np.arange(count)
        cells, first = np.unique(spread, return_index=True)
        return cells, first
    spread = (offsets >> 2)[:, None] + np.arange((size + 6) // 4)
    last = (offsets + size - 1) >> 2
    return np.unique(np.minimum(spread, last[:, None])), None


def _has_small_parts(program: Sequence[MicroOp]) -> tuple[bool, bool]:
    """Whether instructions access less than a dword of (global memory, LDS)."""
    memory = local = False
    for step in program:
        name, encoding = step.instruction.name, step.instruction.encoding
        if encoding == "DS":
            local |= is_sub_dword(name)
        elif encoding in ("MUBUF", "GLOBAL", "FLAT"):
            memory |= "byte" in name or "short" in name
    return memory, local
