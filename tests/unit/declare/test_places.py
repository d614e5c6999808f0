"""Streams that lie elsewhere: what they read, in NumPy, and which are refused with a remedy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import conv2d, conv3d
from pipeloom.errors import ConfigError, GraphError
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Meaning
from pipeloom.program.address_maps import LoadForm
from pipeloom.program.index_forms import Digit, IndexForm, digit

Array = np.ndarray[Any, Any]


def convolved(
    x: Array, f: Array, stride: tuple[int, ...], dilation: tuple[int, ...], pad: tuple[int, ...]
) -> Array:
    """Tap by tap, on an image with zeros around it; ``f`` is [filters, *taps, channels]."""
    taps = f.shape[1:-1]
    edged = np.pad(x, [(0, 0), *((p, p) for p in pad), (0, 0)])
    out = [
        (size + 2 * p - d * (t - 1) - 1) // s + 1
        for size, p, d, t, s in zip(x.shape[1:-1], pad, dilation, taps, stride, strict=True)
    ]
    total = np.zeros((len(x), *out, len(f)))
    for tap in product(*(range(t) for t in taps)):
        cut = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, out, stride, strict=True)
        ]
        weights: Array = f.reshape(len(f), -1, f.shape[-1])[:, np.ravel_multi_index(tap, taps)]
        total += np.einsum("...c,fc->...f", edged[(slice(None), *cut)], weights)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_what_a_convolution_means(seed: int) -> None:
    """Whole numbers, so that sums are exact; tiles that fit nothing."""
    rng = np.random.default_rng(seed)
    count = 2 + seed % 2
    taps, stride, dilation, pad = (
        tuple(int(n) for n in rng.integers(low, high, count))
        for low, high in ((1, 4), (1, 3), (1, 3), (0, 3))
    )
    image = tuple(
        int(rng.integers(d * (t - 1) + 1, 9)) for d, t in zip(dilation, taps, strict=True)
    )
    x = rng.integers(-3, 4, (2, *image, 8)).astype(np.float32)
    f = rng.integers(-3, 4, (5, *taps, 8)).astype(np.float32)
    loop = (conv2d if count == 2 else conv3d)(
        8, 16, 16, 16, "bf16", "f32", taps=taps, stride=stride, dilation=dilation, pad=pad
    )
    depth = f[0].size
    padded = np.zeros((5, -(-depth // 16) * 16), np.float32)
    padded[:, :depth] = f.reshape(5, -1)
    past = loop.evaluate(X=x, F=padded) if any(t > 1 for t in taps) and depth % 16 else None
    meant = convolved(x, f, stride, dilation, pad).reshape(-1, 5)
    found = loop.evaluate(X=x, F=f.reshape(5, -1))["out"]
    np.testing.assert_array_equal(found, meant)
    if past is not None and loop.meaning.all_sizes({"k": padded.shape[1]}):
        np.testing.assert_array_equal(past["out"], meant)


def test_forms_by_tile_and_channels() -> None:
    def form(channels: int, k: int, **options: Any) -> LoadForm:
        at = conv2d(channels, 64, 64, k, **options).meaning["X"].at
        assert at is not None
        return at.form("k", k)

    assert form(128, 64) is LoadForm.UNIFORM
    assert form(64, 64) is LoadForm.UNIFORM
    assert form(32, 64) is LoadForm.PER_LANE
    assert form(96, 64) is LoadForm.PER_LANE
    assert form(64, 64, taps=1) is LoadForm.POINTWISE
    assert form(24, 64, taps=1) is LoadForm.PER_LANE
    assert form(64, 64, taps=1, stride=2) is LoadForm.UNIFORM
    assert form(64, 64, taps=1, pad=1) is LoadForm.UNIFORM


def test_arithmetic_of_digits() -> None:
    p, r = digit("p", "h"), digit("r", 3)
    form = 2 * p + r * 3 - 1 + (p - 4)
    assert form == IndexForm(-5, (("p", 3), ("r", 3)))
    assert p - p == IndexForm()
    assert str(2 * p + r - 1) == "2 * p + r + -1"
    with pytest.raises(ConfigError, match="factor"):
        p * 1.5


def test_counts_follow_from_the_array() -> None:
    """As frameworks count windows: (size + 2 pad - dilation (taps - 1) - 1) // stride + 1."""
    for size, pad, apart, taps, step in product((1, 4, 7), (0, 2), (1, 2), (1, 3), (1, 2, 3)):
        one = digit("p", "h", more=2 * pad - apart * (taps - 1), step=step)
        meant = (size + 2 * pad - apart * (taps - 1) - 1) // step + 1
        assert one.number({"h": size}) == max(meant, 0)


