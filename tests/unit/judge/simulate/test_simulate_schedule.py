"""Compiled schedules on the machine: instruction counts, stagger, and what must not happen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pipeloom import ConfigError, build_schedule
from pipeloom.drive.programs import as_program, simulate, verify
from pipeloom.judge.simulate import Kind
from pipeloom.judge.simulate.issued import trips_for, wave_programs
from pipeloom.machine.chips import target_for
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.resync import synchronize

BF16 = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
FP8 = {"BK": 128, "MMA_K": 128, "elem_bytes": 1}


def _spec(schedule: str, geometry: dict[str, int]) -> dict[str, Any]:
    return {"schedule": schedule, "geometry": geometry}


@pytest.mark.parametrize("schedule", ["ping_pong", "four_wave"])
@pytest.mark.parametrize("geometry", [BF16, FP8], ids=["bf16", "fp8"])
def test_a_loop_iteration_issues_the_instructions_of_two_k_tiles(
    schedule: str, geometry: dict[str, int]
) -> None:
    compiled = build_schedule(_spec(schedule, geometry))
    kernel = kernel_for(compiled)
    programs = wave_programs(as_program(compiled, kernel, target_for("gfx950")))
    issued = Counter(i.kind for program in programs for i in program.loop)
    tile_mmas = 16 * 16 * (geometry["BK"] // geometry["MMA_K"])
    tile_bytes = (256 + 256) * geometry["BK"] * geometry["elem_bytes"]
    assert issued[Kind.MFMA] == 2 * tile_mmas
    assert issued[Kind.GLOBAL_TO_LDS] == 2 * tile_bytes // (64 * 16)
    assert compiled.geometry is not None
    per_wave = 4 * (compiled.geometry.lgkm_per_load_a + compiled.geometry.lgkm_per_load_b)
    assert issued[Kind.LDS_READ] == kernel.waves * per_wave


def test_only_the_lagging_group_starts_with_the_extra_barrier() -> None:
    compiled = build_schedule(_spec("ping_pong", BF16))
    programs = wave_programs(as_program(compiled, kernel_for(compiled), target_for("gfx950")))
    barriers = [sum(i.kind is Kind.BARRIER for i in p.prologue) for p in programs]
    assert barriers == [2] * 4 + [3] * 4
    assert [p.simd for p in programs] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_matrix_time_is_never_beaten() -> None:
    trace = simulate(build_schedule(_spec("ping_pong", BF16)), k_tiles=16)
    assert trace.iterations == 7
    assert max(trace.steady_matrix_efficiency()) <= 1.0
    assert trace.steady_cycles_per_iteration >= 2 * 16 * 16 * 2 * 16 / 4


def test_the_same_input_gives_the_same_trace() -> None:
    compiled = build_schedule(_spec("four_wave", FP8))
    first = simulate(compiled, k_tiles=6, jitter=0.3, seed=4)
    assert first.events == simulate(compiled, k_tiles=6, jitter=0.3, seed=4).events
    assert first.events != simulate(compiled, k_tiles=6, jitter=0.3, seed=5).events


def test_a_schedule_without_a_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="no step of ping_pong"):
        simulate(build_schedule("ping_pong"))


@pytest.mark.parametrize("k_tiles", [0, 1, 3, -2])
def test_k_tiles_that_the_kernel_cannot_sum_are_refused(k_tiles: int) -> None:
    compiled = build_schedule(_spec("ping_pong", BF16))
    with pytest.raises(ConfigError, match=f"cannot run {k_tiles} iterations") as caught:
        trips_for(as_program(compiled), k_tiles)
    assert caught.value.hint == "use 2, 4, 6, ..."


STAGED = {"schedule": "single_buffer", "geometry": BF16}


def test_the_single_buffer_stages_through_registers() -> None:
    compiled = build_schedule(STAGED)
    kernel = kernel_for(compiled)
    programs = wave_programs(as_program(compiled, kernel, target_for("gfx950")))
    issued = Counter(i.kind for program in programs for i in program.loop)
    tile_bytes = (128 + 128) * 64 * 2
    assert issued[Kind.MFMA] == 8 * 8 * 2
    assert issued[Kind.GLOBAL_TO_VGPR] == issued[Kind.LDS_WRITE] == tile_bytes // (64 * 16)
    assert issued[Kind.LDS_READ] == 2 * tile_bytes // (64 * 16), "two waves read each row"
    assert issued[Kind.GLOBAL_TO_LDS] == 0
    labels = {i.label for i in programs[0].loop}
    assert {"load staging0 A", "store B[0,0]", "frag A[0,1]", "mma (0,1)"} <= labels


@pytest.mark.parametrize(("arch", "mma_k"), [("gfx950", 32), ("gfx942", 16)])
def test_single_buffer_cycles_lie_above_their_bounds(arch: str, mma_k: int) -> None:
    spec = {"schedule": "single_buffer", "geometry": {**BF16, "MMA_K": mma_k}}
    compiled, machine = synchronize(build_schedule(spec)), target_for(arch)
    trace = simulate(compiled, machine, k_tiles=32)
    assert trace.iterations == 30
    cycles = machine.matrix_op(f"16x16x{mma_k}_f16").cycles.value
    mfma_bound = 16 * (64 // mma_k) * cycles
    lds_bound = 3 * (128 + 128) * 64 * 2 / machine.lds_bytes_per_clk.value
    assert trace.steady_cycles_per_iteration >= max(mfma_bound, lds_bound)
    assert any(row.waited_for.startswith("load staging0") for row in trace.stall_table())


def test_shallow_matrix_instructions_share_a_read() -> None:
    spec = {"schedule": "single_buffer", "geometry": {**BF16, "MMA_K": 16}}
    compiled = build_schedule(spec)
    programs = wave_programs(as_program(compiled, kernel_for(compiled), target_for("gfx942")))
    reads = [i for i in programs[0].loop if i.kind is Kind.LDS_READ]
    assert {i.bytes_per_lane for i in reads} == {16}
    assert len(reads) == 16


def test_counts_of_another_tile_are_nobodys() -> None:
    """Refused as a schedule; as a program it can be judged, and a note says why it has no time."""
    compiled = build_schedule({**_spec("ping_pong", BF16), "lgkm_a": 3})
    with pytest.raises(ConfigError, match="lgkm_per_load_a is 3"):
        simulate(compiled)
    with pytest.raises(ConfigError, match="lgkm_per_load_a is 3"):
        verify(compiled)
    program = as_program(compiled)
    assert any("lgkm_per_load_a is 3" in note for note in program.provenance.notes)
    with pytest.raises(ConfigError, match="no step of ping_pong"):
        simulate(program)


def test_a_single_buffer_without_a_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="no step of single_buffer"):
        simulate(build_schedule("single_buffer"))
