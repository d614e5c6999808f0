"""Declarations and values that contradict themselves: each must say what, and what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import (
    CompiledSchedule,
    ConfigError,
    DeclarativeSchedule,
    KernelGeometry,
    MMABlockSpec,
    OpDesc,
    OpRole,
    Pipeline4Wave,
    ScheduleConfig,
    StructureError,
    WarpStaggerRule,
    build_schedule,
    compile_schedule,
    mi355x_target,
)
from pipeloom.reference.schedules.four_wave import four_wave_config


class Bootstrapped(DeclarativeSchedule):
    """A schedule that asks for bootstrap fragments with a drained prologue."""

    def bootstrap_frags(self) -> list[OpDesc]:
        return [OpDesc(3, channel=0, role=OpRole.FRAGMENT_LOAD)]


def test_bootstrap_fragments_need_the_partial_drain() -> None:
    with pytest.raises(StructureError, match=r"bootstrap_frags\(\) gives 1 fragments") as caught:
        compile_schedule(Bootstrapped())
    assert "partial_prologue_drain=True" in (caught.value.hint or "")
    compile_schedule(Bootstrapped(config=ScheduleConfig(partial_prologue_drain=True)))


def test_a_fixed_stagger_lies_inside_the_prologue() -> None:
    target = mi355x_target().with_pipeline(warp_stagger=WarpStaggerRule.fixed(11))
    with pytest.raises(StructureError, match="fixed at 11, but the prologue has only 10"):
        compile_schedule(DeclarativeSchedule(target=target))
    inside = mi355x_target().with_pipeline(warp_stagger=WarpStaggerRule.fixed(10))
    assert compile_schedule(DeclarativeSchedule(target=inside)).warp_stagger_index == 10


@pytest.mark.parametrize(("enabled", "from_body"), [(False, False), (False, True), (True, True)])
def test_a_stagger_amount_that_nothing_uses(enabled: bool, from_body: bool) -> None:
    with pytest.raises(ConfigError, match="fixed_amount is 5, but nothing uses it"):
        WarpStaggerRule(enabled, from_body, 5)


def test_a_block_has_two_slots_of_each_kind() -> None:
    op = OpDesc(0)
    with pytest.raises(StructureError, match="holds 3 global loads"):
        MMABlockSpec(mma=op, loads=(op, op, op))
    with pytest.raises(StructureError, match="holds 3 fragment loads"):
        MMABlockSpec(mma=op, fragments=(op, op, op))


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule("ping_pong")


def test_an_order_is_a_permutation(compiled: CompiledSchedule) -> None:
    with pytest.raises(StructureError, match="not a permutation of the 24 ops"):
        replace(compiled, order=compiled.order[:-1])


def test_entries_are_numbered_within_their_phase(compiled: CompiledSchedule) -> None:
    with pytest.raises(StructureError, match=r"kernel\[0\] has time_slot 1"):
        replace(compiled, kernel=compiled.kernel[1:])
    with pytest.raises(StructureError, match="phase KERNEL"):
        replace(compiled, epilogue=compiled.kernel)


@pytest.mark.parametrize(
    ("elem_bytes", "shape", "mask"),
    [
        (2, {"BM": 256, "BK": 64, "MMA_K": 32}, 0xFF),
        (2, {"BM": 128, "BK": 64, "MMA_K": 32}, 0xFF),
        (2, {"BM": 64, "BK": 64, "MMA_K": 32}, 0),
        (1, {"BM": 256, "BK": 128, "MMA_K": 128}, 0),
    ],
)
def test_four_wave_knobs_follow_the_shape(
    elem_bytes: int, shape: dict[str, int], mask: int
) -> None:
    geometry = KernelGeometry.four_wave(BN=256, MMA_M=16, MMA_N=16, elem_bytes=elem_bytes, **shape)
    knobs = four_wave_config(geometry)
    assert knobs.sched_barrier_mask == mask
    assert knobs.wrap_waits_with_sched_barrier is bool(mask)
    compile_schedule(Pipeline4Wave(geometry, knobs))


def test_max_globals_follows_the_shape_unless_given() -> None:
    bf16 = {"schedule": "ping_pong", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}}
    fp8 = {"schedule": "ping_pong", "geometry": {"BK": 128, "MMA_K": 128, "elem_bytes": 1}}
    assert build_schedule(bf16).config.block_sizing.max_globals == 1
    assert build_schedule(fp8).config.block_sizing.max_globals == 0
    given = build_schedule(fp8, ["target.max_globals=1"])
    assert given.config.block_sizing.max_globals == 1
