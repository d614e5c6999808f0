"""Row by row: norms, softmax, losses and gates, a row in registers or longer than a tile."""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from tests.declarations.cases import Array, Arrays, Sizes, listed, right

ROWS = {"b": 2, "r": 3, "n": 200}
WHOLE = {"b": 1, "r": 2, "n": 256}
LONG = ({"b": 1, "r": 3, "n": 300}, {"b": 1, "r": 1, "n": 7})


def started(name: str, dtype: pl.DType = pl.BF16) -> tuple[pl.Loop, pl.Tensor]:
    loop = pl.Loop(name, over="r")
    return loop, loop.stream("X", dtype, b=1, r=1, n=256)


def softmaxed(x: Array) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x: Array) -> Any:
    top = x.max(-1)
    return top + np.log(np.exp(x - top[..., None]).sum(-1))


@right(lambda X: softmaxed(X), ROWS, WHOLE)
def softmax_masked() -> pl.Loop:
    loop, x = started("softmax")
    x = pl.where(loop.index("n", 256) < loop.size("n"), x, -np.inf)
    e = pl.exp(x - x.max("n"))
    loop.store("out", (e / e.sum("n")).to(pl.BF16))
    return loop


@right(lambda X: softmaxed(X), ROWS, WHOLE)
def softmax_plain() -> pl.Loop:
    loop, x = started("softmax")
    e = pl.exp(x - x.max("n"))
    loop.store("out", (e / e.sum("n")).to(pl.BF16))
    return loop


@right(lambda X: X - logsumexp(X)[..., None], ROWS)
def log_softmax() -> pl.Loop:
    loop, x = started("log_softmax", pl.F32)
    top = x.max("n")
    lse = top + pl.log(pl.exp(x - top).sum("n"))
    loop.store("out", x - lse)
    return loop


@right(lambda X: logsumexp(X), ROWS)
def logsumexp_per_row() -> pl.Loop:
    loop, x = started("lse", pl.F32)
    top = x.max("n")
    loop.store("out", top + pl.log(pl.exp(x - top).sum("n")))
    return loop


def normed(x: Array, eps: float) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


@right(lambda X, w, bias, eps: normed(X, eps) * w + bias, ROWS, WHOLE, scalars={"eps": 1e-5})
def layer_norm() -> pl.Loop:
    loop, x = started("layer_norm")
    w, bias = loop.resident("w", pl.F32, n=256), loop.resident("bias", pl.F32, n=256)
    centred = x - x.mean("n")
    variance = (centred * centred).mean("n")
    eps = loop.scalar("eps", pl.F32)
    loop.store("out", (centred * pl.rsqrt(variance + eps) * w + bias).to(pl.BF16))
    return loop


@right(lambda X, w: X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * w, ROWS)
def rms_norm() -> pl.Loop:
    loop, x = started("rms_norm")
    w = loop.resident("w", pl.BF16, n=256)
    loop.store("out", (x * pl.rsqrt((x**2).mean("n") + 1e-6) * w).to(pl.BF16))
    return loop


def added_and_normed(X: Array, R: Array, w: Array) -> Any:
    h = X + R
    return {"h": h, "out": h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-6) * w}


@right(added_and_normed, ROWS)
def rms_norm_with_residual_and_two_outputs() -> pl.Loop:
    loop, x = started("add_norm")
    h = x + loop.stream("R", pl.BF16, b=1, r=1, n=256)
    w = loop.resident("w", pl.BF16, n=256)
    loop.store("h", h.to(pl.BF16))
    loop.store("out", (h * pl.rsqrt((h * h).mean("n") + 1e-6) * w).to(pl.BF16))
    return loop


def moments(X: Array) -> Any:
    return {"mean": X.mean(-1), "var": X.var(-1)}


@right(moments, ROWS)
def mean_and_variance_per_row() -> pl.Loop:
    loop, x = started("moments", pl.F32)
    mean = x.mean("n")
    loop.store("mean", mean)
    loop.store("var", ((x - mean) ** 2).mean("n"))
    return loop


