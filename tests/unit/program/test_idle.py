"""Which declarations take any size: those that iterations past the end leave as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.declare import Loop, Tensor, exp2, kernels, maximum, where
from pipeloom.declare.tensor import keep, within
from pipeloom.errors import GraphError
from pipeloom.machine.dtypes import BF16, F32

ROWS, COLUMNS = 4, 256
Added = Callable[[Loop, Tensor, Tensor], Tensor]


def sums(added: Added, until: str | None = None, rows_last: bool = False) -> Loop:
    """``total`` grows by what ``added`` says; what is left is looked at in any case."""
    loop = Loop("sums", over="k", until=until)
    dims = {"n": COLUMNS, "k": ROWS} if rows_last else {"b": 1, "k": ROWS, "n": COLUMNS}
    x = loop.stream("X", F32, **dims)
    kept = {dim: size for dim, size in dims.items() if dim != "k"}
    left = loop.left("k", ROWS)
    count = loop.carry("count", F32, start=0, **kept)
    count += within(x, left).sum("k")
    total = loop.carry("total", F32, start=0, **kept)
    loop.store("out", total.becomes(added(loop, x, total)))
    loop.store("counted", count)
    return loop


@pytest.mark.parametrize(
    ("added", "takes_any_size"),
    [
        pytest.param(lambda _, x, t: t + x.sum("k"), True, id="zeros"),
        pytest.param(lambda _, x, t: t + exp2(x).sum("k"), False, id="powers of zeros"),
        pytest.param(lambda _, x, t: t + 1.0, False, id="counts iterations"),
        pytest.param(lambda _, x, t: t * 0.5 + x.sum("k"), False, id="decays"),
        pytest.param(lambda _, x, t: maximum(t, x.max("k")), False, id="zeros are large"),
        pytest.param(
            lambda loop, x, t: t + within(exp2(x), loop.left("k", ROWS)).sum("k"), True, id="masked"
        ),
        pytest.param(
            lambda loop, x, t: maximum(t, keep(x, loop.left("k", ROWS), 1).max("k")),
            True,
            id="masked maximum",
        ),
        pytest.param(
            lambda loop, x, t: maximum(t, keep(x, loop.left("k", ROWS), 0).max("k")),
            False,
            id="masked too little",
        ),
        pytest.param(
            lambda loop, x, t: t + where(loop.left("k", ROWS) >= 1, exp2(x), 0).sum("k"),
            True,
            id="selected",
        ),
        pytest.param(
            lambda loop, x, t: t + exp2(keep(x, loop.left("k", ROWS), 1) * -1.0).sum("k"),
            False,
            id="infinite",
        ),
    ],
)
def test_what_is_carried_must_not_notice(added: Added, takes_any_size: bool) -> None:
    assert sums(added).meaning.ragged is takes_any_size


def test_behind_rows_along_the_loop_there_are_no_zeros() -> None:
    """The next row begins there, so what is used of them must be masked."""
    assert not sums(lambda _, x, t: t + x.sum("k"), rows_last=True).meaning.ragged
    assert sums(
        lambda loop, x, t: t + within(x, loop.left("k", ROWS)).sum("k"), rows_last=True
    ).meaning.ragged


def test_what_is_stored_per_iteration_must_end_with_its_block() -> None:
    loop = Loop("rows", over="k")
    x = loop.stream("X", F32, n=64, k=16)
    loop.store("out", within(x, loop.left("k", 16)) * 2.0)
    assert not loop.meaning.ragged


def test_between_rows_along_the_loop_there_may_be_anything() -> None:
    """One row to a block: past its end lies what its leading dimension leaves, no zeros."""
    loop = Loop("largest", over="r")
    loop.store("out", loop.stream("X", F32, b=1, r=ROWS, n=COLUMNS).max("n"))
    assert not loop.meaning.ragged
    loop = Loop("twice", over="r")
    loop.store("out", loop.stream("X", F32, b=1, r=ROWS, n=COLUMNS) * 2.0)
    assert loop.meaning.ragged


def test_until_is_for_masks_that_follow_it() -> None:
    with pytest.raises(GraphError, match="would still change"):
        _ = sums(lambda _, x, t: t + x.sum("k"), until="n").meaning


@pytest.mark.parametrize("causal", [False, True])
def test_attention_takes_any_size(causal: bool) -> None:
    assert kernels.attention(64, 64, 64, causal=causal, lse=True).meaning.ragged


def test_a_mask_that_rounds_or_asks_for_a_scalar_is_no_mere_mask() -> None:
    """The plain trips leave masks out, so a mask may do nothing but mask."""
    loop = Loop("rounds", over="k")
    x = loop.stream("X", F32, b=1, k=ROWS, n=COLUMNS)
    top = loop.carry("top", F32, start=-1e30, b=1, n=COLUMNS)
    kept = loop.apply("keep", x, loop.left("k", ROWS), 1, dtype=BF16)
    loop.store("out", top.becomes(maximum(top, kept.max("k"))))
    assert not loop.meaning.masks


@pytest.mark.parametrize(("start", "takes_any_size"), [(-1e30, True), (float("-inf"), False)])
def test_a_maximum_that_starts_at_infinity(start: float, takes_any_size: bool) -> None:
    """Without a key, what is masked less the maximum is infinity less infinity."""
    loop = Loop("weights", over="k")
    x = keep(loop.stream("X", F32, n=COLUMNS, k=ROWS), loop.left("k", ROWS), 1)
    top = loop.carry("top", F32, start=start, n=COLUMNS)
    weight = loop.carry("weight", F32, start=0, n=COLUMNS)
    best = x.max("k")
    with loop.when(best > top):
        top = top.becomes(best)
    weight += exp2(x - top).sum("k")
    loop.store("out", weight)
    assert loop.meaning.ragged is takes_any_size
