"""Vector registers of a CDNA compute unit, for budgets; the simulator needs none of these."""

from __future__ import annotations

from pipeloom.machine.target import Fact, FactKind

VGPRS_PER_SIMD_LANE = Fact(
    512,
    "registers",
    FactKind.VENDOR,
    "CDNA3 and CDNA4 ISA: VGPRs and AGPRs, shared by the waves of a SIMD",
)

DIRECT_VGPRS = Fact(
    256,
    "registers per wave",
    FactKind.VENDOR,
    "CDNA3 and CDNA4 ISA: v0 to v255; the rest of a wave's share are AGPRs",
)

RESERVED_VGPRS = Fact(
    32,
    "registers per wave",
    FactKind.ASSUMED,
    "lane ids, LDS and global addresses, of which up to 16 are one per load of a K tile",
)
