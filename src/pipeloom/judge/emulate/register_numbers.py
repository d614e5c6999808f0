"""Numbering of registers, shared by every part that tracks them.

All of a wave's state is one bit space, so that a set of registers is a Python int and "does this
instruction touch a poisoned register" is one AND:

    bit   0..127   SGPRs and the special scalars, by their ISA source code
    bit     253    SCC
    bit 256..511   VGPRs (the ISA's 9-bit source code)
    bit 512..767   AGPRs
"""

from __future__ import annotations

from pipeloom.machine.cdna import WAVE_LANES

LANES = WAVE_LANES
ALL_LANES = (1 << LANES) - 1
WORD = 0xFFFFFFFF

FLAT_SCRATCH = 102
VCC = 106
M0 = 124
EXEC = 126
SCC = 253
VGPR = 256
AGPR = 512

_SPECIAL_NAMES = {
    102: "flat_scratch_lo",
    103: "flat_scratch_hi",
    104: "xnack_mask_lo",
    105: "xnack_mask_hi",
    106: "vcc_lo",
    107: "vcc_hi",
    124: "m0",
    126: "exec_lo",
    127: "exec_hi",
    253: "scc",
}


def register_bits(first: int, count: int) -> int:
    """The set of ``count`` registers from ``first``."""
    return ((1 << count) - 1) << first


def register_name(bit: int) -> str:
    """``v12``, ``a3``, ``s7`` or the special register's name."""
    if bit >= AGPR:
        return f"a{bit - AGPR}"
    if bit >= VGPR:
        return f"v{bit - VGPR}"
    return _SPECIAL_NAMES.get(bit, f"s{bit}")


def each_register(bits: int) -> list[int]:
    """The registers of a set, in ascending order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def lane_mask(count: int) -> int:
    """The lowest ``count`` lanes."""
    return (1 << count) - 1
