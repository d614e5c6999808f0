"""What the shipped ops say of themselves is what their functions do."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pipeloom.program.vocabulary import VOCABULARY, OpDef, Reduce

OPS = pytest.mark.parametrize("op", list(VOCABULARY), ids=lambda op: op.name)
SMALL = range(-2, 4)


def applied(op: OpDef, *values: float) -> float:
    """The op on single elements; with a reduction, or in a block, on them and on 1."""
    arrays = [np.array([value, 1.0] if op.reduce else [value], np.float32) for value in values]
    if op.in_blocks is not None:
        block = np.array([1.0, *values], np.float32)
        return float(op.apply(block, within=(0, 2))[0])
    with np.errstate(all="ignore"):
        return float(op.apply(*arrays, over=(0,) if op.reduce else ()).ravel()[0])


@OPS
def test_a_nan_shows_where_the_op_says_so(op: OpDef) -> None:
    shown = []
    for at in range(op.arity):
        values = [1.0] * op.arity
        values[at] = float("nan")
        shown.append(np.isnan(applied(op, *values)))
    assert all(shown) is op.propagates


@OPS
def test_whole_numbers_stay_whole_in_ops_that_are_exact(op: OpDef) -> None:
    """And nowhere else: trials compare bit for bit where they do."""
    results = {applied(op, *values) for values in product(SMALL, repeat=op.arity)}
    whole = all(result.is_integer() for result in results)
    assert whole is op.exact


@OPS
def test_truth_values_stay_so(op: OpDef) -> None:
    results = {applied(op, *values) for values in product((0, 1), repeat=op.arity)}
    if op.keeps_truth or op.bool_result:
        assert results <= {0, 1}


@pytest.mark.parametrize("op", [o for o in VOCABULARY if o.masks], ids=lambda op: op.name)
def test_a_mask_is_its_operand_where_something_is_left(op: OpDef) -> None:
    bound = [1.0] * (op.arity - 2)
    assert [applied(op, 7.0, left, *bound) == 7.0 for left in (-1, 0, 1, 2)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("how", list(Reduce))
def test_what_changes_nothing(how: Reduce) -> None:
    for value in (0.0, 1.0) if how is Reduce.ANY else (-3.0, 0.0, 2.5):
        assert how.ufunc(how.neutral, value) == value


def test_of_the_transcendental_unit_a_denormal_is_zero() -> None:
    """Operands and results, on either side of the smallest normal f32."""
    tiny = float(np.finfo(np.float32).tiny)
    rcp, exp2, log2 = (VOCABULARY[name] for name in ("rcp", "exp2", "log2"))
    assert applied(exp2, -126.0) == tiny
    assert applied(exp2, -126.5) == 0.0
    assert applied(rcp, tiny) == 1 / tiny
    assert applied(rcp, tiny * 0.75) == np.inf
    assert applied(rcp, -tiny * 0.75) == -np.inf
    assert applied(log2, tiny) == -126.0
    assert applied(log2, tiny * 0.75) == -np.inf


def test_masks_are_the_ops_that_leave_what_is_within_as_it_is() -> None:
    """Proofs leave them out of iterations that lie within: all others would miss their work."""
    masks = {name for name, op in VOCABULARY.ops.items() if op.masks}
    assert masks == {"within", "keep", "clear"}
    a, far = np.array([-2.0, 0.0, 3.0]), np.full(3, 99.0)
    for name in masks:
        rest = [far, np.ones(3)][: VOCABULARY[name].arity - 1]
        assert VOCABULARY[name].function(a, *rest).tolist() == a.tolist()


@pytest.mark.parametrize("name", ["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"])
def test_ops_of_bits_are_those_of_32_bits_whatever_they_are_given(name: str) -> None:
    """What no i32 is, is what a conversion in registers makes of it."""
    kinds = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}
    shifts = {"shift_left": np.left_shift, "shift_right": np.right_shift}
    given = np.array([np.inf, -np.inf, np.nan, 3e9, 16777217.0, -5.75])
    whole = np.array([2**31 - 1, -(2**31), 0, 2**31 - 1, 16777217, -5], np.int32)
    by = np.array([3, 2, 1, 5, 4, 1], np.int32)
    wanted = (kinds | shifts)[name](whole, by)
    np.testing.assert_array_equal(VOCABULARY[name].apply(given, by.astype(np.float64)), wanted)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves_see_the_rest_of_turns_in_f32_however_many_there_are(name: str) -> None:
    for angle in np.linspace(-1600, 1600, 97, dtype=np.float32):
        turns = float(angle * np.float32(0.15915494))
        wanted = getattr(math, name)(2 * math.pi * (turns - math.floor(turns)))
        assert abs(float(VOCABULARY[name].apply(np.array([angle]))[0]) - wanted) < 1e-7
