"""What cannot be lowered is refused by name, with a remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import gemm
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BF16
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.program.vocabulary import OpDef


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        ({"m": 24, "k": 32}, {"n": 64, "k": 32}, "odd.C.next: m = 24 is no multiple of 16"),
        ({"m": 64, "k": 40}, {"n": 64, "k": 40}, "odd.C.next: k = 40 is no multiple of 32"),
        ({"b": 2, "m": 64, "k": 32}, {"n": 64, "k": 32}, "odd.C.next: .* no product of two"),
    ],
)
def test_shapes(first: dict[str, int], second: dict[str, int], match: str) -> None:
    loop = Loop("odd", over="k")
    dims = {d: s for d, s in (first | second).items() if d != "k"}
    c = loop.carry("C", "f32", start=0.0, **dims)
    c += loop.stream("A", "bf16", **first) @ loop.stream("B", "bf16", **second)
    loop.store("out", c)
    with pytest.raises(ConfigError, match=match) as caught:
        arrange(loop, GFX950, 4)
    assert caught.value.hint
    assert caught.value.field == "C.next"


@pytest.mark.parametrize(
    ("dtype", "match"),
    [
        ("mxfp8", "no plain matrix instruction of gfx950 for mxfp8"),
        ("fp6", "no plain matrix instruction of gfx950 for fp6"),
        ("i8", "products of i8 are added up in i32"),
    ],
)
def test_element_types(dtype: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        arrange(gemm(64, 64, 128, dtype), GFX950, 4)


def test_the_remedy_is_one_that_the_chip_and_the_writer_have() -> None:
    with pytest.raises(ConfigError) as caught:
        arrange(gemm(64, 64, 128, "mxfp8"), GFX942, 4)
    named = set(re.findall(r"[a-z_0-9]+", str(caught.value.hint)))
    assert {"bf16", "fp16", "fp8_fnuz"} <= named
    assert not {"scaled_matmul", "fp8", "fp4", "fp6"} & named


@pytest.mark.parametrize(("waves", "more"), [(1, True), (64, False)])
def test_more_waves_are_no_remedy_where_they_share_registers(waves: int, more: bool) -> None:
    with pytest.raises(ConfigError, match="registers per lane") as caught:
        arrange(gemm(256, 256, 64), GFX950, waves)
    assert ("more waves" in str(caught.value.hint)) is more
    assert ("at most" in str(caught.value.hint)) is not more


@pytest.mark.parametrize(
    ("dims", "dtype"), [({"m": 64, "k": 128}, "fp8"), ({"k": 128, "m": 64}, "e8m0")]
)
def test_what_is_no_block_scale(dims: dict[str, int], dtype: str) -> None:
    loop = Loop("odd", over="k")
    c = loop.carry("C", m=64, n=64)
    a, b = loop.stream("A", "fp8", m=64, k=128), loop.stream("B", "fp8", n=64, k=128)
    scales = loop.stream("S", dtype, **dims), loop.stream("T", "e8m0", n=64, k=128)
    c += loop.apply("scaled_matmul", a, b, *scales, over=("k",))
    loop.store("out", c)
    with pytest.raises(ConfigError, match="is no block scale of"):
        arrange(loop, GFX950, 4)


def test_computed_block_scales() -> None:
    loop = Loop("odd", over="k")
    c = loop.carry("C", m=64, n=64)
    a, b = loop.stream("A", "fp8", m=64, k=128), loop.stream("B", "fp8", n=64, k=128)
    twice = (loop.stream("S", "f32", m=64, k=128) * 2.0).to("e8m0")
    scales = twice, loop.stream("T", "e8m0", n=64, k=128)
    c += loop.apply("scaled_matmul", a, b, *scales, over=("k",))
    loop.store("out", c)
    with pytest.raises(ConfigError, match="of 'S', used by"):
        arrange(loop, GFX950, 4)


@pytest.mark.parametrize("other", ["fp8", "fp16"])
def test_mixed_element_types(other: str) -> None:
    """One instruction multiplies bf16 by bf16, another of the same shape fp16 by fp16."""
    loop = Loop("mixed", over="k")
    c = loop.carry("C", m=64, n=64)
    c += loop.stream("A", "bf16", m=64, k=32) @ loop.stream("B", other, n=64, k=32)
    loop.store("out", c)
    for machine in (GFX942, GFX950):
        match = f"mixed.C.next: .* of {machine.arch} for bf16 and {other}"
        with pytest.raises(ConfigError, match=match) as caught:
            arrange(loop, machine, 4)
        assert "one type" in (caught.value.hint or "")


def test_too_large_a_tile() -> None:
    with pytest.raises(ConfigError, match="matrix results take 512"):
        arrange(gemm(512, 256, 64), GFX950, 4)


def test_staging_what_is_computed() -> None:
    loop = Loop("staged", over="k")
    total = loop.carry("total", n=512)
    total += (loop.stream("X", "f32", k=1, n=512) * 2.0).staged().sum("k")
    loop.store("out", total)
    with pytest.raises(ConfigError, match="'mul' is computed, and no product takes it"):
        arrange(loop, GFX950, 1)


def test_converting_while_storing() -> None:
    loop = Loop("store", over="k")
    c = loop.carry("C", m=64, n=64)
    c += loop.stream("A", "bf16", m=64, k=32) @ loop.stream("B", "bf16", n=64, k=32)
    loop.store("out", c, dtype="bf16")
    (stored,) = loop.meaning.outputs
    (value,) = stored.uses
    assert (loop.meaning[value].op, loop.meaning[value].type.dtype) == ("convert", BF16)


def test_an_op_without_instructions() -> None:
    op = OpDef("acme.sin", 1, np.sin)
    loop = Loop("own", over="n")
    loop.store("Y", loop.apply(op, loop.stream("X", "f32", n=256)))
    with pytest.raises(ConfigError, match=r"own.acme.sin: op 'acme.sin' has no lowering"):
        arrange(loop, GFX950, 1)


def test_too_much_lds() -> None:
    loop = Loop("full", over="n")
    w, x = loop.resident("W", "bf16", m=256, k=512), loop.stream("X", "bf16", n=16, k=512)
    loop.store("Y", (w.staged() @ x.staged()).to("bf16"))
    with pytest.raises(ConfigError):
        arrange(loop, GFX950, 4)


@pytest.mark.parametrize(
    ("name", "value"), [("depth", 0), ("stages", 0), ("k_tiles", 0), ("global_latency", 10**9)]
)
def test_numbers_are_checked(name: str, value: int) -> None:
    limits: dict[str, int] = {name: value}
    with pytest.raises(ConfigError, match=rf"pipeline\.{name} is {value}, but"):
        arrange(gemm(64, 64, 32), GFX950, 4, **limits)  # type: ignore[arg-type]
