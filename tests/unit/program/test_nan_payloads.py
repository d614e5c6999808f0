"""Which NaNs a value can be, and that rounding by addition keeps those."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import pipeloom as pl
from pipeloom.declare.kernels import attention
from pipeloom.declare.loop import Loop
from pipeloom.machine.dtypes import BF16
from pipeloom.order.in_order import in_order
from pipeloom.program.nan_payloads import short_nans


def test_rounding_by_addition_keeps_a_nan_whose_lower_half_is_zero() -> None:
    """All 254 of them that bf16 has; and numbers are rounded as the type rounds them."""
    upper = np.array(range(0, 1 << 32, 1 << 16), np.uint32)
    values = upper.view(np.float32)
    rounded = _added(upper)
    assert np.isnan(rounded[np.isnan(values)]).all()
    numbers = np.random.default_rng(0).integers(0, 1 << 32, 100_000, np.uint32)
    numbers = numbers[~np.isnan(numbers.view(np.float32))]
    assert np.array_equal(_added(numbers), BF16.round(numbers.view(np.float32)))
    assert not np.isnan(_added(np.array([0x7FFFFFFF], np.uint32))).any()  # why others are looked at


def _added(bits: NDArray[np.uint32]) -> NDArray[np.float32]:
    return np.asarray((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def _biased(dtype: str, positive: bool = False) -> Loop:
    """exp2 of a product with an f32 that is no array of bf16."""
    loop = Loop("biased", over="k")
    a = loop.stream("A", dtype, m=32, k=32)
    scale = loop.scalar("scale", 1.0, positive=positive)
    loop.store("out", (a * scale).to("bf16"))
    return loop


@pytest.mark.parametrize(
    ("loop", "short"),
    [
        (attention(64, 32, 32), True),
        (attention(64, 32, 32, dtype="fp16"), False),
        (_biased("bf16", positive=True), True),
        (_biased("bf16"), False),
        (_biased("f32", positive=True), False),
    ],
)
def test_lower_halves_come_from_memory(loop: Loop, short: bool) -> None:
    stored = loop.meaning.outputs[0].name
    assert short_nans(loop.meaning, stored) is short


def test_probabilities_are_rounded_without_a_look_at_nans() -> None:
    kernel = pl.emit(pl.pipeline(attention(64, 32, 32), "gfx942", 2, otherwise=in_order))
    assert "v_add3_u32" in kernel.text
    assert "v_cmp_u_f32" not in kernel.text
