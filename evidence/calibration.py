"""The model against measured loops: one table, one set of constants per chip.

``measured_loops.json`` holds inner loops that others measured, each record with its source. Some
give the instruction stream; the others describe the loop in words and counts, and for those the
stream is written here by one of three rules, with a writer for each family of kernels:

- ``clusters``: memory and MFMA clusters with a barrier at each boundary, in the order the record
  lists them, LDS drained (``wl0``) at the end of a memory cluster; VALU spread evenly under the
  MFMAs of its cluster; two wave groups, one barrier apart;
- ``interleave``: the iteration is cut into equal regions, memory instructions are spread evenly
  between the MFMAs of their region, and barriers open as many regions as the record has barriers
  (two where it does not say: one publishes loads, one frees a buffer);
- ``micro``: the instruction of a micro-benchmark, back to back.

Four writers apply the first two rules to GEMMs; attention has its own in ``attention_streams``.
Where a record lists its clusters in words, the writer holds them as literals: reads, loads, MFMAs,
priorities and vmcnt(10) of ``_slice_mn``, regions of ``_eight_region``, regions and vmcnt 15/13/12
of ``_four_regions``. Not from a record, and so ours: the vmcnt of ``_eight_region``, the two
regions and the waits of ``_interleaved``, where the waits of ``_four_regions`` stand, and how
instructions are spread between MFMAs. The constants are those of machine/ for every loop; besides
its counts and words a record gives the bank conflict that it states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from evidence.attention_streams import attention_stream, mixed
from pipeloom.calibrate import MeasuredStream
from pipeloom.errors import InternalError
from pipeloom.judge.simulate.engine import simulate_programs
from pipeloom.judge.simulate.instruction import WaveOp, WaveProgram
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target

ITERATIONS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCase(MeasuredStream):
    """How one measured loop is put to the simulator."""

    basis: str  # "given", "clusters", "interleave" or "micro"
    quantity: str
    op: Mapping[str, Any] | None  # what M is, as the record says

    @property
    def matrix_op(self) -> Mapping[str, Any] | None:
        """What ``M`` is."""
        return self.op


@dataclass(frozen=True, slots=True)
class Comparison:
    """Modelled against measured."""

    case: LoopCase
    modelled: float

    @property
    def error(self) -> float:
        """Relative error, positive where the model is slower."""
        return self.modelled / self.case.measured - 1.0


# Variants of one kernel that one source measured; the model must order each group as measured.
RANKED_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "gfx950 fp16 256x256x64, four waves",
        (
            "g950_intra_fp16_v4_2stage",
            "g950_intra_fp16_v5_base",
            "g950_intra_fp16_v9_tile_256x256",
        ),
    ),
    (
        "gfx942 fp16 256x256x64, four waves",
        ("g942_intra_base", "g942_intra_opt5", "g942_intra_opt5_no_ds_write"),
    ),
    (
        "gfx950 attention, eight waves",
        (
            "fa_mfma_only",
            "fa_fav4_final_scalar",
            "fa_fav4_B32",
            "fa_fav4_sgb",
            "flydsl_no_nop_no_setprio",
            "flydsl_lazy",
            "fa_fav4_no_sched",
            "fa_fav3_stock",
            "flydsl_eager",
        ),
    ),
)
RANKED_GAP = 0.03  # loops nearer to each other than this, as measured, need no order


def measured_records() -> list[dict[str, Any]]:
    """The records as published, in file order."""
    text = (Path(__file__).parent / "measured_loops.json").read_text("utf-8")
    records: list[dict[str, Any]] = json.loads(text)["loops"]
    return records


def loop_cases() -> tuple[LoopCase, ...]:
    """Every record that gives cycles, as something to simulate, in file order."""
    cases = []
    for record in measured_records():
        measured = record["measured"]
        if "cycles_per_iter" in measured:
            cases.append(_loop_case(record))
        elif "cycles_per_ds_read" in measured:
            cases.append(_lds_case(record))
    return tuple(cases)


def compare(
    case: LoopCase, machine: Target | None = None, iterations: int = ITERATIONS
) -> Comparison:
    """Simulate one loop, on another machine than its own if one is given."""
    chip = target_for(case.arch) if machine is None else machine
    return Comparison(case, case.modelled(chip, iterations))


def ranked_as_measured(comparisons: Mapping[str, Comparison], ids: tuple[str, ...]) -> bool:
    """Whether the model orders these loops as measured, where they are ``RANKED_GAP`` apart."""
    rows = sorted((comparisons[name] for name in ids), key=lambda row: row.case.measured)
    return all(
        a.modelled < b.modelled
        for a, b in combinations(rows, 2)
        if b.case.measured > a.case.measured * (1 + RANKED_GAP)
    )


def micro_comparisons() -> tuple[tuple[str, float, float], ...]:
    """(what, modelled, measured) for the micro-loops of the record ``fb_micro``, in cycles each."""
    record = next(r for r in measured_records() if r["id"] == "fb_micro")
    machine = target_for(record["arch"])
    op = machine.matrix_op("16x16x32_f16")
    chained = tuple(WaveOp.mfma(op, chain="c") for _ in range(4))
    streams = tuple(WaveOp.mfma(op, chain=str(i)) for i in range(4))
    read = WaveOp.lds_read(4)
    probes: tuple[tuple[str, str, tuple[WaveOp, ...], int], ...] = (
        ("MFMA 16x16x32, dependent", "mfma_16x16x32_dependent_cycles", chained, 4),
        ("MFMA 16x16x32, four streams", "mfma_4_independent_streams_cycles_each", streams, 4),
        ("ds_read_b32, dependent", "lds_dependent_b32_cycles", (read, WaveOp.wait(lgkm=0)), 1),
        ("ds_read_b32, four streams", "lds_4_streams_cycles_each",
         (read, WaveOp.wait(lgkm=3)) * 4, 4),
        ("VALU fma, dependent", "valu_dependent_fma_cycles",
         tuple(WaveOp.valu(chain="v") for _ in range(4)), 4),
    )  # fmt: skip
    rows = []
    for what, key, loop, per in probes:
        program = WaveProgram(simd=0, loop=loop)
        trace = simulate_programs((program,), machine, ITERATIONS)
        rows.append((what, trace.steady_cycles_per_iteration / per, float(record["measured"][key])))
    return tuple(rows)


# What each variant of the ablation record leaves out of the baseline's stream. Without both reads
# and writes the barriers and waits go too: they order nothing.
ABLATIONS: tuple[tuple[str, str], ...] = (
    ("mfma_only", "RWGBw"),
    ("plus_local_load", "WGBw"),
    ("plus_buffer_load", "RWBw"),
    ("plus_local_store", "RGBw"),
    ("load_and_store", "G"),
    ("all", ""),
)


def ablation_comparisons() -> tuple[tuple[str, float, float], ...]:
    """(variant, modelled cycles, measured milliseconds) of the gfx942 ablation, as measured."""
    records = {record["id"]: record for record in measured_records()}
    case = next(case for case in loop_cases() if case.id == "g942_intra_base")
    milliseconds = records["g942_intra_ablation"]["measured"]["ms"]
    words = [w for w in case.stream.split("||")[-1].split("(w =")[0].split() if w]
    rows = []
    for variant, dropped in ABLATIONS:
        stream = " ".join(word for word in words if word[0] not in dropped)
        modelled = compare(replace(case, stream=stream)).modelled
        rows.append((variant, modelled, float(milliseconds[variant])))
    return tuple(rows)


def claim_comparisons() -> tuple[tuple[str, float, str], ...]:
    """(change, modelled change in cycles, what the source reports) for claims without a loop."""
    cases = {case.id: case for case in loop_cases()}
    attention = cases["fa_fav4_final_scalar"]
    staggered = compare(attention).modelled
    together = compare(replace(attention, stagger=False)).modelled
    free_text = " ".join(word for word in attention.stream.split() if word != "B")
    free = compare(replace(attention, stagger=False, stream=free_text)).modelled
    baseline = cases["g942_intra_base"]
    mfmas = compare(replace(baseline, stream="M256")).modelled
    copies = compare(replace(baseline, stream="M256 V100")).modelled
    gemm = cases["g950_inter_fp16_sliceMN_K8192"]
    before = compare(gemm).modelled
    inside = compare(replace(gemm, stream=gemm.stream.replace("wl0 B", "B wl0"))).modelled
    return (
        (
            "attention, all barriers kept: no stagger",
            together / staggered - 1.0,
            "15 % lost; which barriers that build keeps is not said",
        ),
        (
            "attention, no barriers: no stagger",
            free / staggered - 1.0,
            "15 % lost, as above",
        ),
        (
            "GEMM clusters: drain lgkm after the barrier, in the MFMA cluster",
            inside / before - 1.0,
            "71 % against 76 % efficiency, of another loop",
        ),
        (
            "256 MFMAs of 16 cycles: 100 AGPR copies in one run",
            copies / mfmas - 1.0,
            "13 points of efficiency; where the copies stand is not said",
        ),
    )


def _loop_case(record: dict[str, Any]) -> LoopCase:
    basis, stream = _stream_of(record)
    measured = record["measured"]
    return LoopCase(
        id=record["id"],
        source=record["source"],
        basis=basis,
        stream=stream,
        arch=record["arch"],
        op=record["mfma"],
        waves_per_simd=record["waves_per_simd"],
        stagger=record["waves_per_simd"] == 2,
        simds=None,
        lds_conflict=_stated_conflict(measured),
        measured=float(measured["cycles_per_iter"]),
        quantity="cycles per iteration",
        per=1,
    )


def _lds_case(record: dict[str, Any]) -> LoopCase:
    ways = record["measured"]["bank_conflict_ways"]
    # Two ways cost nothing alone and double the time with four waves, as a conflict of two does;
    # an unaligned access takes one pass per lane quad, 16 of them (HARDWARE.md).
    conflict = 16.0 if ways == "unaligned" else float(max(1, ways))
    count = record["ds_read"][0]["count"]
    return LoopCase(
        id=record["id"],
        source=record["source"],
        basis="micro",
        stream=f"R{count}",
        arch=record["arch"],
        op=None,
        waves_per_simd=1,
        stagger=False,
        simds=record["waves_per_wg"],
        lds_conflict=conflict,
        measured=float(record["measured"]["cycles_per_ds_read"]),
        quantity="cycles per ds_read_b128",
        per=count,
    )


def _stated_conflict(measured: Mapping[str, Any]) -> float:
    """A conflict ratio r that the record states means 1 + r times the LDS time."""
    marker = "LDS conflict ratio "
    layout = str(measured.get("layout", ""))
    if marker not in layout:
        return 1.0
    return 1.0 + float(layout.split(marker)[1].split(",")[0])


def _stream_of(record: dict[str, Any]) -> tuple[str, str]:
    if "stream" in record:
        return "given", record["stream"]
    name: str = record["id"]
    for prefix, basis, write in _WRITERS:
        if name.startswith(prefix):
            return basis, write(record)
    raise InternalError(f"no rule writes a stream for the measured loop {name}")


def spread(count: int, extra: str) -> str:
    """``count`` MFMAs with the given instructions evenly between them.

    Of n instructions the j-th follows MFMA number floor((j + 1/2) * count / n) + 1.

    >>> spread(4, "R G")
    'M1 M1 R M1 M1 G'
    """
    items = extra.split()
    after: list[list[str]] = [[] for _ in range(count)]
    for j, item in enumerate(items):
        after[min(count - 1, (2 * j + 1) * count // (2 * len(items)))].append(item)
    return " ".join(" ".join(["M1", *these]) for these in after)


def _slice_mn(record: dict[str, Any]) -> str:
    """Eight memory and eight MFMA clusters; reads and loads per memory cluster are the record's."""
    clusters = [f"prio(1) R{reads} G2 wl0 B prio(0) wv10 M16 B" for reads in (8, 4, 4, 8)]
    return " ".join(clusters * 2) + " branch"


