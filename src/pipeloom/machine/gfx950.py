"""MI355X (CDNA4): the constants of the simulator and where each comes from.

"GT" is ROCm/gfx950-gluon-tutorials, which measured with instruction traces on MI355X and MI300X.
One set for every loop: nothing here is tuned to a single kernel.
"""

from __future__ import annotations

from dataclasses import replace

from pipeloom.machine.cdna import LGKMCNT_LIMIT, VMCNT_LIMIT
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import BarrierKind, Counter, LdsPhases, Target, Traffic, lane_groups

_VENDOR = FactKind.VENDOR
_MEASURED = FactKind.MEASURED
_DERIVED = FactKind.DERIVED
_EXPLAINED = FactKind.EXPLAINED
_ASSUMED = FactKind.ASSUMED

_TRACES = "GT llir_scheduler and traces"
_PASSES = "twice the passes of the fp6/fp4 16x16x128 form, as for fp8"

_LLVM = "LLVM's gfx950 scheduling model: 4 cycles per pass"

_HALVES = ("bf16", "fp16")
_BYTES = ("fp8", "bf8")

_SCALABLE = (
    MatrixOp(16, 16, 128, "fp8", Fact(32, "cycles", _MEASURED, _TRACES), takes=_BYTES, mixes=True),
    MatrixOp(16, 16, 128, "fp6", Fact(16, "cycles", _MEASURED, _TRACES)),
    MatrixOp(16, 16, 128, "fp4", Fact(16, "cycles", _MEASURED, _TRACES)),
    MatrixOp(32, 32, 64, "fp8", Fact(64, "cycles", _MEASURED, _TRACES), takes=_BYTES, mixes=True),
    MatrixOp(32, 32, 64, "fp6", Fact(32, "cycles", _DERIVED, _PASSES)),
    MatrixOp(32, 32, 64, "fp4", Fact(32, "cycles", _DERIVED, _PASSES)),
)
MATRIX_OPS = (
    MatrixOp(16, 16, 32, "f16", Fact(16, "cycles", _MEASURED, _TRACES), takes=_HALVES),
    MatrixOp(32, 32, 16, "f16", Fact(32, "cycles", _MEASURED, _TRACES), takes=_HALVES),
    *_SCALABLE,
    *(replace(op, scaled=True) for op in _SCALABLE),
    MatrixOp(16, 16, 16, "f16", Fact(16, "cycles", _VENDOR, _LLVM), takes=_HALVES),
    MatrixOp(32, 32, 8, "f16", Fact(32, "cycles", _VENDOR, _LLVM), takes=_HALVES),
    MatrixOp(16, 16, 32, "fp8", Fact(16, "cycles", _VENDOR, _LLVM), takes=_BYTES, mixes=True),
    MatrixOp(32, 32, 16, "fp8", Fact(32, "cycles", _VENDOR, _LLVM), takes=_BYTES, mixes=True),
    MatrixOp(16, 16, 64, "i8", Fact(16, "cycles", _VENDOR, _LLVM)),
    MatrixOp(32, 32, 32, "i8", Fact(32, "cycles", _VENDOR, _LLVM)),
    MatrixOp(16, 16, 4, "f32", Fact(32, "cycles", _VENDOR, _LLVM)),
    MatrixOp(32, 32, 2, "f32", Fact(64, "cycles", _VENDOR, _LLVM)),
)

_HALF_B128 = (
    (*range(4), *range(12, 16), *range(20, 28)),
    (*range(4, 12), *range(16, 20), *range(28, 32)),
)
LDS_PHASES = (
    LdsPhases(
        16,
        (*_HALF_B128, *(tuple(lane + 32 for lane in group) for group in _HALF_B128)),
        _MEASURED,
        "HipKittens: four phases of 16 lanes",
    ),
    LdsPhases(8, lane_groups(32), _MEASURED, "HipKittens: two phases of 32 lanes"),
    LdsPhases(4, lane_groups(64), _DERIVED, "64 lanes of 4 bytes on 64 banks"),
)

