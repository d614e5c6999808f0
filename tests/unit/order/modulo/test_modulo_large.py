"""Bodies of 500 ops: solved, or within 5 % of the proved bound."""

from __future__ import annotations

import pytest

from benchmarks.random_loops import Shape, random_problem
from pipeloom.order.modulo import check_modulo, solve_modulo

WIDE = Shape(ops=500, units=6)
DEEP = Shape(ops=500, units=4, longest_hold=6, longest_latency=30, edges_per_op=1.6)


@pytest.mark.parametrize("shape", [WIDE, DEEP], ids=["wide", "deep"])
def test_five_hundred_ops(shape: Shape) -> None:
    problem = random_problem(0, shape)
    result = solve_modulo(problem, time_limit=60)
    assert not check_modulo(problem, result.ii, result.starts)
    assert result.ii <= 1.05 * result.lower_bound
