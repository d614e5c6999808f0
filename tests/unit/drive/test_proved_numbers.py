"""Kernels that were PROVED and computed other numbers: what an adversary found, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.declare.loop import Loop
from pipeloom.order.in_order import in_order

pytestmark = pytest.mark.usefixtures("short_search")

CHIPS = ("gfx942", "gfx950")


@pytest.mark.parametrize(
    ("chip", "dtype"),
    [("gfx942", pl.FP8), ("gfx942", pl.BF8), ("gfx950", pl.FP8_FNUZ), ("gfx950", pl.BF8_FNUZ)],
)
def test_floats_of_another_chip_are_refused(chip: str, dtype: pl.DType) -> None:
    """The instruction of the same name reads the chip's own: half, or twice the number."""
    with pytest.raises(pl.ScheduleError, match=f"{chip} converts no {dtype.name}") as caught:
        pl.pipeline(pl.kernels.gemm_weights(32, 32, 64, dtype, out=pl.F32), chip, waves=4)
    assert caught.value.field == "B"
    loop = Loop("plain", over="r")
    loop.store("out", loop.stream("X", dtype, r=1, n=256) * 2.0)
    with pytest.raises(pl.ScheduleError, match="8-bit floats are"):
        pl.pipeline(loop, chip, waves=1)


@pytest.mark.parametrize("chip", CHIPS)
def test_one_byte_to_a_register_is_a_number(chip: str) -> None:
    loop = Loop("bytes", over="r")
    loop.store("out", loop.stream("U", pl.U8, r=1, n=64) * 1.0)
    kernel = pl.emit(pl.pipeline(loop, chip, waves=1, strategy=in_order))
    given = np.arange(8 * 64).reshape(8, 64).astype(np.float32) % 256
    trial = pl.run(kernel, sizes={"r": 8, "n": 64}, arrays={"U": given})
    np.testing.assert_array_equal(trial.outputs["out"], given)


def placed(rows: tuple[int, ...]) -> Loop:
    """Columns of two digits, or rows of a fixed one behind which the array goes on."""
    loop = Loop("placed", over="k")
    x = loop.stream("X", pl.BF16, m=32, k=64)
    f = loop.stream("F", pl.BF16, n=32, k=64)
    i, c = pl.digit("i", "images"), pl.digit("c", 64)
    if rows:
        r = pl.digit("r", *rows)
        loop.place("X", m=(i, r), k=(c,), images=i, taps=r, ch=c)
    else:
        r = pl.digit("r", 2)
        loop.place("X", m=(i,), k=(r, c), images=i, taps=r, ch=c)
    total = loop.carry("total", m=32, n=32)
    total += x.staged() @ f.staged()
    loop.store("out", total)
    return loop


@pytest.mark.parametrize("rows", [(), (3,)])
def test_rows_that_lie_apart_are_no_matrix(rows: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (8, 4 if rows else 2, 64)).astype(np.float32)
    meant = x[:, :3].reshape(24, 64) if rows else x.reshape(8, 128)
    f = rng.integers(-3, 4, (5, meant.shape[1])).astype(np.float32)
    kernel = pl.emit(pl.pipeline(placed(rows), "gfx950", waves=4, strategy=in_order))
    sizes = {"images": 8, "taps": x.shape[1], "ch": 64, "n": 5}
    trial = pl.run(kernel, sizes=sizes, arrays={"X": x, "F": f})
    np.testing.assert_array_equal(trial.outputs["out"], meant @ f.T)


@pytest.mark.parametrize("rows", [1, 6, 8])
def test_the_last_tile_is_reduced_as_far_as_it_goes(rows: int) -> None:
    """Each iteration stores its own rows less their largest: zeros behind the last are none."""
    loop = Loop("chunks", over="k")
    x = loop.stream("X", pl.F32, b=1, k=4, n=256)
    loop.store("out", x - x.max("k"))
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    given = -np.random.default_rng(0).integers(1, 9, (1, rows, 256)).astype(np.float32)
    tiles = [given[:, at : at + 4] for at in range(0, rows, 4)]
    meant = np.concatenate([tile - tile.max(axis=1, keepdims=True) for tile in tiles], axis=1)
    trial = pl.run(kernel, sizes={"b": 1, "k": rows, "n": 256}, arrays={"X": given})
    np.testing.assert_array_equal(trial.outputs["out"], meant)
