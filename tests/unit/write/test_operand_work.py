"""Operands that vector ops make between LDS and the product: right numbers of every code."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.families import FAMILIES, run_problem
from evidence.weaken import weakenings
from pipeloom.declare import Loop
from pipeloom.declare.kernels import gemm_norm, gemm_weights
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.errors import ConfigError, OrderError
from pipeloom.judge.verify import proves, verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, F32, dtype_for
from pipeloom.order.node_tasks import lower
from pipeloom.order.patterns import structures, woven
from pipeloom.program import Program
from pipeloom.write import EmitError, assemble, emit_program
from tests.unit.write.kernels import wave_through

pytestmark = pytest.mark.usefixtures("short_search")

Array = np.ndarray[Any, Any]
CASES = {
    "i8 by column": (gemm_weights(64, 64, 64, "i8"), "gfx950"),
    "u8 by column": (gemm_weights(64, 64, 32, "u8", "fp16", "fp16"), "gfx942"),
    "i4, groups of an iteration": (gemm_weights(64, 64, 64, "i4", group=64), "gfx942"),
    "u4, zero points, groups of a product": (
        gemm_weights(64, 64, 64, "u4", group=32, zeros=True),
        "gfx950",
    ),
    "i4, groups of two iterations": (
        gemm_weights(64, 64, 32, "i4", group=64, scales="bf16"),
        "gfx950",
    ),
    "fp8, groups of a lane's run": (gemm_weights(64, 64, 64, "fp8", group=8), "gfx950"),
}


def program_of(loop: Loop, arch: str) -> Program:
    lowered = lower(loop.meaning, target_for(arch), loop.ops, loop.staged, 4)
    for pattern in structures(lowered):
        with suppress(OrderError):
            return woven(lowered, pattern)
    raise AssertionError("no order fits")


@cache
def built(name: str) -> Launchable:
    emitted = emit_program(program_of(*CASES[name]), judge=verify)
    return Launchable.load(emitted, assemble(emitted))


@pytest.mark.parametrize("name", CASES)
def test_every_code_of_the_weights(name: str) -> None:
    """Against double precision: the weights as said, rounded once, and a long sum."""
    kernel, loop = built(name), CASES[name][0]
    meaning = loop.meaning
    rng = np.random.default_rng(5)
    codes = dtype_for(meaning["B"].type.dtype.name)
    sizes = {"m": 70, "n": 50, "k": kernel.emitted.k_min + 2 * kernel.emitted.k_step}
    covers = meaning["S"].type.dtype.covers
    sizes["k"] += -sizes["k"] % covers
    every = np.arange(1 << codes.bits).astype(np.uint16)
    every = every[np.isfinite(codes.decode(every))]
    a = BF16.round(rng.standard_normal((70, sizes["k"])))
    a = meaning["A"].type.dtype.round(a)
    b = codes.decode(np.resize(rng.permutation(every), (50, sizes["k"])))
    scale = meaning["S"].type.dtype.round(rng.uniform(0.01, 1, (50, sizes["k"] // covers)))
    arrays = {"A": a, "B": b}
    if covers > 1:
        arrays["S"] = np.repeat(scale, covers, axis=1)
        weights = b.astype(np.float32)
        if "Z" in meaning:
            arrays["Z"] = np.repeat(rng.integers(0, 16, scale.shape), covers, axis=1)
            weights = weights - arrays["Z"].astype(np.float32)
        weights = meaning["A"].type.dtype.round(weights * arrays["S"])
        wanted = a.astype(np.float64) @ weights.T.astype(np.float64)
    else:
        arrays["S"] = scale[:, 0]
        wanted = (a.astype(np.float64) @ b.T.astype(np.float64)) * scale[:, 0]
    for seed in range(2):
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=seed, arrays=arrays)
        assert not trial.findings, trial.summary()
        assert not trial.spoilt
        error = np.abs(trial.outputs["out"] - wanted).max() / np.abs(wanted).max()
        assert error < 2.0**-7, (name, error)


def test_a_factor_by_k_and_an_activation() -> None:
    """What has K alone lies along the lanes' runs, once for all rows."""
    loop = Loop("norm", over="k")
    x = loop.stream("X", "bf16", m=64, k=64).staged()
    w = loop.stream("W", "bf16", n=64, k=64).staged()
    c = loop.carry("C", m=64, n=64)
    c += loop.apply("max", x * loop.stream("G", "f32", k=64), 0.0).to("bf16") @ w
    loop.store("out", c)
    emitted = emit_program(program_of(loop, "gfx950"), judge=verify)
    kernel = Launchable.load(emitted, assemble(emitted))
    sizes = {"m": 70, "n": 50, "k": emitted.k_min + emitted.k_step}
    rng = np.random.default_rng(6)
    x_, g, w_ = (
        BF16.round(rng.standard_normal(shape))
        for shape in ((70, sizes["k"]), (sizes["k"],), (50, sizes["k"]))
    )
    trial = run_program(emitted, kernel, sizes=sizes, arrays={"X": x_, "G": g, "W": w_})
    wanted = BF16.round(np.maximum(x_ * g, 0)).astype(np.float64) @ w_.T.astype(np.float64)
    assert not trial.findings
    assert not trial.spoilt
    np.testing.assert_allclose(trial.outputs["out"], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("grouped", "waves", "arch"),
    [(True, 2, "gfx950"), (False, 4, "gfx942")],
    ids=["scales of groups of K", "zero points by K"],
)
def test_numbers_by_k_alone_beside_weights(grouped: bool, waves: int, arch: str) -> None:
    """The same for all columns, of a tile with fewer elements along K than a wave has lanes."""
    loop = Loop("by_k", over="k")
    a = loop.stream("A", "bf16", m=32, k=32).staged()
    b = loop.stream("B", "u8" if grouped else "i8", n=32, k=32).staged()
    z = loop.stream("Z", F32.per(16) if grouped else F32, k=32)
    c = loop.carry("C", m=32, n=32)
    c += a @ (b * z if grouped else b - z).to("bf16")
    loop.store("out", c)
    program = pipeline(loop, arch, waves=waves)
    assert verify(program).proved
    emitted = emit_program(program, judge=verify)
    sizes = {"m": 40, "n": 50, "k": emitted.k_min + emitted.k_step}
    rng = np.random.default_rng(8)
    a_ = BF16.round(rng.standard_normal((40, sizes["k"])))
    b_ = rng.integers(0, 128, (50, sizes["k"]))
    z_ = rng.uniform(0.5, 8, sizes["k"]).astype(np.float32)
    if grouped:
        z_ = np.repeat(z_[: sizes["k"] // 16], 16)
    kernel = Launchable.load(emitted, assemble(emitted))
    trial = run_program(emitted, kernel, sizes=sizes, arrays={"A": a_, "B": b_, "Z": z_})
    weights = b_.astype(np.float32) * z_ if grouped else b_.astype(np.float32) - z_
    wanted = a_.astype(np.float64) @ BF16.round(weights).T.astype(np.float64)
    assert not trial.findings, trial.summary()
    assert not trial.spoilt
    np.testing.assert_allclose(trial.outputs["out"], wanted, rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize(("arch", "activation"), [("gfx950", "none"), ("gfx942", "relu")])
def test_the_norm_of_rows_before_a_product(arch: str, activation: str) -> None:
    loop = gemm_norm(64, 64, 64, out="f32", activation=activation)
    emitted = emit_program(program_of(loop, arch), judge=verify)
    kernel = Launchable.load(emitted, assemble(emitted))
    sizes = {"m": 70, "n": 50, "k": emitted.k_min + emitted.k_step}
    rng = np.random.default_rng(7)
    a, b = (BF16.round(rng.standard_normal((rows, sizes["k"]))) for rows in (70, 50))
    scalars = {"inverse": 1 / sizes["k"], "eps": 1e-3}
    trial = run_program(emitted, kernel, sizes=sizes, arrays={"A": a, "B": b}, scalars=scalars)
    x = np.maximum(a, 0) if activation == "relu" else a
    factor = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1) + 1e-3)
    wanted = (x.astype(np.float64) @ b.T.astype(np.float64)) * factor[:, None]
    assert not trial.findings
    assert not trial.spoilt
    np.testing.assert_allclose(trial.outputs["out"], wanted, rtol=1e-4, atol=1e-3)


def test_random_problems_of_the_family() -> None:
    """A sample of ``benchmarks/families.py``, in the first order that fits."""
    family = FAMILIES["weights"]
    for number in (2, 5):
        kind = family.kind_of(number)
        emitted = emit_program(program_of(kind.loop, kind.arch), judge=verify)
        kernel = Launchable.load(emitted, assemble(emitted))
        for seed in range(3):
            trial = run_problem(family, kind, kernel, seed)
            assert trial.ok, (number, trial.summary())


def test_weakened_waits_are_noticed() -> None:
    program = program_of(gemm_weights(64, 64, 64, "i4", group=64), "gfx950")
    sample = list(weakenings(program))[::13]
    unsafe = [weakened for weakened in sample if not proves(weakened.program)]
    assert len(unsafe) > len(sample) // 2
    for weakened in unsafe:
        emitted = emit_program(weakened.program, judge=wave_through)
        kernel = Launchable.load(emitted, assemble(emitted))
        sizes = {"m": 64, "n": 64, "k": emitted.k_min + emitted.k_step}
        trials = (run_program(emitted, kernel, sizes=sizes, seed=seed) for seed in range(4))
        assert any(trial.findings for trial in trials), weakened.what


def test_zero_points_want_groups() -> None:
    with pytest.raises(ConfigError, match="zero points"):
        gemm_weights(zeros=True)


def test_groups_that_no_shift_finds() -> None:
    program = program_of(gemm_weights(64, 64, 96, "i8", group=48), "gfx950")
    with pytest.raises(EmitError, match="cannot load"):
        emit_program(program, judge=verify)


def test_groups_that_iterations_cut() -> None:
    program = program_of(gemm_weights(64, 64, 32, "i8", group=512, scales="bf16"), "gfx950")
    with pytest.raises(EmitError, match="covers 512 elements"):
        emit_program(program, judge=verify)


def test_zeros_before_an_array_end_where_a_code_does() -> None:
    loop = gemm_weights(64, 64, 32, "i8", group=64, scales="bf16")
    lowered = lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 4)
    least, refused = [], 0
    for pattern in structures(lowered):
        with suppress(OrderError):
            program = woven(lowered, pattern)
            try:
                least.append(emit_program(program, judge=wave_through).k_min)
            except EmitError:
                refused += bool(program.iterations.at(program.min_trips) % 2)
    assert least
    assert refused
    assert not any(k % 64 for k in least)
