# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""One value in, one value out: arithmetic, math functions, conversions, integers, random bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

from evidence.triton_corpus.harness import Case, Expected, Trial
from evidence.triton_corpus.numbers import DTYPES, EPSILON, Array, decode, encode, is_float

SIZE = 700


@triton.jit
def vector_add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def unary(x, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1)
    if OP == "exp":
        r = tl.exp(v)
    elif OP == "exp2":
        r = tl.exp2(v)
    elif OP == "log":
        r = tl.log(v)
    elif OP == "log2":
        r = tl.log2(v)
    elif OP == "sin" or OP == "sin wide":
        r = tl.sin(v)
    elif OP == "cos":
        r = tl.cos(v)
    elif OP == "sqrt":
        r = tl.sqrt(v)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(v)
    elif OP == "rsqrt":
        r = tl.rsqrt(v)
    elif OP == "erf":
        r = tl.erf(v)
    elif OP == "floor":
        r = tl.floor(v)
    elif OP == "ceil":
        r = tl.ceil(v)
    elif OP == "abs":
        r = tl.abs(v)
    elif OP == "sigmoid":
        r = tl.sigmoid(v)
    elif OP == "gelu":
        r = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    elif OP == "silu":
        r = v * tl.sigmoid(v)
    elif OP == "relu":
        r = tl.maximum(v, 0.0)
    elif OP == "reciprocal":
        r = 1.0 / v
    elif OP == "tanh":
        r = libdevice.tanh(v)
    elif OP == "rint":
        r = libdevice.rint(v)
    elif OP == "trunc":
        r = libdevice.trunc(v)
    elif OP == "log1p":
        r = libdevice.log1p(v)
    elif OP == "expm1":
        r = libdevice.expm1(v)
    elif OP == "atan":
        r = libdevice.atan(v)
    elif OP == "sinh":
        r = libdevice.sinh(v)
    elif OP == "isnan":
        r = tl.where(v != v, 1.0, 0.0).to(v.dtype)
    else:
        r = -v
    tl.store(out + i, r, mask=i < n)


@triton.jit
def binary(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=1)
    b = tl.load(y + i, mask=i < n, other=1)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "div_rn":
        r = tl.div_rn(a, b)
    elif OP == "fdiv":
        r = tl.fdiv(a, b)
    elif OP == "floordiv":
        r = a // b
    elif OP == "mod":
        r = a % b
    elif OP == "min":
        r = tl.minimum(a, b)
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "min nan":
        r = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "max nan":
        r = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "fma":
        r = tl.fma(a, b, a)
    elif OP == "clamp":
        r = tl.clamp(a, -b, b)
    elif OP == "pow":
        r = libdevice.pow(a, b)
    elif OP == "fmod":
        r = libdevice.fmod(a, b)
    elif OP == "atan2":
        r = libdevice.atan2(a, b)
    elif OP == "and":
        r = a & b
    elif OP == "or":
        r = a | b
    elif OP == "xor":
        r = a ^ b
    elif OP == "shl":
        r = a << b
    elif OP == "shr":
        r = a >> b
    elif OP == "umulhi":
        r = tl.umulhi(a, b)
    elif OP == "lt":
        r = (a < b).to(a.dtype)
    elif OP == "eq":
        r = (a == b).to(a.dtype)
    elif OP == "where":
        r = tl.where(a > b, a - b, b * 3)
    elif OP == "rotate":
        r = (a << 13) | (a >> 19) ^ ~b
    elif OP == "popcount":
        r = libdevice.popc(a) + libdevice.clz(b)
    else:
        r = a
    tl.store(out + i, r, mask=i < n)


@triton.jit
def convert(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m).to(out.dtype.element_ty), mask=m)


@triton.jit
def truncate(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v.to(out.dtype.element_ty, fp_downcast_rounding="rtz"), mask=i < n)


@triton.jit
def random_bits(out, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.randint(seed, i), mask=i < n)


