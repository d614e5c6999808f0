"""Hints on block sizing: what they advise works, and is never what is set already."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from pipeloom import (
    BlockSizing,
    KOffsetKind,
    OpDesc,
    OpRole,
    PipelineConfig,
    ScheduleConfig,
    StructureError,
    WarpStaggerRule,
    build_kernel_program,
    double_buffer_reorder,
    mi355x_double_buffer,
)

K0, K_PREV = KOffsetKind.K0, KOffsetKind.K_PREV
BASE = replace(mi355x_double_buffer(), warp_stagger=WarpStaggerRule.none())


def half(number: int, loads: int, config: PipelineConfig) -> list[OpDesc]:
    rows, columns = range(config.m_mmas), range(config.n_mmas)
    fan = [OpDesc(3, number, r, role=OpRole.FRAGMENT_LOAD, channel=0) for r in rows]
    fan += [OpDesc(4, number, c, role=OpRole.FRAGMENT_LOAD, channel=1) for c in columns]
    brought = [OpDesc(0, 1 - number, 0, K_PREV, role=OpRole.GLOBAL_LOAD, channel=0)]
    brought += [
        OpDesc(1, number, sub, K0, role=OpRole.GLOBAL_LOAD, channel=1) for sub in range(loads - 1)
    ]
    grid = [OpDesc(5, r, c, role=OpRole.COMPUTE) for r in rows for c in columns]
    return brought + fan + grid


def failure(loads: int, config: PipelineConfig) -> StructureError | None:
    body = half(0, loads, config) + half(1, loads, config)
    try:
        build_kernel_program(double_buffer_reorder(body, config), config, ScheduleConfig())
    except StructureError as error:
        return error
    return None


def advised(hint: str, sizing: BlockSizing) -> BlockSizing | None:
    roomy = re.search(r"BlockSizing\((\d), (\d), max_globals=2\)", hint)
    if roomy:
        return BlockSizing(int(roomy[1]), int(roomy[2]), 2)
    if "max_globals=1" in hint:
        return replace(sizing, max_globals=1)
    return None


@pytest.mark.parametrize("grid", [(2, 2), (3, 2), (1, 3)])
def test_advice_works_and_is_new(grid: tuple[int, int]) -> None:
    config = replace(BASE, m_mmas=grid[0], n_mmas=grid[1])
    blocks = config.blocks_per_partition()
    failures = 0
    for heavy, light, limit in product((1, 3, 4, 5, 6, 8), (1, 2, 3, 5), (0, 1, 2)):
        sizing = BlockSizing(heavy, light, limit)
        for loads in range(2, 2 * blocks + 3):
            sized = replace(config, block_sizing=sizing)
            error = failure(loads, sized)
            if error is None:
                continue
            failures += 1
            if loads > 2 * blocks:
                assert "declare more MMAs" in (error.hint or "")
                continue
            new = advised(error.hint or "", sizing)
            assert new is not None, (sizing, loads, error)
            assert new != sizing
            assert failure(loads, replace(sized, block_sizing=new)) is None
    assert failures > 20


def test_where_the_sizing_has_room_the_order_is_to_blame() -> None:
    load = OpDesc(1, 0, 0, K0, role=OpRole.GLOBAL_LOAD, channel=1)
    mma = OpDesc(5, role=OpRole.COMPUTE)
    config = replace(BASE, block_sizing=BlockSizing(4, 2, 1))
    with pytest.raises(StructureError, match="block 0 holds 3 global loads") as caught:
        build_kernel_program([load, load, load, *[mma] * 8], config, ScheduleConfig())
    hint = caught.value.hint or ""
    assert "max_globals" not in hint
    assert "double_buffer_reorder" in hint
    assert "fit_blocks=True" in hint


@pytest.mark.parametrize(
    "step",
    [
        lambda body: double_buffer_reorder(body, BASE),
        lambda body: build_kernel_program(body, BASE, ScheduleConfig()),
    ],
)
def test_a_body_without_costs_is_sent_to_annotate_ops(
    step: Callable[[list[OpDesc]], object],
) -> None:
    with pytest.raises(StructureError) as caught:
        step([OpDesc.logical(0), OpDesc.logical(5)] * 2)
    assert "annotate_ops" in (caught.value.hint or "")
