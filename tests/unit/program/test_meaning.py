"""Meanings and tiles: what is refused, and small questions they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention, gemm
from pipeloom.errors import ConfigError, GraphError, ScheduleError
from pipeloom.machine.dtypes import BF16, F32
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import VOCABULARY, Meaning, Node, NodeKind, OpDef, Region, TileType, evaluate
from pipeloom.program.tiles import (
    contains,
    describe_box,
    overlap,
    project,
    shifted,
    subtract,
    volume,
)

GEMM = gemm(64, 64, 32).meaning


def changed(name: str, **fields: object) -> Meaning:
    nodes = tuple(
        replace(n, **fields) if n.name == name else n  # type: ignore[arg-type]
        for n in GEMM.nodes
    )
    return Meaning("gemm", "k", nodes)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda: Meaning("g", "k", (*GEMM.nodes, GEMM.nodes[0])), GraphError, "two values named"),
        (lambda: Meaning("g", "k", GEMM.nodes[:-1]), GraphError, "stores nothing"),
        (lambda: Meaning("g", "k", GEMM.nodes[::-1]), GraphError, "before it has a value"),
        (lambda: changed("C.next", uses=("A", "Z")), GraphError, "has no value 'Z'"),
        (lambda: changed("C", start=None), GraphError, "carry 'C' needs one update and a start"),
        (lambda: changed("C", uses=()), GraphError, "carry 'C' needs one update and a start"),
        (lambda: changed("convert", uses=("C.next",)), GraphError, "has a value per iteration"),
        (lambda: changed("out", region=Region.LOOP), GraphError, "which is computed after it"),
        (
            lambda: changed("B", type=TileType(("n", "k"), (64, 16), BF16)),
            ConfigError,
            "dimension 'k' is 32 in one operand and 16 in another",
        ),
        (
            lambda: changed("convert", type=TileType(("m", "n", "q"), (64, 64, 2), BF16)),
            ConfigError,
            "no operand has dimension 'q'",
        ),
    ],
)
def test_malformed_meanings_are_refused(
    build: Callable[[], Meaning], error: type[ScheduleError], match: str
) -> None:
    with pytest.raises(error, match=match) as caught:
        build()
    assert caught.value.hint


def test_whose_value_a_name_has() -> None:
    assert GEMM.source("C", 0) is None
    assert GEMM.source("C", 3) == ("C.next", 2)
    assert GEMM.source("A", 3) == ("A", 3)
    assert attention().meaning.source("Q", 3) == ("Q", 0)


def test_operands_stand_in_order() -> None:
    node = Node(
        name="x",
        kind=NodeKind.OP,
        type=TileType((), (), F32),
        uses=("a",),
        init="b",
        when="d",
        otherwise="c",
    )
    assert node.operands == ("a", "b", "c", "d")
    assert "C.next" in GEMM
    assert "x" not in GEMM
    assert GEMM.domain(GEMM["C.next"]).dims == ("m", "n", "k")


def test_arrays_are_checked() -> None:
    a, b = np.zeros((64, 32)), np.zeros((64, 32))
    with pytest.raises(ConfigError, match="gemm needs the array 'B'"):
        evaluate(GEMM, {"A": a})
    with pytest.raises(ConfigError, match=r"A has shape \(64,\)"):
        evaluate(GEMM, {"A": a[:, 0], "B": b})
    with pytest.raises(ConfigError, match="B has 16 along 'k', another array 32"):
        evaluate(GEMM, {"A": a, "B": b[:, :16]})


def test_tiles() -> None:
    tile = TileType(("m", "k"), (64, 32), BF16)
    assert (tile.whole, tile.elements) == (((0, 64), (0, 32)), 2048)
    assert str(tile) == "bf16(m=64, k=32)"
    with pytest.raises(ConfigError, match="TileType has dimensions"):
        TileType(("m", "m"), (1, 2), BF16)
    with pytest.raises(ConfigError, match="TileType has dimensions"):
        TileType(("m",), (1, 2), BF16)
    with pytest.raises(ConfigError, match=r"TileType\.m is 0"):
        TileType(("m",), (0,), BF16)


def test_boxes() -> None:
    box = ((0, 4), (2, 6))
    assert volume(box) == 16
    assert project(box, ("m", "n"), ("n",)) == ((2, 6),)
    assert overlap(box, ((3, 9), (0, 3))) == ((3, 4), (2, 3))
    assert overlap(box, ((4, 9), (0, 3))) is None
    assert contains(box, ((1, 2), (2, 6)))
    assert not contains(box, ((1, 2), (2, 7)))
    assert shifted(box, (1, -2)) == ((1, 5), (0, 4))
    assert describe_box(box, ("m", "n")) == "m 0:4, n 2:6"
    rest = list(subtract(box, ((1, 2), (3, 4))))
    assert sum(map(volume, rest)) == 15
    assert all(a is b or overlap(a, b) is None for a in rest for b in rest)
    assert list(subtract(box, ((8, 9), (0, 9)))) == [box]


def test_the_vocabulary_is_open_but_not_ambiguous() -> None:
    relu = OpDef("acme.relu", 1, np.abs)
    more = VOCABULARY.extended(relu)
    assert "acme.relu" in more
    assert "acme.relu" not in VOCABULARY
    assert len(list(more)) == len(list(VOCABULARY)) + 1
    with pytest.raises(ConfigError, match="defined twice, differently"):
        more.extended(OpDef("acme.relu", 1, np.negative))
    with pytest.raises(ConfigError, match="op 'matmull' is not in the vocabulary"):
        VOCABULARY["matmull"]


@pytest.mark.parametrize("usual", [0.0, -1.0])
def test_a_positive_scalar_is_usually_positive(usual: float) -> None:
    loop = Loop("scaled", over="k")
    x = loop.stream("X", F32, k=4, n=256)
    total = loop.carry("total", F32, start=0, n=256)
    total += x.sum("k") * loop.scalar("alpha", usual=usual, positive=True)
    loop.store("out", total)
    with pytest.raises(GraphError, match=r"'alpha' .* is declared positive"):
        _ = loop.meaning


def test_arrays_are_aligned_as_declared() -> None:
    """16 bytes unless said, which then is not written; loads to LDS are no wider than declared."""
    loop = gemm(64, 64, 64)
    usual = loop.meaning
    assert "align" not in to_plain(usual["A"])
    loop.align("A", "B", to=4)
    assert [loop.meaning[name].align for name in "AB"] == [4, 4]
    assert from_plain(Node, to_plain(loop.meaning["A"])) == loop.meaning["A"] != usual["A"]
    assert [GFX950.lds_load_bytes(loop.meaning[name].align) for name in "AB"] == [4, 4]
    assert GFX950.lds_load_bytes(usual["A"].align) == 16
    assert GFX942.lds_load_bytes(usual["A"].align) == 4
    with pytest.raises(GraphError, match="no array 'Z'"):
        loop.align("Z", to=4)
    for wrong in (3, 4.0):
        loop.align("A", to=wrong)  # type: ignore[arg-type]
        with pytest.raises(GraphError, match=f"'A' is aligned to {wrong} bytes") as caught:
            _ = loop.meaning
        assert (caught.value.field, caught.value.hint) == ("A", "one of: 1, 2, 4, 16")
