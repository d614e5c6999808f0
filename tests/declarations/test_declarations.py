"""Declarations as kernel engineers write them: accepted and right, or refused with a remedy."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.drive import writable
from pipeloom.order.in_order import in_order
from tests.declarations import (
    attention_cases,
    beside_cases,
    block_cases,
    carry_cases,
    condition_cases,
    elementwise_cases,
    epilogue_cases,
    function_cases,
    length_cases,
    operand_cases,
    product_cases,
    refused_cases,
    row_cases,
    spelling_cases,
)
from tests.declarations.cases import Case, accepted, check_right

FAMILIES: tuple[ModuleType, ...] = (
    elementwise_cases,
    row_cases,
    epilogue_cases,
    product_cases,
    attention_cases,
    carry_cases,
    condition_cases,
    function_cases,
    length_cases,
    operand_cases,
    beside_cases,
    block_cases,
    spelling_cases,
    refused_cases,
)
CASES: tuple[Case, ...] = tuple(case for family in FAMILIES for case in family.CASES)
RIGHT = [case for case in CASES if case.numpy is not None]
REFUSED = [case for case in CASES if case.numpy is None]


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_accepted_proved_and_right(case: Case) -> None:
    check_right(case)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused_with_a_remedy_before_anything_is_written(case: Case) -> None:
    with pytest.raises(pl.ScheduleError) as found:
        accepted(case)
    assert found.value.hint


@pytest.mark.usefixtures("short_search")
def test_an_order_of_the_search_that_no_kernel_has_is_refused_when_pipelined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unwritten(*_: Any, **__: Any) -> None:
        raise pl.EmitError("no such instruction", hint="another type", field="B")

    monkeypatch.setattr(writable, "occupied", unwritten)
    loop = pl.kernels.gemm(16, 16, 32)
    with pytest.raises(pl.ConfigError, match="no such instruction") as found:
        pl.pipeline(loop, "gfx950", waves=1)
    assert found.value.hint == "another type"


def test_rows_are_not_filled_up_where_the_kernel_asks_how_long_they_are() -> None:
    loop = product_cases.multiplied("mean", {"m": 32, "k": 32}, {"n": 32, "k": 32}, pl.BF16)
    c = loop.carry("S", m=32, n=32)
    c += loop.stream("E", pl.BF16, m=32, k=32) @ loop.stream("F", pl.BF16, n=32, k=32)
    loop.store("mean", c / loop.size("k"))
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    sizes = {"m": 20, "n": 37, "k": 40}
    assert pl.run(kernel, sizes=sizes).ok
    with pytest.raises(pl.EmitError, match="loads take") as found:
        pl.run(kernel, sizes=sizes | {"k": 77})
    assert "align" in str(found.value.hint)


def test_a_loop_that_four_waves_cannot_share_is_run_by_fewer() -> None:
    loop = row_cases.softmax_plain.declare()
    assert pl.run(loop, sizes={"b": 1, "r": 2, "n": 100}, data="normal").ok
    assert pl.emit(loop).waves == 1


@pytest.mark.usefixtures("short_search")
def test_a_last_state_that_nobody_takes_is_no_fault_of_a_searched_order() -> None:
    case = carry_cases.linear_attention_to_what_is_before_a_chunk
    check_right(replace(case, sizes=case.sizes[:1]), None)


def test_enough_of_them() -> None:
    assert len(CASES) >= 100
    assert len(RIGHT) >= 90
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("staged", [False, True])
def test_vectors_of_16_bits_that_end_within_a_word_are_refused_or_aligned(staged: bool) -> None:
    def declared(to: int) -> pl.Loop:
        loop = pl.Loop("gemv", over="k")
        a, x = loop.stream("A", pl.BF16, m=64, k=64), loop.stream("x", pl.BF16, k=64)
        x = x.staged() if staged and to > 2 else x
        loop.align("x", to=to)
        y = loop.carry("y", m=64)
        y += (a * x).sum("k")
        loop.store("out", y)
        return loop

    wide = pl.emit(pl.pipeline(declared(16), "gfx950", waves=1, strategy=in_order))
    assert pl.run(wide, sizes={"m": 70, "k": 302}).ok
    with pytest.raises(pl.EmitError, match="loads take 2") as found:
        pl.run(wide, sizes={"m": 70, "k": 301})
    assert "loop.align('x', to=2)" in str(found.value.hint)
    single = pl.emit(pl.pipeline(declared(2), "gfx950", waves=1, strategy=in_order))
    assert pl.run(single, sizes={"m": 70, "k": 301}).ok


def test_scales_of_groups_are_given_for_each_element_or_each_group() -> None:
    loop = block_cases.rows_dequantised_by_groups.declare()
    rng = np.random.default_rng(0)
    q, s = rng.integers(-9, 9, (5, 96)), rng.random((5, 3))
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    found = []
    for scales in (s, np.repeat(s, 32, axis=-1)):
        trial = pl.run(kernel, sizes={"r": 5, "n": 96}, arrays={"Q": q, "S": scales})
        found += [trial.outputs["out"], loop.evaluate(Q=q, S=scales)["out"]]
    assert all(np.array_equal(found[0], one) for one in found[1:])


def test_columns_end_with_a_group_of_whatever_type_its_scale_is() -> None:
    loop = block_cases.a_product_with_16_bit_scales_of_16_columns.declare()
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    with pytest.raises(pl.EmitError, match="loads take 16 elements"):
        pl.run(kernel, sizes={"r": 20, "n": 70, "k": 32})
