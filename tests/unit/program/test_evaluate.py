"""What declarations mean in numbers, against NumPy: no program, no kernel, so at many sizes."""

from __future__ import annotations

import pytest

from tests.declarations.cases import Case, compare, made
from tests.declarations.test_declarations import CASES


@pytest.mark.parametrize("case", [c for c in CASES if c.numpy is not None], ids=lambda c: c.name)
def test_a_meaning_is_what_numpy_computes(case: Case) -> None:
    loop = case.declare()
    for seed, sizes in enumerate(case.sizes):
        inputs = made(case, loop, sizes, seed)
        meant = loop.evaluate(dict(case.scalars), **inputs)
        compare(case, loop, inputs, meant, f"meaning, {dict(sizes)}")
