# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"
"""Kernels nobody here wrote: Triton's compiler output, executed and compared with NumPy.

Integer data make every matrix product exact, so results must be equal, not close. Every run must
also be free of findings: the compiler places its waits and barriers correctly.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeloom.judge.emulate import (
    CodeKernel,
    CodeObject,
    decode_kernel,
    load_code_object,
    map_lines,
    run_kernel,
)
from pipeloom.judge.emulate.formats import (
    bf16_to_f32,
    encode_float,
    f32_to_bf16,
    float_table,
)
from pipeloom.judge.emulate.pending import WaitCounts

pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
triton = pytest.importorskip("triton", reason="the triton wheel is not installed")
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402

from benchmarks.triton_gemm import product  # noqa: E402

ARCHS = ("gfx942", "gfx950")
FLOATS = ("fp32", "fp16", "bf16")


@triton.jit
def vector_add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(out + row * stride + c, y.to(out.dtype.element_ty), mask=c < n)


@triton.jit
def attention(q, k, v, out, scale, S: tl.constexpr, D: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    rows = tl.load(q + rm[:, None] * D + rd[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for s in range(0, S, BN):
        keys = tl.load(k + (s + rn)[None, :] * D + rd[:, None])
        score = tl.dot(rows, keys) * scale
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        fade = tl.exp(top - new)
        total = total * fade + tl.sum(p, 1)
        values = tl.load(v + (s + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(values.dtype), values, acc * fade[:, None])
        top = new
    tl.store(out + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def convert(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m).to(out.dtype.element_ty), mask=m)


@triton.jit
def histogram_add(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out + i % 16, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@dataclasses.dataclass(frozen=True)
class Built:
    code: CodeObject | CodeKernel
    lds: int
    text: str


def kernel_of(built: Built) -> CodeKernel:
    return built.code if isinstance(built.code, CodeKernel) else built.code.kernel()


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory):
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    yield
    patch.undo()


def build(kernel: Any, arch: str, types: dict[str, str], fixed: dict[str, int], **options: Any):
    """Compile for an architecture; pointers are 16-byte aligned, as a caller's arrays are."""
    names = list(kernel.arg_names)
    source = triton.compiler.ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in fixed.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]]
            for name, kind in types.items()
            if kind.startswith("*") or name in ("K", "sam", "sbk", "sbn", "scm", "stride")
        },
    )
    made = triton.compile(source, target=GPUTarget("hip", arch, 64), options=options)
    return Built(load_code_object(made.asm["hsaco"]), made.metadata.shared, made.asm["amdgcn"])


