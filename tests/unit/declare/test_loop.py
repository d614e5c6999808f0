"""Declarations: what they mean, in NumPy and as data, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop, exp2, fma, maximum, minimum, where, within
from pipeloom.declare.kernels import gemm
from pipeloom.errors import ConfigError, GraphError, ScheduleError
from pipeloom.program import NodeKind, Region
from pipeloom.program.vocabulary import OpDef


def vector_loop() -> tuple[Loop, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return Loop("vector", over="n"), np.linspace(-2, 2, 64, endpoint=False, dtype=np.float32)


def test_regions_follow_from_what_values_depend_on() -> None:
    loop = Loop("regions", over="k")
    scale = loop.resident("scale", "f32", n=16)
    square = (scale * scale).named("square")
    total = loop.carry("total", n=16)
    total += (loop.stream("X", "f32", k=2, n=16) * square).sum("k")
    loop.store("out", total * 2.0)
    meaning = loop.meaning
    assert meaning["square"].region is Region.BEFORE
    assert meaning["total.next"].region is Region.LOOP
    assert meaning["out"].region is Region.AFTER
    assert meaning.grid == ("n",)


def test_after_the_loop_a_carry_is_its_last_value() -> None:
    loop = Loop("sum", over="k")
    total = loop.carry("total", start=1, n=4)
    total += loop.stream("X", "f32", k=2, n=4).sum("k")
    loop.store("out", total + total)
    assert loop.meaning["add"].uses == ("total", "total")
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    np.testing.assert_array_equal(loop.evaluate(X=x)["out"], 2 * (1 + x.sum(0)))


def test_sizes_need_not_be_whole_tiles() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, (rows, 50)).astype(np.float32) for rows in (70, 40))
    out = gemm(64, 64, 32).evaluate(A=a, B=b)["out"]
    np.testing.assert_array_equal(out, a @ b.T)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x: x + 1, lambda a: a + 1),
        (lambda x: 1 - x, lambda a: 1 - a),
        (lambda x: 2 * x, lambda a: 2 * a),
        (lambda x: 1 + x, lambda a: 1 + a),
        (lambda x: x / 2, lambda a: a / 2),
        (lambda x: 1 / (x + 4), lambda a: 1 / (a + 4)),
        (lambda x: -x, lambda a: -a),
        (lambda x: exp2(x), np.exp2),
        (lambda x: maximum(x, 0.5), lambda a: np.maximum(a, 0.5)),
        (lambda x: minimum(x, 0.5), lambda a: np.minimum(a, 0.5)),
        (lambda x: where(x > 0, x, 0.0), lambda a: np.where(a > 0, a, 0)),
        (lambda x: where(x >= 0, x, 0.0), lambda a: np.where(a >= 0, a, 0)),
        (lambda x: where(x < 0, x, 0.0), lambda a: np.where(a < 0, a, 0)),
        (lambda x: where(x <= 0, x, 0.0), lambda a: np.where(a <= 0, a, 0)),
        (lambda x: where(x == 1, 5.0, x), lambda a: np.where(a == 1, 5, a)),
        (lambda x: where(x != 1, 5.0, x), lambda a: np.where(a != 1, 5, a)),
        (lambda x: where((x > 0) & (x < 2), x, 9.0), lambda a: np.where((a > 0) & (a < 2), a, 9)),
        (lambda x: where((x < 0) | (x > 1), x, 9.0), lambda a: np.where((a < 0) | (a > 1), a, 9)),
        (lambda x: where((x < 1) ^ (x > 0), x, 9.0), lambda a: np.where((a < 1) ^ (a > 0), a, 9)),
        (lambda x: where(~(x > 0), x, 9.0), lambda a: np.where(a > 0, 9, a)),
        (lambda x: abs(x), np.abs),
        (lambda x: x**3, lambda a: a**3),
        (lambda x: x**7, lambda a: a**7),
        (lambda x: np.float32(2) * x, lambda a: 2 * a),
        (lambda x: where(np.float32(1) == x, 5.0, x), lambda a: np.where(a == 1, 5, a)),
    ],
)
def test_arithmetic_is_numpys(build: Callable[..., Any], wanted: Callable[..., Any]) -> None:
    loop, x = vector_loop()
    loop.store("Y", build(loop.stream("X", "f32", n=16)))
    np.testing.assert_allclose(loop.evaluate(X=x)["Y"], wanted(x), rtol=1e-6)


@pytest.mark.parametrize("reduce", ["sum", "max", "min"])
def test_reductions_are_numpys(reduce: str) -> None:
    loop = Loop("reduce", over="n")
    loop.store("Y", getattr(loop.stream("X", "f32", n=4, k=8), reduce)("k"))
    x = np.random.default_rng(1).integers(-9, 9, (12, 8)).astype(np.float32)
    np.testing.assert_array_equal(loop.evaluate(X=x)["Y"], getattr(x, reduce)(1))


@pytest.mark.parametrize("first", ["mk", "km"])
@pytest.mark.parametrize("second", ["kn", "nk"])
def test_a_product_sums_over_what_both_have(first: str, second: str) -> None:
    sizes = {"m": 2, "n": 3, "k": 4}
    loop = Loop("product", over="t")
    a = loop.resident("A", "f32", **{dim: sizes[dim] for dim in first})
    b = loop.resident("B", "f32", **{dim: sizes[dim] for dim in second})
    loop.store("out", a.T @ b)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=[sizes[d] for d in dims]) for dims in (first, second))
    x, y = x.astype(np.float32), y.astype(np.float32)
    got = loop.evaluate(A=x, B=y)["out"]
    wanted = np.einsum(f"{first},{second}->mn", x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_conditions_hold_per_element_or_for_all() -> None:
    loop = Loop("when", over="k")
    x = loop.stream("X", "f32", k=1, n=4).sum("k")
    top = loop.carry("top", start=0, n=4)
    with loop.when((x > 3.0).any()):
        top = top.becomes(maximum(top, x))
    loop.store("out", top)
    x_values = np.array([[1, 2, 3, 2], [1, 4, 1, 1], [2, 2, 2, 9]], np.float32)
    np.testing.assert_array_equal(loop.evaluate(X=x_values)["out"], [2, 4, 2, 9])


def test_scalars_are_passed_by_name() -> None:
    loop, x = vector_loop()
    loop.store("Y", loop.stream("X", "f32", n=16) * loop.scalar("s"))
    np.testing.assert_array_equal(loop.evaluate({"s": 3.0}, X=x)["Y"], 3 * x)
    with pytest.raises(ConfigError, match="needs the scalar 's'"):
        loop.evaluate(X=x)


def test_values_round_to_their_type() -> None:
    loop, _ = vector_loop()
    loop.store("Y", loop.stream("X", "f32", n=1).to("bf16"))
    assert loop.evaluate(X=np.array([1.001], np.float32))["Y"][0] == 1.0


@pytest.mark.parametrize("product", [False, True])
def test_what_a_carry_becomes_keeps_its_rounding(product: bool) -> None:
    """The carry is wider than what it becomes, or is added: that is rounded all the same."""
    loop = Loop("rounded", over="k")
    x = loop.stream("X", "f32", m=2, k=1)
    s = loop.carry("S", "f32", m=2)
    if product:
        s += loop.apply("sum", x, over=("k",), dtype="bf16")
    else:
        s = s.becomes((s + x.sum("k")).to("bf16"))
    loop.store("out", s)
    got = loop.evaluate(X=np.full((2, 4), 1 + 2.0**-9))["out"]
    np.testing.assert_array_equal(got, [4.0, 4.0])


def test_names_are_given_by_the_user_or_made_up() -> None:
    loop = gemm()
    kinds = {n.name: n.kind for n in loop.meaning.nodes}
    assert kinds["C.next"] is NodeKind.OP
    assert loop.staged == ("A", "B")
    assert repr(loop) == "<Loop gemm over k: 6 values>"


def test_a_value_keeps_its_meaning_under_another_name() -> None:
    """Names that were made up are not given again, so that no old holder gets another value."""
    loop = Loop("named", over="k")
    x = loop.stream("X", "f32", b=1, k=1)
    twice = x * 2.0
    twice.named("twice")
    thrice = x * 3.0
    totals = loop.carry("a", b=1), loop.carry("b", b=1)
    for total, value, name in zip(totals, (twice, thrice), "AB", strict=True):
        loop.store(name, total.becomes(total + value.sum("k")))
    found = loop.evaluate(X=np.arange(4, dtype=np.float32)[None])
    assert [found[name].item() for name in "AB"] == [12, 18]


def test_what_a_carry_becomes_can_be_used_further() -> None:
    loop = Loop("top", over="k")
    top, sums = loop.carry("top", b=1), loop.carry("sums", b=1)
    best = maximum(top, loop.stream("X", "f32", b=1, k=1).sum("k"))
    top = top.becomes(best)
    loop.store("A", sums.becomes(sums + best))
    loop.store("B", top)
    assert loop.evaluate(X=np.array([[1, 3, 2]], np.float32))["A"] == 7


def test_a_number_is_none_of_the_users_values() -> None:
    loop = Loop("numbers", over="n")
    named = loop.stream("2", "f32", n=4), loop.stream("2.0", "f32", n=4)
    loop.store("Y", named[0] * 2.0 + named[1])
    arrays = {"2": np.full(4, 5, np.float32), "2.0": np.full(4, 7, np.float32)}
    np.testing.assert_array_equal(loop.evaluate(None, **arrays)["Y"], np.full(4, 17))


def _use_twice(loop: Loop) -> None:
    loop.stream("X", "f32", n=4)
    loop.stream("X", "f32", n=4)


def _no_over(loop: Loop) -> None:
    loop.stream("X", "f32", m=4)


def _never_changes(loop: Loop) -> None:
    loop.store("Y", loop.stream("X", "f32", n=4) + loop.carry("c", n=4))
    assert loop.meaning


def _never_used(loop: Loop) -> None:
    loop.resident("W", "f32", n=4)
    loop.store("Y", loop.stream("X", "f32", n=4) * 2)
    assert loop.meaning


def _used_by_itself_only(loop: Loop) -> None:
    """A carry that nothing stored needs: its dead work would wait for nothing."""
    x = loop.stream("X", "f32", n=4)
    c = loop.carry("c", n=4)
    c += x
    loop.store("Y", x * 2)
    assert loop.meaning


def _stores_nothing(loop: Loop) -> None:
    c = loop.carry("c", n=4)
    c += loop.stream("X", "f32", n=4)
    assert loop.meaning


def _not_carried(loop: Loop) -> None:
    loop.stream("X", "f32", n=4).becomes(1.0)


def _other_dimensions(loop: Loop) -> None:
    loop.carry("c", m=4).becomes(loop.stream("X", "f32", n=4))


def _other_loop(loop: Loop) -> None:
    loop.stream("X", "f32", n=4) + Loop("other", over="n").stream("Y", "f32", n=4)


def _sizes_disagree(loop: Loop) -> None:
    loop.stream("X", "f32", n=4) + loop.stream("Y", "f32", n=8)


def _arity(loop: Loop) -> None:
    loop.apply("add", loop.stream("X", "f32", n=4))


def _reduces_nothing(loop: Loop) -> None:
    loop.stream("X", "f32", n=4).sum("k")


def _unknown_op(loop: Loop) -> None:
    loop.apply("ad", loop.stream("X", "f32", n=4), 1.0)


def _redefined(loop: Loop) -> None:
    loop.apply(OpDef("add", 1, np.negative), loop.stream("X", "f32", n=4))


def _shares_nothing(loop: Loop) -> None:
    loop.stream("X", "f32", n=4, k=8) @ loop.resident("Y", "f32", m=4, j=8)


def _shares_two(loop: Loop) -> None:
    loop.stream("X", "f32", n=4, k=8) @ loop.stream("Y", "f32", n=4, k=8)


def _nested_when(loop: Loop) -> None:
    condition = (loop.stream("X", "f32", n=4) > 0).any()
    with loop.when(condition), loop.when(condition):
        pass


def _renamed_to_a_taken_name(loop: Loop) -> None:
    loop.stream("Y", "f32", n=4)
    loop.stream("X", "f32", n=4).named("Y")


def _used_after_it_was_added(loop: Loop) -> None:
    """Added in place it is the sum; nobody may take that for what was added."""
    x = loop.stream("X", "f32", n=4)
    part = x.sum("n").named("part")
    total, top = loop.carry("total"), loop.carry("top")
    total += part
    maximum(top, part)


def _used_after_it_was_predicated(loop: Loop) -> None:
    x = loop.stream("X", "f32", n=4)
    condition = x > 0
    doubled = x * 2.0
    with loop.when(condition):
        loop.carry("last", n=4).becomes(doubled)
    loop.store("Y", doubled)


def _called_like_what_is_left(loop: Loop) -> None:
    loop.stream("n left", "f32", n=4)
    loop.left("n", 4)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (_used_after_it_was_added, GraphError, "'part' has become the next value of 'total'"),
        (_used_after_it_was_predicated, GraphError, "has become the next value of 'last'"),
        (_called_like_what_is_left, GraphError, "has a value 'n left' already"),
        (_use_twice, GraphError, "has a value 'X' already"),
        (_no_over, ConfigError, "stream 'X' has no dimension 'n'"),
        (_never_changes, GraphError, "carry 'c' never changes"),
        (_never_used, GraphError, "'W' is declared but never used"),
        (_used_by_itself_only, GraphError, "'c' is declared but never used"),
        (_stores_nothing, GraphError, "'c' is declared but never used|stores nothing"),
        (_not_carried, GraphError, "'X' is not carried"),
        (_other_dimensions, ConfigError, r"c has dimensions \('m',\), its next value \('n',\)"),
        (_other_loop, GraphError, "'Y' belongs to another loop"),
        (_sizes_disagree, ConfigError, "dimension 'n' is 4 in one operand and 8 in another"),
        (_arity, ConfigError, r"add takes 2 operand\(s\), got 1"),
        (_reduces_nothing, ConfigError, "sum cannot reduce over k"),
        (_unknown_op, ConfigError, "op 'ad' is not in the vocabulary"),
        (_redefined, ConfigError, "op 'add' is defined twice, differently"),
        (_shares_nothing, ConfigError, "X @ Y sums over .* share none"),
        (_shares_two, ConfigError, "X @ Y sums over .* share n, k"),
        (_nested_when, GraphError, "loop.when inside loop.when"),
        (_renamed_to_a_taken_name, GraphError, "has a value 'Y' already"),
    ],
)
def test_refusals(build: Callable[[Loop], None], error: type[ScheduleError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        build(Loop("bad", over="n"))
    assert caught.value.hint


def test_a_stream_that_nothing_takes_is_named_as_that() -> None:
    loop = gemm(64, 64, 64)
    loop.stream("Z", "f32", m=64, k=64)
    with pytest.raises(GraphError, match="'Z' is declared but never used"):
        _ = loop.meaning


def test_a_product_that_nothing_carries() -> None:
    loop = Loop("x", over="k")
    loop.store("out", loop.stream("A", "bf16", m=4, k=4) @ loop.stream("B", "bf16", n=4, k=4))
    with pytest.raises(GraphError, match="without a carry"):
        _ = loop.meaning
    with pytest.raises(ConfigError, match="needs a name"):
        Loop("", over="k")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda x: exp2(3), "x"),  # type: ignore[arg-type]
        (lambda x: maximum(2.0, 1.0), "a"),
        (lambda x: within(x, 1), "left"),  # type: ignore[arg-type]
        (lambda x: where(True, x, 0), "condition"),  # type: ignore[arg-type]
        (lambda x: fma("a", x, x), "operand"),  # type: ignore[arg-type]
    ],
)
def test_functions_of_values_refuse_what_is_none(call: Any, field: str) -> None:
    x = Loop("numbers", over="k").stream("X", "f32", k=1, n=64)
    with pytest.raises(ConfigError) as error:
        call(x)
    assert error.value.field == field
    assert error.value.hint


def test_no_dimension_has_the_name_of_the_number_of_problems() -> None:
    """The grid of a launch counts both: one would silently take the other's place."""
    loop = Loop("named", over="k")
    x = loop.stream("X", "f32", k=4, batches=64)
    loop.store("out", loop.carry("sums", batches=64).becomes(x.sum("k")))
    with pytest.raises(GraphError, match="batches") as caught:
        _ = loop.meaning
    assert caught.value.field == "X"
    assert "batch" in str(caught.value.hint)
