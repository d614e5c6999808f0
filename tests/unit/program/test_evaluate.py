"""What declarations mean in numbers, against NumPy: no program, no kernel, so at many sizes."""

from __future__ import annotations

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.program.whole_numbers import wrapped
from tests.declarations.cases import Case, compare, made
from tests.declarations.test_declarations import CASES


@pytest.mark.parametrize("case", [c for c in CASES if c.numpy is not None], ids=lambda c: c.name)
def test_a_meaning_is_what_numpy_computes(case: Case) -> None:
    loop = case.declare()
    for seed, sizes in enumerate(case.sizes):
        inputs = made(case, loop, sizes, seed)
        meant = loop.evaluate(dict(case.scalars), **inputs)
        compare(case, loop, inputs, meant, f"meaning, {dict(sizes)}")


def test_sums_of_products_of_integers_have_32_bits() -> None:
    loop = Loop("integers", over="k")
    total = loop.carry("total", "i32", start=0, m=16, n=16)
    total += loop.stream("A", "i8", m=16, k=32) @ loop.stream("B", "i8", n=16, k=32)
    loop.store("out", total)
    node = next(node for node in loop.meaning.nodes if node.op == "matmul")
    sums = np.array(
        [s * (1 << bits) + near for s in (-3, 1) for bits in (8, 31, 33) for near in (-1, 0, 1)]
    )
    assert wrapped(node, sums.astype(np.float64)).tolist() == sums.astype(np.int32).tolist()
