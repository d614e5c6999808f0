"""Loads an iteration ahead, everything else one after the other: always an order."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from tests.unit.order.test_arrange import assert_computes


@pytest.mark.parametrize(
    ("loop", "waves"), [(attention(64, 32, 32), 4), (gemm(64, 64, 64), 4), (row_sum(), 1)]
)
def test_it_computes_what_it_means(loop: Loop, waves: int) -> None:
    program = arrange(loop, GFX950, waves, strategy=in_order).program
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.stages == 2
    assert_computes(loop, program, 2)
