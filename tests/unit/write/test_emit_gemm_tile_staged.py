"""The modulo GEMM through registers, in machine code: right at any depth, every wait needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from pipeloom import build_schedule, compile_schedule
from pipeloom.drive.trial import Data, Launchable, run_gemm
from pipeloom.errors import ConfigError
from pipeloom.judge.emulate import Timing
from pipeloom.judge.emulate.lds import Footprint, LocalMemory
from pipeloom.judge.execute import classify
from pipeloom.judge.execute.run import Executor
from pipeloom.judge.verify import FindingKind, Status, Verdict
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpRole, OpTag, Phase
from pipeloom.reference.schedules.gemm_tile import BudgetSpec, GemmTileSpec, TileSpec
from pipeloom.reference.verdict import verify
from pipeloom.reference.weaken import weakenings
from pipeloom.write import CHIPS, EmitError, assemble, count_conflicts, emit_kernel
from pipeloom.write.faults import RegisterLimitError

NO_LIMITS = BudgetSpec()
SMALL = TileSpec(BM=64, BN=64, BK=64)


def wide(bm: int, bn: int, bk: int, elem_bytes: int = 2) -> TileSpec:
    """A tile of 32x32 matrix instructions."""
    return TileSpec(BM=bm, BN=bn, BK=bk, MMA_M=32, MMA_N=32, elem_bytes=elem_bytes)


CASES = [
    ("gfx950", "bf16", TileSpec(BM=128, BN=64, BK=64)),
    ("gfx950", "fp16", TileSpec(BM=64, BN=128, BK=64)),
    ("gfx950", "fp8", TileSpec(BM=64, BN=64, BK=128, elem_bytes=1)),
    ("gfx950", "bf16", wide(128, 64, 64)),
    ("gfx950", "fp16", wide(128, 64, 64)),
    ("gfx950", "fp8", wide(128, 64, 128, 1)),
    ("gfx942", "bf16", TileSpec(BM=64, BN=128, BK=32)),
    ("gfx942", "fp16", TileSpec(BM=64, BN=64, BK=64)),
    ("gfx942", "fp8", TileSpec(BM=128, BN=64, BK=64, elem_bytes=1)),
    ("gfx942", "bf16", wide(128, 64, 32)),
    ("gfx942", "fp16", wide(128, 128, 32)),
    ("gfx942", "fp8", wide(128, 64, 64, 1)),
]


@cache
def modulo(
    tile: TileSpec,
    target: str = "gfx950",
    budget: BudgetSpec = NO_LIMITS,
    k_tiles: int | None = None,
) -> CompiledSchedule:
    """No time limit, so that the schedule is the same everywhere."""
    spec = GemmTileSpec(
        kernel="single_buffer",
        arch=target,
        geometry=tile,
        budget=budget,
        k_tiles=k_tiles,
        time_limit=None,
    )
    return compile_schedule(spec.build())


def load(compiled: CompiledSchedule, **options: Any) -> Launchable:
    emitted = emit_kernel(compiled, target=compiled.arch or "", **options)
    return Launchable.load(emitted, assemble(emitted))


def check(
    ready: Launchable, tile: TileSpec, trips: Sequence[int] = (0, 1, 2, 5), **options: Any
) -> None:
    """Whole and ragged tiles by turns; ``trips`` beyond those that the kernel must make."""
    emitted = ready.emitted
    for seed, trip in enumerate(trips):
        less = (0, 0) if seed % 2 else (5, 3)
        trial = run_gemm(
            emitted,
            ready,
            M=tile.BM - less[0],
            N=tile.BN - less[1],
            K=emitted.k_min + trip * emitted.k_step,
            seed=seed,
            **options,
        )
        assert trial.ok, trial.summary()


def copies(compiled: CompiledSchedule) -> tuple[int, int, list[int]]:
    """Staging sets, LDS buffers, and copies of each K step's fragment, as the entries use them."""
    kernel = kernel_for(compiled)
    staging, buffers, fragments = set(), set(), set()
    for step in kernel.walk(compiled, 0, kernel.min_trips + 2):
        effect = kernel.effect(step, 0)
        staging |= {r.number for r in effect.register_writes if r.bank == "staging"}
        fragments |= {r.number for r in effect.register_writes if r.bank == "AB"}
        buffers |= {region.stage for region in effect.lds_writes}
    steps = len(kernel.accumulators())
    return (
        len(staging),
        len(buffers),
        [sum(f % steps == t for f in fragments) for t in range(steps)],
    )


@pytest.mark.parametrize(("target", "dtype", "tile"), CASES, ids=str)
def test_equal_to_numpy(target: str, dtype: str, tile: TileSpec) -> None:
    ready = load(modulo(tile, target), dtype=dtype)
    assert ready.emitted.status is Status.PROVED
    check(ready, tile)


