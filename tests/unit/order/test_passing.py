"""Products whose results pass: which do, what registers they take, and that kernels are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.declare.kernels import attention, gemm_scaled
from pipeloom.drive.deriving import derive
from pipeloom.errors import ConfigError
from pipeloom.machine.chips import target_for
from pipeloom.order.instructions import refine
from pipeloom.order.node_tasks import lower
from pipeloom.order.passing import passes
from pipeloom.order.tasks import Lowered

BLOCK = 128


def loop_of(update: Callable[[pl.Loop, pl.Tensor, pl.Tensor], None]) -> pl.Loop:
    """C, of which ``update`` says what becomes of it and the product of an iteration."""
    loop = pl.Loop("passing", over="k")
    a, b = loop.stream("A", pl.BF16, m=64, k=32), loop.stream("B", pl.BF16, n=64, k=32)
    total = loop.carry("C", m=64, n=64)
    update(loop, (a.staged() @ b.staged()).named("P"), total)
    loop.store("out", total)
    return loop


def scaled(_: pl.Loop, product: pl.Tensor, total: pl.Tensor) -> None:
    total.becomes(pl.fma(product, 0.5, total))


def in_steps(_: pl.Loop, product: pl.Tensor, total: pl.Tensor) -> None:
    total.becomes(pl.maximum(product * 2.0, 0.0) + total)


def reduced(_: pl.Loop, product: pl.Tensor, total: pl.Tensor) -> None:
    total.becomes((product - product.max("n")) + total)


def taken_twice(loop: pl.Loop, product: pl.Tensor, total: pl.Tensor) -> None:
    total.becomes(product * 2.0 + total)
    summed = loop.carry("all", m=64)
    summed += product.sum("n")
    loop.store("sums", summed)


@pytest.mark.parametrize(
    ("update", "does"), [(scaled, True), (in_steps, True), (reduced, False), (taken_twice, False)]
)
def test_what_is_taken_element_by_element_passes(
    update: Callable[[pl.Loop, pl.Tensor, pl.Tensor], None], does: bool
) -> None:
    assert passes(loop_of(update).meaning, "P") is does


def test_sums_and_scores_do_not_pass() -> None:
    for loop in (pl.kernels.gemm(64, 64, 64), attention(32, 32, 64)):
        meaning = loop.meaning
        assert not any(passes(meaning, node.name) for node in meaning.nodes)


def test_boxes_take_turns_in_registers() -> None:
    lowered = _lowered(loop_of(scaled))
    boxes = [place for place in refine(lowered).places if place.storage]
    held = {place.storage for place in boxes}
    assert len(boxes) == 16
    assert {box.type.shape for box in boxes} == {(16, 16)}
    assert len(held) == 8
    assert sum(box.registers for box in boxes) == len(held) * 4
    # Products that follow each other have different registers.
    assert all(boxes[n].storage != boxes[n + 1].storage for n in range(len(boxes) - 1))


def _lowered(loop: pl.Loop) -> Lowered:
    return lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 1, turning=True)


def test_blocks_of_128_are_scaled() -> None:
    loop = gemm_scaled(16, BLOCK, BLOCK, out="f32", scales="blocks")
    found = derive(loop, "gfx950", 2, orders=1)
    assert found is not None
    kernel = pl.emit(found.program)
    rng = np.random.default_rng(7)
    m, n, k = 19, 150, kernel.k_min
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))
    by_row = rng.uniform(0.5, 2, (m, k // BLOCK)).astype(np.float32)
    by_row[3, 1] = np.nan
    by_block = rng.uniform(0.5, 2, (2, k // BLOCK, 1)).astype(np.float32)
    arrays: dict[str, Any] = {"A": a, "B": b, "scale_A": by_row, "scale_B": by_block}
    wanted: Any = np.zeros((m, n))
    for at in range(k // BLOCK):
        part = slice(at * BLOCK, at * BLOCK + BLOCK)
        by_column = np.repeat(by_block[:, at, 0].astype(float), BLOCK)[:n]
        wanted += a[:, part] @ b[:, part].T * np.outer(by_row[:, at], by_column)
    sizes = {"m": m, "n": n, "k": k}
    assert pl.run(kernel, sizes=sizes, arrays=arrays).ok
    np.testing.assert_allclose(loop.evaluate(**arrays)["out"], wanted, rtol=1e-5, atol=1e-3)


def test_an_iteration_has_one_scale() -> None:
    with pytest.raises(ConfigError, match="share a scale") as caught:
        gemm_scaled(32, BLOCK, 2 * BLOCK, scales="blocks")
    assert caught.value.field == "k"


def test_shared_rows_are_placed_before_they_are_used() -> None:
    loop = pl.Loop("late", over="k")
    scales = loop.stream("S", pl.F32.per(BLOCK), n=BLOCK, k=BLOCK)
    assert scales.max("k").type.dtype == pl.F32
    down, row = pl.digit("down", "blocks"), pl.digit("row", BLOCK)
    across, column = pl.digit("across", "chunks"), pl.digit("column", BLOCK)
    with pytest.raises(ConfigError, match="used already"):
        loop.place("S", n=(down, row), k=(across, column), blocks=down, chunks=across, c=column)


def test_rows_that_share_an_element_lie_once() -> None:
    loop = gemm_scaled(32, BLOCK, BLOCK, scales="blocks")
    matrix = np.repeat(np.repeat(np.arange(6.0).reshape(2, 3), BLOCK, 0), BLOCK, 1)[:200]
    found = loop.shuffled("scale_B", matrix)
    assert found.shape == (2, 3, BLOCK)
    assert np.array_equal(found[..., 0], np.arange(6.0).reshape(2, 3))
