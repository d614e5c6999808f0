"""Weights and scales in blocks, from memory to registers, against NumPy written apart."""

from __future__ import annotations

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.drive.deriving import derive
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.order.in_order import in_order
from pipeloom.write import assemble

DECODED = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""The codes of e2m1 (OCP microscaling)."""


def weights_in_blocks(matrix: np.ndarray, chunk: int) -> np.ndarray:
    """AITER's order: 16 rows of ``chunk`` elements."""
    n, k = matrix.shape
    return matrix.reshape(n // 16, 16, k // chunk, chunk).transpose(0, 2, 1, 3)


def scales_in_blocks(codes: np.ndarray) -> np.ndarray:
    """AITER's order of scales: 32 rows by 8 codes, two by two in a dword."""
    rows, count = codes.shape
    cut = codes.reshape(rows // 32, 2, 16, count // 8, 2, 4)
    return cut.transpose(0, 3, 5, 2, 4, 1)


def spread(exponents: np.ndarray) -> np.ndarray:
    """Scales in blocks, one for each element; behind the last row a large one."""
    whole = scales_in_blocks(padded(2.0**exponents, 32, 2.0**40))
    return np.repeat(whole[..., None], 32, axis=-1)


def padded(array: np.ndarray, rows: int, fill: float) -> np.ndarray:
    return np.pad(array, [(0, -len(array) % rows), (0, 0)], constant_values=fill)


@pytest.fixture(scope="module")
def mx() -> Launchable:
    loop = pl.kernels.gemm_mx(64, 128, 256, out="f32")
    derived = derive(loop, "gfx950", {"m": 1, "n": 2}, orders=1)
    assert derived is not None
    emitted = pl.emit(derived.program)
    assert emitted.status.name == "PROVED"
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize(("m", "n"), [(64, 128), (33, 130), (1, 5), (0, 16)])
def test_mx_product_of_shuffled_weights_and_scales(mx: Launchable, m: int, n: int) -> None:
    rng = np.random.default_rng([m, n])
    k = mx.emitted.k_min
    a, b = (DECODED[rng.integers(0, 16, (rows, k))] for rows in (m, n))
    by_a, by_b = (rng.integers(-3, 4, (rows, k // 32)) for rows in (m, n))
    expected = (a * np.repeat(2.0**by_a, 32, 1)) @ (b * np.repeat(2.0**by_b, 32, 1)).T
    trial = run_program(
        mx.emitted,
        mx,
        sizes={"m": m, "n": n, "k": k},
        arrays={
            "A": a,
            "B": weights_in_blocks(padded(b, 16, 7), 32),
            **{
                name: np.repeat(
                    scales_in_blocks(padded(2.0**codes, 32, 2.0**40))[..., None], 32, -1
                )
                for name, codes in (("blocks_A", by_a), ("blocks_B", by_b))
            },
        },
    )
    assert trial.ok, trial.summary()
    assert np.array_equal(trial.outputs["out"], expected)


def test_scales_of_a_lane_share_a_register(mx: Launchable) -> None:
    assert "ubyte" not in mx.emitted.text
    picked = {
        line[line.index("op_sel:") :]
        for line in mx.emitted.text.splitlines()
        if "v_mfma_scale" in line
    }
    assert len(picked) == 8  # of the two operands' blocks, and the step that both are of


def test_the_shuffled_array_is_the_order_that_is_published() -> None:
    loop = pl.kernels.gemm_mx(32, 64, 256)
    rng = np.random.default_rng(0)
    b = rng.integers(0, 256, (32, 128)).astype(np.uint8)  # two codes to a byte
    assert np.array_equal(loop.shuffled("B", b), weights_in_blocks(b, 16))
    codes = rng.integers(100, 150, (33, 12)).astype(np.uint8)
    whole = np.pad(codes, [(0, 31), (0, 4)], constant_values=127)
    found = loop.shuffled("blocks_A", codes)
    assert np.array_equal(found.reshape(2, 2, 4, 16, 2, 2), scales_in_blocks(whole))
    # The byte of row 32 a + 16 b + c, block 8 d + 4 e + f.
    flat, columns = found.ravel(), whole.shape[1]
    for row, block in ((0, 0), (17, 5), (40, 9), (63, 15)):
        high, low = divmod(row, 32)
        a, (d, g) = high, divmod(block, 8)
        at = a * columns * 32 + 256 * d + 64 * (g % 4) + 4 * (low % 16) + 2 * (g // 4) + low // 16
        assert flat[at] == whole[row, block]


@pytest.mark.parametrize(
    ("tile", "what"), [({"n": 64, "k": 40}, "tile has"), ({"n": 40, "k": 64}, "tile has")]
)
def test_tiles_of_whole_blocks(tile: dict[str, int], what: str) -> None:
    loop = pl.Loop("cut", over="k")
    b = loop.stream("B", pl.FP8, **tile)
    total = loop.carry("sum", n=tile["n"])
    total += b.to(pl.F32).sum("k")
    loop.store("out", total)
    loop.shuffle("B")
    with pytest.raises(pl.GraphError, match=what):
        _ = loop.meaning


def test_an_array_with_too_few_blocks_is_refused(mx: Launchable) -> None:
    with pytest.raises(pl.ConfigError, match="B_blocks"):
        mx.emitted.launch.meaning.all_sizes({"m": 4, "n": 33, "k": 512, "B_blocks": 2})


@pytest.mark.parametrize("dtype", [pl.I4, pl.U4, pl.FP4])
def test_halves_of_bytes_across_the_loop_are_refused_before_anything_is_searched(
    dtype: pl.DType,
) -> None:
    loop = pl.Loop("halves", over="k")
    total = loop.carry("sum", m=32, n=32)
    w = loop.stream("W", dtype, k=64, n=32).to(pl.BF16)
    total += loop.stream("A", pl.BF16, m=32, k=64) @ w
    loop.store("out", total)
    with pytest.raises(pl.ConfigError, match="share a byte"):
        pl.pipeline(loop, "gfx950", waves=4)


def test_a_lane_takes_no_less_than_a_word_of_halves_of_bytes() -> None:
    loop = pl.Loop("halves", over="r")
    loop.store("out", loop.stream("X", pl.I4, r=4, c=256).to(pl.F32))
    with pytest.raises(pl.ConfigError, match="hold i4") as found:
        pl.pipeline(loop, "gfx950", waves=4, strategy=in_order)
    assert "fewer waves" in str(found.value.hint)
