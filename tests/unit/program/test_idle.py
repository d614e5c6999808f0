"""Which declarations take any size: those that iterations past the end leave as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.declare import Loop, Tensor, exp2, kernels, maximum, minimum, rcp, where
from pipeloom.declare.functions import keep, within
from pipeloom.errors import GraphError
from pipeloom.machine.dtypes import BF16, F32, FP8, FP16
from pipeloom.program.idle import Inputs, adds_up, idles_past_end
from pipeloom.program.past_end import needs_finite

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


def masked(loop: Loop, x: Tensor) -> Tensor:
    """A sum that is 0 past the end."""
    return within(x, loop.left("k", ROWS)).sum("k")


def two(loop: Loop, positive: bool = False) -> Tensor:
    return loop.scalar("factor", usual=2.0, positive=positive)


@pytest.mark.parametrize(
    ("added", "takes_any_size"),
    [
        pytest.param(lambda _, x, t: t + x.sum("k"), True, id="zeros"),
        pytest.param(lambda _, x, t: t + exp2(x).sum("k"), False, id="powers of zeros"),
        pytest.param(lambda _, x, t: t + 1.0, False, id="counts iterations"),
        pytest.param(lambda _, x, t: t * 0.5 + x.sum("k"), False, id="decays"),
        pytest.param(lambda loop, _, t: where(two(loop) > 1.0, t, t + 1.0), False, id="one of two"),
        pytest.param(lambda loop, _, t: where(two(loop) > 1.0, t, t), True, id="the same of two"),
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
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) * exp2(t), False, id="zero times what overflows"
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) * exp2(minimum(t, 100.0)),
            True,
            id="zero times what is bounded",
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) * rcp(t), False, id="zero times one over zero"
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) * (maximum(t, 0.0) + 1.0).to(FP16),
            False,
            id="zero times half",
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) * (maximum(t, 0.0) + 1.0).to(FP8),
            True,
            id="zero times what saturates",
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) / maximum(t, 1.0),
            True,
            id="zero over one or more",
        ),
        pytest.param(
            lambda loop, x, t: t + masked(loop, x) / maximum(t, 0.0), False, id="zero over zero"
        ),
        pytest.param(
            lambda loop, x, t: t + exp2(keep(x, loop.left("k", ROWS), 1) + t).sum("k"),
            False,
            id="minus infinity and infinity",
        ),
        pytest.param(
            lambda loop, x, t: t + where(loop.left("k", ROWS) <= 0, 0, exp2(x)).sum("k"),
            True,
            id="selected the other way round",
        ),
        pytest.param(
            lambda loop, x, t: t + where(loop.left("k", ROWS) < 1, 0, exp2(x)).sum("k"),
            True,
            id="selected by what is short",
        ),
        pytest.param(
            lambda loop, x, t: t + where(loop.left("k", ROWS) < 0, 0, exp2(x)).sum("k"),
            False,
            id="selected too little",
        ),
        pytest.param(
            lambda loop, x, t: (
                t + exp2(keep(x, loop.left("k", ROWS), 1) * two(loop, True)).sum("k")
            ),
            True,
            id="times what is positive",
        ),
        pytest.param(
            lambda loop, x, t: t + exp2(keep(x, loop.left("k", ROWS), 1) * two(loop)).sum("k"),
            False,
            id="times what may be negative",
        ),
        pytest.param(
            lambda loop, x, t: maximum(t * 1.0, keep(x, loop.left("k", ROWS), 1).max("k")) - 0.0,
            True,
            id="the same value in other words",
        ),
        pytest.param(
            lambda loop, x, t: (t + masked(loop, x)).to(FP16), False, id="rounded once more"
        ),
    ],
)
def test_what_is_carried_must_not_notice(added: Added, takes_any_size: bool) -> None:
    assert sums(added).as_written.ragged is takes_any_size


@pytest.mark.parametrize("kept", [True, False])
def test_a_masked_sum_times_what_overflows_is_no_sum(kept: bool) -> None:
    """``s += x * exp2(m); m += x`` of finite numbers: past the end, 0 times infinity."""
    loop = Loop("overflows", over="k")
    x = masked(loop, loop.stream("X", F32, b=1, k=ROWS, n=COLUMNS))
    s, m = (loop.carry(name, F32, start=0, b=1, n=COLUMNS) for name in "sm")
    factor = exp2(minimum(m, 100.0) if kept else m)
    s += x * factor
    m += x
    loop.store("S", s)
    loop.store("M", m)
    assert loop.as_written.ragged is kept


def test_a_nan_that_a_maximum_would_lose_is_not_kept() -> None:
    """Of minus infinity and NaN the maximum is minus infinity, so a NaN would change."""
    loop = Loop("loses", over="k")
    x = loop.stream("X", F32, b=1, k=ROWS, n=COLUMNS)
    t = loop.carry("t", F32, start=0, b=1, n=COLUMNS)
    best = keep(x, loop.left("k", ROWS), 1).max("k")
    t = t.becomes(maximum(t + masked(loop, x) * loop.resident("R", F32, b=1, n=COLUMNS), best))
    loop.store("out", t)
    assert idles_past_end(loop.as_written, Inputs.FINITE)
    assert not idles_past_end(loop.as_written, Inputs.ALL)


def test_for_which_numbers_more_iterations_change_nothing() -> None:
    """Zeros times a resident are zeros only if it is finite; what is masked asks nothing of it."""
    plain = sums(lambda loop, x, t: t + masked(loop, x)).as_written
    assert not needs_finite(plain)
    product = sums(
        lambda loop, x, t: t + masked(loop, x) * loop.resident("R", F32, b=1, n=COLUMNS)
    ).as_written
    assert product.ragged
    assert needs_finite(product)


@pytest.mark.parametrize(
    ("reduced", "finite"),
    [
        pytest.param(lambda x, s: (x * s).sum("n"), True, id="zero times infinity"),
        pytest.param(lambda x, s: x.sum("n") * s, False, id="nothing is multiplied"),
        pytest.param(lambda x, s: (x * s).max("n"), False, id="masked already"),
        pytest.param(lambda x, s: (x + s).sum("n"), False, id="masked, it is not zero"),
        pytest.param(lambda x, s: (x * 0.5).sum("n") * s, False, id="nothing infinite meets it"),
    ],
)
def test_for_which_numbers_a_reduction_past_another_end_notices_nothing(
    reduced: Callable[[Tensor, Tensor], Tensor], finite: bool
) -> None:
    """Past the end of n X is zero, and S by row may be infinite; what is masked does not ask."""
    loop = Loop("past_n", over="r")
    x, s = loop.stream("X", F32, n=64, r=1), loop.stream("S", F32, r=1)
    loop.store("out", reduced(x, s))
    assert needs_finite(loop.meaning) is finite


@pytest.mark.parametrize("reduced", [lambda x, s: (x * s).sum("n"), lambda x, s: x.sum("n") * s])
def test_behind_a_row_the_next_one_begins(reduced: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Loads as wide as tiles allow bring its elements, too, so they are masked."""
    loop = Loop("past_n", over="r")
    x, s = loop.stream("X", F32, r=1, n=64), loop.stream("S", F32, r=1)
    loop.store("out", reduced(x, s))
    assert not needs_finite(loop.meaning)
    assert needs_finite(loop.as_written)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_asks_for_finite_numbers_where_it_leaves_keys_out(causal: bool) -> None:
    """A weight of 0 times a V of infinity is NaN in the formula, and left out by the kernel."""
    assert needs_finite(kernels.attention(64, 64, 64, causal=causal).as_written) is causal


