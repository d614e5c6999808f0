"""Attention backward: the three kernels together are the derivative of attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pipeloom as pl
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.in_order import in_order
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import woven
from pipeloom.program import Work
from pipeloom.write import launch_record

pytestmark = pytest.mark.usefixtures("short_search")

Array = npt.NDArray[Any]
D = 32


def forward(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array, Array]:
    """P, O and the logarithm of the sum, in double precision; rows without a key have P = 0."""
    scores = q @ k.swapaxes(-1, -2) * D**-0.5
    if causal:
        row, column = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])[None]
        scores = np.where(column <= row + k.shape[-2] - q.shape[-2], scores, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.log(np.exp(scores).sum(-1))
        p = np.where(np.isfinite(lse)[..., None], np.exp(scores - lse[..., None]), 0.0)
    return p, p @ v, lse


def gradients(q: Array, k: Array, v: Array, of: Array, causal: bool) -> dict[str, Array]:
    """By the softmax's Jacobian, without a row sum of out * dO."""
    p = forward(q, k, v, causal)[0]
    of_p = of @ v.swapaxes(-1, -2)
    of_scores = p * (of_p - (p * of_p).sum(-1, keepdims=True)) * D**-0.5
    return {
        "dQ": of_scores @ k,
        "dK": of_scores.swapaxes(-1, -2) @ q,
        "dV": p.swapaxes(-1, -2) @ of,
    }


def rounded(array: Array) -> Array:
    return pl.BF16.round(array.astype(np.float32)).astype(np.float64)


def drawn(rng: np.random.Generator, *shape: int) -> Array:
    return rounded(rng.normal(size=shape))


@pytest.mark.parametrize("causal", [False, True])
def test_the_three_kernels_are_the_derivative(causal: bool) -> None:
    """With a group of heads per key head: dK and dV are sums over them."""
    rng = np.random.default_rng(7)
    queries, keys, group = 50, 41, 2
    q, of = drawn(rng, 1, 2, group, queries, D), drawn(rng, 1, 2, group, queries, D)
    k, v = drawn(rng, 1, 2, keys, D), drawn(rng, 1, 2, keys, D)
    wide = k[:, :, None], v[:, :, None]
    _, out, lse = forward(q, *wide, causal)
    right = gradients(q, *wide, of, causal)
    rows = pl.kernels.attention_backward_rows(32, D)
    given = rows.evaluate(O=out, dO=of, lse=lse)
    none: dict[str, float] = {}
    of_queries = pl.kernels.attention_backward_queries(32, 32, D, causal=causal)
    found = dict(of_queries.evaluate(none, Q=q, K=k, V=v, dO=of, **given))
    of_keys = pl.kernels.attention_backward_keys(32, 32, D, causal=causal)
    by_row = given | {"Q": q, "dO": of}
    if not causal:  # one head behind the other
        shapes = {name: (1, 2, -1, *array.shape[4:]) for name, array in by_row.items()}
        by_row = {name: array.reshape(shapes[name]) for name, array in by_row.items()}
    found |= of_keys.evaluate(none, K=k, V=v, **by_row)
    assert np.allclose(found["dQ"], right["dQ"], atol=0.03)
    for name in ("dK", "dV"):
        assert np.allclose(found[name], right[name].sum(2), atol=0.05), name


SIZES = ({"q": 45, "keys": 70}, {"q": 45, "keys": 20}, {"q": 0, "keys": 5}, {"q": 5, "keys": 0})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["keys", "queries"])
def test_machine_code_of_any_length(name: str, causal: bool) -> None:
    """More keys than queries and fewer, of which the first see none; and none at all."""
    declare = getattr(pl.kernels, f"attention_backward_{name}")
    loop = declare(32, 32, D, causal=causal)
    emitted = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    outer = {"batch": 1, "heads": 2} | ({"group": 2} if name == "queries" or causal else {})
    for seed, sizes in enumerate(SIZES):
        trial = pl.run(emitted, sizes={**sizes, **outer, "d": D}, seed=seed)
        assert trial.ok, (sizes, trial.summary())


def test_a_block_of_keys_begins_at_its_diagonal() -> None:
    """The last block does as much with many queries before it as with none."""
    loop = pl.kernels.attention_backward_keys(32, 32, D, causal=True)
    emitted = pl.emit(pl.pipeline(loop, "gfx950", waves=1))
    sizes = {"keys": 32, "batch": 1, "heads": 1, "group": 1, "d": D}
    trials = [pl.run(emitted, sizes={**sizes, "q": queries}) for queries in (32, 32 * 9)]
    assert all(trial.ok for trial in trials)
    assert trials[0].executed == trials[1].executed