@right(lambda X: X / np.sqrt((X**2).sum(-1, keepdims=True)), ROWS)
def l2_normalised() -> pl.Loop:
    loop, x = started("l2")
    loop.store("out", (x * pl.rsqrt(x.sum_squares("n"))).to(pl.BF16))
    return loop


def quantised(X: Array) -> Any:
    scale = np.abs(X).max(-1) / 448
    return {"scale": scale, "out": X / scale[..., None]}


@right(quantised, ROWS, near=2.0**-4)
def quantised_to_fp8_with_row_scales() -> pl.Loop:
    loop, x = started("quantise")
    scale = abs(x).max("n") / 448.0
    loop.store("scale", scale)
    loop.store("out", (x / scale).to(pl.FP8))
    return loop


def quantised_int8(X: Array) -> Any:
    scale = np.abs(X).max(-1) / 127
    return {"scale": scale, "out": np.rint(X / scale[..., None])}


@right(quantised_int8, ROWS, near=2.0**-10, steps=1.0)
def quantised_to_int8_with_row_scales() -> pl.Loop:
    loop, x = started("quantise8")
    scale = abs(x).max("n") / 127.0
    loop.store("scale", scale)
    loop.store("out", (x / scale).to(pl.I8))
    return loop


@right(lambda X: X.argmax(-1), ROWS, near=0.0)
def argmax() -> pl.Loop:
    loop, x = started("argmax", pl.F32)
    index = loop.index("n", 256)
    best = pl.where(x == x.max("n"), index, np.inf)
    loop.store("out", best.min("n").to(pl.I32))
    return loop


@right(
    lambda X, T: logsumexp(X) - np.take_along_axis(X, T.astype(int)[..., None], -1)[..., 0],
    ROWS,
    arrays=lambda rng, s: {"T": rng.integers(0, s["n"], (s["b"], s["r"]))},
)
def cross_entropy() -> pl.Loop:
    loop, x = started("cross_entropy")
    label = loop.stream("T", pl.I32, b=1, r=1)
    top = x.max("n")
    lse = top + pl.log(pl.exp(x - top).sum("n"))
    picked = pl.where(loop.index("n", 256) == label, x, 0.0).sum("n")
    loop.store("out", lse - picked)
    return loop


def gate(X: Array) -> Any:
    order = np.argsort(-X, -1)
    first, second = (np.take_along_axis(X, order[..., i : i + 1], -1)[..., 0] for i in (0, 1))
    share = 1 / (1 + np.exp(second - first))
    return {"w1": share, "w2": 1 - share, "e1": order[..., 0], "e2": order[..., 1]}


def three_largest(X: Array) -> Any:
    order = np.argsort(-X, -1)[..., :3]
    return {f"i{at}": order[..., at] for at in range(3)}


@right(three_largest, {"b": 1, "r": 3, "n": 50}, {"b": 1, "r": 2, "n": 3}, near=0.0)
def largest_one_after_the_other() -> pl.Loop:
    loop = pl.Loop("top", over="r")
    x, index = loop.stream("X", pl.F32, b=1, r=1, n=64), loop.index("n", 64)
    for at in range(3):
        place = x.argmax("n")
        loop.store(f"i{at}", place)
        x = pl.where(index == place, -np.inf, x)
    return loop


@right(gate, {"b": 2, "r": 3, "n": 50})
def top_two_gating() -> pl.Loop:
    loop = pl.Loop("gate", over="r")
    x = loop.stream("X", pl.F32, b=1, r=1, n=64)
    index = loop.index("n", 64)
    first = x.max("n")
    e1 = pl.where(x == first, index, 1e9).min("n")
    rest = pl.where(index == e1, -np.inf, x)
    second = rest.max("n")
    e2 = pl.where(rest == second, index, 1e9).min("n")
    share = pl.sigmoid(first - second)
    loop.store("w1", share)
    loop.store("w2", 1.0 - share)
    loop.store("e1", e1.to(pl.I32))
    loop.store("e2", e2.to(pl.I32))
    return loop


