"""Ops within blocks of columns, in what follows a product: right in the emulator, and refused where
lanes or steps do not see whole blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pipeloom as pl
from benchmarks.families import Family, run_problem
from benchmarks.family_cases import quantised, rotary
from benchmarks.family_cases.drawn import ready
from pipeloom.declare.quantised import gemm_quantised
from pipeloom.declare.rotary import gemm_rotary
from pipeloom.order.in_order import in_order
from pipeloom.program import Program, Step, Work
from pipeloom.program.nodes import Blocks

pytestmark = pytest.mark.usefixtures("short_search")


def rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, pairs: str) -> np.ndarray:
    one = x.astype(np.float64)
    found = np.empty_like(one)
    half = one.shape[-1] // 2
    first, second = (
        (slice(None, half), slice(half, None))
        if pairs == "halves"
        else (slice(0, None, 2), slice(1, None, 2))
    )
    found[..., first] = one[..., first] * cos[:, first] + one[..., second] * sin[:, first]
    found[..., second] = one[..., second] * cos[:, second] + one[..., first] * sin[:, second]
    return found


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_what_rotation_means(pairs: str) -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-2, 3, s).astype(np.float32) for s in ((5, 16), (2, 32, 16)))
    cos, sin = (rng.standard_normal((5, 32)).astype(np.float32) for _ in range(2))
    loop = gemm_rotary(16, 32, 16, out="f32", pairs=pairs)
    meant = rotated(np.einsum("mk,hdk->hmd", x, w), cos, sin, pairs)
    found = loop.evaluate(X=x, W=w, cos=cos, sin=sin)["out"]
    np.testing.assert_allclose(found, meant, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "number"), [(rotary, 0), (rotary, 1), (rotary, 5), (quantised, 0), (quantised, 4)]
)
def test_kernels_are_right(family: Family, number: int) -> None:
    """Proved, written, and right for a few problems; the program as a file is the same. In heads of
    32 columns halves are blocks of a matrix result, which stores must not deal otherwise."""
    kind = family.kind_of(number)
    program = kind.program()
    assert Program.from_json(program.to_json()) == program
    kernel = ready(program)
    assert kernel.emitted.status.name == "PROVED"
    trials = [run_problem(family, kind, kernel, seed) for seed in (1, 3, 4)]
    assert all(trial.ok for trial in trials), [trial.summary() for trial in trials]
    assert any(trial.executed for trial in trials)


def test_heads_are_normalised_before_they_are_rotated() -> None:
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((5, 16), (2, 32, 16)))
    cos, sin = (rng.standard_normal((5, 32)).astype(np.float32) for _ in range(2))
    weight = rng.standard_normal(32).astype(np.float32)
    loop = gemm_rotary(16, 32, 16, "f32", "f32", norm=True)
    head = np.einsum("mk,hdk->hmd", x.astype(np.float64), w)
    head = head / np.sqrt((head**2).mean(axis=-1, keepdims=True) + 1e-6) * weight
    found = loop.evaluate({"eps": 1e-6}, X=x, W=w, cos=cos, sin=sin, weight=weight)["out"]
    np.testing.assert_allclose(found, rotated(head, cos, sin, "halves"), rtol=1e-4, atol=1e-4)


def test_a_head_is_normalised_by_its_own_size() -> None:
    """Not by that of the tile, of which it may be a part."""
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((5, 32), (1, 20, 32)))
    loop = gemm_rotary(16, 32, 32, "f32", "f32", pairs="neighbours", norm=True)
    arrays = {"cos": np.ones((5, 20)), "sin": np.zeros((5, 20)), "weight": np.ones(20)}
    head = np.einsum("mk,hdk->hmd", x.astype(np.float64), w)
    meant = head / np.sqrt((head**2).mean(axis=-1, keepdims=True) + 1e-6)
    found = loop.evaluate({"eps": 1e-6}, X=x, W=w, **arrays)["out"]
    np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-4)
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1, strategy=in_order))
    trial = pl.run(kernel, sizes={"m": 5, "d": 20, "k": 32, "heads": 1}, data="normal")
    assert trial.ok, trial.summary()


def test_integers_change_places_as_they_are() -> None:
    """All 32 bits of them, which an f32 has not."""
    loop = pl.Loop("bytes", over="k")
    a, b = loop.stream("A", pl.I8, m=16, k=64), loop.stream("B", pl.I8, n=16, k=64)
    total = loop.carry("C", pl.I32, m=16, n=16)
    total += a.staged() @ b.staged()
    loop.store("out", pl.swapped(total, "n", 2))
    ones = np.full((1, 2048), 127.0)
    odd = np.stack([ones[0], ones[0]])
    odd[1, 0] = 126
    found = loop.evaluate(None, A=ones, B=odd)["out"]
    assert found.tolist() == [[127 * 127 * 2048 - 127, 127 * 127 * 2048]]


def test_what_quantised_means() -> None:
    """In the last block a row of zeros, whose codes are zeros."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((6, 16), (96, 16)))
    a[2] = 0
    loop = gemm_quantised(16, 32, 16, "f32", "i8", block=32)
    found = loop.evaluate(None, A=a, B=b)
    exact = (a.astype(np.float64) @ b.T.astype(np.float64)).reshape(6, 3, 32)
    scale = np.maximum(np.abs(exact).max(axis=2), 2.0**-60) / 127
    np.testing.assert_allclose(found["scale"][:, ::32], scale, rtol=1e-5)
    assert (found["scale"].reshape(6, 3, 32).std(axis=2) == 0).all()
    meant = np.rint(exact / scale[..., None]).reshape(6, 96)
    assert np.abs(found["out"] - meant).max() <= 1
    assert (found["out"][2] == 0).all()


