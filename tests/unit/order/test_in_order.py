"""Loads an iteration ahead, everything else one after the other: always an order."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.modulo import Edge, MachineUnit, ModuloProblem, Op, Reservation
from tests.unit.order.test_arrange import assert_computes


@pytest.mark.parametrize(
    ("loop", "waves"), [(attention(64, 32, 32), 4), (gemm(64, 64, 64), 4), (row_sum(), 1)]
)
def test_it_computes_what_it_means(loop: Loop, waves: int) -> None:
    program = arrange(loop, GFX950, waves, strategy=in_order).program
    assert program.provenance.ordered is not None
    assert program.provenance.ordered.stages == 2
    assert_computes(loop, program, 2)


def test_loads_begin_at_once_and_each_op_as_soon_as_it_can() -> None:
    """A load of 4 cycles; a sum that takes 2 and is there after 9; what is made of it."""
    uses = {"load": ("memory", 4), "sum": ("vector", 2), "scaled": ("vector", 2)}
    ops = [Op(name, uses=(Reservation(*use),), load=name == "load") for name, use in uses.items()]
    edges = (Edge(0, 1, 20), Edge(1, 2, 9))
    found = in_order(
        ModuloProblem("three", (MachineUnit("memory"), MachineUnit("vector")), tuple(ops), edges)
    )
    assert found.starts[0] == 0
    assert found.starts[2] - found.starts[1] == 9
    assert found.starts[1] - found.ii == 4