@right(lambda X: X.sum(-1), *LONG)
def sum_of_long_rows() -> pl.Loop:
    loop = pl.Loop("sums", over="n")
    x = loop.stream("X", pl.F32, b=1, r=1, n=64)
    total = loop.carry("total", b=1, r=1)
    total += x.sum("n")
    loop.store("out", total)
    return loop


@right(lambda X: X.max(-1), *LONG)
def maximum_of_long_rows() -> pl.Loop:
    loop = pl.Loop("tops", over="n")
    x = loop.stream("X", pl.BF16, b=1, r=1, n=64)
    top = loop.carry("top", start=-np.inf, b=1, r=1)
    top = top.becomes(pl.maximum(top, x.max("n")))
    loop.store("out", top)
    return loop


@right(lambda X: logsumexp(X), *LONG)
def online_logsumexp_of_long_rows() -> pl.Loop:
    loop = pl.Loop("online", over="n")
    x = loop.stream("X", pl.BF16, b=1, r=1, n=64)
    m = loop.carry("m", start=-1e30, b=1, r=1)
    total = loop.carry("l", b=1, r=1)
    new = pl.maximum(m, x.max("n"))
    total = total.becomes(total * pl.exp(m - new) + pl.exp(x - new).sum("n"))
    m = m.becomes(new)
    loop.store("out", m + pl.log(total))
    return loop


@right(lambda X: X.sum(0), {"r": 5, "n": 300}, {"r": 1, "n": 4})
def column_sums() -> pl.Loop:
    loop = pl.Loop("columns", over="r")
    x = loop.stream("X", pl.BF16, r=4, n=256)
    total = loop.carry("total", n=256)
    total += x.sum("r")
    loop.store("out", total)
    return loop


@right(lambda X: X.mean(0), {"r": 5, "n": 300})
def column_means() -> pl.Loop:
    loop = pl.Loop("column_means", over="r")
    x = loop.stream("X", pl.F32, r=4, n=256)
    total = loop.carry("total", n=256)
    total += x.sum("r")
    loop.store("out", total / loop.size("r"))
    return loop


@right(lambda X: (X - X.min(-1, keepdims=True)) / np.ptp(X, -1, keepdims=True), ROWS)
def min_max_scaled() -> pl.Loop:
    loop, x = started("min_max", pl.F32)
    low = x.min("n")
    loop.store("out", (x - low) / (x.max("n") - low))
    return loop


TINY_ROWS = {"b": 2, "r": 3, "n": 50}


@right(lambda X, weight, bias: normed(X, 1e-5) * weight + bias, ROWS)
def shipped_layer_norm() -> pl.Loop:
    return pl.kernels.layer_norm(256, 1)


def added(X: Array, R: Array, weight: Array) -> Any:
    h = X + R
    return {"H": h, "out": h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-6) * weight}


@right(added, ROWS)
def shipped_add_rms_norm() -> pl.Loop:
    return pl.kernels.add_rms_norm(256, 1)


def losses(X: Array, T: Array) -> Any:
    label = T.astype(int)[..., None]
    inside = (label >= 0) & (label < X.shape[-1])
    picked = np.where(inside, np.take_along_axis(X, np.where(inside, label, 0), -1), 0)
    return {"loss": logsumexp(X) - picked[..., 0], "lse": logsumexp(X)}


@right(
    losses,
    ROWS,
    arrays=lambda rng, s: {
        "T": np.where(rng.random((s["b"], s["r"])) < 0.5, -100, rng.integers(0, s["n"]))
    },
)
def shipped_cross_entropy() -> pl.Loop:
    return pl.kernels.cross_entropy(256, 1)


