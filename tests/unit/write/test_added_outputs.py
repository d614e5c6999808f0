"""Outputs that are added to what their arrays hold: right in the emulator, and nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.declare.added import gemm_added
from pipeloom.declare.experts import moe_down
from pipeloom.judge.execute.allowed import allowed
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Meaning, Program, Work
from pipeloom.program.index_forms import digit

pytestmark = pytest.mark.usefixtures("short_search")


def sums(out: str = "f32", waves: int = 1) -> pl.Loop:
    """Rows of a product, added to the rows that an index array names."""
    loop = pl.Loop("sums", over="k")
    a = loop.stream("A", pl.BF16, m=32, k=32).staged()
    b = loop.stream("B", pl.BF16, n=32 * waves, k=32).staged()
    total = loop.carry("C", m=32, n=32 * waves)
    total += a @ b
    loop.store("out", total.to(out))
    column = digit("f", "columns")
    loop.place("out", n=(column,), rows=loop.indices("ids", "m"), columns=column)
    loop.adds("out")
    return loop


@pytest.mark.parametrize(("arch", "waves"), [("gfx950", 1), ("gfx942", 2)])
def test_rows_named_several_times_are_added_up(arch: str, waves: int) -> None:
    kernel = pl.emit(pl.pipeline(sums(waves=waves), arch, waves=waves))
    assert kernel.status.name == "PROVED"
    rng = np.random.default_rng(5)
    sizes = {"m": 70, "n": 37, "k": kernel.k_min, "rows": 9}
    for data in ("integers", "normal"):
        ids = rng.integers(-2, 11, 70).astype(np.int32)
        start = rng.standard_normal((9, 37)).astype(np.float32)
        given: dict[str, Any] = {"ids": ids} | ({"out": start} if data == "normal" else {})
        trial = pl.run(kernel, sizes=sizes, arrays=given, data=data, seed=3)
        assert trial.ok, trial.summary()


def test_what_it_means() -> None:
    a, b = np.arange(6.0).reshape(3, 2), np.eye(2)
    start = np.full((2, 2), 100.0)
    found = sums().evaluate(None, A=a, B=b, ids=np.array([1, 1, 7]), out=start)["out"]
    np.testing.assert_array_equal(found, [[100, 100], [102, 104]])


def test_bounds_hold_in_any_order_and_no_wider_than_that() -> None:
    """Whole numbers are exact; of others each order is inside, and what is lost by an addition of
    twice the numbers is not."""
    rng = np.random.default_rng(6)
    a, ids = rng.standard_normal((50, 4)).astype(np.float32), np.zeros(50, np.int64)
    loop = sums("f32")
    arrays = {"A": np.rint(a), "B": np.eye(4), "ids": ids, "out": np.zeros((1, 4))}
    sizes = {"rows": 1}
    whole = allowed(loop.meaning, arrays, sizes=sizes)["out"]
    np.testing.assert_array_equal(whole["low"], whole["high"])
    rows = loop.meaning["A"].type.dtype.round(a)
    bounds = allowed(loop.meaning, arrays | {"A": a}, sizes=sizes)["out"][0]
    for _ in range(20):
        total = np.zeros(4, np.float32)
        for row in rows[rng.permutation(50)]:
            total += row
        assert (bounds["low"] <= total).all()
        assert (total <= bounds["high"]).all()
    assert (bounds["high"] - bounds["low"] < 1e-3).all()


def test_the_verdict_says_that_no_order_is_decided() -> None:
    verdict = pl.verify(pl.pipeline(sums(), "gfx950", waves=1))
    assert verdict.any_order == ("out",)
    assert "but for the order of sums in out" in verdict.claim


def test_it_is_written_as_it_is() -> None:
    meaning = sums().meaning
    assert from_plain(Meaning, to_plain(meaning), "meaning") == meaning
    program = pl.pipeline(sums(), "gfx950", waves=1)
    assert Program.from_json(program.to_json()) == program


def test_nothing_is_added_twice() -> None:
    """A store that stands twice, or that two waves do alike, is no program."""
    program = pl.pipeline(sums(waves=2), "gfx950", waves=2)
    (group,) = program.groups
    last = group.sections[-1]
    stores = [s for s in last.steps if isinstance(s, Work) and s.writes[0].resource == "out"]
    alike = [
        replace(s, parts=s.parts[:1], writes=(replace(s.writes[0], boxes=s.writes[0].boxes[:1]),))
        if s in stores
        else s
        for s in last.steps
    ]
    for steps in ((*last.steps, stores[0]), tuple(alike)):
        sections = (*group.sections[:-1], replace(last, steps=steps))
        with pytest.raises(pl.ScheduleError, match="more than once"):
            replace(program, groups=(replace(group, sections=sections),))


def test_boxes_of_other_dimensions_are_refused_as_such() -> None:
    """What comes from a file is looked at before anything is compared."""
    plain = json.loads(pl.pipeline(sums(), "gfx950", waves=1).to_json())
    steps = plain["groups"][0]["sections"][-1]["steps"]
    stores = [s for s in steps if s.get("writes") and s["writes"][0]["resource"] == "out"]
    stores[0]["writes"][0]["boxes"] = [[[0, 16]]]
    steps.append(stores[0])
    with pytest.raises(pl.ScheduleError):
        Program.from_json(json.dumps(plain))


def test_what_cannot_be_added_is_refused() -> None:
    with pytest.raises(pl.ScheduleError, match="outputs of f32"):
        pl.pipeline(sums("bf16"), "gfx950", waves=1)
    loop = pl.Loop("rows", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32)
    total = loop.carry("C", m=32, n=32)
    total += a.staged() @ b.staged()
    loop.store("out", total.sum("n"))
    loop.adds("out")
    with pytest.raises(pl.ScheduleError, match="several lanes have"):
        pl.pipeline(loop, "gfx950", waves=1)
    loop = sums()
    loop.store("more", loop.resident("Y", "f32", p=32) * 2)
    with pytest.raises(pl.ScheduleError, match="workgroups along 'p' would each add it"):
        pl.pipeline(loop, "gfx950", waves=1)


def test_slots_of_a_token_are_added_up() -> None:
    """Two slots of each token, in any order of pairs; padding adds nothing."""
    rng = np.random.default_rng(7)
    h, d = rng.integers(-2, 3, (6, 16)), rng.integers(-2, 3, (1, 8, 16))
    ids = np.array([t | s << 24 for s in (1, 0) for t in (2, 0, 1)] + [2 << 24 | 3] * 10)
    weights = rng.integers(1, 4, 16)
    loop = moe_down(16, 16, 16, slots=2, add=True)
    arrays: dict[str, Any] = {"H": h, "D": d, "ids": ids, "weights": weights, "Y": np.ones((3, 8))}
    found = loop.evaluate(None, experts=np.zeros(1, np.int64), **arrays)["Y"]
    meant = np.ones((3, 8))
    for entry, weight in zip(ids[:6], weights[:6], strict=True):
        token, slot = entry & 0xFFFFFF, entry >> 24
        meant[token] += weight * (d[0] @ h[2 * token + slot])
    np.testing.assert_array_equal(found, meant)


def test_slices_of_a_split_sum_are_added_up() -> None:
    """Views of matrices whose rows go on; none are nothing."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-2, 3, (rows, 3, 16)).transpose(1, 0, 2) for rows in (5, 7))
    loop, start = gemm_added(16, 16, 16), np.ones((5, 7))
    found = loop.evaluate(None, A=a, B=b, C=start)["C"]
    np.testing.assert_array_equal(found, 1 + np.einsum("smk,snk->mn", a, b))
    kernel = pl.emit(pl.pipeline(gemm_added(32, 32, 32), "gfx950", waves=1))
    for slices in (0, 3):
        sizes = {"m": 33, "n": 20, "k": kernel.k_min, "slices": slices}
        trial = pl.run(kernel, sizes=sizes, data="normal")
        assert trial.ok, trial.summary()
