"""MI300X (CDNA3): the constants of the simulator and where each comes from.

"GT" is ROCm/gfx950-gluon-tutorials, which measured this chip too. What a source says of both chips
stands in gfx950.py; what none says of this one is taken from there, and says so.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import LdsPhases, lane_groups

_VENDOR = FactKind.VENDOR
_MEASURED = FactKind.MEASURED
_DERIVED = FactKind.DERIVED
_ASSUMED = FactKind.ASSUMED

_CALCULATOR = "AMD matrix instruction calculator"

_HALVES = ("bf16", "fp16")
_BYTES = ("fp8_fnuz", "bf8_fnuz")
"""CDNA3 ISA: the 8-bit floats of this chip are FNUZ."""

MATRIX_OPS = (
    MatrixOp(16, 16, 16, "f16", Fact(16, "cycles", _VENDOR, _CALCULATOR), takes=_HALVES),
    MatrixOp(32, 32, 8, "f16", Fact(32, "cycles", _VENDOR, _CALCULATOR), takes=_HALVES),
    MatrixOp(16, 16, 32, "fp8", Fact(16, "cycles", _VENDOR, _CALCULATOR), takes=_BYTES, mixes=True),
    MatrixOp(32, 32, 16, "fp8", Fact(32, "cycles", _VENDOR, _CALCULATOR), takes=_BYTES, mixes=True),
    MatrixOp(16, 16, 32, "i8", Fact(16, "cycles", _VENDOR, _CALCULATOR)),
    MatrixOp(32, 32, 16, "i8", Fact(32, "cycles", _VENDOR, _CALCULATOR)),
    MatrixOp(16, 16, 8, "xf32", Fact(16, "cycles", _VENDOR, _CALCULATOR)),
    MatrixOp(16, 16, 4, "f32", Fact(32, "cycles", _VENDOR, _CALCULATOR)),
    MatrixOp(32, 32, 2, "f32", Fact(64, "cycles", _VENDOR, _CALCULATOR)),
)

# Of a half wave: each pairs a run of four lanes with one of the upper sixteen.
_QUADS_B128 = ((0, 20), (4, 16), (8, 28), (12, 24))
LDS_PHASES = (
    LdsPhases(
        16,
        tuple(
            tuple(half + first + lane for first in pair for lane in range(4))
            for half in (0, 32)
            for pair in _QUADS_B128
        ),
        _MEASURED,
        "eight groups of 8 lanes; which lanes: read groups that public padding code quotes from"
        " AMD (0-3 with 20-23 and so on); unions of two are HipKittens' gfx950 phases",
    ),
    LdsPhases(8, lane_groups(16), _DERIVED, "16 lanes of 8 bytes on 32 banks, consecutive"),
    LdsPhases(4, lane_groups(32), _DERIVED, "32 lanes of 4 bytes on 32 banks, consecutive"),
)

ASSUMED = (
    "store_bytes_per_clk",
    "valu_dependent_cycles",
    "nop_cycles_per_count",
    "barrier_alone_cycles",
    "mfma_dependent_extra",
    "mfma_switch_cycles",
    "packed_after_mfma_cycles",
    "lds_return_bytes_per_clk",
    "lds_latency",
    "lds_queue_delay",
    "vmem_min_cycles",
    "global_bytes_in_flight",
    "global_bytes_per_clk",
)
"""Measured there, and not here."""

GFX942 = replace(
    GFX950,
    **{n: replace(getattr(GFX950, n), kind=_ASSUMED, source="as gfx950") for n in ASSUMED},
    arch="gfx942",
    chip="MI300X",
    cus=Fact(304, "CUs", _VENDOR, "AMD product specification"),
    simds=Fact(4, "SIMDs per CU", _VENDOR, "CDNA3 ISA"),
    clock_peak_ghz=Fact(2.1, "GHz", _VENDOR, "AMD product specification"),
    clock_sustained_ghz=Fact(
        1.43,
        "GHz",
        _MEASURED,
        "GT gfx942/intra_wave, the loop g942_intra_base: under the 750 W cap",
    ),
    hbm_gb_per_s=Fact(5300, "GB/s", _VENDOR, "AMD product specification"),
    mfma_operand_cycles=Fact(8, "cycles", _MEASURED, "GT mfma_coissue_scheduling"),
    mfma_scale_cycles=Fact(4, "cycles", _ASSUMED, "as gfx950; this chip has no scaled MFMA"),
    lds_kib=Fact(64, "KiB", _VENDOR, "AMD product specification"),
    lds_banks=Fact(32, "banks of 4 bytes", _VENDOR, "AMD product specification"),
    lds_bytes_per_clk=Fact(
        128, "bytes per cycle", _MEASURED, "GT: ds_read_b128 in 32 cycles on four SIMDs"
    ),
    lds_write_cycles_per_dword=Fact(
        4,
        "cycles",
        _MEASURED,
        "CLRX GcnTimings: 4 + 4 per dword on GCN; GT: b128 about 20 on gfx942",
    ),
    dma_max_bytes_per_lane=Fact(4, "bytes", _VENDOR, "CDNA3 ISA: buffer_load_dword ... lds"),
    matrix_ops=MATRIX_OPS,
    lds_phases=LDS_PHASES,
    mfma_result_states=Fact(
        3,
        "wait states beyond the passes",
        _VENDOR,
        "LLVM GCNHazardRecognizer: 7, 11, 19 for 4, 8, 16 passes",
    ),
    extra_instructions=("v_dot2_f32_f16",),
)
