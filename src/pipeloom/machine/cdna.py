"""Numbers of the CDNA instruction set: what its encoding can say, whichever chip executes it.

Sources: CDNA3 and CDNA4 ISA; LLVM AMDGPUUsage, ``s_waitcnt``.
"""

from __future__ import annotations

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
PROCESSORS = ("gfx942", "gfx950")
"""The processors, as LLVM names them, whose encoding is assembled, decoded and emulated here."""
