"""A sample of weakened kernels: what the verifier calls unsafe, the emulator notices.

All weakenings of the shipped kernels: ``benchmarks/emit_evidence.py mutants``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from pipeloom import compile_schedule
from pipeloom.drive.trial import Launchable, run_gemm
from pipeloom.judge.verify.schedules import Status, verify
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.ops import OpTag
from pipeloom.reference.resync import synchronize
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.spec_parts import GeometrySpec
from pipeloom.reference.weaken import weakenings
from pipeloom.write import assemble, emit_kernel, single_buffer_geometry
from pipeloom.write.chips import chip_for

SEEDS = 4


@dataclass
class Waved:
    status: Status = Status.PROVED
    findings: Sequence[object] = ()


def wave_through(compiled: CompiledSchedule, kernel: Kernel) -> Waved:
    return Waved()


@pytest.mark.parametrize(
    ("name", "shape", "every", "first"),
    [
        ("ping_pong", (256, 256, 64, 32, 16), 9, 1),
        ("four_wave", (128, 128, 64, 16, 32), 6, 2),
        ("single_buffer", (64, 64, 64, 16, 0), 4, 3),
    ],
)
def test_sampled_weakenings_are_noticed(
    proved: Callable[..., CompiledSchedule],
    name: str,
    shape: tuple[int, int, int, int, int],
    every: int,
    first: int,
) -> None:
    bm, bn, bk, side, _ = shape
    geometry = None
    if name == "single_buffer":
        geometry = single_buffer_geometry(chip_for("gfx950"), "bf16", BM=bm, BN=bn, side=side)
    sample = list(weakenings(proved(name, "bf16", shape)))[first::every]
    assert len(sample) >= 4
    for weakened in sample:
        assert verify(weakened.compiled).status is not Status.PROVED, weakened.what
        emitted = emit_kernel(weakened.compiled, geometry=geometry, judge=wave_through)  # type: ignore[arg-type]
        ready = Launchable.load(emitted, assemble(emitted))
        trials = (
            run_gemm(emitted, ready, M=bm, N=bn, K=bk * (4, 2, 6, 4)[seed], seed=seed)
            for seed in range(SEEDS)
        )
        noticed = next((trial for trial in trials if not trial.ok), None)
        assert noticed is not None, weakened.what
        assert noticed.findings, "a defect is reported, not only a wrong result"


def test_weakenings_that_rows_in_order_would_hide() -> None:
    """The command line's ping-pong, barriers kept: with rows in order in LDS, the loads in flight
    were of the other fragment, so only the proof objected."""
    tile = GeometrySpec(BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)
    compiled = synchronize(
        compile_schedule(PingPongSpec(geometry=tile).build()), reorder=True, keep_barriers=True
    )
    made = {weakened.what: weakened for weakened in weakenings(compiled)}
    for what in ("kernel[12] barrier deleted", "kernel[28] wait_vm(8) loosened to 9"):
        weakened = made[what].compiled
        assert verify(weakened).status is not Status.PROVED
        emitted = emit_kernel(weakened, judge=wave_through)  # type: ignore[arg-type]
        depth = emitted.k_min + emitted.k_step
        trial = run_gemm(emitted, assemble(emitted), M=256, N=256, K=depth, seed=0)
        assert trial.findings, what


def test_weakenings_change_one_entry(proved: Callable[..., CompiledSchedule]) -> None:
    compiled = proved("ping_pong", "bf16", (128, 128, 64, 16, 32))

    def sizes(schedule: CompiledSchedule) -> int:
        return len(schedule.prologue) + len(schedule.kernel) + len(schedule.epilogue)

    made = list(weakenings(compiled))
    entries = [*compiled.prologue, *compiled.kernel, *compiled.epilogue]
    waits = sum(entry.op.tag in (OpTag.WAIT_VM, OpTag.WAIT_LGKM) for entry in entries)
    barriers = sum(entry.op.tag == OpTag.BARRIER for entry in entries)
    assert len(made) == 2 * waits + barriers
    assert len({w.what for w in made}) == len(made)
    for weakened in made:
        gone = "deleted" in weakened.what
        assert sizes(compiled) - sizes(weakened.compiled) == gone
        for phase in (weakened.compiled.prologue, weakened.compiled.kernel):
            assert [entry.time_slot for entry in phase] == list(range(len(phase)))
