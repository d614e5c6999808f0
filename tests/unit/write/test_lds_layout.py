"""LDS layouts: free of conflicts, and the same on both sides of LDS-DMA."""

from __future__ import annotations

import pytest

from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.write import count_conflicts, layout_conflicts, layout_for
from pipeloom.write.layout import Swizzle, TileLayout


@pytest.mark.parametrize("target", [t.arch for t in TARGETS])
@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("row_bytes", [64, 128, 256, 512])
def test_fragment_reads_are_free_of_conflicts(target: str, side: int, row_bytes: int) -> None:
    chip = target_for(target)
    layout = layout_for(chip, row_bytes, side)
    assert layout_conflicts(layout, chip, side) == 0


@pytest.mark.parametrize("target", [t.arch for t in TARGETS])
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
def test_without_swizzle_there_are_conflicts(target: str, row_bytes: int) -> None:
    plain = TileLayout(row_bytes, Swizzle(row_shift=0, mask=0))
    assert layout_conflicts(plain, target_for(target), 16) > 0


@pytest.mark.parametrize("target", [t.arch for t in TARGETS])
def test_contiguous_writes_are_free_of_conflicts(target: str) -> None:
    assert count_conflicts([16 * lane for lane in range(64)], target_for(target)) == 0


def test_conflicts_are_counted_in_extra_cycles() -> None:
    chip = target_for("gfx950")
    assert count_conflicts([0] * 64, chip) == 0  # one address: a broadcast
    assert count_conflicts([256 * lane for lane in range(64)], chip) == 4 * 15
    two_way = [16 * (lane % 8) + 256 * (lane // 8) for lane in range(64)]
    assert count_conflicts(two_way, chip) > 0


@pytest.mark.parametrize("target", [t.arch for t in TARGETS])
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
def test_each_position_holds_the_chunk_that_is_read_there(target: str, row_bytes: int) -> None:
    layout = layout_for(target_for(target), row_bytes, 16)
    places = {layout.address(row, chunk) for row in range(64) for chunk in range(layout.chunks)}
    assert places == set(range(0, 64 * row_bytes, 16))
    for position in range(64 * layout.chunks):
        row, chunk = layout.source(position)
        assert layout.address(row, chunk) == 16 * position


@pytest.mark.parametrize("blocks", [2, 4])
def test_a_chunk_of_short_runs_holds_what_two_instructions_take(blocks: int) -> None:
    """Lane ``g`` of a row reads chunk ``g``: the ``g``-th 8 bytes of the first K, and the next."""
    layout = TileLayout(128, Swizzle(0, 0), blocks=blocks)
    assert [layout.byte_at(layout.lies(byte)) for byte in range(128)] == list(range(128))
    for chunk in range(8):
        unit, lane = divmod(chunk, blocks)
        held = [layout.byte_at(16 * chunk + at) for at in range(16)]
        first = 16 * blocks * unit + 8 * lane
        second = first + 8 * blocks
        assert held == [*range(first, first + 8), *range(second, second + 8)]