@pytest.mark.parametrize("target", ["gfx950", "gfx942"])
@pytest.mark.parametrize("timing", list(Timing))
def test_several_workgroups_under_each_timing(target: str, timing: Timing) -> None:
    ready = load(modulo(SMALL, target))
    depth = ready.emitted.k_min + ready.emitted.k_step
    trial = run_gemm(
        ready.emitted, ready, M=70, N=130, K=depth, seed=7, timing=timing, data=Data.NORMAL
    )
    assert trial.ok, trial.summary()


def test_everything_rotates_by_itself() -> None:
    """Three sets of staging registers, three LDS buffers, fragments in one and three copies."""
    tile = wide(128, 64, 64, 1)
    compiled = modulo(tile, "gfx942")
    assert copies(compiled) == (3, 3, [3, 1])
    ready = load(compiled, dtype="fp8")
    assert ready.emitted.resources.lds_bytes == 3 * (128 + 64) * 64
    places = ready.emitted.allocation.places
    assert sum(name.startswith("staging") for name in places) == 3
    assert sorted(name for name in places if name.startswith("AB")) == ["AB0", "AB1", "AB2", "AB4"]
    # 3 loads of 16 bytes per lane; per K step a tile of A and two of B, 16 bytes per lane each
    assert {places[f"staging{i}"].count for i in range(3)} == {12}
    assert {places[f"AB{i}"].count for i in (0, 1, 2, 4)} == {12}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (BudgetSpec(registers=60), (1, 1, [1, 1])),
        (BudgetSpec(lds=16384), (3, 1, [1, 1])),
    ],
    ids=str,
)
def test_tight_budgets(budget: BudgetSpec, expected: tuple[int, int, list[int]]) -> None:
    compiled = modulo(SMALL, budget=budget)
    assert copies(compiled) == expected
    ready = load(compiled)
    assert ready.emitted.resources.lds_bytes == expected[1] * 16384
    check(ready, SMALL, (0, 1, 2))


@pytest.mark.parametrize("target", ["gfx950", "gfx942"])
def test_a_loop_that_must_run_at_least_once(target: str) -> None:
    """One stage: nothing is under way before the loop, and no K is the shortest but one trip's."""
    compiled = modulo(SMALL, target, BudgetSpec(stages=1))
    kernel = kernel_for(compiled)
    assert kernel.min_trips == 1
    assert kernel.tiles(0) == 0
    assert not any(e.op.role is OpRole.GLOBAL_LOAD for e in compiled.prologue)
    ready = load(compiled)
    emitted = ready.emitted
    assert emitted.k_min == emitted.k_step == 64 * kernel.tiles_per_iteration
    check(ready, SMALL, (0, 1, 2, 4))
    with pytest.raises(EmitError, match=r"K is 0, but the schedule starts with 64 and steps by 64"):
        emitted.check_problem(64, 64, 0)


@pytest.mark.parametrize("k_tiles", [1, 2, 4, 5, 6])
def test_each_k_in_tiles(k_tiles: int) -> None:
    """Epilogues of every residue, and K too short for all stages."""
    ready = load(modulo(SMALL, k_tiles=k_tiles))
    emitted = ready.emitted
    assert emitted.k_min <= k_tiles * 64
    assert (k_tiles * 64 - emitted.k_min) % emitted.k_step == 0
    trial = run_gemm(emitted, ready, M=60, N=64, K=k_tiles * 64, seed=k_tiles)
    assert trial.ok, trial.summary()


@dataclass
class Waved:
    status: Status = Status.PROVED
    findings: Sequence[object] = ()


def wave_through(compiled: CompiledSchedule, kernel: Kernel) -> Waved:
    return Waved()


@pytest.mark.parametrize("target", ["gfx950", "gfx942"])
def test_sampled_weakenings_are_noticed(target: str) -> None:
    sample = list(weakenings(modulo(SMALL, target)))[2::9]
    assert len(sample) >= 5
    unsafe = 0
    for weakened in sample:
        if verify(weakened.compiled).status is Status.PROVED:
            continue
        unsafe += 1
        ready = load(weakened.compiled, judge=wave_through)
        emitted = ready.emitted
        trials = (
            run_gemm(
                emitted,
                ready,
                M=64,
                N=64,
                K=emitted.k_min + (2, 0, 1)[seed % 3] * emitted.k_step,
                seed=seed,
            )
            for seed in range(8)
        )
        assert not all(trial.ok for trial in trials), weakened.what
    assert unsafe >= 3


