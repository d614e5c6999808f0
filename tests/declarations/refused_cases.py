"""What no kernel computes: each is refused when declared or pipelined, and the remedy is said."""

from __future__ import annotations

import numpy as np

import pipeloom as pl
from tests.declarations.cases import listed, refused


def stream(name: str, **dims: int) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="r")
    return loop, loop.stream("X", pl.F32, **dims)


@refused
def a_python_condition() -> pl.Loop:
    loop, x = stream("if", r=1, n=64)
    loop.store("out", x if x > 0 else -x)
    return loop


@refused
def an_element_by_number() -> pl.Loop:
    loop, x = stream("index", r=1, n=64)
    loop.store("out", x[0])
    return loop


@refused
def a_value_that_is_overwritten() -> pl.Loop:
    loop, x = stream("overwritten", r=1, n=64)
    loop.store("out", x.sum("r"))
    return loop


@refused
def operands_of_other_sizes() -> pl.Loop:
    loop, x = stream("sizes", r=1, n=64)
    loop.store("out", x + loop.resident("w", pl.F32, n=32))
    return loop


@refused
def products_of_two_types() -> pl.Loop:
    loop = pl.Loop("mixed", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.FP16, n=32, k=32)
    c = loop.carry("C", m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@refused
def a_product_of_three_dimensions() -> pl.Loop:
    loop = pl.Loop("three", over="k")
    a = loop.stream("A", pl.BF16, h=2, m=32, k=32)
    b = loop.stream("B", pl.BF16, n=32, k=32)
    c = loop.carry("C", h=2, m=32, n=32)
    c += a @ b
    loop.store("out", c)
    return loop


@refused
def a_tile_larger_than_the_registers() -> pl.Loop:
    loop = pl.Loop("large", over="k")
    a, b = loop.stream("A", pl.BF16, m=512, k=32), loop.stream("B", pl.BF16, n=512, k=32)
    c = loop.carry("C", m=512, n=512)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    return loop


@refused
def a_type_without_bytes() -> pl.Loop:
    loop = pl.Loop("doubles", over="r")
    x = loop.stream("X", "f64", r=1, n=64)
    loop.store("out", x * 2.0)
    return loop


@refused
def a_carry_without_a_dimension_of_its_value() -> pl.Loop:
    loop, x = stream("cummax", r=1, n=64)
    m = loop.carry("m", n=64)
    m = m.becomes(pl.maximum(m, x))
    loop.store("out", m)
    return loop


@refused
def a_product_with_its_batch_in_the_tile() -> pl.Loop:
    loop = pl.Loop("bmm", over="k")
    a = loop.stream("A", pl.BF16, b=1, m=32, k=32)
    c = loop.carry("C", b=1, m=32, n=32)
    c += a @ loop.stream("B", pl.BF16, b=1, n=32, k=32)
    loop.store("out", c)
    return loop


@refused
def rows_that_an_array_names_along_the_loop() -> pl.Loop:
    loop = pl.Loop("embedding", over="t")
    table, depth = loop.stream("E", pl.BF16, t=16, d=64), pl.digit("d", "depth")
    loop.place("E", d=(depth,), v=loop.indices("ids", "t"), depth=depth)
    loop.store("out", table)
    return loop


@refused
def the_same_array_as_two_streams() -> pl.Loop:
    loop = pl.Loop("gram", over="k")
    c = loop.carry("C", m=32, n=32)
    c += loop.stream("X", pl.BF16, m=32, k=32) @ loop.stream("X", pl.BF16, n=32, k=32)
    loop.store("out", c)
    return loop


@refused
def windows_of_channels_that_no_matrix_multiplies() -> pl.Loop:
    loop = pl.Loop("pool", over="k")
    x = loop.stream("X", pl.BF16, m=32, k=1, c=32)
    p, q, r, s = pl.digit("p", "h"), pl.digit("q", "w"), pl.digit("r", 2), pl.digit("s", 2)
    channel = pl.digit("channel", "ch")
    loop.place("X", m=(p, q), k=(r, s), c=(channel,), h=2 * p + r, w=2 * q + s, ch=channel)
    most = loop.carry("most", start=-np.inf, m=32, c=32)
    loop.store("out", most.becomes(pl.maximum(most, x.max("k"))))
    return loop


@refused
def rows_scattered_in_every_iteration() -> pl.Loop:
    loop = pl.Loop("scatter", over="c")
    loop.store("out", loop.stream("X", pl.F32, t=16, c=64) * 2.0)
    loop.adds("out")
    channel = pl.digit("channel", "ch")
    loop.place("out", c=(channel,), s=loop.indices("at", "t"), ch=channel)
    return loop


@refused
def what_is_left_reduced() -> pl.Loop:
    loop, x = stream("left", r=16, n=64)
    total = loop.carry("total", n=64)
    total += x.sum("r") / pl.minimum(loop.left("r").max("r"), 16.0)
    loop.store("out", total)
    return loop


def by_block(name: str) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="k")
    a, c = loop.stream("A", pl.BF16, m=32, k=32), loop.carry("C", m=32, n=96)
    c += a.staged() @ loop.stream("B", pl.BF16, n=96, k=32).staged()
    return loop, c


@refused
def numbers_for_blocks_of_48() -> pl.Loop:
    loop, c = by_block("uneven")
    loop.store("out", pl.block_max(c, "n", 48))
    return loop


@refused
def the_sum_of_numbers_for_blocks() -> pl.Loop:
    loop, c = by_block("summed")
    loop.store("out", c - pl.block_max(c, "n", 32).sum("n"))
    return loop


def by_groups(n: int, size: int) -> pl.Loop:
    loop = pl.Loop("grouped", over="r")
    x = loop.stream("X", pl.F32, r=1, n=n)
    loop.store("out", x * loop.stream("S", pl.F32.per(size), r=1, n=n))
    return loop


@refused
def tiles_that_end_within_a_group() -> pl.Loop:
    return by_groups(16, 32)


@refused
def tiles_of_one_group_and_a_half() -> pl.Loop:
    return by_groups(96, 64)


@refused
def tiles_along_the_loop_of_a_quarter_of_a_group() -> pl.Loop:
    loop = pl.Loop("quarters", over="k")
    c = loop.carry("C", m=32)
    c += loop.stream("X", pl.F32, m=32, k=16).sum("k") * loop.stream(
        "S", pl.F32.per(64), m=32, k=16
    ).max("k")
    loop.store("out", c)
    return loop


@refused
def results_of_fp4() -> pl.Loop:
    loop, x = stream("fp4", r=1, n=64)
    loop.store("out", x.to(pl.FP4))
    return loop


CASES = listed(globals())
