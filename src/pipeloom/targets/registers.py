"""Vector registers of a CDNA compute unit, for budgets; the simulator needs none of these."""

from __future__ import annotations

from pipeloom.targets.machine import Fact, FactKind

VGPRS_PER_SIMD_LANE = Fact(
    512,
    "registers",
    FactKind.VENDOR,
    "CDNA3 and CDNA4 ISA: VGPRs and AGPRs, shared by the waves of a SIMD",
)

RESERVED_VGPRS = Fact(
    32,
    "registers per wave",
    FactKind.ASSUMED,
    "lane ids, LDS and global addresses; what our emitter's kernels need is below this",
)
