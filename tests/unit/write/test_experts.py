"""Rows gathered and scattered by index arrays, experts chosen by block: in the emulator, against
NumPy; what index arrays must be."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from benchmarks.family_cases.drawn import Kind
from benchmarks.family_cases.experts import BLOCK, SLOTS, draw_problem
from pipeloom.declare import Loop
from pipeloom.declare.experts import grouped, moe_down, moe_up
from pipeloom.device.contracts import KernelContract
from pipeloom.device.hip_errors import DeviceError
from pipeloom.device.tensors import view_of
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.errors import ConfigError, GraphError
from pipeloom.judge.emulate import LaunchError
from pipeloom.order.in_order import in_order
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Meaning
from pipeloom.program.index_forms import digit
from pipeloom.write import EmitError, launch_record

pytestmark = pytest.mark.usefixtures("short_search")
Array = np.ndarray[Any, Any]
CASES = {
    "grouped": Kind(grouped(BLOCK, 64, 64), "gfx950"),
    "up": Kind(moe_up(BLOCK, 64, 64, slots=SLOTS), "gfx950"),
    "down": Kind(moe_down(BLOCK, 64, 64, slots=SLOTS), "gfx950"),
    "up, clamped and shuffled": Kind(
        moe_up(BLOCK, 64, 64, slots=SLOTS, limit=7.0, shuffled=True), "gfx950"
    ),
    "narrow loads": Kind(grouped(BLOCK, 64, 32, "fp16", "f32"), "gfx942"),
}


@cache
def built(case: str) -> Launchable:
    return CASES[case].ready()


def sizes_of(kernel: Launchable, **changed: int) -> dict[str, int]:
    depth = kernel.emitted.launch.least
    usual = {"m": 128, "m_blocks": 2, "r": 9, "d": depth, "k": depth, "n": 8, "e": 2}
    return usual | changed


def test_what_they_mean() -> None:
    """Row by row, with whole numbers: both stages of routed experts."""
    rng = np.random.default_rng(2)
    tokens, slots, experts, depth, wide = 7, 2, 3, 16, 5
    x = rng.integers(-2, 3, (tokens, depth)).astype(np.float32)
    g, u = (rng.integers(-2, 3, (experts, wide, depth)).astype(np.float32) for _ in range(2))
    of = rng.integers(0, experts, (tokens, slots))
    ids: Array = np.zeros(0, np.int64)
    chosen: list[int] = []
    pairs = [(t, s) for t in range(tokens) for s in range(slots)]
    for expert in range(experts):
        mine = np.array([t | s << 24 for t, s in pairs if of[t, s] == expert])
        padded = np.full(-(-len(mine) // 16) * 16, slots << 24 | tokens)
        padded[: len(mine)] = mine
        ids, chosen = np.append(ids, padded), chosen + [expert] * (len(padded) // 16)
    before = np.full((tokens * slots + slots, wide), 9.0, np.float32)
    loop = moe_up(16, 16, 16, out="f32", slots=slots, activation="relu")
    arrays: dict[str, Any] = {
        "X": x,
        "G": g,
        "U": u,
        "ids": ids,
        "experts": np.array(chosen),
        "H": before,
    }
    found = loop.evaluate(None, **arrays)["H"]
    for token, slot in pairs:
        e = of[token, slot]
        meant = np.maximum(g[e] @ x[token], 0) * (u[e] @ x[token])
        np.testing.assert_array_equal(found[token * slots + slot], meant)
    assert (found[tokens * slots :] == 9).all()
    clamped = moe_up(16, 16, 16, out="f32", slots=slots, limit=7.0).evaluate(None, **arrays)["H"]
    for token, slot in pairs:
        e = of[token, slot]
        gate, up = np.minimum(g[e] @ x[token], 7), np.clip(u[e] @ x[token], -7, 7)
        meant = (up + 1) * gate / (1 + np.exp(-1.702 * gate.astype(np.float64)))
        np.testing.assert_allclose(clamped[token * slots + slot], meant, rtol=1e-5, atol=1e-6)
    h = rng.integers(-2, 3, (tokens * slots, depth)).astype(np.float32)
    weights = rng.integers(1, 4, len(ids)).astype(np.float32)
    down = moe_down(16, 16, 16, slots=slots)
    y = down.evaluate(None, H=h, D=g, ids=ids, experts=np.array(chosen), weights=weights)["Y"]
    place = {int(i): n for n, i in enumerate(ids)}
    for token in range(tokens):
        for slot in range(slots):
            meant = weights[place[token | slot << 24]] * (
                g[of[token, slot]] @ h[token * slots + slot]
            )
            np.testing.assert_array_equal(y[token * slots + slot], meant)


@pytest.mark.parametrize("case", CASES)
def test_random_problems_are_right(case: str) -> None:
    """Padding, entries and blocks of nothing, tokens down to 1; only named rows are written."""
    kernel = built(case)
    for seed in range(3):
        rng = np.random.default_rng([seed, len(case)])
        trial = draw_problem(rng, CASES[case], kernel, seed).run(kernel)
        assert trial.ok, trial.summary()


def test_padding_writes_nothing() -> None:
    """Two rows are named: all others keep their bytes, though columns are ragged."""
    kernel = built("grouped")
    rows = np.full(128, -1)
    rows[3], rows[70] = 8, 2
    arrays: dict[str, Any] = {"rows": rows, "experts": [1, 0]}
    trial = run_program(kernel.emitted, kernel, sizes=sizes_of(kernel, n=7), arrays=arrays)
    assert trial.ok, trial.summary()
    untouched = {bytes(row.tobytes()) for row in trial.outputs["out"][[0, 1, 3, 4, 5, 6, 7]]}
    assert len(untouched) == 1


def test_no_choice_no_work() -> None:
    kernel = built("grouped")
    trials = [
        run_program(kernel.emitted, kernel, sizes=sizes_of(kernel), arrays={"experts": experts})
        for experts in (np.array([0, -1]), np.array([-1, 2]))
    ]
    assert all(trial.ok for trial in trials)
    assert trials[1].executed < trials[0].executed / 4


def test_a_row_named_twice_is_refused() -> None:
    kernel = built("grouped")
    rows = np.full(128, -1)
    rows[0] = rows[100] = 4
    with pytest.raises(LaunchError, match="names row 4 of out more than once"):
        run_program(kernel.emitted, kernel, sizes=sizes_of(kernel), arrays={"rows": rows})
    ended: dict[str, Any] = {"rows": rows, "experts": [0, -1]}  # the second block stores nothing
    assert run_program(kernel.emitted, kernel, sizes=sizes_of(kernel), arrays=ended).ok


def test_the_loop_is_that_of_the_product() -> None:
    loop = CASES["grouped"].loop
    plain = loop.unplaced()
    assert plain is not None
    programs = [pipeline(one, "gfx950", 4) for one in (loop, plain)]
    mine, its = (p.groups[0].sections[1].steps for p in programs)
    assert mine == its


def test_a_record_has_the_index_arrays() -> None:
    kernel = built("grouped")
    contract = KernelContract.of(launch_record(kernel.emitted))
    depth = kernel.emitted.launch.least
    arrays: dict[str, Any] = {
        "X": np.zeros((9, depth), np.uint16),
        "W": np.zeros((2, 8, depth), np.uint16),
        "rows": np.zeros(100, np.int32),
        "experts": np.zeros(2, np.int32),
        "out": np.zeros((9, 8), np.uint16),
    }
    laid = contract.laid({n: view_of(a, n) for n, a in arrays.items()})
    found, batches = contract.sizes(laid)
    contract.check(found, laid, batches)
    assert (found["m"], found["m_blocks"], contract.grid(found)) == (100, 2, (1, 2, 1))
    arrays["experts"] = np.zeros(1, np.int32)
    laid = contract.laid({n: view_of(a, n) for n, a in arrays.items()})
    with pytest.raises(DeviceError, match="gives 2 along m_blocks"):
        contract.sizes(laid)


def test_too_few_experts_are_refused() -> None:
    kernel = built("grouped")
    with pytest.raises(ConfigError, match="1 entries, and there are 2 blocks"):
        run_program(kernel.emitted, kernel, sizes=sizes_of(kernel, m_blocks=1))


def test_rows_that_lie_too_far_apart() -> None:
    launch = built("grouped").emitted.launch
    sizes = sizes_of(built("grouped"), r=1 << 25, f=8)
    with pytest.raises(EmitError, match="2 GiB or more"):
        launch.check(sizes)


def scattered(**changes: Any) -> Loop:
    loop = Loop("scattered", over="k")
    a, b = loop.stream("A", "bf16", m=16, k=16), loop.stream("B", "bf16", n=16, k=16)
    total = loop.carry("sum", m=16, n=16)
    total += a @ b
    loop.store("out", total)
    rows, column = loop.indices("rows", "m"), digit("f", "columns")
    dims = {"n": (column,), "r": rows, "columns": column, **changes}
    loop.place("out", **{dim: value for dim, value in dims.items() if value is not None})
    return loop


def test_refused_when_it_is_declared() -> None:
    column, row = digit("f", "columns"), digit("p", "r")
    assert scattered().meaning
    with pytest.raises(GraphError, match="and its place counts"):
        scattered(m=(row,), r=row).meaning  # noqa: B018
    with pytest.raises(GraphError, match="is stored at"):
        scattered(columns=2 * column).meaning  # noqa: B018
    with pytest.raises(ConfigError, match="whose size no input says"):
        scattered().evaluate(A=np.zeros((4, 16)), B=np.zeros((4, 16)), rows=np.arange(4))
    loop = scattered()
    loop.choose("A", over="e", by="rows", per="m")
    with pytest.raises(GraphError, match="and something else"):
        loop.evaluate(
            A=np.zeros((2, 4, 16)), B=np.zeros((4, 16)), rows=np.arange(4), out=np.zeros((4, 4))
        )
    with pytest.raises(ConfigError, match="width"):
        loop.indices("ids", "m").part(24, 9)


def test_an_index_array_is_data() -> None:
    meaning = moe_up(16, 16, 16).meaning
    assert from_plain(Meaning, to_plain(meaning)) == meaning


def test_an_output_by_block_says_so() -> None:
    """Without rows, blocks of different experts would store it one over the other."""
    loop = Loop("choice", over="k")
    a, w = loop.stream("A", "bf16", m=32, k=32).staged(), loop.stream("W", "bf16", n=32, k=32)
    total = loop.carry("C", m=32, n=32)
    total += a @ w.staged()
    loop.store("out", total)
    loop.store("of expert", loop.resident("Y", "f32", n=32) * 2)
    loop.choose("W", "Y", over="e", by="experts", per="m")
    loop.meaning.check_sizes({"m": 32, "n": 70, "e": 2})
    with pytest.raises(ConfigError, match="a workgroup takes the first 32"):
        loop.meaning.check_sizes({"m": 33, "n": 70, "e": 2})


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_gathered_rows_that_end_within_a_tile(arch: str) -> None:
    """The last row of the array is the last that there is: what lies behind its columns is another
    row for all others, and nobody's memory behind that one."""
    loop = pl.Loop("lifted", over="d")
    x = loop.stream("X", pl.F32, m=16, d=32)
    column = pl.digit("column", "columns")
    loop.place("X", d=(column,), r=loop.indices("rows", "m"), columns=column)
    loop.store("out", x)
    kernel = pl.emit(pl.pipeline(loop, arch, waves=1, strategy=in_order))
    rows = np.array([*range(6, -1, -1), 7, -1, 6, 6])
    for columns in (4, 32, 40):
        sizes = {"r": 7, "m": len(rows), "columns": columns, "d": columns}
        trial = pl.run(kernel, sizes=sizes, arrays={"rows": rows})
        assert trial.ok, trial.summary()
        inside = (rows >= 0) & (rows < 7)
        assert (trial.outputs["out"][~inside] == 0).all()
        assert trial.outputs["out"][inside].any()
