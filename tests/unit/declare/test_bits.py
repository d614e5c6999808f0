"""Bits of whole numbers: which operands there are, and what the remedy for others computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pipeloom as pl


def stored(loop: pl.Loop, op: str, *operands: Any, **options: Any) -> pl.Meaning:
    """What a loop means that stores an op that the operators do not write."""
    loop.store("out", loop.apply(op, *operands, **options))
    return loop.meaning


NO = [
    lambda loop, x: x & 2**35,
    lambda loop, x: x << 32,
    lambda loop, x: x >> -1,
    lambda loop, x: 1 << x,
    lambda loop, x: stored(loop, "bit_or", x, 1),
    lambda loop, x: stored(loop, "bit_or", x, 0.5, dtype="i32"),
    lambda loop, x: stored(loop, "bit_or", x.to("f32"), 1, dtype="i32"),
    lambda loop, x: stored(loop, "shift_left", x, loop.index("n"), dtype="i32"),
]
"""What is refused of an i32."""


@pytest.mark.parametrize("build", NO)
def test_what_is_no_i32_is_refused_with_a_remedy(build: Callable[[pl.Loop, Any], Any]) -> None:
    loop = pl.Loop("t", over="m")
    with pytest.raises(pl.ScheduleError, match=r"i32|f32|<<|>>") as found:
        build(loop, loop.stream("X", pl.I32, m=1, n=6))
    assert found.value.hint


@pytest.mark.parametrize("sign", "&|^")
@pytest.mark.parametrize("number", [0x7FFFFFFF, -0x7FFFFFFF, 16777217, 0xFFFFFFFF, 0x9E3779B9])
def test_a_number_with_more_bits_than_f32_has_all_of_them(sign: str, number: int) -> None:
    whole = np.array([[1, 2**31 - 1, -(2**31), 16777217, -5, 0]])
    loop = pl.Loop("t", over="m")
    x = loop.stream("X", pl.I32, m=1, n=6)
    loop.store("out", eval(f"x {sign} number", {"x": x, "number": number}))
    wanted = eval(f"x {sign} number", {"x": whole, "number": number}).astype(np.int32)
    np.testing.assert_array_equal(loop.evaluate(X=whole)["out"], wanted)