def _eight_region(record: dict[str, Any]) -> str:
    """Four memory and four MFMA regions; a ds_write waits for the loads of its operand."""
    memory = ("G4 R8", "G4 R4", "R8 wv4 W4", "R4 wv0 W4")
    return " ".join(f"{region} wl0 B M32 B" for region in memory) + " branch"


def _interleaved(record: dict[str, Any]) -> str:
    """gfx950: each of two regions waits for what was loaded an iteration before."""
    regions = 2
    mfmas = record["mfma"]["count"] // regions
    loads = record["g2l"]["count"]
    reads = record["ds_read"][0]["count"] // regions
    items = " ".join(mixed(["R"] * reads, ["G"] * (loads // regions)))
    return f"(wv{loads}+wl0 B {spread(mfmas, items)})x{regions} branch"


def _four_regions(record: dict[str, Any], *, writes: bool) -> str:
    """gfx942: each region writes the registers of one operand half and loads them again."""
    writing = ["wv15", "W", "wv13", "W", "W", "wv12", "W"]
    if not writes:
        writing = [item for item in writing if item != "W"]
    region = spread(64, " ".join(mixed(["R"] * 8, writing, ["G"] * 4)))
    return f"(wl0 B {region} {region})x2 branch"


_WRITERS: tuple[tuple[str, str, Callable[[dict[str, Any]], str]], ...] = (
    ("g950_inter_fp16_sliceMN", "clusters", _slice_mn),
    ("g942_inter_8region", "clusters", _eight_region),
    ("fa_", "clusters", attention_stream),
    ("flydsl_", "clusters", attention_stream),
    ("g950_intra_fp16_v9_tile", "interleave", _interleaved),
    ("g942_intra_opt5_no_ds_write", "interleave", partial(_four_regions, writes=False)),
    ("g942_intra_opt5", "interleave", partial(_four_regions, writes=True)),
)
