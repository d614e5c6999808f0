"""The single-buffered matmul of section 3."""

from __future__ import annotations

from typing import Any

import pytest

from pipeloom import (
    AMDScheduleHints,
    ConfigError,
    OpDesc,
    OpRole,
    OpTag,
    ScheduleConfig,
    SingleBufferSchedule,
    build_schedule,
    compile_schedule,
    mi355x_single_buffer,
)
from pipeloom.reference.schedules.single_buffer import single_buffer_shape


def test_defaults() -> None:
    schedule = SingleBufferSchedule()
    assert schedule.num_k_tiles == 2
    assert schedule.hints == AMDScheduleHints()
    assert schedule.config() == mi355x_single_buffer()
    assert schedule.schedule_config() == ScheduleConfig()
    assert schedule.name == "single_buffer"


def test_logical_body() -> None:
    assert SingleBufferSchedule(2).declare_ops() == [
        OpDesc.logical(0, channel=0),
        OpDesc.logical(1, channel=0),
        OpDesc.barrier(),
        OpDesc.logical(2, channel=0, subtile=0),
        OpDesc.logical(2, channel=0, subtile=1),
        OpDesc.logical(3, subtile=0),
        OpDesc.logical(3, subtile=1),
    ]


@pytest.mark.parametrize("tiles", [1, 2, 4])
def test_hints_follow_the_body(tiles: int) -> None:
    hints = AMDScheduleHints(k_mmas=tiles)
    compiled = compile_schedule(SingleBufferSchedule(tiles, hints))
    body_size = 2 + 2 + 2 * tiles
    assert len(compiled.body) == body_size
    tail = compiled.kernel[body_size:]
    assert {e.op.tag for e in tail} == {OpTag.SCHED_GROUP_BARRIER}
    assert len(tail) == hints.pattern_length(tiles)


def test_one_tile_has_only_a_carried_fragment() -> None:
    body = SingleBufferSchedule(1).build_body()
    assert [op.role.name for op in body][:2] == ["COMPUTE", "SYNC"]
    assert body[-1].role is OpRole.FRAGMENT_LOAD


BF16 = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}


def test_no_geometry_changes_nothing() -> None:
    plain = build_schedule("single_buffer")
    assert plain.geometry is None
    assert plain.config == mi355x_single_buffer()


def test_the_default_tile_is_128_by_128() -> None:
    shape = build_schedule({"schedule": "single_buffer", "geometry": BF16}).geometry
    assert shape == single_buffer_shape(BM=128, BN=128, **BF16)
    assert (shape.vm_per_load_a, shape.lgkm_per_load_a) == (4, 4)


def test_given_counts_win_over_derived_ones() -> None:
    geometry = {**BF16, "vm_per_load_a": 7, "lgkm_per_load_b": 9}
    config = build_schedule({"schedule": "single_buffer", "geometry": geometry}).config
    assert (config.vm_per_load_a, config.lgkm_per_load_a) == (7 + 4, 4 + 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"BM": 48}, r"BM \(48\) is not a positive multiple of 2 waves \* MMA_M \(32\)"),
        ({"BN": 16}, r"BN \(16\) is not a positive multiple of 2 waves \* MMA_N \(32\)"),
        ({"BK": 96}, r"BK \(96\) is not a positive multiple of num_k_tiles \* MMA_K \(64\)"),
        ({"BK": 32, "MMA_K": 16}, r"bytes of a K step in a row \(32\) is not .* \(64\)"),
        ({"elem_bytes": 3}, r"16-byte load \(16\) is not a positive multiple of elem_bytes"),
        ({"BK": 1024}, r"128x128x1024 tile takes 524288 bytes of LDS, over the limit"),
        ({"MMA_M": 128, "BM": 256}, "MMA_M is 128"),
        ({"BK": 0}, "BK is 0"),
    ],
)
def test_shapes_that_do_not_divide_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_schedule({"schedule": "single_buffer", "geometry": {**BF16, **change}})


def test_a_geometry_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="geometry"):
        SingleBufferSchedule(geometry="128x128")  # type: ignore[arg-type]
