"""A kernel of one's own: a product with a bias and an activation, in a dozen lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeloom as pl

LEAKY = pl.OpDef(
    "acme.leaky",
    1,
    lambda a: np.maximum(a, a * np.float32(0.25)),
    lowering=("v_mul_f32 {t}, 0.25, {0}", "v_max_f32 {d}, {0}, {t}"),
)
GFX950 = pl.target_for("gfx950")


def layer(m: int = 32, n: int = 32, k: int = 64) -> pl.Loop:
    """out[m, n] = leaky(scale * sum over k of X[m, k] W[n, k] + bias[n])."""
    loop = pl.Loop("layer", over="k")
    x = loop.stream("X", pl.BF16, m=m, k=k)
    w = loop.stream("W", pl.BF16, n=n, k=k)
    bias = loop.resident("bias", pl.F32, n=n)
    scale = loop.scalar("scale")
    sums = loop.carry("sums", pl.F32, m=m, n=n)
    sums += x.staged() @ w.staged()
    loop.store("out", loop.apply(LEAKY, sums * scale + bias).to(pl.BF16))
    return loop


LOOP = layer()
SCALE = {"scale": 0.5}


@pytest.fixture(scope="module")
def program() -> pl.Program:
    return pl.pipeline(LOOP, GFX950, waves=4, depth=2, strategy=pl.Exact(work_limit=1.0))


@pytest.fixture(scope="module")
def emitted(program: pl.Program) -> pl.EmittedKernel:
    return pl.emit(program, ops=LOOP.ops)


def test_it_means_a_line_of_numpy() -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-3, 4, (rows, 100)).astype(np.float32) for rows in (50, 41))
    bias = rng.integers(-3, 4, 41).astype(np.float32)
    sums = 0.5 * (x @ w.T) + bias
    expected = pl.BF16.round(np.maximum(sums, sums / 4))
    out = LOOP.evaluate(X=x, W=w, bias=bias, scalars=SCALE)["out"]
    np.testing.assert_array_equal(out, expected)


def test_it_is_proved_and_executed(program: pl.Program) -> None:
    assert pl.verify(program, ops=LOOP.ops).proved
    for order in ("forward", "reverse"):
        assert pl.execute(program, trips=1, ops=LOOP.ops, order=order).correct


def test_it_is_simulated_and_traced(program: pl.Program) -> None:
    trace = pl.simulate(program)
    ((_, per_trip),) = program.iterations.factors
    ordered = program.provenance.ordered
    assert ordered is not None
    assert ordered.cycles is not None
    derived = ordered.cycles * per_trip
    assert 0.75 * derived < trace.steady_cycles_per_iteration < 1.5 * derived
    assert json.loads(pl.chrome_trace(trace))["traceEvents"]


def test_it_has_a_page(program: pl.Program, tmp_path: Path) -> None:
    page = tmp_path / "layer.html"
    page.write_text(pl.report(program, ops=LOOP.ops), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert "<title>layer" in text
    assert "acme.leaky" in text
    assert "PROVED" in text


@pytest.mark.parametrize(
    "sizes", [{"m": 32, "n": 32}, {"m": 45, "n": 37}, {"m": 1, "n": 70}], ids=str
)
def test_it_runs(emitted: pl.EmittedKernel, sizes: dict[str, int]) -> None:
    depth = emitted.k_min + emitted.k_step
    trial = pl.run(emitted, sizes={**sizes, "k": depth}, ops=LOOP.ops, scalars=SCALE, seed=2)
    assert trial.ok, trial.summary()


def test_it_runs_on_numbers_that_round(emitted: pl.EmittedKernel) -> None:
    sizes = {"m": 33, "n": 36, "k": emitted.k_min}
    trial = pl.run(emitted, sizes=sizes, ops=LOOP.ops, scalars=SCALE, data=pl.Data.NORMAL)
    assert trial.ok, trial.summary()


def test_depths_it_cannot_sum_are_refused(emitted: pl.EmittedKernel) -> None:
    sizes = {"m": 32, "n": 32, "k": emitted.k_min + 1}
    with pytest.raises(pl.ScheduleError, match="k"):
        pl.run(emitted, sizes=sizes, ops=LOOP.ops, scalars=SCALE)


def test_what_a_launch_lacks_is_named(emitted: pl.EmittedKernel) -> None:
    sizes = {"m": 32, "n": 32, "k": emitted.k_min}
    with pytest.raises(pl.ScheduleError, match="layer needs the scalar 'scale'"):
        pl.run(emitted, sizes=sizes, ops=LOOP.ops)
    with pytest.raises(pl.ScheduleError, match="the size along 'n' is None"):
        pl.run(emitted, sizes={"m": 32, "k": emitted.k_min}, ops=LOOP.ops, scalars=SCALE)


def test_what_the_run_of_a_loop_lacks_is_named_before_any_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeloom.drive.programs.emit", lambda *_, **__: pytest.fail("searched"))
    with pytest.raises(pl.ScheduleError, match="layer needs the scalar 'scale'"):
        pl.run(LOOP, sizes={"m": 32, "n": 32, "k": 64})
    with pytest.raises(pl.ScheduleError, match="the size along 'n' is None"):
        pl.run(LOOP, sizes={"m": 32, "k": 64}, scalars=SCALE)


def test_new_waits_for_old(program: pl.Program) -> None:
    """Without its waits it is wrong, and ``synchronize`` finds them again."""
    bare = pl.Program.from_dict(without_waits(program.to_dict()))
    assert not pl.verify(bare, ops=LOOP.ops).proved
    again = pl.synchronize(bare, ops=LOOP.ops)
    assert pl.verify(again, ops=LOOP.ops).proved
    kept = pl.synchronize(bare, keep_barriers=True, ops=LOOP.ops)
    assert pl.verify(kept, ops=LOOP.ops).proved


def without_waits(plain: dict[str, object]) -> dict[str, object]:
    def stripped(value: object) -> object:
        if isinstance(value, list):
            kept = [x for x in value if not (isinstance(x, dict) and x.get("is") == "wait")]
            return [stripped(x) for x in kept]
        return {k: stripped(v) for k, v in value.items()} if isinstance(value, dict) else value

    return {key: stripped(value) for key, value in plain.items()}


def test_the_verbs_take_a_declaration() -> None:
    """Ordered as ``pipeline`` does by default, with the ops that the loop brings along."""
    program = pl.pipeline(LOOP, pl.target_for("gfx950"), 4)
    assert pl.verify(LOOP).proved
    assert pl.execute(LOOP, trips=1).correct
    assert pl.simulate(LOOP).total_cycles == pl.simulate(program).total_cycles
    assert pl.emit(LOOP).text == pl.emit(program, ops=LOOP.ops).text
    assert pl.report(LOOP) == pl.report(program, ops=LOOP.ops)
    least = pl.emit(LOOP).k_min
    assert pl.run(LOOP, sizes={"m": 40, "n": 33, "k": least}, scalars={"scale": 0.5}).ok


def test_a_declaration_has_no_order_that_could_be_synchronised() -> None:
    with pytest.raises(pl.ScheduleError, match="Program"):
        pl.synchronize(LOOP)  # type: ignore[call-overload]


def test_what_is_no_kernel_is_refused() -> None:
    verbs: tuple[Any, ...] = (pl.verify, pl.synchronize, pl.simulate, pl.emit, pl.report)
    for verb in verbs:
        with pytest.raises(pl.ConfigError, match="takes"):
            verb(7)


def test_options_of_schedules_are_not_for_programs(program: pl.Program) -> None:
    with pytest.raises(pl.ConfigError, match="dtype is for compiled schedules"):
        pl.emit(program, dtype="bf16")


def test_groups_of_waves_and_both_chips() -> None:
    """Loads by a wave of their own, on the older chip."""
    roles = (pl.Producer(1), pl.Consumer(4))
    target = pl.target_for("gfx942")
    program = pl.pipeline(LOOP, target, groups=roles, depth=2, strategy=pl.Exact(work_limit=1.0))
    assert pl.verify(program, ops=LOOP.ops).proved
    emitted = pl.emit(program, ops=LOOP.ops)
    sizes = {"m": 40, "n": 33, "k": emitted.k_min}
    trial = pl.run(emitted, sizes=sizes, ops=LOOP.ops, scalars=SCALE)
    assert trial.ok, trial.summary()