def encode(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    if kind == "bf16":
        return f32_to_bf16(values.astype(np.float32))
    if kind == "fp8e4b8":
        return encode_float(values.astype(np.float32), "e4m3fnuz")
    if kind == "fp8e4nv":
        return encode_float(values.astype(np.float32), "e4m3")
    return values.astype({"fp32": np.float32, "fp16": np.float16}[kind])


def decode(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    return bf16_to_f32(values) if kind == "bf16" else values.astype(np.float32)


def launch(built: Built, grid: tuple[int, ...], warps: int, args: list[Any], **options: Any):
    """Triton adds two pointers to scratch areas that these kernels do not use."""
    return run_kernel(
        built.code,
        grid=grid,
        block=(64 * warps,),
        args=[*args, None, None],
        dynamic_lds=built.lds,
        **options,
    )


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", FLOATS)
def test_vector_add(arch: str, kind: str) -> None:
    types = {"x": f"*{kind}", "y": f"*{kind}", "out": f"*{kind}", "n": "i32"}
    built = build(vector_add, arch, types, {"B": 1024}, num_warps=4)
    rng = np.random.default_rng(0)
    n = 2500
    x, y = rng.integers(-60, 60, (2, n))
    out = encode(np.full(n, 99), kind)
    run = launch(built, (3,), 4, [encode(x, kind), encode(y, kind), out, n])
    assert run.ok, [str(f) for f in run.findings]
    np.testing.assert_array_equal(decode(out, kind), x + y)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("kind", "tolerance"), [("fp32", 1e-6), ("fp16", 1e-3), ("bf16", 8e-3)])
def test_softmax(arch: str, kind: str, tolerance: float) -> None:
    types = {"x": f"*{kind}", "out": f"*{kind}", "stride": "i32", "n": "i32"}
    built = build(softmax, arch, types, {"B": 1024}, num_warps=4)
    rng = np.random.default_rng(1)
    n = 700
    x = encode(rng.standard_normal((2, 1024)) * 3, kind)
    out = np.zeros_like(x)
    run = launch(built, (2,), 4, [x, out, 1024, n])
    assert run.ok, [str(f) for f in run.findings]
    exact = decode(x, kind)[:, :n].astype(np.float64)
    powers = np.exp(exact - exact.max(1, keepdims=True))
    wanted = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(decode(out, kind)[:, :n], wanted, rtol=tolerance, atol=1e-7)
    assert not out[:, n:].any()


GEMMS = [
    # arch, operand type, B transposed, tile, warps, stages, MFMA side, K tiles
    ("gfx942", "bf16", True, (256, 256, 64), 8, 2, 16, 2),
    ("gfx942", "bf16", False, (64, 64, 32), 4, 2, 16, 3),
    ("gfx942", "fp16", True, (128, 64, 64), 4, 2, 32, 3),
    ("gfx942", "fp16", False, (32, 32, 64), 1, 1, 16, 2),
    ("gfx942", "fp32", False, (64, 64, 32), 4, 2, 16, 3),
    ("gfx942", "fp8e4b8", True, (64, 128, 64), 4, 2, 32, 2),
    ("gfx950", "bf16", True, (256, 256, 64), 8, 2, 16, 2),
    ("gfx950", "bf16", False, (64, 64, 32), 4, 2, 16, 3),
    ("gfx950", "fp16", True, (128, 64, 64), 4, 2, 32, 3),
    ("gfx950", "fp32", True, (64, 64, 32), 4, 2, 16, 3),
    ("gfx950", "fp8e4nv", True, (64, 64, 128), 4, 2, 16, 2),
    ("gfx950", "fp8e4nv", False, (64, 64, 64), 4, 2, 32, 2),
]


def build_gemm(
    arch: str, kind: str, transposed: bool, tile: tuple[int, int, int], warps: int, stages: int,
    side: int, out: str = "fp32",
) -> Built:  # fmt: skip
    types = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{out}"}
    types |= dict.fromkeys(("M", "N", "K", "sam", "scm"), "i32")
    types["sbn" if transposed else "sbk"] = "i32"
    fixed = {"sbk" if transposed else "sbn": 1, "BM": tile[0], "BN": tile[1], "BK": tile[2]}
    return build(
        product, arch, types, fixed, num_warps=warps, num_stages=stages, matrix_instr_nonkdim=side
    )


def run_gemm(
    built: Built, kind: str, transposed: bool, sizes: tuple[int, int, int],
    tile: tuple[int, int, int], warps: int, **options: Any,
):  # fmt: skip
    m, n, k = sizes
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    stored = np.ascontiguousarray(b.T) if transposed else b
    c = np.full((m, n), 99, np.float32)
    args = [encode(a, kind), encode(stored, kind), c, m, n, k, k, k if transposed else n, n]
    run = launch(built, (-(-m // tile[0]), -(-n // tile[1])), warps, args, **options)
    return run, np.array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("arch", "kind", "transposed", "tile", "warps", "stages", "side", "tiles"),
    GEMMS,
    ids=lambda value: str(value).replace(" ", ""),
)
def test_gemm(
    arch: str, kind: str, transposed: bool, tile: tuple[int, int, int], warps: int, stages: int,
    side: int, tiles: int,
) -> None:  # fmt: skip
    built = build_gemm(arch, kind, transposed, tile, warps, stages, side)
    sizes = (tile[0], tile[1], tile[2] * tiles)
    runs = [("random", 0)] if tile[0] == 256 else [("random", 0), ("late", 1), ("early", 2)]
    for timing, seed in runs:
        run, equal = run_gemm(built, kind, transposed, sizes, tile, warps, timing=timing, seed=seed)
        assert run.ok, [str(f) for f in run.findings]
        assert equal, (timing, seed)
    assert any(name.startswith("v_mfma") for name in run.instructions)


@pytest.mark.parametrize("arch", ARCHS)
def test_gemm_with_ragged_edges(arch: str) -> None:
    tile = (64, 64, 32)
    built = build_gemm(arch, "bf16", True, tile, 4, 2, 16)
    run, equal = run_gemm(built, "bf16", True, (80, 100, 96), tile, 4)
    assert run.ok, [str(f) for f in run.findings]
    assert equal


@pytest.mark.parametrize("arch", ARCHS)
def test_attention(arch: str) -> None:
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "scale": "fp32"}
    fixed = {"S": 64, "D": 64, "BM": 64, "BN": 32}
    built = build(attention, arch, types, fixed, num_warps=4)
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    run = launch(built, (1,), 4, [q, k, v, out, 0.125])
    assert run.ok, [str(f) for f in run.findings]
    score = q.astype(np.float64) @ k.astype(np.float64).T * 0.125
    p = np.exp(score - score.max(1, keepdims=True))
    wanted = p / p.sum(1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out.astype(np.float64), wanted, atol=1e-3)


@pytest.mark.parametrize(("arch", "kind", "table"), [
    ("gfx942", "fp8e4b8", "e4m3fnuz"), ("gfx942", "fp8e5b16", "e5m2fnuz"),
    ("gfx950", "fp8e4nv", "e4m3"), ("gfx950", "fp8e5", "e5m2"),
])  # fmt: skip
def test_conversion_to_and_from_float8(arch: str, kind: str, table: str) -> None:
    """Triton's own conversion sequences agree with our tables."""
    n = 1500
    x = (np.random.default_rng(3).standard_normal(n) * 20).astype(np.float32)
    packed = np.zeros(n, np.uint8)
    types = {"x": "*fp32", "out": f"*{kind}", "n": "i32"}
    run = launch(build(convert, arch, types, {"B": 1024}), (2,), 4, [x, packed, n])
    assert run.ok, [str(f) for f in run.findings]
    np.testing.assert_array_equal(packed, encode_float(x, table))
    back = np.zeros(n, np.float32)
    types = {"x": f"*{kind}", "out": "*fp32", "n": "i32"}
    run = launch(build(convert, arch, types, {"B": 1024}), (2,), 4, [packed, back, n])
    assert run.ok, [str(f) for f in run.findings]
    np.testing.assert_array_equal(back, float_table(table)[packed])


def test_atomic_add() -> None:
    types = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    built = build(histogram_add, "gfx942", types, {"B": 256})
    x, out = np.arange(900, dtype=np.float32), np.zeros(16, np.float32)
    run = launch(built, (4,), 4, [x, out, 900])
    assert run.ok, [str(f) for f in run.findings]
    wanted = np.zeros(16)
    np.add.at(wanted, np.arange(900) % 16, x)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("arch", ARCHS)
def test_decoder_agrees_with_the_compilers_listing(arch: str) -> None:
    """Every decoded mnemonic, in order, is the one LLVM printed."""
    built = build_gemm(arch, "bf16", False, (64, 64, 32), 4, 2, 16)
    kernel = kernel_of(built)
    lines = map_lines(kernel, built.text)
    assert len(lines) > 200
    named = [i for i in decode_kernel(kernel.code) if i.pc not in lines]
    assert {i.name for i in named} <= {"s_nop"}


def _loosened(immediate: int) -> list[tuple[str, int]]:
    """s_waitcnt immediates with one counter allowed one more, or any number, outstanding."""
    vm, lgkm = WaitCounts.of(immediate).counts.values()
    mutants = []
    if vm < 63:
        more = vm + 1
        mutants.append((f"vmcnt({vm})+1", immediate & ~0xC00F | more & 15 | more >> 4 << 14))
        mutants.append((f"no vmcnt({vm})", immediate | 0xC00F))
    if lgkm < 15:
        mutants.append((f"lgkmcnt({lgkm})+1", immediate & ~0xF00 | (lgkm + 1) << 8))
        mutants.append((f"no lgkmcnt({lgkm})", immediate | 0xF00))
    return mutants


@pytest.mark.parametrize("arch", ARCHS)
def test_loosened_waits_and_dropped_barriers_are_found(arch: str) -> None:
    """Mutate each wait and barrier of a pipelined GEMM; one run must notice.

    A mutant that no run notices must be harmless: the same bits in the result under late, early
    and random timing with the race check off (the compiler's waits are not all needed). At least
    85 % are noticed.
    """
    tile = (64, 64, 32)
    built = build_gemm(arch, "bf16", True, tile, 4, 2, 16)
    kernel = kernel_of(built)
    found, total = 0, 0
    for instruction in decode_kernel(kernel.code):
        if instruction.pc < 256:
            continue
        if instruction.name == "s_barrier":
            mutants = [("no barrier", 0xBF800000)]
        elif instruction.name == "s_waitcnt":
            loosened = _loosened(instruction.fields["simm16"])
            mutants = [(name, 0xBF8C0000 | value) for name, value in loosened]
        else:
            continue
        for name, word in mutants:
            at = instruction.pc
            code = kernel.code[:at] + word.to_bytes(4, "little") + kernel.code[at + 4 :]
            changed = dataclasses.replace(built, code=dataclasses.replace(kernel, code=code))
            run, _ = run_gemm(changed, "bf16", True, (64, 64, 128), tile, 4, max_findings=1)
            total += 1
            if run.findings:
                found += 1
                continue
            for seed, timing in enumerate(("late", "early", "random", "random")):
                run, equal = run_gemm(
                    changed, "bf16", True, (64, 64, 128), tile, 4,
                    seed=seed, timing=timing, check_races=False,
                )  # fmt: skip
                assert equal, f"{name} at pc {at:#x} spoils the result unnoticed"
    assert total >= 15
    assert found >= 0.85 * total, f"{found} of {total}"