@triton.jit
def dropout(x, out, kept, seed, n, P: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    keep = tl.rand(seed, i) > P
    v = tl.load(x + i, mask=m)
    tl.store(out + i, tl.where(keep, v / (1 - P), 0.0), mask=m)
    tl.store(kept + i, keep, mask=m)


@triton.jit
def strided(x, out, n, stride, B: tl.constexpr):
    """A grid-stride loop over a strided array."""
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        i = start + tl.arange(0, B)
        tl.store(out + i, tl.load(x + i * stride, mask=i < n) * 2, mask=i < n)


def _erf(values: Array) -> Array:
    return np.vectorize(math.erf)(values)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# name: (oracle, what the inputs are, error in units of the last place, absolute error)
_UNARY: dict[str, tuple[Callable[[Array], Array], str, float, float]] = {
    "exp": (np.exp, "any", 16, 0),
    "exp2": (np.exp2, "any", 4, 0),
    "log": (np.log, "positive", 4, 1e-6),
    "log2": (np.log2, "positive", 4, 1e-6),
    "sin": (np.sin, "any", 8, 1e-6),
    "cos": (np.cos, "any", 8, 1e-6),
    "sin wide": (np.sin, "wide", 8, 1e-6),
    "sqrt": (np.sqrt, "positive", 2, 0),
    "sqrt_rn": (np.sqrt, "positive", 1, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "positive", 4, 0),
    "erf": (_erf, "any", 16, 1e-7),
    "floor": (np.floor, "any", 0, 0),
    "ceil": (np.ceil, "any", 0, 0),
    "abs": (np.abs, "any", 0, 0),
    "sigmoid": (_sigmoid, "any", 16, 1e-7),
    "gelu": (lambda x: 0.5 * x * (1 + _erf(x * math.sqrt(0.5))), "any", 32, 1e-6),
    "silu": (lambda x: x * _sigmoid(x), "any", 16, 1e-7),
    "relu": (lambda x: np.maximum(x, 0), "any", 0, 0),
    "reciprocal": (lambda x: 1 / x, "positive", 2, 0),
    "negate": (lambda x: -x, "any", 0, 0),
    "isnan": (lambda x: np.isnan(x) * 1.0, "special", 0, 0),
    "tanh": (np.tanh, "any", 8, 1e-7),
    "rint": (np.rint, "any", 0, 0),
    "trunc": (np.trunc, "any", 0, 0),
    "log1p": (np.log1p, "positive", 8, 1e-7),
    "expm1": (np.expm1, "any", 16, 1e-7),
    "atan": (np.arctan, "any", 8, 1e-7),
    "sinh": (np.sinh, "any", 32, 1e-6),
}


def _floats(rng: np.random.Generator, domain: str, kind: str) -> Array:
    x = rng.standard_normal(SIZE) * 3
    if domain == "positive":
        x = np.abs(x) + 0.05
    if domain == "wide":
        x = x * np.exp2(rng.integers(0, 40, SIZE))
    if domain == "special":
        x[::3] = np.nan
        x[1::7] = np.inf
    return encode(x, kind)


def _unary(name: str, kind: str) -> Case:
    oracle, domain, ulps, atol = _UNARY[name]

    def prepare(rng: np.random.Generator) -> Trial:
        x = _floats(rng, domain, kind)
        out = np.zeros_like(x)
        slack = atol if kind == "fp32" else atol * 1e-6 if kind == "fp64" else 10 * atol
        expected = Expected(1, kind, oracle(decode(x, kind)), ulps * EPSILON[kind], slack)
        return Trial([x, out, SIZE], [expected])

    types = {"x": f"*{kind}", "out": f"*{kind}", "n": "i32"}
    fixed = {"OP": name, "B": 256}
    # Fused multiply-adds break the compensated sums of the device library's range reduction.
    options = {"enable_fp_fusion": False} if name == "sin wide" else {}
    return Case("math", f"{name} {kind}", unary, types, fixed, prepare, (3,), options=options)


def _floor_divide(a: Array, b: Array) -> Array:
    """Triton's // and % truncate, like C."""
    wide = [x.astype(object) for x in (a, b)]
    return np.array([abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
                     for p, q in zip(*wide, strict=True)])  # fmt: skip


def _remainder(a: Array, b: Array) -> Array:
    return a.astype(object) - _floor_divide(a, b) * b.astype(object)


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "div_rn": lambda a, b: a / b,
    "fdiv": lambda a, b: a / b,
    "floordiv": _floor_divide,
    "mod": _remainder,
    "min": np.fmin,
    "max": np.fmax,
    "min nan": np.minimum,
    "max nan": np.maximum,
    "fma": lambda a, b: a * b + a,
    "clamp": lambda a, b: np.clip(a, -b, b),
    "pow": lambda a, b: np.power(a, b),
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "lt": lambda a, b: (a < b).astype(a.dtype),
    "eq": lambda a, b: (a == b).astype(a.dtype),
    "where": lambda a, b: np.where(a > b, a - b, b * 3),
    "umulhi": lambda a, b: (a.astype(object) * b.astype(object)) >> (8 * a.dtype.itemsize),
    "rotate": lambda a, b: (a << 13) | (a >> 19) ^ ~b,
    "popcount": lambda a, b: np.array(
        [
            (int(p) & 0xFFFFFFFF).bit_count() + 32 - (int(q) & 0xFFFFFFFF).bit_length()
            for p, q in zip(a, b, strict=True)
        ]
    ),
}