def test_a_place_is_data() -> None:
    meaning = conv2d(64, 64, 64, pad=1, stride=2).meaning
    assert from_plain(Meaning, to_plain(meaning)) == meaning


def placed(channels: int = 8, taps: int = 3, **changes: Any) -> Loop:
    loop = Loop("window", over="k")
    a = loop.stream("A", changes.pop("dtype", "bf16"), m=16, k=16)
    b = loop.stream("B", changes.pop("other", "bf16"), n=16, k=16)
    image, p, r, c = digit("i", "images"), digit("p", "h"), digit("r", taps), digit("c", channels)
    dims: dict[str, Any] = {
        "m": (image, p),
        "k": (r, c),
        "images": image,
        "h": p + r - 1,
        "ch": c,
        **changes,
    }
    loop.place("A", **{dim: value for dim, value in dims.items() if value is not None})
    total = loop.carry("sum", m=16, n=16)
    total += a @ b
    loop.store("out", total)
    return loop


P, R, C = digit("p", "h"), digit("r", 3), digit("c", 8)
IMAGE = digit("i", "images")


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"channels": 3}, "pad ch with zeros to 4"),
        ({"channels": 4}, "loop.align('A', to=4)"),
        ({"taps": 40}, "tells 31 apart"),
        ({"h": P * -1 + R}, "grows with its digits"),
        ({"h": P + R + IMAGE}, "it takes 'p' or 'i'"),
        ({"m": (IMAGE,), "h": R, "k": (R, P, C)}, "fixed when the kernel is made"),
        ({"ch": C + 1}, "channels last"),
        ({"ch": C, "h": P + R + C}, "channels last"),
        ({"n": P, "h": None, "m": (IMAGE, digit("p", "n"))}, "names of their own"),
        ({"channels": 24, "k": (digit("c", 24),), "h": P}, "pl.digit('tap', 1)"),
        ({"dtype": "mxfp4", "other": "mxfp4"}, "8, 16 or 32 bits"),
    ],
)
def test_refused_when_it_is_declared(changes: dict[str, Any], remedy: str) -> None:
    with pytest.raises(GraphError) as refused:
        placed(**changes).meaning  # noqa: B018
    assert remedy in str(refused.value.hint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"h": P + digit("s", 3)}, "no digit of"),
        ({"m": (IMAGE, P, P)}, "'p' twice"),
        ({"m": (IMAGE, digit("p", "hh"))}, "no dimension of the array"),
        ({"h": "p"}, "has 'p' for 'h'"),
        ({"m": ()}, "counts"),
    ],
)
def test_refused_as_no_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        placed(**changes)


def test_placed_streams_are_aligned() -> None:
    loop = placed()
    loop.align("A", to=2)
    with pytest.raises(GraphError, match="aligned to 2 bytes"):
        loop.meaning  # noqa: B018


def test_only_streams_have_places() -> None:
    loop = placed()
    loop.place("B", m=(IMAGE, P), k=(R, C), images=IMAGE, h=P + R, ch=C)
    with pytest.raises(GraphError, match="and its place counts"):
        loop.meaning  # noqa: B018


@pytest.mark.parametrize("bad", [{"name": ""}, {"count": 0}, {"step": 0}, {"more": 1 << 30}])
def test_digits_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Digit(**{"name": "p", "count": 3, **bad})


def test_sizes_must_agree() -> None:
    loop = conv2d(8, 16, 16, 24, pad=1, residual=True)
    arrays: dict[str, Any] = {
        "X": np.zeros((1, 4, 5, 8)),
        "F": np.zeros((3, 72)),
        "residual": np.zeros((20, 3)),
    }
    assert loop.evaluate(**arrays)["out"].shape == (20, 3)
    with pytest.raises(ConfigError, match="gives 20 along 'm'"):
        loop.evaluate(**{**arrays, "residual": np.zeros((19, 3))})
    with pytest.raises(ConfigError, match="8 are read"):
        loop.evaluate(**{**arrays, "X": np.zeros((1, 4, 5, 7))})
    with pytest.raises(ConfigError, match="gives 72 along 'k'"):
        loop.evaluate(**{**arrays, "F": np.zeros((3, 71))})


@pytest.mark.parametrize("options", [{"taps": (3, 3, 3)}, {"stride": 0}, {"pad": -1}])
def test_windows_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        conv2d(8, 16, 16, **options)
