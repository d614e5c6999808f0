"""The table of KERNELS.md section 2, and how the kernels walk the phases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import CompiledSchedule, ConfigError, OpRole, Phase, build_schedule
from pipeloom.reference.kernels import (
    EntryRun,
    Kernel,
    LdsRegion,
    OpEffect,
    Part,
    RegisterSet,
    WaitCounter,
    kernel_for,
)
from pipeloom.reference.ops import OpTag


def ops(compiled: CompiledSchedule, kernel: Kernel, wave: int, trips: int = 1) -> list[EntryRun]:
    return [s for s in kernel.walk(compiled, wave, trips) if not s.op.is_framework]


def fragment(kernel: Kernel, steps: list[EntryRun], tag: int, sub: int, wave: int) -> OpEffect:
    step = next(s for s in steps if s.op.tag == tag and s.op.subtile == sub and s.op.stage == 0)
    return kernel.effect(step, wave)


@pytest.mark.parametrize("wave", range(8))
def test_ping_pong_fragments(wave: int) -> None:
    compiled = build_schedule("ping_pong")
    kernel = kernel_for(compiled)
    steps = ops(compiled, kernel, wave)
    wm, wn = divmod(wave, 4)
    for quadrant in range(2):
        (a,) = fragment(kernel, steps, 3, quadrant, wave).lds_reads
        assert a == (LdsRegion("A", 0, wm), Part(quadrant, 2))
        (b,) = fragment(kernel, steps, 4, quadrant, wave).lds_reads
        assert b == (LdsRegion("B", 0, wn // 2), Part(2 * (wn % 2) + quadrant, 4))


@pytest.mark.parametrize("wave", range(4))
def test_four_wave_fragments(wave: int) -> None:
    compiled = build_schedule("four_wave")
    kernel = kernel_for(compiled)
    steps = ops(compiled, kernel, wave)
    wm, wn = divmod(wave, 2)
    for quadrant in range(2):
        (a,) = fragment(kernel, steps, 3, quadrant, wave).lds_reads
        assert a == (LdsRegion("A", 0, quadrant), Part(wm, 2))
        (b,) = fragment(kernel, steps, 4, quadrant, wave).lds_reads
        assert b == (LdsRegion("B", 0, quadrant), Part(wn, 2))


@pytest.mark.parametrize("name", ["ping_pong", "four_wave"])
def test_fragments_tile_each_half_and_cover_the_block(name: str) -> None:
    """Each operand's rows are read completely, each by as many waves as stand beside it."""
    compiled = build_schedule(name)
    kernel = kernel_for(compiled)
    for tag, beside in ((3, kernel.waves // 2), (4, 2)):
        rows = [0] * 16  # sixteenths of the operand
        for wave in range(kernel.waves):
            steps = ops(compiled, kernel, wave)
            for quadrant in range(2):
                (read,) = fragment(kernel, steps, tag, quadrant, wave).lds_reads
                width = 8 // read.part.of
                start = 8 * read.region.half + width * read.part.number
                for row in range(start, start + width):
                    rows[row] += 1
        assert rows == [beside] * 16


def test_loads_and_mmas() -> None:
    compiled = build_schedule("ping_pong")
    kernel = kernel_for(compiled)
    steps = ops(compiled, kernel, 0, trips=2)
    loads = [s for s in steps if s.op.role is OpRole.GLOBAL_LOAD]
    for step in loads:
        effect = kernel.effect(step, 0)
        operand = "AB"[step.op.tag]
        assert effect.counter is WaitCounter.VM
        assert effect.entries == compiled.config.vm_per_load_a
        assert effect.lds_writes == (LdsRegion(operand, step.op.stage, step.op.subtile),)
        assert effect.tile == step.tile
    mma = next(s for s in steps if (s.op.tag, s.op.stage, s.op.subtile) == (5, 0, 1))
    assert kernel.effect(mma, 0).register_reads == (RegisterSet("A", 0), RegisterSet("B", 1))
    assert str(kernel.effect(mma, 0).accumulator) == "C(0, 1)"


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_every_k_tile_is_loaded_once_per_region(name: str, trips: int) -> None:
    compiled = build_schedule(name)
    kernel = kernel_for(compiled)
    tiles: dict[tuple[int, int], list[int]] = {}
    for step in ops(compiled, kernel, 0, trips):
        if step.op.role is OpRole.GLOBAL_LOAD:
            assert step.tile is not None
            tiles.setdefault((step.op.tag, step.op.subtile), []).append(step.tile)
    for brought in tiles.values():
        assert sorted(brought) == list(range(kernel.tiles(trips)))


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
@pytest.mark.parametrize("trips", [0, 1, 4])
def test_all_waves_execute_the_same_number_of_barriers(name: str, trips: int) -> None:
    compiled = build_schedule(name)
    kernel = kernel_for(compiled)
    counts = {
        sum(s.op.tag == OpTag.BARRIER for s in kernel.walk(compiled, wave, trips))
        for wave in range(kernel.waves)
    }
    assert len(counts) == 1


def test_the_stagger_and_the_extra_barriers() -> None:
    compiled = build_schedule("ping_pong")
    kernel = kernel_for(compiled)
    early, late = (kernel.walk(compiled, wave, 1) for wave in (0, 4))
    assert [s.origin for s in early if s.origin] == ["after the prologue", "closing"]
    assert [s.origin for s in late if s.origin] == ["stagger", "after the prologue"]
    stagger = next(s for s in late if s.origin == "stagger")
    assert stagger.index == compiled.warp_stagger_index
    assert early[-1].origin == "closing"
    off = replace(compiled, warp_stagger_index=len(compiled.prologue) + 1)
    for wave in (0, 4):
        own = [s.origin for s in kernel.walk(off, wave, 1) if s.origin]
        assert own == ["after the prologue"]


def test_slots_are_places_in_the_phase() -> None:
    compiled = build_schedule("ping_pong")
    kernel = kernel_for(compiled)
    for step in kernel.walk(compiled, 4, 2):
        if not step.origin:
            assert compiled.phase(step.phase)[step.slot].op is step.op
            assert (step.iteration is None) == (step.phase is not Phase.KERNEL)


def test_lgkm_costs_come_from_the_pipeline_then_the_scheduler_then_are_one() -> None:
    unset = build_schedule("ping_pong", ["lgkm_a=0", "lgkm_b=0"])
    given = build_schedule("ping_pong", ["lgkm_a=8", "lgkm_b=4"])
    for compiled, expected in ((unset, (1, 1)), (given, (8, 4))):
        kernel = kernel_for(compiled)
        steps = ops(compiled, kernel, 0)
        found = tuple(fragment(kernel, steps, tag, 0, 0).entries for tag in (3, 4))
        assert found == expected


def test_single_buffer_data_flow() -> None:
    compiled = build_schedule("single_buffer")
    kernel = kernel_for(compiled)
    effects = {s.op.role: kernel.effect(s, 0) for s in reversed(ops(compiled, kernel, 0))}
    assert effects[OpRole.GLOBAL_LOAD].register_writes == (RegisterSet("staging", 0),)
    assert effects[OpRole.SHARED_STORE].register_reads == (RegisterSet("staging", 0),)
    assert len(effects[OpRole.SHARED_STORE].lds_writes) == len(kernel.accumulators())
    assert effects[OpRole.SHARED_STORE].counter is WaitCounter.LGKM
    assert effects[OpRole.COMPUTE].counter is None


def test_rejections() -> None:
    compiled = build_schedule("ping_pong")
    kernel = kernel_for(compiled)
    step = ops(compiled, kernel, 0)[0]

    def reject(match: str, **changes: object) -> None:
        op = replace(step.op, **changes)  # type: ignore[arg-type]
        tile = None if "k_offset" in changes else step.tile
        with pytest.raises(ConfigError, match=match):
            kernel.effect(replace(step, op=op, tile=tile), 0)

    reject("has no place for", stage=2)
    reject("has no place for", subtile=3)
    reject("of role VALU_COMPUTE touches", role=OpRole.VALU_COMPUTE)
    reject("which K tile", k_offset=type(step.op.k_offset).NONE)
    single = build_schedule("single_buffer")
    model = kernel_for(single)
    load = ops(single, model, 0)[0]
    steps = len(model.accumulators())
    for subtile in (steps, 99):
        with pytest.raises(ConfigError, match=f"K steps count 0 to {steps - 1}"):
            model.effect(replace(load, op=replace(load.op, subtile=subtile)), 0)
    with pytest.raises(ConfigError, match="single_buffer kernel does not know"):
        model.effect(replace(load, op=replace(load.op, role=OpRole.VALU_COMPUTE)), 0)
    with pytest.raises(ConfigError, match=r"mine says itself what its ops touch, in its kernel"):
        kernel_for(replace(compiled, schedule="mine", own_kernel=True))
