"""The registry of schedules, and the parts their spec forms share."""

from __future__ import annotations

import pytest

from pipeloom import (
    BlockSizing,
    ConfigError,
    FragOrder,
    KernelGeometry,
    mi355x_single_buffer_target,
    mi355x_target,
)
from pipeloom.reference.schedules import SCHEDULES, summary
from pipeloom.reference.schedules.spec_parts import GeometrySpec, SingleBufferTargetSpec, TargetSpec

SHAPE = KernelGeometry.ping_pong(BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)


def test_registry() -> None:
    assert list(SCHEDULES)[:3] == ["ping_pong", "four_wave", "single_buffer"]
    for name, form in SCHEDULES.items():
        assert form().build().name == name
        assert summary(form)
        assert "\n" not in summary(form)


def test_target_defaults_are_the_profiles() -> None:
    assert TargetSpec().build() == mi355x_target()
    assert SingleBufferTargetSpec().build() == mi355x_single_buffer_target()


def test_target_overrides() -> None:
    target = TargetSpec(
        vm_per_load_a=1,
        block_sizing=BlockSizing(9, 8, 0),
        frag_order=FragOrder.a_first(),
        latency={"MMA": 5},
    ).build(SHAPE)
    pipeline = target.pipeline
    assert (pipeline.vm_per_load_a, pipeline.vm_per_load_b) == (1, 2)
    assert pipeline.block_sizing == BlockSizing(9, 8, 0)
    assert pipeline.frag_order == FragOrder.a_first()
    assert target.cost_model.cost(5).latency == 5


def test_max_globals_may_be_given_twice_if_equal() -> None:
    sizing = BlockSizing(4, 2, 2)
    target = TargetSpec(max_globals=2, block_sizing=sizing).build()
    assert target.pipeline.block_sizing == sizing
    with pytest.raises(ConfigError, match=r"target\.max_globals is 1, but .* is 2"):
        TargetSpec(max_globals=1, block_sizing=sizing).build()


def test_geometry_derives_what_is_missing_and_keeps_what_is_given() -> None:
    spec = GeometrySpec(BK=64, MMA_K=32, elem_bytes=2)
    assert spec.build(KernelGeometry.ping_pong) == SHAPE
    given = GeometrySpec(BK=64, MMA_K=32, elem_bytes=2, lgkm_per_load_a=3)
    assert given.build(KernelGeometry.ping_pong).lgkm_per_load_a == 3
    assert given.build(KernelGeometry.ping_pong).lgkm_per_load_b == 4


def test_a_geometry_given_in_full_is_taken_as_it_is() -> None:
    """Even a shape that no kernel could derive: hand-written counts are the author's."""
    full = GeometrySpec(
        BM=3,
        BN=5,
        BK=7,
        MMA_K=32,
        elem_bytes=2,
        simd_width=8,
        is_fp8=False,
        vm_per_load_a=1,
        vm_per_load_b=2,
        lgkm_per_load_a=3,
        lgkm_per_load_b=4,
    )
    geometry = full.build(KernelGeometry.four_wave)
    assert (geometry.BM, geometry.lgkm_per_load_b) == (3, 4)
