"""A vector op of one's own: its meaning in NumPy, and the instructions that compute it."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

import pipeloom as pl

RELU6 = pl.OpDef(
    "acme.relu6",
    1,
    lambda a: np.clip(a, 0, 6),
    lowering=("v_max_f32 {t}, 0, {0}", "v_min_f32 {d}, 0x40c00000, {t}"),
)
WRONG = pl.OpDef(
    "acme.relu5",
    1,
    lambda a: np.clip(a, 0, 5),
    lowering=RELU6.lowering,
)
WORDLESS = pl.OpDef("acme.relu7", 1, lambda a: np.clip(a, 0, 7))


def clipped_sum(op: pl.OpDef) -> pl.Loop:
    """out[b, n] = sum over k of op(X[b, k, n])."""
    loop = pl.Loop("clipped_sum", over="k")
    x = loop.stream("X", pl.F32, b=1, k=1, n=256)
    total = loop.carry("total", pl.F32, b=1, n=256)
    total += loop.apply(op, x * 4.0).sum("k")
    loop.store("out", total)
    return loop


@cache
def piped(op: pl.OpDef) -> pl.Program:
    return pl.pipeline(
        clipped_sum(op),
        pl.target_for("gfx950"),
        waves=1,
        depth=2,
        strategy=pl.Exact(work_limit=1.0),
    )


def words(op: pl.OpDef) -> pl.Vocabulary:
    return pl.VOCABULARY.extended(op)


def test_it_means_its_function() -> None:
    x = np.arange(-300, 300, dtype=np.float32).reshape(1, 2, 300)
    out = clipped_sum(RELU6).evaluate(X=x)["out"]
    np.testing.assert_array_equal(out, np.clip(4 * x, 0, 6).sum(axis=1))


def test_it_is_proved_executed_and_simulated() -> None:
    program = piped(RELU6)
    assert pl.verify(program, ops=words(RELU6)).proved
    assert pl.execute(program, trips=2, ops=words(RELU6)).correct
    assert pl.simulate(program).steady_cycles_per_iteration > 0


def test_its_instructions_run_as_it_means() -> None:
    emitted = pl.emit(piped(RELU6), ops=words(RELU6))
    assert "v_min_f32" in emitted.text
    for trips, columns in ((0, 256), (2, 259)):
        sizes = {"b": 2, "k": emitted.k_min + trips * emitted.k_step, "n": columns}
        trial = pl.run(emitted, sizes=sizes, ops=words(RELU6), seed=trips)
        assert trial.ok, trial.summary()


def test_instructions_that_compute_something_else_are_found_out() -> None:
    emitted = pl.emit(piped(WRONG), ops=words(WRONG))
    sizes = {"b": 1, "k": emitted.k_min, "n": 256}
    trial = pl.run(emitted, sizes=sizes, ops=words(WRONG))
    assert not trial.ok
    assert "elements of out wrong" in trial.summary()


def test_an_instruction_that_does_not_exist_is_named_with_near_ones() -> None:
    misspelt = pl.OpDef("acme.relu4", 1, RELU6.function, lowering=("v_maxx_f32 {d}, 0, {0}",))
    with pytest.raises(pl.ScheduleError, match=r"'acme\.relu4'.* unknown .* v_maxx_f32") as caught:
        pl.emit(piped(misspelt), ops=words(misspelt))
    assert "v_max_f32" in str(caught.value.hint)
    assert caught.value.field == "acme.relu4.lowering"


def test_a_file_does_not_carry_it() -> None:
    """Times need no op's meaning; whoever says that it computes something does."""
    again = pl.Program.from_json(piped(RELU6).to_json())
    assert pl.simulate(again).total_cycles > 0
    for verb in (
        pl.verify,
        pl.synchronize,
        pl.emit,
        pl.report,
        pl.fix,
        lambda p: pl.execute(p, trips=1),
    ):
        with pytest.raises(pl.ConfigError, match=r"op 'acme\.relu6' is not in the vocabulary"):
            verb(again)
    assert pl.verify(again, ops=words(RELU6)).proved
    assert pl.emit(again, ops=words(RELU6)).text == pl.emit(piped(RELU6), ops=words(RELU6)).text


def test_no_judge_takes_it_for_what_it_is_not() -> None:
    """A program that gives an op fewer operands than it takes is nobody's right program."""
    program = piped(RELU6)
    pair = pl.VOCABULARY.extended(pl.OpDef(RELU6.name, 2, np.add))
    for verb in (pl.verify, pl.synchronize, pl.emit, partial(pl.execute, trips=1)):
        with pytest.raises(pl.ScheduleError, match=r"1 value\(s\) by 'acme\.relu6', which takes 2"):
            verb(program, ops=pair)


def test_without_instructions_it_has_a_meaning_only() -> None:
    x = np.ones((1, 3, 256), np.float32)
    assert (clipped_sum(WORDLESS).evaluate(X=x)["out"] == 12).all()
    with pytest.raises(pl.ConfigError, match=r"op 'acme\.relu7' has no lowering to instructions"):
        piped(WORDLESS)


def test_a_name_means_one_op() -> None:
    twin = pl.OpDef(RELU6.name, 1, lambda a: a)
    with pytest.raises(pl.ConfigError, match="defined twice, differently"):
        words(RELU6).extended(twin)
