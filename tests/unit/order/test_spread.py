"""Layouts of register tiles: projections and counts."""

from __future__ import annotations

import pytest

from pipeloom.declare import Loop, maximum
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16, BOOL, F32
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.layouts import Layouts, choose_layouts
from pipeloom.order.matrix_choice import granules, in_vectors, products
from pipeloom.order.shares import divide
from pipeloom.order.spread import (
    UNIFORM,
    accumulator,
    grouped,
    lanes,
    memory_accesses,
    operand,
    per_lane,
    project,
    registers,
    shared_lanes,
)
from pipeloom.program.resources import Layout

MFMA = GFX950.matrix_op("16x16x32_f16")
ROW = Layout("accumulator", (("side", 16), ("only", 0)))
COLUMN = Layout("accumulator", (("side", 16), ("only", 1)))


def layouts_of(loop: Loop, waves: int) -> Layouts:
    meaning = loop.meaning
    found = products(meaning, GFX950)
    return choose_layouts(meaning, divide(meaning, waves, granules(meaning, found)), found)


def test_matrix_results_project_to_rows_and_columns() -> None:
    full, sizes = accumulator(16), {"m": 64, "n": 32}
    assert project(full, ("m", "n"), sizes, ("m",)) == ROW
    assert project(full, ("m", "n"), sizes, ("n",)) == COLUMN
    assert project(full, ("m", "n"), sizes, ("n", "m")) == accumulator(16, flip=True)
    assert project(accumulator(16, flip=True), ("m", "n"), sizes, ("n",)) == ROW
    assert project(full, ("m", "n"), sizes, ()) == UNIFORM
    assert project(ROW, ("m",), sizes, ("m",)) == ROW
    assert project(ROW, ("m",), sizes, ("n",)) is None


def test_row_major_tiles_project_where_lanes_agree() -> None:
    four = Layout("lanes", (("vector", 4),))
    sizes = {"b": 1, "k": 4, "n": 256, "m": 16}
    assert project(four, ("b", "k", "n"), sizes, ("b", "n")) == four
    assert project(four, ("m", "n"), sizes, ("m",)) == Layout(
        "lanes", (("vector", 4), ("spread", 256))
    )
    assert project(four, ("k", "m"), sizes, ("m",)) == four, "16 lanes by 4 have all rows"
    assert project(four, ("k", "m"), {"k": 4, "m": 24}, ("m",)) is None, "rows of 24 wrap"
    assert project(four, ("m", "n"), sizes, ("n", "m")) is None, "another order"
    assert project(four, ("m", "n"), sizes, ("m", "n")) == four


def test_row_major_vectors_are_as_wide_as_they_may() -> None:
    assert lanes((256,), F32)["vector"] == 4
    assert lanes((512,), BF16)["vector"] == 8
    assert lanes((128,), F32)["vector"] == 2
    assert lanes((8, 3), F32)["vector"] == 1


def test_counts_per_lane() -> None:
    assert per_lane(accumulator(16), (64, 64)) == 64
    assert per_lane(ROW, (64,)) == 4
    assert per_lane(COLUMN, (64,)) == 16
    assert per_lane(UNIFORM, ()) == 1
    assert per_lane(Layout("lanes", (("vector", 4), ("spread", 64))), (16,)) == 4
    assert registers(accumulator(16), (64, 64), BF16) == 32
    assert registers(ROW, (32,), BOOL) == 2
    by_k = Layout("operand", (("side", 16), ("depth", 32), ("run", 8), ("only", 1)))
    assert [per_lane(by_k, (k,)) for k in (32, 64, 96)] == [8, 16, 24]
    assert memory_accesses(by_k, (32,), F32) == (2, 16)
    assert [per_lane(grouped(by_k, F32.per(n)), (96,)) for n in (4, 16, 96)] == [6, 3, 1]


@pytest.mark.parametrize(
    ("layout", "shape", "counts"),
    [
        (operand(MFMA, ("m", "k"), "k"), (64, 64), (8, 16)),
        (operand(MFMA, ("k", "m"), "k"), (64, 64), (8, 16)),
        (accumulator(16), (64, 64), (16, 8)),
        (accumulator(16, flip=True), (64, 64), (64, 2)),
        (ROW, (64,), (4, 2)),
        (COLUMN, (64,), (4, 8)),
        (Layout("lanes", (("vector", 8),)), (8, 512), (8, 16)),
        (UNIFORM, (), (1, 2)),
    ],
)
def test_memory_instructions(
    layout: Layout, shape: tuple[int, ...], counts: tuple[int, int]
) -> None:
    assert memory_accesses(layout, shape, BF16) == counts


def test_lanes_that_combine() -> None:
    assert shared_lanes(accumulator(16), (64, 64), ROW) == 4
    assert shared_lanes(accumulator(16), (64, 64), COLUMN) == 16
    assert shared_lanes(accumulator(16), (64, 64), UNIFORM) == 64
    row = Layout("lanes", (("vector", 4), ("spread", 64)))
    assert shared_lanes(Layout("lanes", (("vector", 4),)), (16, 64), row) == 16