def test_heads_of_a_group_take_turns_in_one_loop() -> None:
    """Turns of any length and number, apart from each other by what only other heads have."""
    loop = pl.kernels.attention_backward_keys(32, 32, D, causal=True)
    emitted = pl.emit(pl.pipeline(loop, "gfx950", waves=1))
    record = launch_record(emitted)
    assert record["turns"] == "group"
    assert record["batch"] == ["batch", "heads"]
    order = {"Q": ("batch", "q", "heads", "group", "d")}
    for queries, keys, group in ((100, 40, 3), (7, 40, 5), (33, 33, 0)):
        given = order if group else {}
        sizes = {"q": queries, "keys": keys, "group": group, "batch": 1, "heads": 2, "d": D}
        trial = pl.run(emitted, sizes=sizes, order=given)
        assert trial.ok, trial.summary()


def test_all_turns_of_an_array_lie_within_reach_of_one_descriptor() -> None:
    loop = pl.kernels.attention_backward_keys(32, 32, D, causal=True)
    launch = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order)).launch
    sizes = {"q": 64, "keys": 32, "group": 3, "batch": 1, "heads": 1, "d": D}
    launch.check(sizes, strides={"stride_Q_group": 1 << 28})
    with pytest.raises(pl.EmitError, match="2 GiB"):
        launch.check(sizes | {"group": 5}, strides={"stride_Q_group": 1 << 28})


@pytest.mark.parametrize("wrong", ["no array's", "shares"])
def test_turns_are_the_last_dimension_before_tiles(wrong: str) -> None:
    loop = pl.Loop("sum", over="q")
    x = loop.stream("X", pl.F32, q=32, n=32)
    total = loop.carry("total", n=32)
    total += pl.within(x, loop.left("q", 32)).sum("q")
    loop.store("out", total)
    loop.batch("out", over=("batch",))
    loop.batch("X", over=("batch", "group"))
    loop.turns("group")
    assert loop.evaluate(X=np.ones((1, 3, 40, 32)))["out"][0, 0] == 120
    if wrong == "shares":
        loop.share("batch")
    else:
        loop.batch("X", over=("group", "batch"))
    with pytest.raises(pl.ScheduleError, match=r"turns|batch dimensions"):
        _ = loop.meaning


def test_what_takes_turns_masks_the_end_of_each() -> None:
    loop = pl.Loop("gemm", over="k")
    a, b = (loop.stream(name, pl.BF16, k=32, **{dim: 32}) for name, dim in (("A", "m"), ("B", "n")))
    c = loop.carry("C", m=32, n=32)
    c += a.staged() @ b.staged()
    loop.store("out", c)
    loop.batch("A", "B", over=("parts",))
    loop.turns("parts")
    with pytest.raises(pl.ScheduleError, match="behind the end"):
        pl.pipeline(loop, "gfx950", waves=1, strategy=in_order)


@pytest.mark.parametrize("causal", [False, True])
def test_one_kernel_adds_its_parts_of_dq(causal: bool) -> None:
    """Blocks of keys add to the same dQ, over the queries: in NumPy, and the rest as before."""
    rng = np.random.default_rng(8)
    q, of, k, v = (drawn(rng, 1, 1, rows, D) for rows in (50, 50, 70, 70))
    p, out, lse = forward(q, k, v, causal)
    del p
    rows = pl.kernels.attention_backward_rows(32, D)
    shift = rows.evaluate(O=out[:, :, None], dO=of[:, :, None], lse=lse[:, :, None])
    given = {name: array[:, :, 0] for name, array in shift.items()}
    loop = pl.kernels.attention_backward_added(32, 32, D, causal=causal)
    none: dict[str, float] = {}
    given |= {"Q": q, "K": k, "V": v, "dO": of, "dQ": np.ones((1, 1, 50, D))}
    found = loop.evaluate(none, **given)
    right = gradients(q, k, v, of, causal)
    right["dQ"] += 1
    for name, array in right.items():
        assert np.allclose(found[name], array, atol=0.05), name


@pytest.mark.parametrize(
    ("arch", "causal", "waves"), [("gfx950", False, 2), ("gfx950", True, 1), ("gfx942", True, 1)]
)
def test_the_parts_of_dq_in_machine_code(arch: str, causal: bool, waves: int) -> None:
    """Also of several waves, which divide keys, and columns of dQ; causal, from the diagonal on."""
    loop = pl.kernels.attention_backward_added(32 * waves, 32, D * waves, causal=causal)
    program = pl.pipeline(loop, arch, waves=waves, strategy=in_order)
    verdict = pl.verify(program)
    assert verdict.status is pl.Status.PROVED
    assert "order of sums in dQ" in verdict.summary()
    emitted = pl.emit(program)
    for seed, sizes in enumerate(({"q": 45, "keys": 70}, {"q": 100, "keys": 5})):
        trial = pl.run(emitted, sizes={**sizes, "batch": 1, "heads": 1, "d": D * waves}, seed=seed)
        assert trial.ok, (sizes, trial.summary())


