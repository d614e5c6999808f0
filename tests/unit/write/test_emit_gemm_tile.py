"""The modulo GEMMs in machine code: right results, the schedule's own order, every wait needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from pipeloom import compile_schedule
from pipeloom.drive.trial import Data, Launchable, run_gemm
from pipeloom.judge.emulate import Timing, decode_kernel
from pipeloom.judge.emulate.lds import Footprint, LocalMemory
from pipeloom.judge.verify import Status
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Counter, Kernel, kernel_for
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.schedules.gemm_tile import BudgetSpec, GemmTileSpec, TileSpec
from pipeloom.reference.verdict import verify
from pipeloom.reference.weaken import weakenings
from pipeloom.write import (
    CHIPS,
    EmitError,
    assemble,
    count_conflicts,
    default_geometry,
    emit_kernel,
    plan_kernel,
)

SMALL = TileSpec(BM=128, BN=128, BK=64)
SMALL_FP8 = TileSpec(BM=128, BN=128, BK=128, elem_bytes=1)
NO_LIMITS = BudgetSpec()
GRIDS = ["four_wave", "ping_pong"]


@cache
def modulo(kernel: str, tile: TileSpec, budget: BudgetSpec = NO_LIMITS) -> CompiledSchedule:
    """No time limit, so that the schedule is the same everywhere: shapes whose search ends soon."""
    spec = GemmTileSpec(kernel=kernel, geometry=tile, budget=budget, time_limit=None)
    return compile_schedule(spec.build())


@cache
def built(kernel: str, dtype: str, tile: TileSpec, budget: BudgetSpec = NO_LIMITS) -> Launchable:
    emitted = emit_kernel(modulo(kernel, tile, budget), dtype=dtype)
    return Launchable.load(emitted, assemble(emitted))


def check(ready: Launchable, tile: TileSpec, trips: Sequence[int], **options: Any) -> None:
    """Whole and ragged tiles, by turns."""
    emitted = ready.emitted
    for seed, trip in enumerate(trips):
        less = (0, 0) if seed % 2 else (5, 3)
        depth = emitted.k_min + trip * emitted.k_step
        trial = run_gemm(
            emitted,
            ready,
            M=tile.BM - less[0],
            N=tile.BN - less[1],
            K=depth,
            seed=seed,
            **options,
        )
        assert trial.ok, trial.summary()


@pytest.mark.parametrize("kernel", GRIDS)
@pytest.mark.parametrize(
    ("dtype", "tile"), [("bf16", SMALL), ("fp16", SMALL), ("fp8", SMALL_FP8)], ids=str
)
def test_equal_to_numpy(kernel: str, dtype: str, tile: TileSpec) -> None:
    ready = built(kernel, dtype, tile)
    assert ready.emitted.status is Status.PROVED
    check(ready, tile, (1,) if dtype == "fp16" else (0, 1, 2, 5))


@pytest.mark.parametrize("kernel", GRIDS)
@pytest.mark.parametrize("timing", list(Timing))
def test_several_workgroups_under_each_timing(kernel: str, timing: Timing) -> None:
    ready = built(kernel, "bf16", SMALL)
    emitted = ready.emitted
    depth = emitted.k_min + emitted.k_step
    trial = run_gemm(emitted, ready, M=130, N=260, K=depth, seed=7, timing=timing, data=Data.NORMAL)
    assert trial.ok, trial.summary()


@pytest.mark.parametrize(
    "tile",
    [
        TileSpec(BM=64, BN=128, BK=64),
        TileSpec(BM=128, BN=128, BK=64, MMA_M=32, MMA_N=32, MMA_K=16),
    ],
    ids=str,
)
def test_uneven_tiles_and_other_matrix_instructions(tile: TileSpec) -> None:
    check(built("four_wave", "fp16", tile), tile, (0, 1))


def test_lds_is_what_the_schedule_has_buffers_for() -> None:
    """Pieces with different numbers of buffers lie side by side, without holes."""
    tile, budget = TileSpec(BM=64, BN=64, BK=64), BudgetSpec(lds=28672)
    compiled = modulo("four_wave", tile, budget)
    stages: dict[tuple[int, int], int] = {}
    for entry in (*compiled.prologue, *compiled.kernel):
        op = entry.op
        if op.role is OpRole.GLOBAL_LOAD:
            key = (op.channel, op.subtile)
            stages[key] = max(stages.get(key, 0), op.stage + 1)
    assert set(stages.values()) == {1, 2}
    ready = built("four_wave", "bf16", tile, budget)
    assert ready.emitted.resources.lds_bytes == sum(stages.values()) * 32 * 64 * 2
    check(ready, tile, (0, 1, 2, 5))


@pytest.mark.parametrize("kernel", GRIDS)
def test_bytes_are_the_schedule(kernel: str) -> None:
    compiled, ready = modulo(kernel, SMALL), built(kernel, "bf16", SMALL)
    loads, reads, mmas = {
        "four_wave": (2, (4, 4), 8),
        "ping_pong": (1, (4, 2), 4),
    }[kernel]
    expected: list[str] = []
    for step in plan_kernel(kernel_for(compiled), compiled).steps():
        op = step.op
        match op.tag:
            case OpTag.BARRIER:
                expected.append("s_barrier")
            case OpTag.WAIT_VM | OpTag.WAIT_LGKM:
                expected.append("s_waitcnt")
            case _ if op.role is OpRole.GLOBAL_LOAD:
                expected += ["buffer_load_dwordx4"] * loads
            case _ if op.role is OpRole.FRAGMENT_LOAD:
                expected += ["ds_read_b128"] * reads[op.channel]
            case _ if op.role is OpRole.COMPUTE:
                expected += ["v_mfma_f32_16x16x32_bf16"] * mmas
    names = [instruction.name for instruction in decode_kernel(ready.kernel.code)]
    found = [name for name in names if name in set(expected)]
    assert found == ["s_waitcnt", *expected, "s_waitcnt"]  # the arguments; before the store


@dataclass
class Waved:
    status: Status = Status.PROVED
    findings: Sequence[object] = ()


def wave_through(compiled: CompiledSchedule, kernel: Kernel) -> Waved:
    return Waved()


@pytest.mark.parametrize("kernel", GRIDS)
def test_sampled_weakenings_are_noticed(kernel: str) -> None:
    assert_noticed(modulo(kernel, SMALL), "gfx950", SMALL, 3, 14)


def assert_noticed(
    compiled: CompiledSchedule, target: str, tile: TileSpec, first: int, every: int
) -> None:
    """Of every so many weakenings, those that the verifier calls unsafe go wrong."""
    sample = list(weakenings(compiled))[first::every]
    assert len(sample) >= 4
    unsafe = 0
    for weakened in sample:
        if verify(weakened.compiled).status is Status.PROVED:
            continue
        unsafe += 1
        emitted = emit_kernel(weakened.compiled, target=target, judge=wave_through)  # type: ignore[arg-type]
        ready = Launchable.load(emitted, assemble(emitted))
        trials = (
            run_gemm(
                emitted,
                ready,
                M=tile.BM,
                N=tile.BN,
                K=emitted.k_min + (2, 0, 1)[seed % 3] * emitted.k_step,
                seed=seed,
            )
            for seed in range(6)
        )
        assert not all(trial.ok for trial in trials), weakened.what
    assert unsafe >= 3


@pytest.mark.parametrize("kernel", GRIDS)
def test_lds_accesses_never_conflict(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    load = LocalMemory.load

    def watched(self: LocalMemory, footprint: Footprint) -> Any:
        seen.append(count_conflicts(footprint.addresses.tolist(), CHIPS["gfx950"]))
        return load(self, footprint)

    monkeypatch.setattr(LocalMemory, "load", watched)
    check(built(kernel, "bf16", SMALL), SMALL, (0,))
    assert seen
    assert not any(seen)


def test_accumulators_in_vgprs() -> None:
    emitted = emit_kernel(modulo("four_wave", SMALL), accumulators="vgpr")
    assert emitted.resources.agprs == 0
    check(Launchable.load(emitted, assemble(emitted)), SMALL, (1,))


@pytest.mark.parametrize("arch", list(CHIPS))
@pytest.mark.parametrize("kernel", [*GRIDS, "single_buffer"])
@pytest.mark.parametrize(("dtype", "size"), [("bf16", 2), ("fp8", 1)])
def test_default_tiles_are_those_of_the_schedule(
    kernel: str, arch: str, dtype: str, size: int
) -> None:
    schedule = GemmTileSpec(kernel=kernel, arch=arch, geometry=TileSpec(elem_bytes=size)).build()
    assert default_geometry(schedule.name, arch, dtype) == schedule.geometry()


def test_what_is_not_emitted() -> None:
    compiled = modulo("four_wave", SMALL)
    with pytest.raises(EmitError, match="but fp8 has 1"):
        emit_kernel(compiled, dtype="fp8")
    for schedule in ("ping_pong", "four_wave"):
        with pytest.raises(EmitError, match=r"16 bytes per lane.*but gfx942 can only 4") as it:
            default_geometry(schedule, "gfx942", "bf16")
        assert "use single_buffer or gemm_tile on this target" in (it.value.hint or "")


# ------------------------------------------------------------- LDS-DMA of 4 bytes per lane (gfx942)

NARROW = [
    ("four_wave", "bf16", TileSpec(BM=64, BN=64, BK=32)),
    ("four_wave", "fp16", TileSpec(BM=128, BN=64, BK=32)),
    ("four_wave", "fp8", TileSpec(BM=64, BN=64, BK=64, elem_bytes=1)),
    ("four_wave", "fp16", TileSpec(BM=128, BN=128, BK=32, MMA_M=32, MMA_N=32)),
    ("ping_pong", "bf16", TileSpec(BM=64, BN=128, BK=32)),
    ("ping_pong", "fp8", TileSpec(BM=64, BN=128, BK=64, elem_bytes=1)),
    ("ping_pong", "fp8", TileSpec(BM=128, BN=256, BK=64, elem_bytes=1, MMA_M=32, MMA_N=32)),
]


@cache
def narrow(kernel: str, tile: TileSpec, latency: int | None = None) -> CompiledSchedule:
    """For gfx942, at the smallest II; that the stages are the fewest takes longer to prove."""
    spec = GemmTileSpec(
        kernel=kernel,
        arch="gfx942",
        geometry=tile,
        global_latency=latency,
        objectives=(),
        time_limit=None,
    )
    return compile_schedule(spec.build())


def loaded(compiled: CompiledSchedule, dtype: str = "bf16") -> Launchable:
    emitted = emit_kernel(compiled, target="gfx942", dtype=dtype)
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize(("kernel", "dtype", "tile"), NARROW, ids=str)
def test_narrow_loads_are_equal_to_numpy(kernel: str, dtype: str, tile: TileSpec) -> None:
    ready = loaded(narrow(kernel, tile), dtype)
    assert ready.emitted.status is Status.PROVED
    text = ready.emitted.text
    assert "buffer_load_dword v" in text
    assert "dwordx4 v" not in "".join(line for line in text.splitlines() if " lds" in line)
    check(ready, tile, (0, 1, 2, 5))


def test_rows_longer_than_the_narrow_loads_of_a_swizzle() -> None:
    """4 rows of 256 bytes at once, of a swizzle that repeats after 8."""
    tile = TileSpec(BM=64, BN=64, BK=128)
    check(loaded(narrow("four_wave", tile)), tile, (0, 1))


def test_more_loads_than_vmcnt_holds() -> None:
    """The proof and the emulator take no stall at 63 loads in flight for granted."""
    tile = TileSpec(BM=128, BN=128, BK=64)
    compiled = narrow("four_wave", tile, 3000)
    loads = sum(e.op.vm_cost for e in compiled.prologue if e.op.role is OpRole.GLOBAL_LOAD)
    assert loads > Counter.VM.limit
    assert verify(compiled).status is Status.PROVED
    waits = [e.op.wait_value for e in compiled.kernel if e.op.tag == OpTag.WAIT_VM]
    assert waits
    assert max(waits) < Counter.VM.limit
    check(loaded(compiled), tile, (0, 2))


@pytest.mark.parametrize("kernel", GRIDS)
def test_sampled_weakenings_of_narrow_loads_are_noticed(kernel: str) -> None:
    tile = TileSpec(BM=64, BN=64 if kernel == "four_wave" else 128, BK=32)
    assert_noticed(narrow(kernel, tile), "gfx942", tile, 5, 14)


# ------------------------------------------------------------------------- the chip of a schedule


@pytest.mark.parametrize("kernel", [*GRIDS, "single_buffer"])
def test_another_chip_than_the_schedules(kernel: str) -> None:
    tile = TileSpec(BM=64, BN=128, BK=64)
    compiled = modulo(kernel, tile, BudgetSpec(stages=2))
    assert compiled.arch == "gfx950"
    with pytest.raises(EmitError, match="was compiled for gfx950, but the target is gfx942") as it:
        emit_kernel(compiled, target="gfx942")
    assert "--set arch=gfx942" in (it.value.hint or "")
    assert "--target gfx950" in (it.value.hint or "")
    read_back = CompiledSchedule.from_dict(compiled.to_dict())
    assert read_back.arch == "gfx950"
    older = {key: value for key, value in compiled.to_dict().items() if key != "arch"}
    assert CompiledSchedule.from_dict(older).arch is None
