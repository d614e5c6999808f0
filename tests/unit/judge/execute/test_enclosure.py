"""What a comparison allows for: every order of every sum, and nothing that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pipeloom import pipeline
from pipeloom.array_kinds import Array
from pipeloom.declare import Loop, Tensor, exp2, maximum, where
from pipeloom.declare.products import gemm_gate
from pipeloom.judge.execute import Executor
from pipeloom.judge.execute.enclosure import Enclosure, Sum, grid
from pipeloom.judge.execute.truth import Truth, truth_for
from pipeloom.machine.dtypes import BF16, F32, FP16, DType
from pipeloom.program import OpDef, Program, Region, Work
from pipeloom.program.block_values import evaluate_block
from pipeloom.program.vocabulary import VOCABULARY, Reduce

ITERATIONS = 3


def other_operand(program: Program) -> Iterator[Program]:
    """One product of the loop after the other reads U where it should read A."""
    (group,) = program.groups
    for number, section in enumerate(group.sections):
        for slot, step in enumerate(section.steps if section.trips else ()):
            if isinstance(step, Work) and step.reads and step.reads[0].resource.startswith("A "):
                place = step.reads[0].resource.replace("A ", "U ")
                wrong = replace(step, reads=(replace(step.reads[0], resource=place, copy=0),))
                wrong = replace(wrong, reads=(*wrong.reads, *step.reads[1:]))
                steps = (*section.steps[:slot], wrong, *section.steps[slot + 1 :])
                sections = list(group.sections)
                sections[number] = replace(section, steps=steps)
                changed = replace(group, sections=tuple(sections))
                yield program.with_groups((changed,), program.provenance)


@pytest.mark.usefixtures("short_search")
def test_a_product_of_another_operand_is_wrong() -> None:
    program = pipeline(gemm_gate(32, 32, 64), waves=4, target="gfx950")
    assert all(Executor(program).run(trips=trips).correct for trips in range(3))
    mutants = list(other_operand(program))
    assert len(mutants) >= 16
    assert not [n for n, m in enumerate(mutants) if Executor(m).run(trips=1).correct]


def loops(kind: str) -> Loop:
    """One carry, whose sum no grid makes exact."""
    loop = Loop(kind, over="k")
    x = loop.stream("X", "f32", k=8, n=4)
    total = loop.carry("total", "f32", start=1, n=4)
    if kind == "exp2":
        term = exp2(x)
    else:
        term = x * 0.1 if kind == "tenth" else x / (x * x + 1.0)
    total += term.sum("k")
    loop.store("out", total)
    loop.store("small", (1.0 / total).to("bf16"))
    return loop


def in_any_order(terms: Array, rng: np.random.Generator) -> Array:
    """Their sum in f32, in parts of a random number of terms each."""
    total = np.float32(1)
    order = rng.permutation(len(terms))
    while len(order):
        count = rng.integers(1, 6)
        part = np.float32(0)
        for i in order[:count]:
            part = np.float32(part + terms[i])
        total = np.float32(total + part)
        order = order[count:]
    return np.asarray(total)


@pytest.mark.parametrize("kind", ["exp2", "tenth", "quotient"])
def test_every_order_of_a_sum_is_allowed_and_a_term_less_is_not(kind: str) -> None:
    truth = truth_for(loops(kind).as_written, ITERATIONS, 0)
    assert not truth.exact
    rng = np.random.default_rng(0)
    low, high = truth.low["out"][0], truth.high["out"][0]
    assert (low < high).any()
    assert (high - low <= 1e-4 * np.abs(high).max()).all()
    for number, tiles in enumerate(truth.sets):
        x = np.concatenate(tiles["X"]).astype(np.float64)
        made = {"exp2": np.exp2(x), "tenth": x * np.float32(0.1), "quotient": x / (x * x + 1)}
        terms = made[kind].astype(np.float32)
        for column in range(4):
            ends = low[column, number], high[column, number]
            for _ in range(8):
                found = in_any_order(terms[:, column], rng)
                assert ends[0] <= found <= ends[1]
                small = VOCABULARY["div"].function(1.0, np.float64(found))
                small = truth.meaning["small"].type.dtype.round(small)
                least, most = (e["small"][0, column, number] for e in (truth.low, truth.high))
                assert least <= small <= most
            without = in_any_order(terms[1:, column], rng)
            assert not ends[0] <= without <= ends[1]


@pytest.mark.parametrize("dtype", [F32, BF16, FP16])
def test_a_sum_is_exact_while_its_size_fits_and_then_by_a_rounding_a_term(dtype: DType) -> None:
    """Up to 2 ** (mantissa + 1) every multiple of the grid is a number of the type."""
    most = 2.0 ** (dtype.mantissa + 1)
    assert float(dtype.round(most)) == most
    assert float(dtype.round(most + 1)) != most + 1
    none = np.zeros(2)
    for step in (1.0, 0.25):
        assert Sum(9, np.array([1.0, most]) * step, none, step).slack(dtype) is None
        over = np.array([1.0, most + 1]) * step
        slack = Sum(9, over, none, step).slack(dtype)
        assert slack is not None
        assert np.array_equal(slack, [0, 9 * over[1] / most])
    small = np.full(2, 2.0**-30)
    assert Sum(9, small, none, 2.0**-30 / most).slack(dtype) is None
    doubt = Sum(9, np.ones(2), np.array([0.0, 0.5]), 1.0).slack(dtype)
    assert doubt is not None
    assert np.allclose(doubt, [0, 0.5 + 9 * 1.5 / most], rtol=1e-12)
    both = Sum(2, np.ones(2), none, 0.5) + Sum(3, 2 * np.ones(2), none + 1, 2.0)
    assert (both.terms, both.grid) == (5, 0.5)
    assert (both.size.tolist(), both.doubt.tolist()) == ([3.0, 3.0], [1.0, 1.0])


def test_the_terms_of_a_sum_are_its_start_and_those_of_every_iteration() -> None:
    truth = truth_for(loops("exp2").as_written, ITERATIONS, 0)
    for number, tiles in enumerate(truth.sets):
        terms = np.exp2(np.concatenate(tiles["X"])).astype(np.float32).astype(np.float64)
        slack = (1 + 8 * ITERATIONS) * 2.0**-24 * (1 + terms.sum(axis=0))
        for ends, sign in ((truth.low, -1), (truth.high, 1)):
            off = ends["out"][0, :, number] - truth.outputs["out"][0, :, number]
            rounding = 2.0**-23 * np.abs(truth.outputs["out"][0, :, number])
            assert np.all(np.abs(off - sign * slack) <= rounding)


def test_whole_numbers_are_exact_whatever_follows() -> None:
    """As in a gated product: sums of whole numbers, and functions of them."""
    loop = Loop("gate", over="k")
    a, b = loop.stream("A", "bf16", m=4, k=8), loop.stream("B", "bf16", n=4, k=8)
    c = loop.carry("C", "f32", m=4, n=4)
    c += a @ b
    loop.store("out", (c / (exp2(-c) + 1.0)).to("bf16"))
    truth = truth_for(loop.as_written, ITERATIONS, 0)
    assert np.array_equal(truth.low["out"], truth.high["out"])
    assert np.array_equal(truth.low["out"], truth.outputs["out"])


def ranges_of(loop: Loop, x: Array) -> dict[str, tuple[float, float]]:
    """What the outputs of one iteration lie between, by its least and largest element."""
    enclosure = Enclosure(loop.as_written, loop.ops)
    found: dict[str, tuple[float, float]] = {}

    def look(region: Region, values: object) -> None:
        ranges = enclosure.follow(region, values)  # type: ignore[arg-type]
        for node in loop.as_written.outputs:
            if node.region is region:
                ends = ranges[node.name]
                found[node.name] = (float(ends.low.min()), float(ends.high.max()))

    evaluate_block(loop.as_written, {"X": [x]}, 1, None, loop.ops, look, wide=True)
    return found


NUMBER = float(np.float32(8 * np.exp2(np.float32(0.3))))
"""What the sum below is, but for rounding."""
X = np.full((8, 4, 2), np.float32(0.3))


def uncertain(loop: Loop) -> Tensor:
    total = loop.carry("total", "f32", n=4, p=2)
    total += exp2(loop.stream("X", "f32", k=8, n=4, p=2)).sum("k")
    return total


def test_a_choice_that_hangs_on_a_rounding_may_go_either_way() -> None:
    loop = Loop("choice", over="k")
    total = uncertain(loop)
    loop.store("chosen", where(total > NUMBER, 5.0, 7.0))
    loop.store("sure", where(total > NUMBER + 1, 5.0, 7.0))
    for name, number in (("either", NUMBER), ("kept", NUMBER + 1), ("taken", 0.0)):
        carry = loop.carry(name, "f32", start=3, n=4, p=2)
        with loop.when(total > number):
            carry = carry.becomes(carry + 6.0)
        loop.store(f"last_{name}", carry)
    assert ranges_of(loop, X) == {
        "chosen": (5.0, 7.0),
        "sure": (7.0, 7.0),
        "last_either": (3.0, 9.0),
        "last_kept": (3.0, 3.0),
        "last_taken": (9.0, 9.0),
    }


def test_what_is_in_doubt_stays_in_doubt_through_products_and_maxima() -> None:
    loop = Loop("through", over="k")
    total = uncertain(loop)
    loop.store("square", total * total)
    loop.store("product", (total * total).sum("n"))
    loop.store("top", maximum(total, 1.0).max("n"))
    loop.store("low", (-total).min("n"))
    found = ranges_of(loop, X)
    low, high = found["top"]
    assert 0 < high - low < 1e-4
    assert found["low"] == (-high, -low)
    assert found["square"] == pytest.approx((low * low, high * high), rel=1e-6)
    least, most = found["product"]
    assert least <= 4 * low * low
    assert 4 * high * high <= most
    assert most - least < 1e-2


def test_infinities_are_sure_and_a_square_is_not_negative() -> None:
    loop = Loop("ends", over="k")
    total = uncertain(loop)
    near = total - NUMBER
    loop.store("square", near * near)
    loop.store("infinite", (total * float("-inf")).sum("n"))
    found = ranges_of(loop, X)
    assert found["infinite"] == (-np.inf, -np.inf)
    assert found["square"][0] == 0.0
    assert 0.0 < found["square"][1] < 1e-8


def test_matrices_in_doubt_make_products_in_doubt() -> None:
    loop = Loop("weights", over="k")
    x = loop.stream("X", "f32", k=8, n=4)
    total = loop.carry("total", "f32", m=4, n=4)
    total += exp2(loop.stream("Y", "f32", k=8, m=4)) @ exp2(x)
    other = loop.resident("W", "f32", p=4, n=4)
    loop.store("out", total @ other)
    truth = truth_for(loop.as_written, ITERATIONS, 0)
    rng = np.random.default_rng(0)
    for number, tiles in enumerate(truth.sets):
        y, xs = (np.exp2(np.concatenate(tiles[n])).astype(np.float32) for n in ("Y", "X"))
        w = np.asarray(tiles["W"][0], np.float32)
        order = rng.permutation(len(xs))
        total32 = np.zeros((4, 4), np.float32)
        for k in order:
            total32 += y[k][:, None] * xs[k][None, :]
        found = np.zeros((4, 4), np.float32)
        for n in rng.permutation(4):
            found += total32[:, n][:, None] * w[:, n][None, :]
        low, high = (end["out"][0, ..., number] for end in (truth.low, truth.high))
        assert (low <= found).all()
        assert (found <= high).all()
        assert (high - low <= 1e-4 * np.abs(found).max()).all()


def test_sums_of_an_op_of_your_own_are_enclosed() -> None:
    cubes = OpDef("acme.cubes", 1, lambda a: a**3, Reduce.ADD)
    loop = Loop("cubes", over="k")
    loop.store("out", loop.apply(cubes, uncertain(loop) * 0.1, over=("n",)))
    low, high = ranges_of(loop, X)["out"]
    assert low <= 4 * float(np.float32(NUMBER * 0.1)) ** 3 <= high
    assert 0 < high - low < 1e-3


def test_the_grid_of_numbers_divides_them_all_and_no_larger_one_does() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scale = 2.0 ** rng.integers(-30, 30)
        numbers = rng.integers(-40, 40, 6) * scale
        found = Fraction(grid(np.append(numbers, [0.0, np.inf])))
        wanted = [Fraction(float(n)) for n in numbers if n]
        assert all((n / found).denominator == 1 for n in wanted)
        assert any((n / (2 * found)).denominator != 1 for n in wanted)
    assert grid(np.zeros(3)) == np.inf


@pytest.mark.parametrize("dtype", ["fp4", "fp6", "fp8", "bf8", "i8", "bf16"])
@pytest.mark.parametrize("near", [False, True])
def test_tiles_of_types_with_few_values_differ(dtype: str, near: bool) -> None:
    loop = Loop("narrow", over="k")
    a, b = (loop.stream(name, dtype, k=8, **{dim: 4}) for name, dim in (("A", "m"), ("B", "n")))
    c = loop.carry("C", "f32", m=4, n=4)
    c += a @ b
    loop.store("out", exp2(c * 0.001) if near else c)
    truth = truth_for(loop.as_written, 6, 0)
    for node in loop.as_written.inputs:
        tiles = truth.input(node)
        for number in range(len(truth.sets)):
            for i in range(6):
                for j in range(i):
                    assert (tiles[i, ..., number] != tiles[j, ..., number]).mean() > 0.4


def test_inputs_that_overflow_are_made_smaller() -> None:
    loop = Loop("steep", over="k")
    x = loop.stream("X", "f32", k=4, n=4)
    loop.store("out", exp2(x * 40.0))
    truth: Truth = truth_for(loop.as_written, 2, 0)
    assert truth.finite
