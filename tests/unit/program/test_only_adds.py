"""Which loops may cut their sums anywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.declare import Loop, Tensor
from pipeloom.declare.functions import maximum
from pipeloom.program.only_adds import only_adds

INF = float("inf")


@pytest.mark.parametrize(
    ("update", "anywhere"),
    [
        (lambda c, p: c + p, True),
        (lambda c, p: p * 0.5 + c, True),
        (lambda c, p: c - (p * -2.0) * 3.0, True),
        (lambda c, p: c + p * INF, False),  # zeros times infinity
        (lambda c, p: c * 0.5 + p, False),  # counts iterations
        (lambda c, p: c + p * p, False),
        (lambda c, p: c + (p + 1.0), False),
        (lambda c, p: c + maximum(p, 0), False),
    ],
)
def test_a_function_of_a_tiles_sum_knows_its_tile_unless_it_is_linear(
    update: Callable[[Tensor, Tensor], Tensor], anywhere: bool
) -> None:
    loop = Loop("sums", over="k")
    a, b = loop.stream("A", "bf16", m=16, k=32), loop.stream("B", "bf16", n=16, k=32)
    c = loop.carry("C", m=16, n=16)
    loop.store("out", c.becomes(update(c, a.staged() @ b.staged())))
    assert only_adds(loop.meaning) is anywhere
