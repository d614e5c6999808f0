"""The single-buffered matmul of section 3."""

from __future__ import annotations

import pytest

from pipeloom import (
    AMDScheduleHints,
    OpDesc,
    OpRole,
    OpTag,
    ScheduleConfig,
    SingleBufferSchedule,
    compile_schedule,
    mi355x_single_buffer,
)


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