def test_elements_that_mix_along_the_loop_are_no_rows_of_their_own() -> None:
    """Stored per iteration, past the end nothing is; but what is mixed there reaches back."""
    loop = Loop("mixes", over="r")
    x = loop.stream("X", F32, b=1, r=ROWS, n=COLUMNS)
    loop.store("out", x * loop.stream("Y", F32, n=COLUMNS, r=ROWS).max("r"))
    assert not loop.as_written.ragged
    loop = Loop("goes on", over="r")
    total = loop.carry("total", F32, start=0, b=1, r=ROWS, n=COLUMNS)
    total = total.becomes(
        total
        + loop.stream("X", F32, b=1, r=ROWS, n=COLUMNS) * loop.stream("Y", F32, n=COLUMNS, r=ROWS)
    )
    loop.store("out", total * 1.0 + loop.stream("Z", F32, b=1, r=ROWS, n=COLUMNS))
    assert not loop.as_written.ragged


def test_behind_rows_along_the_loop_there_are_no_zeros() -> None:
    """The next row begins there, so what is used of them must be masked."""
    assert not sums(lambda _, x, t: t + x.sum("k"), rows_last=True).as_written.ragged
    assert sums(
        lambda loop, x, t: t + within(x, loop.left("k", ROWS)).sum("k"), rows_last=True
    ).as_written.ragged


def test_what_is_stored_per_iteration_may_have_rows_along_the_loop() -> None:
    """Past their end nothing is stored, whatever lies there."""
    loop = Loop("rows", over="k")
    x = loop.stream("X", F32, n=64, k=16)
    loop.store("out", x * 2.0)
    assert loop.as_written.ragged


def test_between_rows_along_the_loop_there_may_be_anything() -> None:
    """One row to a block: past its end lies what its leading dimension leaves, no zeros."""
    loop = Loop("largest", over="r")
    largest = loop.carry("so far", F32, start=-1e30, b=1)
    x = loop.stream("X", F32, b=1, r=ROWS)
    loop.store("out", maximum(x, largest.becomes(maximum(largest, x.max("r")))))
    assert not loop.as_written.ragged
    loop = Loop("twice", over="r")
    loop.store("out", loop.stream("X", F32, b=1, r=ROWS, n=COLUMNS) * 2.0)
    assert loop.as_written.ragged