def test_waves_divide_columns_of_a_sum_over_their_keys() -> None:
    """dS of all waves comes through LDS, so that each element of dQ is added by one of them."""
    loop = pl.kernels.attention_backward_added(64, 32, 64)
    lowered = lower(loop.meaning, GFX950, loop.ops, loop.staged, 2)
    (store,) = (t for t in lowered.tasks if t.label == "store dQ")
    assert store.parts == (((0, 32), (0, 32)), ((0, 32), (32, 64)))
    (keys,) = (t for t in lowered.tasks if t.node == "dK sum.next")
    assert [part[0] for part in keys.parts] == [(0, 32), (32, 64)]
    with pytest.raises(pl.ScheduleError, match="cannot share it"):  # S sums over it in registers
        lower(loop.meaning, GFX950, loop.ops, loop.staged, {"q": 2})


def test_results_that_pass_lds_stand_between_products() -> None:
    """A barrier stands between what waves write and what others read of it, in the same order."""
    loop = pl.kernels.attention_backward_added(64, 32, 64)
    lowered = lower(loop.meaning, GFX950, loop.ops, loop.staged, 2)
    pattern = Pattern(room=80, lead=64, quiet=(16, 16))
    program = woven(lowered, pattern)
    body = next(s for s in program.groups[0].sections if s.trips is not None)
    places = [n for n, s in enumerate(body.steps) if isinstance(s, Work) and "dQ" in s.label]
    assert len(places) == 4 * program.step, "atomic additions among the products"


def test_what_is_added_per_iteration_is_added_once_in_each() -> None:
    """A step of the loop that stands twice in it would count double."""
    loop = pl.kernels.attention_backward_added(32, 32, D)
    program = pl.pipeline(loop, "gfx950", waves=1, strategy=in_order)
    (group,) = program.groups
    body = next(section for section in group.sections if section.trips is not None)
    stores = [
        s for s in body.steps if isinstance(s, Work) and s.writes[:1] and s.label == "store dQ"
    ]
    sections = tuple(
        replace(s, steps=(*s.steps, *stores)) if s is body else s for s in group.sections
    )
    with pytest.raises(pl.ScheduleError, match="more than once"):
        replace(program, groups=(replace(group, sections=sections),))


def test_a_sum_of_what_blocks_divide_is_whole_unless_it_is_added() -> None:
    """What is stored, or more than multiplied before it is added, needs all of its terms."""
    assert "keys" not in pl.kernels.attention_backward_added(32, 32, D).meaning.uncut
    for square, adds in ((False, True), (True, True), (False, False)):
        loop = pl.Loop("sums", over="q")
        x = loop.stream("X", pl.F32, q=32, n=32)
        each = x.sum("n") * 2
        loop.store("by row", each * each if square else each)
        loop.store("out", x)
        if adds:
            loop.adds("by row")
        if adds and square:
            with pytest.raises(pl.ScheduleError, match="would each add it"):
                _ = loop.meaning
        else:
            assert ("n" in loop.meaning.uncut) is not adds


def test_only_a_result_that_lies_across_goes_through_lds() -> None:
    loop = pl.Loop("gemm", over="k")
    a, b = (loop.stream(name, pl.BF16, k=32, **{dim: 32}) for name, dim in (("A", "m"), ("B", "n")))
    c = loop.carry("C", m=32, n=32)
    s = (a.staged() @ b.staged()).to(pl.BF16).named("S").staged()
    c += s.to(pl.F32)
    loop.store("out", c)
    with pytest.raises(pl.ScheduleError, match="no product takes it"):
        pl.pipeline(loop, "gfx950", waves=1, strategy=in_order)


def test_a_loop_may_begin_late_only_if_it_masks_what_is_before() -> None:
    loop = pl.Loop("sum", over="q", since="keys")
    x = loop.stream("X", pl.F32, q=32, keys=32)
    total = loop.carry("total", keys=32)
    total += pl.within(x, loop.left("q", 32)).sum("q")
    loop.store("out", total)
    with pytest.raises(pl.ScheduleError, match="earlier iterations"):
        _ = loop.meaning


def test_rows_in_machine_code() -> None:
    """Rows that see no key come with minus infinity, and leave as a large number."""
    loop = pl.kernels.attention_backward_rows(32, D)
    emitted = pl.emit(pl.pipeline(loop, "gfx950", waves=1))
    sizes = {"q": 45, "v": D, "batch": 1, "heads": 1, "group": 2}
    lse = np.linspace(-3, 3, 90, dtype=np.float32).reshape(1, 1, 2, 45)
    lse[..., ::7] = -np.inf
    assert pl.run(emitted, sizes=sizes, arrays={"lse": lse}).ok
