"""Sums across lanes: lanes that hold the same element of a result combine their parts.

Lanes whose numbers differ in certain bits belong together, so one exchange per bit does it: with
the lane whose number differs in that bit. gfx950 swaps halves and quarters of a wave between two
registers; else the exchange goes through LDS's crossbar, and waits for it, which a proof may always
be given more of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import Target
from pipeloom.write.code import Code
from pipeloom.write.isa import Register
from pipeloom.write.lower.frame import Frame
from pipeloom.write.lower.register_tiles import Coordinates

SWAPS = {32: "v_permlane32_swap_b32", 16: "v_permlane16_swap_b32"}
"""Exchange the upper half of one register with the lower half of the other (CDNA4 ISA)."""
HALF = 32
KEEP_ALL = 0x1F
"""ds_swizzle in bit-mask mode: and-mask, or-mask, xor-mask of the lane within 32, 5 bits each
(CDNA3 ISA, "DS_SWIZZLE_B32")."""
BYTES_LOG2 = 2


def plan_exchange(frame: Frame, target: Target, bits: Sequence[int]) -> str | None:
    """The address register that an exchange across halves takes, where the chip has no swap."""
    if HALF not in bits or SWAPS[HALF] in target.extra_instructions:
        return None

    def make(code: Code, result: Register) -> None:
        code("v_xor_b32", result, HALF, frame["lane"])
        code("v_lshlrev_b32", result, BYTES_LOG2, result)

    return frame.prepared("other half", "other half", make)


def combine_lanes(
    code: Code,
    target: Target,
    verb: str,
    bits: Sequence[int],
    values: Sequence[Register],
    others: Sequence[Register],
    other_half: Register | None,
) -> None:
    """``values`` of all lanes that differ in ``bits`` only, combined; ``others`` is scratch."""
    for bit in sorted(bits, reverse=True):
        if SWAPS.get(bit) in target.extra_instructions:
            for value, other in zip(values, others, strict=True):
                code("v_mov_b32", other, value)
            for value, other in zip(values, others, strict=True):
                code(SWAPS[bit], other, value)
        else:
            for value, other in zip(values, others, strict=True):
                if bit == HALF:
                    assert other_half is not None
                    code("ds_bpermute_b32", other, other_half, value)
                else:
                    code("ds_swizzle_b32", other, value, offset=bit << 10 | KEEP_ALL)
            code.wait(lgkm=0)
        for value, other in zip(values, others, strict=True):
            code(verb, value, other, value)


LANE_BIT_VALUES = tuple(1 << bit for bit in range(WAVE_LANES.bit_length() - 1))


def sharing_lanes(coordinates: Coordinates) -> tuple[int, ...]:
    """Bits of a lane's number that say nothing of which element it holds."""
    lane = np.arange(len(coordinates))
    return tuple(
        bit for bit in LANE_BIT_VALUES if np.array_equal(coordinates, coordinates[lane ^ bit])
    )