def test_until_is_for_masks_that_follow_it() -> None:
    with pytest.raises(GraphError, match="would still change"):
        _ = sums(lambda _, x, t: t + x.sum("k"), until="n").as_written


Mask = Callable[[Tensor, Tensor, Tensor], Tensor]


@pytest.mark.parametrize(
    ("mask", "idles"),
    [
        pytest.param(lambda x, k, n: where(k >= n, x, 0.0), True, id="k >= n"),
        pytest.param(lambda x, k, n: where(k > n, x, 0.0), True, id="k > n"),
        pytest.param(lambda x, k, n: where(n <= k, x, 0.0), True, id="n <= k"),
        pytest.param(lambda x, k, n: where(n < k, x, 0.0), True, id="n < k"),
        pytest.param(lambda x, k, n: where(k >= maximum(n, 1), x, 0.0), True, id="at least n"),
        pytest.param(lambda x, k, n: where(k >= minimum(n, 1), x, 0.0), False, id="at most n"),
        pytest.param(lambda x, k, n: where(n > k, 0.0, x), True, id="not n > k"),
        pytest.param(lambda x, k, n: where(k < n, 0.0, x), True, id="not k < n"),
        pytest.param(lambda x, k, n: where(n >= k, x, 0.0), False, id="n >= k"),
        pytest.param(lambda x, k, n: where(k >= n * 0.0 + 1.0, x, 0.0), False, id="k >= 1"),
        pytest.param(lambda x, k, n: where(n > 1.0, 0.0, x), False, id="not n > 1"),
        pytest.param(lambda x, k, n: where(k < n * 0.0 + 1.0, 0.0, x), False, id="not k < 1"),
        pytest.param(lambda x, k, n: where(k >= k, x + n * 0.0, 0.0), False, id="k >= k"),
        pytest.param(lambda x, k, n: where(n >= n * 1.0, x, 0.0), False, id="n >= n"),
    ],
)
def test_which_masks_leave_nothing_where_less_is_left_than_until(mask: Mask, idles: bool) -> None:
    """In an iteration behind ``until`` every k left is less than every n left, and no more is
    known of either. Past the end of k, nothing is left by another mask."""
    loop = Loop("until", over="k", until="n")
    left = loop.left("k", ROWS)
    x = within(exp2(loop.stream("X", F32, b=1, k=ROWS, n=COLUMNS)), left)
    total = loop.carry("total", F32, start=0, b=1, n=COLUMNS)
    total += mask(x, left, loop.left("n", COLUMNS)).sum("k")
    loop.store("out", total)
    if idles:
        assert loop.as_written.until == "n"
    else:
        with pytest.raises(GraphError, match="would still change"):
            _ = loop.as_written


@pytest.mark.parametrize("causal", [False, True])
def test_attention_takes_any_size(causal: bool) -> None:
    assert kernels.attention(64, 64, 64, causal=causal, lse=True).as_written.ragged


def test_a_mask_that_rounds_or_asks_for_a_scalar_is_no_mere_mask() -> None:
    """The plain trips leave masks out, so a mask may do nothing but mask."""
    loop = Loop("rounds", over="k")
    x = loop.stream("X", F32, b=1, k=ROWS, n=COLUMNS)
    top = loop.carry("top", F32, start=-1e30, b=1, n=COLUMNS)
    kept = loop.apply("keep", x, loop.left("k", ROWS), 1, dtype=BF16)
    loop.store("out", top.becomes(maximum(top, kept.max("k"))))
    assert not loop.as_written.masks


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
    assert loop.as_written.ragged is takes_any_size


@pytest.mark.parametrize("other", ["stream", "carry", "resident"])
def test_zeros_before_the_first_element_meet_only_zeros(other: str) -> None:
    """A kernel for any size takes zeros before its arrays; times infinity they are NaN."""
    loop = Loop("products", over="k")
    x = loop.stream("X", BF16, k=16, m=32)
    total = loop.carry("total", F32, start=0, m=32, n=32)
    sums = loop.carry("sums", F32, start=0, m=32, n=32)
    y = loop.stream("Y", BF16, k=16, n=32)
    sums += loop.apply("matmul", x, y, over=("k",))
    factor = {"stream": y, "carry": sums}.get(other)
    factor = loop.resident("R", BF16, m=32, n=32) if factor is None else factor
    total += loop.apply("matmul", x, factor, over=("k",))
    loop.store("out", total)
    loop.store("others", sums)
    assert adds_up(loop.as_written) is (other == "stream")
