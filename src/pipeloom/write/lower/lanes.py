"""Sums across lanes: lanes that hold the same element of a result combine their parts.

Lanes whose numbers differ in certain bits belong together, so one exchange per bit does it: with
the lane whose number differs in that bit. gfx950 swaps halves and quarters of a wave between two
registers; else the exchange goes through LDS's crossbar, and waits for it, which a proof may always
be given more of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.register_tiles import Coordinates

SWAPS = {32: "v_permlane32_swap_b32", 16: "v_permlane16_swap_b32"}
"""LaneExchange the upper half of one register with the lower half of the other (CDNA4 ISA)."""
HALF = 32
KEEP_ALL = 0x1F
"""ds_swizzle in bit-mask mode: and-mask, or-mask, xor-mask of the lane within 32, 5 bits each
(CDNA3 ISA, "DS_SWIZZLE_B32")."""
BYTES_LOG2 = 2


@dataclass(frozen=True, slots=True)
class LaneExchange:
    """How lanes combine what they hold: asked for when a step is planned, written later."""

    frame: Frame
    verb: str
    bits: tuple[int, ...]
    """Lanes whose numbers differ in these belong together."""
    others: str
    """Scratch, a register for each value."""
    half: str | None
    """The address register of an exchange across halves, where the chip has no swap."""

    @classmethod
    def plan(cls, frame: Frame, verb: str, bits: tuple[int, ...], count: int) -> LaneExchange:
        """For ``count`` values of a lane at once; ``verb`` combines two, and is empty where they
        are fetched and not combined."""
        others, half = frame.scratch("exchanged", count), None
        if HALF in bits and (not verb or SWAPS[HALF] not in frame.target.extra_instructions):

            def make(code: Code, result: Register) -> None:
                code("v_xor_b32", result, HALF, frame["lane"])
                code("v_lshlrev_b32", result, BYTES_LOG2, result)

            half = frame.prepared("other half", "other half", make)
        return cls(frame, verb, bits, others, half)

    def emit(self, code: Code, values: Sequence[Register]) -> None:
        """``values`` of all lanes that differ in ``bits`` only, combined."""
        others = [self.frame[self.others].part(i) for i in range(len(values))]
        for bit in sorted(self.bits, reverse=True):
            if SWAPS.get(bit) in self.frame.target.extra_instructions:
                for value, other in zip(values, others, strict=True):
                    code("v_mov_b32", other, value)
                for value, other in zip(values, others, strict=True):
                    code(SWAPS[bit], other, value)
            else:
                for value, other in zip(values, others, strict=True):
                    self.fetch(code, bit, value, other)
                code.wait(lgkm=0)
            for value, other in zip(values, others, strict=True):
                code(self.verb, value, other, value)

    def fetch(self, code: Code, bit: int, value: Register, other: Register) -> None:
        """Ask for the ``value`` of the lane whose number differs in a bit; a wait brings it."""
        if bit == HALF:
            assert self.half is not None
            code("ds_bpermute_b32", other, self.frame[self.half], value)
        else:
            code("ds_swizzle_b32", other, value, offset=bit << 10 | KEEP_ALL)


LANE_BIT_VALUES = tuple(1 << bit for bit in range(WAVE_LANES.bit_length() - 1))


def sharing_lanes(coordinates: Coordinates) -> tuple[int, ...]:
    """Bits of a lane's number that say nothing of which element it holds."""
    lane = np.arange(len(coordinates))
    return tuple(
        bit for bit in LANE_BIT_VALUES if np.array_equal(coordinates, coordinates[lane ^ bit])
    )
