"""``pl.launch``: kernels of every family on the stand-in, compared with NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pipeloom as pl
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.hip import Hip
from pipeloom.device.host_arrays import launch_copied
from pipeloom.drive.gemm import Gemm, GemmSpec, gemm_kernel

pytestmark = pytest.mark.usefixtures("short_search")

Array = npt.NDArray[Any]


def whole(shape: tuple[int, ...], seed: int) -> Array:
    """Small integers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def bf16(values: Array) -> Array:
    return pl.BF16.encode(values).astype(np.uint16)


@cache
def product(**options: Any) -> Gemm:
    tile = {"BM": 32, "BN": 32, "BK": 64, "waves_m": 2, "waves_n": 2, "search": False}
    return gemm_kernel(GemmSpec(**{**tile, **options}))


@cache
def schedule() -> pl.EmittedKernel:
    return pl.emit("single_buffer")


def test_a_schedule(hip: Hip) -> None:
    kernel = schedule()
    a, b = whole((48, kernel.k_min), 1), whole((40, kernel.k_min), 2)
    out = np.zeros((48, 40), np.uint16)
    found = pl.launch(kernel, A=bf16(a), B=bf16(b), out=out, guard=64)
    assert found["out"] is out
    np.testing.assert_array_equal(out, bf16(a @ b.T))
    assert hip.library.standin_used(0) == 0


@pytest.mark.parametrize("options", [{}, {"splits": 3}, {"align": 2}, {"splits": 2, "align": 2}])
def test_products(hip: Hip, options: dict[str, Any]) -> None:
    """Slices of K and copies of rows that are not aligned are part of one call."""
    k = 71 if options.get("align") == 2 else 200
    a, b = whole((33, k), 3), whole((40, k), 4)
    made = product(**options)
    found = pl.launch(made, A=bf16(a), B=bf16(b))["out"]
    np.testing.assert_array_equal(found, bf16(a @ b.T))


def test_batches_scales_and_strides(hip: Hip) -> None:
    """Rows with gaps, batches, alpha, beta, a bias."""
    made = product(batched=True, finish=Finish(alpha=True, beta=True, bias=True))
    a, b, c = whole((2, 33, 80), 5), whole((2, 40, 80), 6), whole((2, 33, 40), 7)
    wide = np.full((2, 33, 96), 0x7FC0, np.uint16)
    wide[:, :, :80] = bf16(a)
    out = np.full((2, 33, 48), 0x1234, np.uint16)
    out[:, :, :40] = bf16(c)
    bias = whole((40,), 8)
    result = out[:, :, :40]
    pl.launch(
        made, A=wide[:, :, :80], B=bf16(b), C=result, out=result, bias=bias, alpha=2, beta=0.5
    )
    expected = 2 * (a @ b.transpose(0, 2, 1)) + 0.5 * c + bias
    np.testing.assert_array_equal(out[:, :, :40], bf16(expected))
    assert (out[:, :, 40:] == 0x1234).all()


def test_what_beta_multiplies_by_another_name(hip: Hip) -> None:
    """The same elements as numbers and as codes: an output in place, and not two arrays."""
    made = product(dtype="fp16", finish=Finish(beta=True))
    a, b, c = whole((33, 80), 5), whole((40, 80), 6), whole((33, 40), 7)
    out = c.astype(np.float16)
    codes = out.view(np.uint16)
    pl.launch(made, A=a.astype(np.float16), B=b.astype(np.float16), C=out, out=codes, beta=0.5)
    np.testing.assert_array_equal(out, (a @ b.T + 0.5 * c).astype(np.float16))


def test_a_number_that_is_changed_in_place(hip: Hip) -> None:
    """As a tensor without dimensions is: the second launch takes what it is then."""

    class Number:
        value = 2.0

        def __float__(self) -> float:
            return self.value

    a, b = whole((33, 80), 5), whole((40, 80), 6)
    kernel, alpha = pl.prepare(product(finish=Finish(alpha=True))), Number()
    for value in (2.0, 3.0):
        alpha.value = value
        out = np.zeros((33, 40), np.uint16)
        launch_copied(kernel, {"A": bf16(a), "B": bf16(b), "out": out, "alpha": alpha})
        np.testing.assert_array_equal(out, bf16(value * (a @ b.T)))


def test_attention_by_query_heads(hip: Hip) -> None:
    """Four query heads that share two key heads, as one dimension; keys are masked at the end."""
    loop = pl.kernels.attention(queries=32, keys=32, depth=32)
    kernel = pl.emit(pl.pipeline(loop, "gfx950", 1, depth=1), ops=loop.ops)
    rng = np.random.default_rng(9)
    shapes = {"Q": (1, 4, 40, 32), "K": (1, 2, 90, 32), "V": (1, 2, 90, 32)}
    values = {n: pl.BF16.round(rng.standard_normal(s).astype("f4")) for n, s in shapes.items()}
    out = np.zeros((1, 4, 40, 32), np.uint16)
    codes: dict[str, Any] = {n: bf16(v) for n, v in values.items()}
    pl.launch(kernel, **codes, out=out)
    for head in range(4):
        scores = values["Q"][0, head] @ values["K"][0, head // 2].T * 32**-0.5
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        expected = weights / weights.sum(axis=1, keepdims=True) @ values["V"][0, head // 2]
        np.testing.assert_allclose(pl.BF16.decode(out[0, head]), expected, atol=0.03)
    with pytest.raises(pl.DeviceError, match="relies on a positive scale"):
        pl.launch(kernel, **codes, out=out, scale=-1)
