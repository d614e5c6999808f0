"""Products with vector work before the store: the loop of the plain product, and right numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.activations import ACTIVATIONS
from pipeloom.declare.kernels import gemm
from pipeloom.declare.products import gemm_bias, gemm_gate, gemm_scaled
from pipeloom.drive.trial import Data, Launchable, run_program
from pipeloom.errors import ConfigError
from pipeloom.judge.verify import proves
from pipeloom.machine.chips import target_for
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import woven
from pipeloom.program import Program, Region, Section, Wait
from pipeloom.write import EmitError, assemble, emit_program
from tests.unit.write.kernels import wave_through

Array = np.ndarray[Any, Any]
SCALARS = {"scale": 0.375}


def loop_of(what: str, arch: str = "gfx950") -> Loop:
    fp8, k = ("fp8", 64) if arch == "gfx950" else ("fp8_fnuz", 32)
    match what:
        case "half bias":
            return gemm_bias(64, 64, k, "fp16", "fp16", bias="fp16")
        case "gate":
            return gemm_gate(64, 64, k)
        case "tensor":
            return gemm_scaled(64, 64, 2 * k, fp8)
        case "rows":
            return gemm_scaled(64, 64, 2 * k, fp8, "f32", scales="rows")
        case "small":
            return gemm_scaled(64, 64, 2 * k, fp8, fp8)
        case "wide range":
            return gemm_scaled(64, 64, 2 * k, fp8, fp8.replace("fp8", "bf8"), scales="rows")
    return gemm_bias(64, 64, k, activation=what)


def program_of(loop: Loop, arch: str = "gfx950") -> Program:
    lowered = lower(loop.meaning, target_for(arch), loop.ops, loop.staged, 4)
    return woven(lowered, Pattern(barriers=2))


@cache
def built(what: str, arch: str) -> Launchable:
    emitted = emit_program(program_of(loop_of(what, arch), arch))
    return Launchable.load(emitted, assemble(emitted))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


MEANT: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_they_mean(activation: str) -> None:
    """In double precision, up to arguments at which naive forms overflow."""
    random = np.random.default_rng(1)
    a, b, g = (random.standard_normal((rows, 128)) for rows in (70, 50, 50))
    bias = np.linspace(-3e4, 3e4, 50)
    a, b, g = (x.astype(np.float16).astype(np.float64) for x in (a, b, g))
    act = MEANT[activation]
    loop = gemm_bias(64, 64, 64, "fp16", "f32", activation=activation)
    with np.errstate(over="ignore"):
        got = loop.evaluate(A=a, B=b, bias=bias)["out"]
        np.testing.assert_allclose(got, act(a @ b.T + bias.astype(np.float32)), 1e-5, 1e-5)
        loop = gemm_gate(64, 64, 64, "fp16", "f32", activation=activation)
        got = loop.evaluate(A=a, G=b, U=g)["out"]
    np.testing.assert_allclose(got, act(a @ b.T) * (a @ g.T), 1e-4, 1e-4)


def test_scales_per_tensor_and_per_row() -> None:
    random = np.random.default_rng(2)
    a, b = (random.integers(-8, 9, (rows, 128)).astype(float) for rows in (70, 50))
    rows, columns = random.uniform(0.1, 2, 70), random.uniform(0.1, 2, 50)
    one = gemm_scaled(64, 64, 128, out="f32").evaluate(SCALARS, A=a, B=b)["out"]
    np.testing.assert_allclose(one, a @ b.T * 0.375, 1e-6)
    loop = gemm_scaled(64, 64, 128, out="f32", scales="rows")
    each = loop.evaluate(A=a, B=b, scale_A=rows, scale_B=columns)["out"]
    np.testing.assert_allclose(each, a @ b.T * rows[:, None] * columns, 1e-6, 1e-6)


def test_refusals_name_the_field() -> None:
    with pytest.raises(ConfigError, match="activation"):
        gemm_bias(activation="gleu")
    with pytest.raises(ConfigError, match="scales"):
        gemm_scaled(scales="columns")


@pytest.mark.parametrize("what", ["gelu", "silu", "half bias"])
def test_the_loop_is_that_of_the_plain_product(what: str) -> None:
    """Nothing that only the end needs is loaded, kept or awaited in the loop."""
    meaning = loop_of(what).meaning
    assert meaning["bias"].region is Region.AFTER

    def steps(program: Program) -> list[tuple[Section, ...]]:
        return [tuple(s for s in g.sections if s.trips is not None) for g in program.groups]

    plain = gemm(64, 64, 64, meaning["A"].type.dtype, meaning["out"].type.dtype)
    assert steps(program_of(loop_of(what))) == steps(program_of(plain))


@pytest.mark.parametrize(
    ("what", "arch"),
    [
        *((what, "gfx950") for what in ("gelu", "relu", "half bias", "gate", "tensor", "rows")),
        *((what, "gfx942") for what in ("gelu", "gate", "rows", "wide range")),
    ],
)
def test_they_run(what: str, arch: str) -> None:
    """At random timings, ragged along m and n; integers and normal numbers."""
    kernel = built(what, arch)
    launch = kernel.emitted.launch
    scalars = {name: v for name, v in SCALARS.items() if name in launch.meaning}
    for seed, (m, n, data) in enumerate(((70, 52, Data.INTEGERS), (33, 128, Data.NORMAL))):
        sizes = {"m": m, "n": n, "k": launch.least + seed * launch.step}
        trial = run_program(
            kernel.emitted, kernel, sizes=sizes, seed=seed, data=data, scalars=scalars
        )
        assert trial.ok, trial.summary()


def test_large_sums_do_not_become_nan() -> None:
    """A bias far out on either side: exponentials overflow and vanish."""
    kernel = built("gelu", "gfx950")
    sizes = {"m": 20, "n": 64, "k": kernel.emitted.launch.least}
    bias = np.concatenate([-np.logspace(1, 30, 32), np.logspace(1, 30, 32)])
    with np.errstate(over="ignore"):
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=3, arrays={"bias": bias})
    assert trial.ok, trial.summary()


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("n", [64, 50])
def test_outputs_of_8_bits_saturate_and_keep_nan(n: int, arch: str) -> None:
    """The instruction gives NaN for what is too large; stored by fours and one by one."""
    kernel = built("small", arch)
    sizes = {"m": 40, "n": n, "k": kernel.emitted.launch.least}
    for scale in (0.37, 25.0, float("nan")):
        trial = run_program(kernel.emitted, kernel, sizes=sizes, seed=n, scalars={"scale": scale})
        assert trial.ok, trial.summary()


def test_8_bits_of_another_chip_are_refused() -> None:
    with pytest.raises(EmitError, match="gfx950 has no conversion to fp8_fnuz"):
        emit_program(program_of(gemm_scaled(64, 64, 128, "fp8", "fp8_fnuz")))


def without(program: Program, group: int, at: int, slot: int) -> Program:
    """The program without one step."""
    found = program.groups[group]
    section = found.sections[at]
    steps = (*section.steps[:slot], *section.steps[slot + 1 :])
    sections = (*found.sections[:at], replace(section, steps=steps), *found.sections[at + 1 :])
    groups = list(program.groups)
    groups[group] = replace(found, sections=sections)
    return program.with_groups(tuple(groups), program.provenance)


def test_a_wait_for_the_bias_that_is_taken_away_is_noticed() -> None:
    program = program_of(loop_of("gelu"))
    assert proves(program)
    places = [
        (g, at, slot)
        for g, group in enumerate(program.groups)
        for at, section in enumerate(group.sections)
        for slot, step in enumerate(section.steps)
        if section.name == "after" and isinstance(step, Wait)
    ]
    assert places
    for place in places:
        weakened = without(program, *place)
        assert not proves(weakened)
        emitted = emit_program(weakened, judge=wave_through)
        kernel = Launchable.load(emitted, assemble(emitted))
        sizes = {"m": 64, "n": 64, "k": emitted.launch.least}
        trials = [run_program(emitted, kernel, sizes=sizes, seed=seed) for seed in range(3)]
        assert any(trial.findings for trial in trials)
