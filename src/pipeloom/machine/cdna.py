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
    widening: frozenset[str] = frozenset()
    """Instructions that make two 16-bit floats of two of 8 bits (CDNA4 ISA)."""


_WIDENING = frozenset(
    f"v_cvt_scalef32_pk_{wide}_{narrow}" for wide in ("bf16", "f16") for narrow in ("fp8", "bf8")
)
PROCESSORS: Mapping[str, Processor] = MappingProxyType(
    {"gfx942": Processor(0x4C, 8), "gfx950": Processor(0x4F, 16, _WIDENING)}
)
"""The processors, as LLVM names them, whose encoding is assembled, decoded and emulated here."""


def widening(processor: str, source: str, dtype: str) -> str | None:
    """The instruction that makes two 16-bit floats of two of 8 bits, times a power of two.

    Args:
        processor: As LLVM names it.
        source: The element type's name.
        dtype: That of the results.
    """
    name = f"v_cvt_scalef32_pk_{ {'fp16': 'f16'}.get(dtype, dtype) }_{source}"
    known = PROCESSORS.get(processor)
    return name if known is not None and name in known.widening else None
