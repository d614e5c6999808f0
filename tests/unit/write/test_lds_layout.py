"""LDS layouts: free of conflicts, and the same on both sides of LDS-DMA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeloom.judge.simulate.bank_conflicts import bank_conflict
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.write import count_conflicts, layout_conflicts, layout_for
from pipeloom.write.layout import BitSwizzle, Swizzle, TileLayout, layout_across

ACROSS = [(64, 16, 16), (128, 16, 16), (512, 16, 16), (64, 32, 16), (128, 32, 16)]
ACROSS += [(256, 32, 16), (32, 16, 8), (64, 16, 8), (256, 16, 8), (64, 32, 8)]


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


@pytest.mark.parametrize(("row_bytes", "side", "bits"), ACROSS)
def test_rows_are_read_across_without_conflicts(row_bytes: int, side: int, bits: int) -> None:
    """Every lane's 64 bits, as the instruction gathers them: 16 lanes a block of 16 columns."""
    chip = target_for("gfx950")
    rows = 64 // bits
    deep = 32 * 16 // bits // (64 // side)

    def begins(at: int) -> Iterator[tuple[int, int]]:
        for lane in range(64):
            leader = lane - lane % 16
            row = leader // side * deep + at + lane % 16 * rows // 16
            yield row, (leader % side + lane * rows % 16) * bits // 8

    reads = tuple(tuple(begins(at)) for at in range(0, deep, rows))
    layout = layout_across(chip, row_bytes, reads)
    for read in reads:
        places = [layout.address(row, byte // 16) + byte % 16 for row, byte in read]
        assert bank_conflict(places, 8, chip) == 1


def test_panels_hold_every_chunk_once() -> None:
    layout = TileLayout(64, BitSwizzle((3, 1)), panel_rows=32)
    found = [layout.address(row, chunk) for row in range(32) for chunk in range(20)]
    assert sorted(found) == list(range(0, 32 * 20 * 16, 16))
    for row in range(32):
        for chunk in range(20):
            assert layout.source(layout.address(row, chunk) // 16) == (row, chunk)