GFX950 = Target(
    arch="gfx950",
    chip="MI355X",
    counters=(
        Counter(
            "vmcnt",
            Fact(VMCNT_LIMIT, "entries", _VENDOR, "LLVM AMDGPU s_waitcnt encoding"),
            counts=Traffic.GLOBAL,
        ),
        Counter(
            "lgkmcnt",
            Fact(LGKMCNT_LIMIT, "entries", _VENDOR, "LLVM AMDGPU s_waitcnt encoding"),
            counts=Traffic.LDS,
        ),
    ),
    barriers=(BarrierKind("workgroup"),),
    cus=Fact(256, "CUs", _VENDOR, "AMD product specification"),
    xcds=Fact(8, "XCDs", _VENDOR, "AMD product specification"),
    simds=Fact(4, "SIMDs per CU", _VENDOR, "CDNA4 ISA"),
    clock_peak_ghz=Fact(2.4, "GHz", _VENDOR, "AMD product specification"),
    clock_sustained_ghz=Fact(
        1.5,
        "GHz",
        _DERIVED,
        "GT: 4096x4096x8192 at 1446 TFLOPS is 190 us for 64*4104 + 16660 cycles, 1.47 GHz;"
        " its attention runs at 1565 MHz",
    ),
    hbm_gb_per_s=Fact(8000, "GB/s", _VENDOR, "AMD product specification"),
    l2_mib_per_xcd=Fact(4, "MiB", _VENDOR, "AMD product specification"),
    mall_mib=Fact(256, "MiB", _VENDOR, "AMD product specification"),
    store_bytes_per_clk=Fact(
        8.0,
        "bytes per cycle per CU",
        _DERIVED,
        "GT inter_wave/a16w16: 16660 cycles to drain and store a 256x256 16-bit tile",
    ),
    issue_cycles=Fact(4, "cycles", _MEASURED, "GT: 64 lanes on 16, one instruction per wave"),
    valu_cycles=Fact(4, "cycles", _MEASURED, "GT mfma_coissue_scheduling"),
    salu_cycles=Fact(
        4,
        "cycles",
        _ASSUMED,
        "GCN: a SIMD has a turn every 4 cycles and issues one scalar instruction in it",
    ),
    trans_cycles=Fact(8, "cycles", _MEASURED, "GT mfma_coissue_scheduling: v_exp"),
    valu_dependent_cycles=Fact(
        8, "cycles", _MEASURED, "facebookexperimental/triton AMDLatencyModel: dependent v_fma"
    ),
    wait_cycles=Fact(4, "cycles", _MEASURED, "GT: a satisfied counted s_waitcnt"),
    nop_cycles_per_count=Fact(4, "cycles", _MEASURED, "GT attention: s_nop in a two-wave loop"),
    branch_cycles=Fact(
        20, "cycles", _ASSUMED, "as on GCN (CLRX GcnTimings, Tahiti and Hawaii): a taken jump"
    ),
    barrier_shared_cycles=Fact(
        1, "cycles", _MEASURED, "GT: a barrier of a two-wave ping-pong when nothing is late"
    ),
    barrier_alone_cycles=Fact(
        16,
        "cycles",
        _DERIVED,
        "fitted to the loops of hipBLASLt's CMS tables, 2 to 4 barriers each; GT's 37 to 65 in a"
        " one-wave loop are stalls, so they hold the skew of its waves, which is simulated",
    ),
    mfma_operand_cycles=Fact(
        8, "cycles", _MEASURED, "GT mfma_coissue_scheduling: nothing of the wave issues"
    ),
    mfma_scale_cycles=Fact(4, "cycles", _EXPLAINED, "GT: a scaled MFMA leaves one slot less"),
    mfma_dependent_extra=Fact(
        2, "cycles", _MEASURED, "facebookexperimental/triton AMDLatencyModel: 18 against 16"
    ),
    mfma_switch_cycles=Fact(
        4,
        "cycles",
        _EXPLAINED,
        "hipBLASLt CMSValidator: a quad-cycle more where the kind of MFMA changes",
    ),
    mfma_4x4_cycles=Fact(8, "cycles", _VENDOR, "LLVM SISchedule: v_mfma 4x4x4 has two passes"),
    packed_after_mfma_cycles=Fact(
        12, "cycles", _EXPLAINED, "GT: packed f32 VALU after an MFMA; it never hides"
    ),
    lds_kib=Fact(160, "KiB", _VENDOR, "AMD product specification"),
    lds_banks=Fact(64, "banks of 4 bytes", _VENDOR, "AMD product specification"),
    lds_bytes_per_clk=Fact(
        256, "bytes per cycle", _MEASURED, "GT lds_throughput: b128 in 16 cycles on four SIMDs"
    ),
    lds_return_bytes_per_clk=Fact(
        128, "bytes per cycle per SIMD", _MEASURED, "GT lds_throughput: b128 in 8 cycles alone"
    ),
    lds_latency=Fact(
        65,
        "cycles",
        _MEASURED,
        "facebookexperimental/triton AMDLatencyModel: dependent chain 69, of which the wait is 4;"
        " GT: first data after 50 to 70",
    ),
    lds_queue_delay=Fact(
        16,
        "cycles",
        _ASSUMED,
        "issue to the LDS array; at most 24, or eight entries could not sustain b64 in 8 cycles",
    ),
    lds_queue_depth=Fact(8, "entries", _EXPLAINED, "GT: per SIMD pair, reads and writes together"),
    lds_queue_simds=Fact(2, "SIMDs per queue", _EXPLAINED, "GT"),
    lds_write_cycles_per_dword=Fact(
        4,
        "cycles",
        _ASSUMED,
        "as gfx942 (GT: b128 about 20) and GCN (CLRX GcnTimings: 4 + 4 per dword)",
    ),
    vmem_queue_depth=Fact(
        4, "instructions per wave", _MEASURED, "GT: the first 3 or 4 loads of a wave issue freely"
    ),
    vmem_bytes_per_clk=Fact(
        64, "bytes per cycle", _MEASURED, "GT: 16 cycles per dwordx4 in the texture path"
    ),
    vmem_min_cycles=Fact(
        4,
        "cycles",
        _DERIVED,
        "a dword per lane at 64 bytes per cycle; hipBLASLt's 208x256 tables, with 26 such loads,"
        " come out 5 % slow with GCN's 8",
    ),
    global_latency=Fact(600, "cycles", _DERIVED, "middle of a plain latency of 400 to 800"),
    global_bytes_in_flight=Fact(
        47104, "bytes per CU", _MEASURED, "GT tcp_bound_tile_model: 44 to 48 KB"
    ),
    global_bytes_per_clk=Fact(
        45.0,
        "bytes per cycle per CU",
        _DERIVED,
        "GT tcp_bound_tile_model: 44 KB in flight over 1000 cycles",
    ),
    dma_max_bytes_per_lane=Fact(16, "bytes", _VENDOR, "CDNA4 ISA: buffer_load_dwordx4 ... lds"),
    matrix_ops=MATRIX_OPS,
    lds_phases=LDS_PHASES,
    mfma_result_states=Fact(
        4,
        "wait states beyond the passes",
        _VENDOR,
        "LLVM GCNHazardRecognizer: 8, 12, 20 for 4, 8, 16 passes",
    ),
    # CDNA4 ISA.
    extra_instructions=(
        "ds_read_b64_tr_b16",
        "ds_read_b64_tr_b8",
        "v_cvt_pk_bf16_f32",
        "v_dot2_f32_bf16",
        "v_dot2_f32_f16",
        "v_permlane16_swap_b32",
        "v_permlane32_swap_b32",
    ),
)