@pytest.mark.parametrize("target", ["gfx950", "gfx942"])
def test_lds_reads_never_conflict(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    read = LocalMemory.load

    def watched(self: LocalMemory, footprint: Footprint) -> Any:
        seen.append(count_conflicts(footprint.addresses.tolist(), CHIPS[target]))
        return read(self, footprint)

    monkeypatch.setattr(LocalMemory, "load", watched)
    check(load(modulo(SMALL, target)), SMALL, (0,))
    assert seen
    assert not any(seen)


def test_a_buffer_beyond_the_reach_of_an_offset() -> None:
    """72 KiB of LDS: stores past 64 KiB take a further address register."""
    tile = TileSpec(BM=128, BN=64, BK=64)
    ready = load(modulo(tile))
    assert ready.emitted.resources.lds_bytes == 3 * (128 + 64) * 128 > 1 << 16
    assert "write 1" in ready.emitted.allocation.places
    check(ready, tile, (1,))


def test_accumulators_in_vgprs() -> None:
    ready = load(modulo(SMALL), accumulators="vgpr")
    assert ready.emitted.resources.agprs == 0
    check(ready, SMALL, (1,))


def test_what_is_refused() -> None:
    compiled = modulo(SMALL)
    with pytest.raises(EmitError, match=r"elements of 2 byte\(s\), but fp8 has 1"):
        emit_kernel(compiled, dtype="fp8")
    geometry = compiled.geometry
    assert geometry is not None
    with pytest.raises(EmitError, match=r"takes 6 vmcnt entries per wave .* counts 4"):
        emit_kernel(compiled, geometry=replace(geometry, BM=128))
    with pytest.raises(EmitError, match="BM = 96 does not give each of 4 waves a multiple of 16"):
        emit_kernel(compiled, geometry=replace(geometry, BM=96))
    with pytest.raises(EmitError, match="BK = 32 in 2 K steps is 32 bytes a step"):
        emit_kernel(compiled, geometry=replace(geometry, BK=32))
    bare = replace(compiled, geometry=None)
    with pytest.raises(EmitError, match="compiled without a tile shape"):
        emit_kernel(bare)
    with pytest.raises(RegisterLimitError, match="bytes of LDS, but gfx950 has 163840"):
        emit_kernel(compiled, geometry=replace(geometry, BM=256, BN=256))
    thin = modulo(TileSpec(BM=64, BN=32, BK=32))
    with pytest.raises(EmitError, match="the tile of B has 32 rows, but 4 waves bring 64 rows"):
        emit_kernel(thin)


def test_what_is_no_staged_tile() -> None:
    with pytest.raises(ConfigError, match="has 2 x 1 quadrants, but its fragments are cut along K"):
        modulo(TileSpec(BM=128, BN=64, BK=64, m=2))
    with pytest.raises(ConfigError, match="BK = 80 is 5 matrix instructions deep") as caught:
        modulo(TileSpec(BM=64, BN=64, BK=80), "gfx942")
    assert "make BK a multiple of 32" in (caught.value.hint or "")
    broken = replace(modulo(SMALL), config=replace(modulo(SMALL).config, num_partitions=5))
    with pytest.raises(ConfigError, match=r"6 fragment loads, which 5 K tile\(s\) do not share"):
        kernel_for(broken)


# ---------------------------------------------------------- more reads in flight than lgkmcnt holds

FULL = 14
"""The loosest wait on lgkmcnt: 15, all ones, is no wait."""


@cache
def default_tile() -> CompiledSchedule:
    """``gemm_tile --set kernel=single_buffer``: 20 LDS reads before the MMA of the first."""
    return build_schedule("gemm_tile", ["kernel=single_buffer"])


def test_the_oldest_of_twenty_reads_is_waited_for() -> None:
    """The five waits that LLVM's own pass would add, were they missing."""
    compiled = default_tile()
    full = [
        phase.name
        for phase in Phase
        for entry in compiled.phase(phase)
        if entry.op.tag == OpTag.WAIT_LGKM and entry.op.wait_value == FULL
    ]
    assert full == ["KERNEL"] * 2 + ["EPILOGUE"] * 3
    assert verify(compiled).proved


def without_full_waits(compiled: CompiledSchedule) -> CompiledSchedule:
    """What a synchroniser could leave out if a full counter stalled."""
    for phase in Phase:
        kept = [
            entry
            for entry in compiled.phase(phase)
            if entry.op.tag != OpTag.WAIT_LGKM or entry.op.wait_value != FULL
        ]
        compiled = compiled.with_entries(phase, kept)
    return compiled


def test_without_these_waits_it_is_proved_only_if_a_full_counter_stalls() -> None:
    stalled = without_full_waits(default_tile())
    assert verify(stalled, counter_stall=True).proved
    verdict = verify(stalled)
    assert verdict.status is not Status.PROVED
    assert FindingKind.REGISTER in {finding.kind for finding in verdict.findings}
    assert classify(Executor(lift(stalled), counter_stall=True)).correct
    assert not classify(lift(stalled)).correct


def test_the_emulator_reads_poison_without_these_waits() -> None:
    compiled = default_tile()
    stalled = without_full_waits(compiled)

    def judge(schedule: CompiledSchedule, kernel: Kernel) -> Verdict:
        return verify(schedule, kernel, counter_stall=True)

    emitted = emit_kernel(stalled, target="gfx950", judge=judge)
    ready = Launchable.load(emitted, assemble(emitted))
    trial = run_gemm(emitted, ready, M=256, N=256, K=256)
    assert {finding.kind.value for finding in trial.findings} == {"in-flight-read"}
    sound = load(compiled)
    assert run_gemm(sound.emitted, sound, M=256, N=256, K=256).ok
