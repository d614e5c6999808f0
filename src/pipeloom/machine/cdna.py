"""Numbers of the CDNA instruction set: what its encoding can say, whichever chip executes it.

Sources: CDNA3 and CDNA4 ISA; LLVM AMDGPUUsage, ``s_waitcnt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

CDNA = "cdna"
"""What targets, lowerings and writers call it."""
WAVE_LANES = 64
"""Lanes of a wave."""
VMCNT_LIMIT = 63
"""The largest count of ``vmcnt``, of six bits; it waits for nothing."""
LGKMCNT_LIMIT = 15
"""The largest count of ``lgkmcnt``, of four bits; it waits for nothing."""
DIRECT_VGPRS = 256
"""Registers of each kind that an instruction can name: v0 to v255, and as many AGPRs."""
VECTOR_REGISTERS = 2 * DIRECT_VGPRS
"""VGPRs and AGPRs: a register file per lane, which the waves of a SIMD share."""
CYCLES_PER_PASS = 4
"""Of a matrix instruction, whose length LLVM counts in passes."""


@dataclass(frozen=True, slots=True)
class Processor:
    """What only the encoding of one processor says."""

    elf_machine: int
    """``EF_AMDGPU_MACH`` in the flags of its code objects (LLVM, AMDGPUUsage)."""
    long_f64_passes: int
    """Of ``v_mfma_f64_16x16x4_f64`` (LLVM, SISchedule)."""


PROCESSORS: Mapping[str, Processor] = MappingProxyType(
    {"gfx942": Processor(0x4C, 8), "gfx950": Processor(0x4F, 16)}
)
"""The processors, as LLVM names them, whose encoding is assembled, decoded and emulated here."""