def test_scales_of_mxfp8_are_powers_of_two() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((6, 16), (64, 16)))
    found = gemm_quantised(16, 64, 16, "f32", "fp8", powers=True).evaluate(None, A=a, B=b)
    exact = (a.astype(np.float64) @ b.T.astype(np.float64)).reshape(6, 2, 32)
    meant = 2.0 ** (np.floor(np.log2(np.abs(exact).max(axis=2))) - 8)
    np.testing.assert_array_equal(found["scale"][:, ::32], meant)
    back = found["out"].reshape(6, 2, 32) * meant[..., None]
    assert (np.abs(back - exact) <= np.maximum(np.abs(exact) / 8, meant[..., None] / 128)).all()


def test_past_the_largest_of_bf8_codes_saturate_and_no_number_stays_none() -> None:
    """1.9 of a power of two is past its largest, 1.75."""
    a = np.array([[1.9], [-1.9], [1.0]])
    b = np.ones((32, 1))
    b[:2, 0] = 0.5, np.nan
    loop = gemm_quantised(16, 32, 16, "f32", "bf8", powers=True)
    found = loop.evaluate(None, A=a, B=b)["out"]
    np.testing.assert_array_equal(found[:, 2], [1.75 * 2**15, -1.75 * 2**15, 2**15])
    np.testing.assert_array_equal(found[:, 0], [2**15, -(2**15), 2**14])
    assert np.isnan(found[:, 1]).all()


def test_codes_of_scales_are_stored_and_nothing_else() -> None:
    loop = pl.Loop("codes", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32)
    total = loop.carry("C", m=32, n=32)
    total += a.staged() @ b.staged()
    loop.store("scale", pl.block_amax(total, "n", 32).to("e8m0"))
    with pytest.raises(pl.ScheduleError, match="power_below"):
        pl.pipeline(loop, "gfx950", waves=1)


def test_parts_end_where_blocks_do() -> None:
    """A step that has half of a block is no step of a program."""
    program = pl.pipeline(gemm_rotary(32, 32, 32), "gfx950", waves=1)
    (group,) = program.groups

    def halved(step: Step) -> Step:
        if not isinstance(step, Work) or program.meaning[step.node].within is None:
            return step
        (p, q), (a, _) = step.parts[0]
        return replace(step, parts=(((p, q), (a, a + 16)),))

    sections = tuple(
        replace(section, steps=tuple(map(halved, section.steps))) for section in group.sections
    )
    with pytest.raises(pl.ScheduleError, match="a part of a block"):
        replace(program, groups=(replace(group, sections=sections),))


def test_a_size_is_whole_blocks() -> None:
    loop = gemm_rotary(32, 32, 32)
    sizes = {"X": (4, 32), "W": (1, 31, 32), "cos": (4, 31), "sin": (4, 31)}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()}
    with pytest.raises(pl.ScheduleError, match="pad it to a multiple of 32"):
        loop.evaluate(None, **arrays)


@pytest.mark.parametrize("size", [3, 48, 0, 2.5])
def test_blocks_are_even_parts_of_a_tile(size: int) -> None:
    loop = pl.Loop("odd", over="k")
    x = loop.stream("X", pl.BF16, m=32, k=32)
    with pytest.raises(pl.ScheduleError, match="at a time"):
        pl.swapped(x, "m", size)


def test_what_lanes_do_not_hold_is_refused_in_time() -> None:
    """Partners that are 4 columns away are in other lanes."""
    loop = pl.Loop("near", over="k")
    a, b = loop.stream("A", pl.BF16, m=32, k=32), loop.stream("B", pl.BF16, n=32, k=32)
    total = loop.carry("C", m=32, n=32)
    total += a.staged() @ b.staged()
    loop.store("out", pl.swapped(total, "n", 8))
    with pytest.raises(pl.ScheduleError, match="do not lie in the lanes"):
        pl.pipeline(loop, "gfx950", waves=1)


def test_an_op_within_blocks_says_which() -> None:
    meaning = gemm_rotary(32, 32, 32).meaning
    nodes = {node.name: node for node in meaning.nodes}
    for changed in (
        replace(nodes["swapped"], within=None),
        replace(nodes["swapped"], within=Blocks("k", 32)),
        replace(nodes["add"], within=Blocks("d", 32)),
    ):
        with pytest.raises(pl.ScheduleError):
            replace(
                meaning,
                nodes=tuple(changed if n.name == changed.name else n for n in meaning.nodes),
            )
