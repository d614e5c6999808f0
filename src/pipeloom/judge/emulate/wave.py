"""The state of one wave: registers, masks, what is poisoned and what is in flight.

Vector registers are one NumPy array, 512 rows (256 VGPRs, then 256 AGPRs) of 64 lanes. Scalars
are a plain list of ints: Python's integers are several times faster than NumPy scalars, and a
64-bit mask is one of them.

``dirty`` is the set of registers that are poisoned or in flight. An instruction that touches none
of them needs no further checks, which keeps the cost of tracking to one AND (see ``screening``).
``held`` is the set of registers of matrix ``products`` that are still to be computed (see
``matrix_batch``): ``v`` may be looked at where it is clear.
"""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Flags, Indices, Words
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import (
    AGPR,
    ALL_LANES,
    EXEC,
    LANES,
    SCC,
    VGPR,
    WORD,
    register_bits,
)
from pipeloom.machine.cdna import VECTOR_REGISTERS

if TYPE_CHECKING:
    from pipeloom.judge.emulate.matrix_batch import BatchProduct
    from pipeloom.judge.emulate.workgroup import Workgroup


POISON_WORD = WORD
"""What poison looks like: a NaN in every float format but FNUZ, and an address out of bounds."""

NEVER_WRITTEN = "never written"
_EVERY_LANE = np.arange(LANES)


class WaveState(Enum):
    RUNNING = "running"
    AT_BARRIER = "at barrier"
    ENDED = "ended"


def lanes_of(mask: int) -> Flags:
    """A 64-bit mask as 64 booleans."""
    raw = np.frombuffer(mask.to_bytes(8, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little").view(np.bool_)


def mask_of(lanes: Flags) -> int:
    """64 booleans as a mask."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_to_mask(numbers: Indices) -> int:
    """Lane numbers as a mask."""
    chosen = np.zeros(LANES, np.bool_)
    chosen[numbers] = True
    return mask_of(chosen)


@dataclass(slots=True, eq=False)
class Wave:
    """Registers and outstanding operations of one wave."""

    group: Workgroup
    index: int
    scratch_dwords: InitVar[int]
    leftover: InitVar[int] = POISON_WORD
    scc: int = 0
    next: int = 0
    steps: int = 0
    barriers: int = 0
    state: WaveState = WaveState.RUNNING
    queues: dict[WaitQueue, deque[Pending]] = field(
        default_factory=lambda: {queue: deque() for queue in WaitQueue}
    )
    products: list[BatchProduct] = field(default_factory=list)
    held: int = 0
    poison: dict[int, int] = field(
        default_factory=lambda: {
            **dict.fromkeys(range(VGPR, AGPR + 256), ALL_LANES),
            **dict.fromkeys((*range(128), SCC), 1),
        }
    )
    poison_cause: dict[int, str] = field(default_factory=dict)
    poison_bits: int = register_bits(VGPR, VECTOR_REGISTERS) | register_bits(0, 128) | (1 << SCC)
    in_flight: int = 0
    dirty: int = poison_bits
    v: Words = field(init=False)
    s: list[int] = field(init=False)
    scratch: Words = field(init=False)
    scratch_poison: Flags = field(init=False)
    exec_mask: int = field(init=False)
    active: Flags = field(init=False)
    full: bool = field(init=False)

    def __post_init__(self, scratch_dwords: int, leftover: int) -> None:
        self.v = np.full((VECTOR_REGISTERS, LANES), leftover, np.uint32)
        self.s = [leftover] * 128
        self.scratch = np.full((scratch_dwords, LANES), leftover, np.uint32)
        self.scratch_poison = np.ones((scratch_dwords, LANES), np.bool_)
        self.set_exec(ALL_LANES)

    # --- scalars and masks ---------------------------------------------------------------

    def set_exec(self, mask: int) -> None:
        """Write EXEC and everything derived from it."""
        self.s[EXEC] = mask & WORD
        self.s[EXEC + 1] = mask >> 32
        self.exec_mask = mask
        self.full = mask == ALL_LANES
        self.active = lanes_of(mask)

    def define_scalar(self, register: int, value: int) -> None:
        """Give an SGPR its launch value."""
        self.s[register] = value & WORD
        self.set_poison(register, 0)

    def read_mask(self, register: int) -> int:
        """A 64-bit mask from an SGPR pair."""
        return self.s[register] | self.s[register + 1] << 32

    def write_mask(self, register: int, mask: int) -> None:
        """A 64-bit mask into an SGPR pair, EXEC included."""
        if register == EXEC:
            self.set_exec(mask)
        else:
            self.s[register] = mask & WORD
            self.s[register + 1] = mask >> 32

    def lane_numbers(self) -> Indices:
        """The active lanes, ascending."""
        return _EVERY_LANE if self.full else np.flatnonzero(self.active)

    def write_vector(self, row: int, values: npt.NDArray[np.generic]) -> None:
        """Write one vector register in the active lanes."""
        if self.full:
            self.v[row] = values
        else:
            np.copyto(self.v[row], values, casting="unsafe", where=self.active)

    # --- poison ----------------------------------------------------------------------------

    def set_poison(self, register: int, lanes: int, cause: str = NEVER_WRITTEN) -> None:
        """State exactly which lanes of a register are poisoned."""
        if lanes:
            self.poison[register] = lanes
            self.poison_bits |= 1 << register
            self.poison_cause[register] = cause
        elif register in self.poison:
            del self.poison[register]
            self.poison_bits &= ~(1 << register)
            self.poison_cause.pop(register, None)
        self.dirty = self.poison_bits | self.in_flight

    def add_poison(self, register: int, lanes: int, cause: str = NEVER_WRITTEN) -> None:
        """Poison more lanes of a register, keeping what was poisoned before."""
        self.set_poison(register, self.poison.get(register, 0) | lanes, cause)

    def taint(self, row: int, words: int, lanes: Indices, cause: str = NEVER_WRITTEN) -> None:
        """Poison these lanes of the vector registers from ``row`` on."""
        for register in range(VGPR + row, VGPR + row + words):
            self.add_poison(register, lanes_to_mask(lanes), cause)

    def clear_poison(self, registers: list[int], lanes: int) -> None:
        """The lanes of these registers now hold real values."""
        for register in registers:
            old = self.poison.get(register, 0)
            if old & lanes:
                self.set_poison(
                    register, old & ~lanes, self.poison_cause.get(register, NEVER_WRITTEN)
                )

    # --- operations in flight -----------------------------------------------------------------

    def outstanding(self, register: int, lanes: int) -> Pending | None:
        """The oldest operation in flight that writes one of these lanes."""
        bit = 1 << register
        for queue in self.queues.values():
            for pending in queue:
                if pending.registers & bit and pending.lanes & lanes:
                    return pending
        return None

    def refresh_in_flight(self) -> None:
        """Recompute the registers in flight after operations were retired."""
        bits = 0
        for queue in self.queues.values():
            for pending in queue:
                bits |= pending.registers
        self.in_flight = bits
        self.dirty = self.poison_bits | bits