def test_a_gemm_has_operands_and_accumulators() -> None:
    found = layouts_of(gemm(), 4)
    assert found.operands["C.next", "A"] == Layout("operand", (("side", 16), ("depth", 32)))
    assert found.values["C"] == found.values["convert"] == accumulator(16)


def test_attention_multiplies_scores_as_they_lie() -> None:
    found = layouts_of(attention(64, 32, 32), 4)
    assert found.operands["O.next.2", "convert"] == accumulator(16)
    assert dict(found.operands["O.next.2", "V"].numbers)["permuted"] == 1
    assert found.values["m"] == found.values["alpha"] == found.values["l"] == ROW


def test_loaded_rows_lie_as_their_users_want() -> None:
    loop = Loop("bias", over="k")
    c = loop.carry("C", m=64, n=64)
    c += loop.stream("A", "bf16", m=64, k=32) @ loop.stream("B", "bf16", n=64, k=32)
    loop.store("out", c + loop.resident("bias", "f32", n=64))
    assert layouts_of(loop, 4).values["bias"] == COLUMN


def test_sums_over_rows_stay_in_their_lanes() -> None:
    found = layouts_of(row_sum(256, 4), 1)
    assert found.values["X"] == found.values["total"] == Layout("lanes", (("vector", 4),))


def test_a_product_of_a_flipped_result_is_declared_either_way() -> None:
    """S(keys, q) instead of S(q, keys): lanes still go by q."""
    loop = Loop("transposed", over="keys")
    q, k = loop.resident("Q", "bf16", q=64, d=32), loop.stream("K", "bf16", keys=32, d=32)
    o = loop.carry("O", q=64, v=32)
    s = (k.staged() @ q).named("S")
    v = loop.stream("V", "bf16", v=32, keys=32)
    o += loop.apply("matmul", s.to("bf16"), v.staged(), over=("keys",))
    loop.store("out", o)
    found = layouts_of(loop, 4)
    assert found.values["S"] == accumulator(16, flip=True)
    assert found.values["O"] == accumulator(16)


def test_what_cannot_lie_together_is_refused() -> None:
    loop = Loop("wrap", over="k")
    total = loop.carry("total", n=25)
    total += loop.stream("X", "f32", k=5, n=25).sum("k")
    loop.store("out", total)
    with pytest.raises(ConfigError, match=r"wrap.total.next: .* does not lie where sum over k, n"):
        layouts_of(loop, 1)


def test_what_an_operand_is_computed_of_lies_like_it() -> None:
    loop = Loop("vector", over="k")
    x, w = loop.stream("X", "i8", m=64, k=32), loop.stream("W", "bf16", n=64, k=32)
    by_row, by_k = loop.resident("R", "f32", m=64), loop.stream("F", "f32", k=32)
    c = loop.carry("C", m=64, n=64)
    c += (x * by_row * by_k * loop.stream("S", F32.per(32), m=64, k=32)).to("bf16") @ w.staged()
    loop.store("out", c)
    values = layouts_of(loop, 4).values
    numbers = dict(values["X"].numbers)
    assert values["X"].kind == "operand"
    assert numbers["run"] * BF16.bits == 8 * 16
    assert values["R"] == Layout("accumulator", (("side", numbers["side"]), ("only", 0)))
    assert dict(values["F"].numbers) == {**numbers, "only": 1}
    assert dict(values["S"].numbers) == {**numbers, "group": 32}


def test_a_sum_of_what_lies_across_and_what_lies_along_is_refused() -> None:
    """Both are results of a product, but a lane has a row of one and a column of the other."""
    loop = Loop("across", over="k")
    a, b = loop.resident("A", "bf16", m=64, d=32), loop.stream("B", "bf16", k=64, d=32)
    total = loop.carry("total", "f32", start=0, m=64, k=64)
    along = a @ b.staged()
    across = (b.staged() @ a).to("bf16")
    total += along * across
    loop.store("out", total)
    with pytest.raises(ConfigError, match=r"does not lie where mul over m, k"):
        layouts_of(loop, 4)


def relu_in_the_loop(where: str) -> Loop:
    """A product whose result, or one operand, goes through a vector op in each iteration."""
    loop = Loop("relu", over="m" if where == "result" else "k")
    a = loop.stream("A", "bf16", m=64, k=64)
    if where == "result":
        loop.store("out", maximum(a.staged() @ loop.resident("B", "bf16", n=64, k=64), 0.0))
        return loop
    c = loop.carry("C", m=64, n=64)
    b = loop.stream("W", "bf16", n=64, k=64)
    c += (maximum(a, 0.0).to("bf16") if where == "operand" else a.staged()) @ b.staged()
    loop.store("out", maximum(c, 0.0))
    return loop


@pytest.mark.parametrize("where", ["result", "operand", "after the loop"])
def test_vector_ops_between_products(where: str) -> None:
    assert in_vectors(relu_in_the_loop(where).meaning) is (where != "after the loop")