def _wrap(values: Array, kind: str) -> Array:
    """Integers modulo the type's range."""
    bits = 8 * np.dtype(DTYPES[kind]).itemsize
    whole = np.array([int(v) & ((1 << bits) - 1) for v in values.tolist()], np.uint64)
    return whole.astype(f"u{bits // 8}").view(DTYPES[kind])


def _integer_binary(name: str, kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        info = np.iinfo(DTYPES[kind])
        a, b = (rng.integers(info.min, info.max, SIZE, dtype=DTYPES[kind], endpoint=True)
                for _ in range(2))  # fmt: skip
        if name in ("floordiv", "mod"):
            b = np.where(rng.random(SIZE) < 0.5, b >> (info.bits // 2), b).astype(DTYPES[kind])
            b[(b == 0) | (b == np.array(-1).astype(DTYPES[kind]))] = 3
            a[::50] = info.min
        if name in ("shl", "shr"):
            b = (np.abs(b.astype(object)) % info.bits).astype(DTYPES[kind])
        if name == "eq":
            b = np.where(rng.random(SIZE) < 0.5, a, b)
        with np.errstate(all="ignore"):
            wanted = _BINARY[name](a, b)
        return Trial([a, b, np.zeros_like(a), SIZE], [Expected(2, kind, _wrap(wanted, kind))])

    types = {"x": f"*{kind}", "y": f"*{kind}", "out": f"*{kind}", "n": "i32"}
    return Case("integers", f"{name} {kind}", binary, types, {"OP": name, "B": 256}, prepare, (3,))


def _float_binary(name: str, kind: str, ulps: float = 0.5) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        positive = name in ("clamp", "pow")
        x = _floats(rng, "positive" if name == "pow" else "any", kind)
        y = _floats(rng, "positive" if positive else "any", kind)
        if name.startswith(("min", "max", "lt", "eq")):
            x[::9] = encode(np.nan, kind)
            y[4::9] = encode(np.nan, kind)
            y[2::5] = x[2::5]
        a, b = decode(x, kind), decode(y, kind)
        with np.errstate(all="ignore"):
            wanted = np.fmod(a, b) if name == "mod" else _BINARY[name](a, b)
        atol = 8 * EPSILON[kind] if name in ("fmod", "mod", "fma", "sub", "add", "where") else 0.0
        return Trial([x, y, np.zeros_like(x), SIZE],
                     [Expected(2, kind, wanted, ulps * EPSILON[kind], atol)])  # fmt: skip

    types = {"x": f"*{kind}", "y": f"*{kind}", "out": f"*{kind}", "n": "i32"}
    fixed = {"OP": name, "B": 256}
    return Case("float arithmetic", f"{name} {kind}", binary, types, fixed, prepare, (3,))


def _vector_add(kind: str, block: int, warps: int) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x, y = rng.integers(-60 if kind[0] != "u" else 0, 60, (2, 2500))
        out = encode(np.full(2500, 99), kind)
        return Trial([encode(x, kind), encode(y, kind), out, 2500], [Expected(2, kind, x + y)])

    types = {"x": f"*{kind}", "y": f"*{kind}", "out": f"*{kind}", "n": "i32"}
    name = f"{kind}, block {block}, {warps} warps"
    grid = (-(-2500 // block),)
    return Case("vector add", name, vector_add, types, {"B": block}, prepare, grid, warps=warps)


def _cast(source: str, target: str) -> Case:
    """Values that both types hold, and for floats also rounding and overflow to infinity."""

    def prepare(rng: np.random.Generator) -> Trial:
        if is_float(source) and is_float(target):
            x = encode(rng.standard_normal(SIZE) * np.exp2(rng.integers(-9, 6, SIZE)), source)
            wanted = decode(encode(decode(x, source), target), target)
        elif is_float(source):
            low, high = (0, 1) if target == "i1" else (0, 200) if target[0] == "u" else (-120, 120)
            high = min(high, 120) if target == "i8" else high
            x = encode(rng.uniform(low, high, SIZE), source)
            whole = decode(x, source)
            wanted = whole != 0 if target == "i1" else np.trunc(whole).astype(DTYPES[target])
        else:
            if source == "i1":
                x = rng.integers(0, 2, SIZE).astype(np.bool_)
            else:
                info = np.iinfo(DTYPES[source])
                x = rng.integers(info.min, info.max, SIZE, dtype=DTYPES[source], endpoint=True)
            if is_float(target):
                if target not in ("fp32", "fp64") or source.endswith("64"):
                    x = (x % 120).astype(x.dtype) if source != "i1" else x
                exact = [float(v) for v in x.tolist()]
                wanted = decode(encode(np.array(exact), target), target)
            else:
                wanted = x != 0 if target == "i1" else _wrap(x, target)
        out = encode(np.zeros(SIZE), target)
        return Trial([x, out, SIZE], [Expected(1, target, wanted)])

    types = {"x": f"*{source}", "out": f"*{target}", "n": "i32"}
    return Case("conversions", f"{source} to {target}", convert, types, {"B": 256}, prepare, (3,))


def _truncate(target: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = (rng.standard_normal(SIZE) * 9).astype(np.float32)
        out = encode(np.zeros(SIZE), target)
        if target == "bf16":
            wanted = (x.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(np.float64)
        else:
            near = x.astype(np.float16)
            down = np.nextafter(near, np.float16(0))
            wanted = np.where(np.abs(near.astype(np.float64)) > np.abs(x), down, near)
            wanted = wanted.astype(np.float64)
        return Trial([x, out, SIZE], [Expected(1, target, wanted)])

    types = {"x": "*fp32", "out": f"*{target}", "n": "i32"}
    name = f"fp32 to {target}, towards zero"
    return Case("conversions", name, truncate, types, {"B": 256}, prepare, (3,))


def philox(seed: int, offsets: Array) -> Array:
    """First word of Philox 4x32-10 (Salmon et al., 2011) with the counter (offset, 0, 0, 0)."""
    first = [int(v) for v in offsets]
    result = []
    for offset in first:
        c0, c1, c2, c3 = offset, 0, 0, 0
        k0, k1 = seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            high0, low0 = divmod(c0 * 0xD2511F53, 1 << 32)
            high1, low1 = divmod(c2 * 0xCD9E8D57, 1 << 32)
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        result.append(c0)
    return np.array(result, np.uint32)


def _random_bits() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        seed = int(rng.integers(1, 1 << 31))
        out = np.zeros(SIZE, np.int32)
        return Trial(
            [out, seed, SIZE], [Expected(0, "i32", philox(seed, np.arange(SIZE)).view(np.int32))]
        )

    types = {"out": "*i32", "seed": "i32", "n": "i32"}
    return Case("random numbers", "philox", random_bits, types, {"B": 256}, prepare, (3,))


def _dropout() -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        seed = int(rng.integers(1, 1 << 31))
        x = rng.standard_normal(SIZE).astype(np.float32)
        bits = philox(seed, np.arange(SIZE)).view(np.int32).astype(np.int64)
        uniform = np.where(bits < 0, -bits - 1, bits) * 4.6566127342e-10
        keep = uniform > 0.25
        wanted = np.where(keep, x / np.float32(0.75), 0)
        args = [x, np.zeros_like(x), np.zeros(SIZE, np.bool_), seed, SIZE]
        return Trial(args, [Expected(1, "fp32", wanted, 1e-6), Expected(2, "i1", keep)])

    types = {"x": "*fp32", "out": "*fp32", "kept": "*i1", "seed": "i32", "n": "i32"}
    fixed = {"P": 0.25, "B": 256}
    return Case("random numbers", "dropout fp32", dropout, types, fixed, prepare, (3,))


def _strided(kind: str) -> Case:
    def prepare(rng: np.random.Generator) -> Trial:
        x = rng.integers(-50, 50, SIZE * 3)
        out = encode(np.zeros(SIZE), kind)
        return Trial([encode(x, kind), out, SIZE, 3], [Expected(1, kind, x[::3] * 2)])

    types = {"x": f"*{kind}", "out": f"*{kind}", "n": "i32", "stride": "i32"}
    return Case("strided loop", kind, strided, types, {"B": 128}, prepare, (2,), warps=2)


def cases() -> Iterator[Case]:
    """All elementwise kernels."""
    for kind in ("fp32", "fp16", "bf16", "fp64", "i64", "i32", "i16", "i8", "u8"):
        yield _vector_add(kind, 1024, 4)
    yield _vector_add("fp16", 512, 1)
    yield _vector_add("fp32", 128, 4)
    yield _vector_add("bf16", 2048, 8)
    for name in _UNARY:
        yield _unary(name, "fp32")
    for name in (
        "exp",
        "log",
        "sqrt",
        "floor",
        "abs",
        "gelu",
        "reciprocal",
        "relu",
        "erf",
        "sin",
        "sin wide",
        "tanh",
    ):
        if name != "gelu":
            yield _unary(name, "fp64")
    for name in ("abs", "negate", "relu"):
        yield _unary(name, "fp16")
        yield _unary(name, "bf16")
    for kind in ("i32", "i64", "i16", "i8", "u32", "u64", "u16", "u8"):
        for name in (
            "add",
            "mul",
            "floordiv",
            "mod",
            "shl",
            "shr",
            "min",
            "max",
            "lt",
            "eq",
            "where",
            "xor",
        ):
            yield _integer_binary(name, kind)
    for name in ("umulhi",):
        for kind in ("i32", "i64"):
            yield _integer_binary(name, kind.replace("i", "u"))
    yield _integer_binary("rotate", "u32")
    yield _integer_binary("popcount", "i32")
    for kind in ("fp32", "fp16", "bf16", "fp64"):
        for name in (
            "add",
            "mul",
            "div",
            "min",
            "max",
            "min nan",
            "max nan",
            "lt",
            "eq",
            "where",
            "fma",
            "clamp",
        ):
            yield _float_binary(name, kind, 3 if name in ("div", "fma") else 0.51)
    for name, ulps in (
        ("div_rn", 0.51),
        ("fdiv", 3),
        ("mod", 4),
        ("pow", 32),
        ("fmod", 1),
        ("atan2", 8),
    ):
        yield _float_binary(name, "fp32", ulps)
    numbers = ("fp32", "fp16", "bf16", "fp64", "i32", "i64", "i16", "i8", "u8", "u32")
    for source in numbers:
        for target in numbers:
            if source != target:
                yield _cast(source, target)
    for kind in ("fp32", "i32", "i8"):
        yield _cast(kind, "i1")
        yield _cast("i1", kind)
    for small in ("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16"):
        for wide in ("fp32", "fp16", "bf16"):
            yield _cast(wide, small)
            yield _cast(small, wide)
    yield _truncate("bf16")
    yield _truncate("fp16")
    yield _random_bits()
    yield _dropout()
    for kind in ("fp32", "fp16", "i8"):
        yield _strided(kind)