def shipped_gate_of(X: Array) -> Any:
    found = gate(X)
    return {
        "first": found["e1"],
        "second": found["e2"],
        "weight": found["w1"],
        "other_weight": found["w2"],
    }


@right(shipped_gate_of, TINY_ROWS)
def shipped_top2_gate() -> pl.Loop:
    return pl.kernels.top2_gate(64, 1)


def labels(rng: np.random.Generator, sizes: Sizes) -> Arrays:
    return {"T": rng.integers(-1, sizes["n"], sizes["r"])}


@right(
    lambda X, T: np.log(np.exp(X).sum(1)) - np.where(T < 0, 0, X[np.arange(len(T)), T.astype(int)]),
    {"r": 6, "n": 100},
    arrays=labels,
)
def labels_of_several_rows_at_a_time() -> pl.Loop:
    loop = pl.Loop("ce", over="r")
    x, label = loop.stream("X", pl.F32, r=4, n=128), loop.stream("T", pl.I32, r=4)
    top = x.max("n")
    picked = pl.where(loop.index("n") == label, x, 0).sum("n")
    loop.store("out", top + pl.log(pl.exp(x - top).sum("n")) - picked)
    return loop


@right(lambda X: np.tril(X), {"r": 6, "n": 100})
def a_triangle_of_several_rows_at_a_time() -> pl.Loop:
    loop = pl.Loop("tril", over="r")
    x = loop.stream("X", pl.F32, r=4, n=128)
    loop.store("out", pl.where(loop.index("n") <= loop.index("r"), x, 0.0))
    return loop


@right(
    lambda X, Y: ((X[:, None] - Y[None]) ** 2).sum(2),
    *({"m": m, "n": n, "k": k} for m, n, k in ((20, 30, 12), (1, 3, 2))),
)
def distances_of_all_pairs() -> pl.Loop:
    loop = pl.Loop("distances", over="k")
    x, y = loop.stream("X", pl.F32, m=16, k=4), loop.stream("Y", pl.F32, n=16, k=4)
    total = loop.carry("total", m=16, n=16)
    apart = x - y
    total += (apart * apart).sum("k")
    loop.store("out", total)
    return loop


@right(lambda X: X.max((1, 3)), {"oh": 3, "kh": 2, "ow": 10, "kw": 2, "c": 30})
def pooled_over_windows() -> pl.Loop:
    loop = pl.Loop("pool", over="oh")
    x = loop.stream("X", pl.BF16, oh=1, kh=2, ow=4, kw=2, c=32)
    loop.store("out", x.max("kh", "kw").to(pl.BF16))
    return loop


@right(lambda X: {"s": X.sum((1, 2)), "a": X.argmax(1)}, {"b": 5, "n": 3, "k": 5})
def rows_of_uneven_tiles() -> pl.Loop:
    loop = pl.Loop("uneven", over="b")
    x = loop.stream("X", pl.F32, b=1, n=3, k=5)
    loop.store("s", x.sum("n", "k"))
    loop.store("a", x.argmax("n"))
    return loop


@right(lambda X, Y: Y + X.T, {"m": 20, "n": 30})
def added_to_a_transposed_one() -> pl.Loop:
    loop = pl.Loop("added", over="m")
    x, y = loop.stream("X", pl.F32, m=8, n=32), loop.stream("Y", pl.F32, n=32, m=8)
    loop.store("out", y + x)
    return loop


def filtered(X: Array, F: Array) -> Any:
    return np.einsum("hrwsc,rsc->hwc", X, F)


@right(filtered, {"h": 5, "r": 3, "w": 6, "s": 3, "c": 40}, chip="gfx942", near=2.0**-12)
def depth_wise_filters_of_windows() -> pl.Loop:
    loop = pl.Loop("depthwise", over="h")
    x = loop.stream("X", pl.F32, h=1, r=3, w=4, s=3, c=64)
    loop.store("out", (x * loop.resident("F", pl.F32, r=3, s=3, c=64)).sum("r", "s"))
    return loop


CASES = listed(globals())
