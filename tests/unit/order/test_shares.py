"""How waves and quadrants divide dimensions."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import F32
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.matrix_choice import granules, products
from pipeloom.order.shares import Shares, divide, part_of, piece_name
from pipeloom.program.meaning import Meaning
from pipeloom.program.tiles import overlap


def shares_of(
    meaning: Meaning, waves: int | dict[str, int], quadrants: int | None = None
) -> Shares:
    return divide(meaning, waves, granules(meaning, products(meaning, GFX950)), quadrants)


@pytest.mark.parametrize(
    ("waves", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (8, (2, 4)), (16, (4, 4))]
)
def test_the_usual_grids(waves: int, grid: tuple[int, int]) -> None:
    shares = shares_of(gemm().meaning, waves)
    assert (shares["m"].waves, shares["n"].waves) == grid
    assert shares.waves == waves


def test_waves_stand_where_they_fit() -> None:
    shares = shares_of(gemm(16, 256, 32).meaning, 4)
    assert (shares["m"].waves, shares["n"].waves) == (1, 4)


def test_quadrants_where_the_share_allows() -> None:
    assert shares_of(gemm(256, 256, 64).meaning, 4)["m"].quadrants == 2
    narrow = shares_of(gemm(32, 256, 64).meaning, 4)
    assert (narrow["m"].quadrants, narrow["n"].quadrants) == (1, 2)
    assert shares_of(gemm(256, 256, 64).meaning, 4, 4)["n"].quadrants == 4
    assert shares_of(row_sum().meaning, 1)["n"].quadrants == 1


def test_shares_tile_the_dimensions() -> None:
    shares = shares_of(gemm(128, 256, 64).meaning, 8)
    boxes = [box for piece in shares.pieces(("m", "n")) for box in shares.boxes(("m", "n"), piece)]
    assert len(boxes) == 4 * 8
    assert sum((b - a) * (d - c) for (a, b), (c, d) in boxes) == 128 * 256
    assert all(a is b or overlap(a, b) is None for a in boxes for b in boxes)


def test_a_piece_is_all_waves_quadrant() -> None:
    shares = shares_of(gemm(256, 256, 64).meaning, 4)
    assert shares.whole(("m", "k"), (("m", 1),)) == ((128, 256), (0, 64))
    assert shares.boxes(("m", "k"), (("m", 1),))[0] == ((128, 192), (0, 64))
    assert part_of((("m", 1), ("n", 0)), ("n", "k")) == (("n", 0),)
    assert piece_name((("m", 1), ("n", 0))) == "10"


def test_waves_do_not_repeat_a_product() -> None:
    """Along v, waves of attention would compute the same scores."""
    assert shares_of(attention().meaning, 4).divided == ("q",)


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"gemm: 3 waves cannot share the work.*do not divide"):
        shares_of(gemm(64, 64, 32).meaning, 3)
    with pytest.raises(ConfigError, match="4 waves along 'k' cannot share it: it is reduced"):
        shares_of(gemm().meaning, {"k": 4})
    with pytest.raises(ConfigError, match="no value of gemm has that dimension"):
        shares_of(gemm().meaning, {"q": 4})
    with pytest.raises(ConfigError, match="it has 64, and shares are multiples of 16") as caught:
        shares_of(gemm(64, 64, 32).meaning, {"m": 8})
    size = int((caught.value.hint or "").split("multiple of ")[1].split(",")[0])
    assert shares_of(gemm(size, 64, 32).meaning, {"m": 8}).divided == ("m",)
    with pytest.raises(ConfigError, match="3 quadrants do not divide m = 256"):
        shares_of(gemm().meaning, 4, 3)
    with pytest.raises(ConfigError, match="waves is 0"):
        shares_of(gemm().meaning, 0)
    for wrong in (0, -2, True):
        with pytest.raises(ConfigError, match=f"m is {wrong}") as caught:
            shares_of(gemm().meaning, {"m": wrong})
        assert caught.value.field == "pipeline.waves.m"


def test_a_reduced_dimension_stays_whole() -> None:
    loop = gemm(16, 16, 32)
    with pytest.raises(ConfigError, match="4 waves cannot share the work"):
        shares_of(loop.meaning, 4)


def test_waves_along_a_dimension_of_two() -> None:
    loop = Loop("pairs", over="k")
    total = loop.carry("total", b=2, n=64)
    total += loop.stream("X", "f32", k=4, b=2, n=64).sum("k")
    loop.store("out", total)
    assert shares_of(loop.meaning, {"b": 2}).divided == ("b",)


def test_waves_have_whole_groups_or_a_group_whole_waves() -> None:
    """48 columns of 96 begin within a group of 32: the second wave's groups end elsewhere."""

    def grouped(n: int, size: int) -> Meaning:
        loop = Loop("grouped", over="r")
        x = loop.stream("X", "f32", r=1, n=n)
        loop.store("out", x * loop.stream("S", F32.per(size), r=1, n=n))
        return loop.meaning

    assert shares_of(grouped(128, 32), {"n": 8})["n"].share == 16
    assert shares_of(grouped(96, 32), {"n": 3})["n"].share == 32
    for n, size, waves in ((96, 32, 2), (384, 128, 2), (32, 64, 1)):
        with pytest.raises(ConfigError, match="an element for") as found:
            shares_of(grouped(n, size), {"n": waves})
        assert f"multiple of {size}" in str(found.value.hint)
