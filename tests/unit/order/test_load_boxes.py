"""Loads of a tile cover each of its elements once, in instructions of the size that they have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pipeloom.machine.dtypes import DType, dtype_for
from pipeloom.machine.target import REGISTER_BYTES
from pipeloom.order.load_boxes import LoadBox, even_rows, fills_no_load, load_boxes


def times_covered(shape: tuple[int, ...], loads: list[LoadBox]) -> set[int]:
    count = np.zeros(shape, int)
    for load in loads:
        count[tuple(slice(*side) for side in load.box)] += 1
    return set(count.ravel().tolist())


def volume(load: LoadBox) -> int:
    return int(np.prod([end - begin for begin, end in load.box]))


@pytest.mark.parametrize("name", ["bf16", "fp8", "f32", "fp4"])
@pytest.mark.parametrize("lanes", [64, 256])
def test_every_element_once(name: str, lanes: int) -> None:
    dtype: DType = dtype_for(name)
    found = {"none": 0, "rows": 0, "panels": 0}
    rows = (1, 2, 8, 16, 24, 32, 64, 96, 128, 256)
    for high, wide, widest in product(rows, (2, 8, 16, 32, 48, 64, 96, 208, 256), (4, 16)):
        loads = load_boxes((high, wide), dtype, lanes, widest)
        if not loads:
            found["none"] += 1
            continue
        assert times_covered((high, wide), loads) == {1}, (high, wide, widest)
        assert not fills_no_load((high, wide), dtype, lanes)
        for load in loads:
            assert load.entries == 1
            assert load.width in (REGISTER_BYTES, widest)
            assert dtype.bytes(volume(load)) == lanes * load.width
        whole = all(load.box[1] == (0, wide) for load in loads)
        found["rows" if whole else "panels"] += 1
        if not whole:
            assert dtype.bytes(wide) & (dtype.bytes(wide) - 1)
    assert found["none"]
    assert found["rows"]
    assert found["panels"]


@pytest.mark.parametrize(("count", "short"), [(1, True), (16, True), (48, False), (128, False)])
def test_a_row_that_is_less_than_a_load_comes_several_times(count: int, short: bool) -> None:
    dtype = dtype_for("f32")
    assert fills_no_load((count,), dtype, 64) is short
    if short:
        assert load_boxes((count,), dtype, 64, 16) == [LoadBox(((0, count),), 1, 4)]
    assert not fills_no_load((1,), dtype_for("bf16"), 64)


@pytest.mark.parametrize(
    ("rows", "entries", "groups"), [*product((1, 6, 8, 64), (1, 3, 4), (1, 2))]
)
def test_a_tile_in_even_rows(rows: int, entries: int, groups: int) -> None:
    loads = even_rows(LoadBox(((0, rows), (0, 8)), entries, 16), groups)
    assert times_covered((rows, 8), loads) == {1}
    assert len({volume(load) for load in loads}) == 1
    assert sum(load.entries for load in loads) >= entries
    wanted = entries if rows % entries == 0 else groups if rows % groups == 0 else 1
    assert len(loads) == wanted
