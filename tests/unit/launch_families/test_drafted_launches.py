"""Launches drafted from metadata and sizes: what is passed, and what is asked for by name."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.aiter_corpus.attention import FINAL_SLOTS, GRADIENT_SLOTS, ODO_SLOTS
from evidence.aiter_corpus.case import VARIABLE, corpus_root
from pipeloom.cli.main import main
from pipeloom.drive.kernel_files import KernelFile
from pipeloom.drive.launch_drafts import DraftedLaunch, draft_launch
from pipeloom.errors import ScheduleError
from pipeloom.judge.emulate import CodeKernel, KernelArgument, KernelMetadata, load_code_object
from pipeloom.launch_families.described import described, descriptions, fitted
from pipeloom.launch_families.drafts import is_buffer
from pipeloom.machine_code.c_structs import header_layout
from pipeloom.machine_code.launch_arguments import Scalar
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_file import LaunchSpec, launch_of, load_launch
from tests.unit.cli.test_check_command import TEXT

ROOT = Path(__file__).parents[3]


def _kernel(name: str, *arguments: tuple[str, int], step: int = 0, **more: Any) -> CodeKernel:
    """A kernel with arguments of 8 bytes (pointers) and 4; ``step`` bytes apart if told."""
    found, at = [], 0
    for label, size in arguments:
        at = -(-at // size) * size
        kind = "global_buffer" if size == 8 else "by_value"
        found.append(KernelArgument(at, size, kind, label))
        at += step or size
    said = KernelMetadata(max_work_items=256, **more)
    arch = "gfx950"
    return CodeKernel(name, arch, b"", 0, 0, at, 0, 0, 0, 0, 0, tuple(found), False, metadata=said)


def _draft(kernel: CodeKernel, path: str = "", **sizes: int | str) -> DraftedLaunch:
    return draft_launch(KernelFile(kernel, b"", path), sizes)


def _values(launch: LaunchSpec) -> dict[str, int | float | None]:
    return {one.name: one.value for one in launch.args if isinstance(one, Scalar)}


SYMBOLS = {
    "bf16gemm": ("bf16gemm_bf16_tn_256x256", "bf16gemm_fp32bf16_tn_32x64_splitk_clean"),
    "f4gemm": ("f4gemm_bf16_per1x32Fp4_BpreShuffle_128x256",),
    "i8gemm": ("I8gemm_bf16_perTokenI8_BpreShuffle_128x128",),
    "fp8gemm blockscale": ("fp8gemm_bf16_blockscale_BpreShuffle_32x128",),
    "fmha_fwd": (
        *("fmha_fwd_hd128_bf16", "fmha_fwd_hd128_bf16_causal", "fmha_fwd_hd192_hd128_bf16_causal"),
        *("fmha_fwd_hd192_hd128_bf16", "fmha_fwd_hd128_bf16_causal_group"),
    ),
    "fmha_bwd": (
        *("fmha_bwd_hd128_bf16_a32_psskddv", "fmha_bwd_hd64_fp16_causal_br_a16_pssk"),
        *("fmha_bwd_hd192_128_bf16_swa_a32_psskddv", "fmha_bwd_hd192_bf16_a32_pssk_group"),
    ),
    "fmha_bwd odo": ("fmha_bwd_hd128_odo_bf16", "fmha_bwd_hd64_odo_fp16_group"),
    "fmha_bwd dq_convert": ("fmha_bwd_hd128_dq_convert_fp16", "fmha_bwd_hd192_dq_shuffle_group"),
    "fmoe": (
        "fmoe_bf16_pertokenFp8_g1u1_silu_1tg_32x128",
        "fmoe_fp16_pertokenInt8_g1u0_vs_multix_gelu_1tg_ps_32x256",
    ),
    "topksoftmax": ("topksoftmax_12x128x4", "topksoftmax_12x128x4_bf16"),
}
"""Kernels of AITER by what describes them."""
SIZES: dict[str, int | str] = {
    "M": 512,
    "N": 512,
    "K": 1024,
    "S": 512,
    "tokens": 96,
    "hdim": 512,
    "dim": 1024,
}


def _description(name: str, symbol: str) -> dict[str, Any]:
    return fitted(next(one for one in descriptions("aiter") if one["name"] == name), symbol)


def _described(name: str, symbol: str) -> CodeKernel:
    one = _description(name, symbol)
    names = one.get("slots") or one["args"]
    pointers = {n for n, row in one["args"].items() if row is None or is_buffer(row)}
    return _kernel(f"_ZN5aiter{symbol}E", *((n, 8 if n in pointers else 4) for n in names), step=16)


def test_every_description_has_an_example() -> None:
    assert {one["name"] for one in descriptions("aiter")} == set(SYMBOLS)


@pytest.mark.parametrize(
    ("name", "symbol"), [(name, symbol) for name, some in SYMBOLS.items() for symbol in some]
)
def test_a_described_kernel_is_launched_by_sizes(name: str, symbol: str) -> None:
    """Found by its symbol and arguments; asked for are sizes alone; nothing is left open."""
    one, kernel = _description(name, symbol), _described(name, symbol)
    asked = {size for size, value in one["sizes"].items() if value is None}
    empty = _draft(kernel)
    assert empty.family == f"aiter: {name}"
    assert set(empty.asked) == asked
    with pytest.raises(ScheduleError, match=f"needs {', '.join(empty.asked)}"):
        empty.launch()
    given = {size: SIZES[size] for size in asked}
    launch = draft_launch(KernelFile(kernel, b""), given).launch()
    named = {one.name for one in launch.args if isinstance(one, Buffer | Scalar)}
    assert named == set(one["args"])
    arrays = {one.name: one.array() for one in launch.args if isinstance(one, Buffer)}
    assert all(array.size for array in arrays.values())
    assert re.match(r"ROCm/aiter [0-9a-f]{8}, \S+", one["source"])
    half = "fp16" if "_fp16" in symbol else "bf16"
    kinds = {one.type for one in launch.args if isinstance(one, Buffer)}
    assert half in kinds or name in ("topksoftmax", "bf16gemm") or "shuffle" in symbol
    if "_group" in symbol and "fwd" in symbol:
        assert arrays["ptr_qseq"].tolist() == [0, 512]


def test_a_kernel_that_lacks_an_argument_is_not_described() -> None:
    whole = _described("i8gemm", SYMBOLS["i8gemm"][0])
    short = replace(whole, arguments=whole.arguments[:-1])
    assert _draft(short).family == "unknown"
    other = replace(_described("fmha_fwd", "fmha_fwd_hd128_bf16"), arch="gfx942")
    assert _draft(other).family == "unknown"
    whole = _described("fmha_bwd", SYMBOLS["fmha_bwd"][0])
    small = replace(whole, kernarg_bytes=64, arguments=whole.arguments[:3])
    assert _draft(small).family == "unknown"


def test_how_many_of_the_corpus_are_described() -> None:
    """As docs/launches.md says, for the snapshot that figures are given for."""
    root = corpus_root()
    if root is None:
        pytest.skip(f"{VARIABLE} names no checkout of ROCm/aiter")
    kernels = [load_code_object(path).kernel() for path in sorted(root.rglob("*.co"))]
    found = [kernel for kernel in kernels if described("aiter", kernel) is not None]
    said = f"{len(found)} of the {len(kernels):,} kernels for gfx950"
    assert said in (ROOT / "docs" / "launches.md").read_text()


def test_slots_are_those_of_the_corpus() -> None:
    """The evidence ran every backward kernel with these; two lists of one fact agree."""
    by_name = {one["name"]: one for one in descriptions("aiter")}
    for name, want in (
        ("fmha_bwd", GRADIENT_SLOTS),
        ("fmha_bwd odo", ODO_SLOTS),
        ("fmha_bwd dq_convert", FINAL_SLOTS),
    ):
        slots = [
            one if one == "sum" else one.removesuffix("_sum") for one in by_name[name]["slots"]
        ]
        short = [one for one in want if "_sum" not in one]
        assert [one for one in slots if one in short] == short
        assert len(slots) == len(want)


def test_the_launch_that_was_filled_in_by_hand() -> None:
    """``examples/aiter_fmha_forward.json`` has 32 fields; sizes give the same ones."""
    hand = load_launch(ROOT / "examples" / "aiter_fmha_forward.json")
    launch = _draft(_described("fmha_fwd", "fmha_fwd_hd192_hd128_bf16"), S=128, SK=1024).launch()
    mine, theirs = _values(launch), _values(hand)
    assert {name: mine[name] for name in theirs} == pytest.approx(theirs)
    arrays = {one.name: one.array().nbytes for one in hand.args if isinstance(one, Buffer)}
    for one in launch.args:
        if isinstance(one, Buffer):
            assert one.array().nbytes == arrays[one.name]
    assert (launch.grid, launch.block) == (hand.grid, hand.block)


def test_strides_reach_the_last_element() -> None:
    """Bytes per row times rows is the buffer, whatever the sizes."""
    kernel = _described("bf16gemm", SYMBOLS["bf16gemm"][0])
    launch = _draft(kernel, M=300, N=520, K=96, split=2).launch()
    values = _values(launch)
    sizes = {one.name: one.array().nbytes for one in launch.args if isinstance(one, Buffer)}
    assert sizes["A"] == 300 * int(values["strideA0"] or 0)
    assert sizes["B"] == 520 * int(values["strideB0"] or 0)
    assert sizes["D"] == 300 * int(values["strideD0"] or 0)
    assert launch.grid == (3, 2, 2)


ARGUMENT = """struct BaseArgument { virtual ~BaseArgument() {} void *p_workspace_; };
struct Problem { int M, N, K, StrideA, StrideB, StrideC, KBatch, MPadded, NPadded, KRead, KPadded,
  AK0, BK0, MBlock, NBlock; };
struct Argument : BaseArgument, Problem { const void *p_a_grid, *p_b_grid; void *p_c_grid;
  bool is_reduce; };
"""


def _by_value(name: str, size: int) -> CodeKernel:
    argument = KernelArgument(0, size, "by_value", "")
    return replace(_kernel(name), arguments=(argument,), kernarg_bytes=size)


def test_composable_kernel() -> None:
    """Numbers as the struct's constructor computes them, for K that is no multiple of a block."""
    kernel = _by_value("_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_x", 112)
    asked = ("M", "N", "K", "MPerBlock", "NPerBlock", "KPerBlock")
    assert (_draft(kernel).family, _draft(kernel).asked) == ("ck: gemm_xdl_cshuffle_v3", asked)
    sizes: dict[str, int | str] = {"M": 200, "N": 100, "K": 72, "KBatch": 2}
    sizes |= {"MPerBlock": 128, "NPerBlock": 64, "KPerBlock": 32}
    launch = draft_launch(KernelFile(kernel, b""), sizes).launch()
    values = _values(launch)
    assert (launch.grid, values["KBatch"]) == ((4, 1, 2), 2)
    # ceil(72 / 64) blocks of 32 per slice, in parts of 8; reads of 8.
    want = {"MPadded": 256, "NPadded": 128, "KPadded": 64, "KRead": 40, "AK0": 8, "BK0": 8}
    assert {name: values[name] for name in want} == want
    with pytest.raises(ScheduleError, match="--struct"):
        _draft(_by_value(kernel.name, 104))


def test_a_struct_of_composable_kernel_is_laid_out_as_the_compiler_does(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the ziglang wheel is not installed")
    (tmp_path / "ck.h").write_text(ARGUMENT)
    fields = {one.path: one.offset for one in header_layout("ck.h:Argument", tmp_path)}
    one = next(one for one in descriptions("ck") if one["name"] == "gemm_xdl_cshuffle_v3")
    places = one["struct"]["places"]
    assert {name: fields[name] for name in places} == places


@pytest.mark.parametrize(
    ("symbol", "size", "sizes"),
    [
        ("ck_tile6kentryINS_10GemmKernel", 56, "M N K MPerBlock NPerBlock"),
        ("ck_tile6kentryINS_14Layernorm2dFwd", 64, "m n Block_M"),
    ],
)
def test_kernels_of_ck_tile(symbol: str, size: int, sizes: str) -> None:
    kernel = _by_value(symbol, size)
    assert _draft(kernel).asked == tuple(sizes.split())
    given: dict[str, int | str] = dict.fromkeys(sizes.split(), 16)
    launch = draft_launch(KernelFile(kernel, b""), given).launch()
    assert all(one.array().size for one in launch.args if isinstance(one, Buffer))


TENSILE = ("SizesFree0", "SizesFree1", "SizesFree2", "SizesSum0")
OPERANDS = ("D", "C", "A", "B")
STRIDES = tuple(f"stride{x}{at}" for x in "DCAB" for at in (0, 1))
OLD = [*((n, 4) for n in TENSILE), *((n, 8) for n in OPERANDS)]
OLD += [*((n, 4) for n in (*STRIDES, "alpha", "beta", "internalArgs"))]
NEW = [(n, 4) for n in ("Gemm info", "kernel info0", "kernel info1", "numWG")]


@pytest.mark.parametrize("layout", ["Ailk_Bljk", "Alik_Bljk", "Ailk_Bjlk", "Alik_Bjlk"])
@pytest.mark.parametrize("flat", [False, True])
def test_tensile(layout: str, flat: bool) -> None:
    name = f"Cijk_{layout}_HHS_BH_MT64x32x64_MI16x16x1_SN"
    kernel = _kernel(name, *(NEW if flat else []), *OLD, ("bias", 8))
    empty = _draft(kernel)
    assert (empty.family, empty.asked) == ("Tensile", ("M", "N", "K", "bias"))
    launch = _draft(kernel, M=100, N=70, K=48, batch=3, bias=0).launch()
    assert launch.grid == ((2 * 3 * 3, 1, 1) if flat else (2, 3, 3))
    values = _values(launch)
    arrays = {one.name: one for one in launch.args if isinstance(one, Buffer)}
    # The last element that the strides reach is the buffer's last.
    ends = {
        "A": ((100, 48) if "Ailk" in layout else (48, 100)),
        "B": ((70, 48) if "Bjlk" in layout else (48, 70)),
        "D": (100, 70),
    }
    for operand, (near, far) in ends.items():
        first, second = (int(values[f"stride{operand}{at}"] or 0) for at in (0, 1))
        last = (near - 1) + (far - 1) * first + 2 * second
        assert last + 1 == math.prod(arrays[operand].whole_shape())
        assert arrays[operand].type == "fp16"
    assert values["bias"] == 0
    if flat:
        assert (values["Gemm info"], values["numWG"]) == (1, 18)


def test_tensile_with_a_workspace_is_not_described() -> None:
    kernel = _kernel("Cijk_Ailk_Bljk_S_BH_MT64x32x64", *OLD, ("dstD", 8))
    assert _draft(kernel).family == "unknown"


@pytest.mark.parametrize(
    ("types", "want"),
    [
        ("S", ("f32", "f32", "f32", "f32")),
        ("BBS", ("bf16", "bf16", "bf16", "f32")),
        ("F8H_HHS", ("fp8", "fp16", "fp16", "f32")),
        ("I8II", ("i8", "i8", "i32", "i32")),
        ("D", ("f64", "f64", "f64", "f64")),
    ],
)
def test_types_of_tensile(types: str, want: tuple[str, ...]) -> None:
    kernel = _kernel(f"Cijk_Ailk_Bljk_{types}_BH_MT64x32x64", *OLD)
    rows = {row["name"]: row for row in _draft(kernel).plain["args"]}
    assert tuple(rows[name]["type"] for name in ("A", "B", "D", "alpha")) == want


def test_a_family_that_nobody_knows() -> None:
    kernel = _kernel("mine", ("x", 8), ("y", 8), ("n", 4), ("a b", 4))
    empty = _draft(kernel)
    assert (empty.family, empty.asked) == ("unknown", ("grid_x", "x", "y", "n", "a_b"))
    launch = _draft(kernel, grid_x=2, x="4 * n", y=0, n=16, a_b=3)
    with pytest.raises(ScheduleError, match="no size 'n'"):  # it comes later
        launch.launch()
    launch = draft_launch(
        KernelFile(kernel, b""), {"grid_x": 2, "x": 64, "y": 0, "n": 16, "a_b": 3}
    )
    values = _values(launch.launch())
    assert values == {"y": 0, "n": 16, "a b": 3}
    again = launch_of(json.loads(launch.text()))
    assert again == launch.launch()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "tensil"}, "no family 'tensil'"),
        ({"family": "tensile"}, "no kernel of tensile that is known"),
        ({"sizes": {"z": 1}}, "no size 'z'"),
    ],
)
def test_slips(options: dict[str, Any], words: str) -> None:
    kernel = _kernel("mine", ("x", 8))
    with pytest.raises(ScheduleError, match=words):
        draft_launch(KernelFile(kernel, b""), options.pop("sizes", {}), **options)


def test_structs_are_described(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the ziglang wheel is not installed")
    by_value = KernelArgument(8, 24, "by_value", "args")
    base = _kernel("mine", ("x", 8))
    kernel = CodeKernel(
        *("mine", "gfx950", b"", 0, 0, 32, 0, 0, 0, 0, 0),
        (*base.arguments, by_value),
        False,
        metadata=base.metadata,
    )
    bare = CodeKernel(
        "mine", "gfx950", b"", 0, 0, 24, 0, 0, 0, 0, 0, (), False, metadata=base.metadata
    )
    for one in (kernel, bare):
        with pytest.raises(ScheduleError, match="--struct"):
            draft_launch(KernelFile(one, b""), {})
    (tmp_path / "a.h").write_text("struct A { float *q; float scale; int _pad; long n; };")
    (tmp_path / "a.py").write_text(
        "import ctypes\nclass A(ctypes.Structure):\n"
        "    _fields_ = [('q', ctypes.c_void_p), ('scale', ctypes.c_float), ('_pad', ctypes.c_int),"
        " ('n', ctypes.c_long)]\n"
    )
    sizes: dict[str, int | str] = {"grid_x": 1, "q": 12, "scale": "1 / 4", "n": 7}
    for struct in ("a.h:A", "a.py:A"):
        named = f"{tmp_path}/{struct}"
        launch = draft_launch(KernelFile(kernel, b""), {**sizes, "x": 5}, struct=named).launch()
        places = [one.offset for one in launch.args]
        assert places == [0, 8, 16, 24]
        assert _values(launch) == {"scale": 0.25, "n": 7}
        launch = draft_launch(KernelFile(bare, b""), sizes, struct=named).launch()
        assert [one.offset for one in launch.args] == [0, 8, 16]


TTIR = (
    "module {\n  tt.func public @add(%x: !tt.ptr<bf16> {tt.divisibility = 16 : i32} "
    'loc("x"(#loc)), %n: i32 loc("n"(#loc)), %s: f32) attributes {noinline = false} {\n'
)


def test_triton_without_triton(tmp_path: Path) -> None:
    """Names and types are the compiler's; scratch areas are null."""
    path = tmp_path / "add.hsaco"
    kernel = _kernel("add", ("", 8), ("", 4), ("", 4), ("", 8), ("", 8))
    assert _draft(kernel, str(path)).family == "unknown"
    for text in ("{", "[]", '{"num_warps": "4", "shared": 0}'):
        path.with_suffix(".json").write_text(text)
        assert _draft(kernel, str(path)).family == "unknown"
    path.with_suffix(".json").write_text('{"num_warps": 2, "shared": 1024}')
    assert "arg_0" in _draft(kernel, str(path)).asked
    path.with_suffix(".ttir").write_text(TTIR.replace("@add", "@other"))
    assert "arg_0" in _draft(kernel, str(path)).asked
    path.with_suffix(".ttir").write_text(TTIR)
    assert _draft(kernel, str(path)).asked == ("grid_x", "x", "n", "s")
    launch = _draft(kernel, str(path), grid_x=3, x=100, n=100, s="1 / 2").launch()
    assert (launch.grid, launch.block, launch.dynamic_lds) == ((3, 1, 1), (128, 1, 1), 1024)
    assert _values(launch) == {"n": 100, "s": 0.5, "scratch_0": 0, "scratch_1": 0}
    (x,) = (one for one in launch.args if isinstance(one, Buffer))
    assert (x.shape, x.type) == ((100,), "bf16")


@pytest.fixture
def swap(tmp_path: Path) -> Path:
    pytest.importorskip("tinygrad", reason="the tinygrad wheel is not installed")
    (tmp_path / "swap.s").write_text(TEXT)
    return tmp_path / "swap.s"


def test_the_commands(swap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a kernel to a verdict by sizes alone, with and without a file in between."""
    out = swap.with_name("swap.launch.json")
    assert main(["launch-file", str(swap), "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert "still to be filled in: grid_x, x, y" in told.err
    assert main(["check", str(swap)]) == 1
    assert "size grid_x is not given" in capsys.readouterr().err
    sizes = ["--sizes", "grid_x=1,x=128,y=128"]
    assert main(["check", str(swap), "--launch", str(out), *sizes]) == 0
    out.unlink()
    assert main(["check", str(swap), *sizes]) == 0
    assert main(["launch-file", str(swap), *sizes, "--json"]) == 0
    capsys.readouterr()
    assert main(["check", str(swap), "--sizes", "x=128"]) == 1
    assert "needs grid_x, y" in capsys.readouterr().err
    assert main(["check", str(swap), "--template", *sizes]) == 0
    drafted = capsys.readouterr().out
    assert json.loads(drafted)["sizes"]["x"] == 128
    assert main(["launch-file", str(swap), *sizes]) == 0
    assert capsys.readouterr().out == drafted
    with pytest.raises(SystemExit):
        main(["check", str(swap), "--launch", "x.json", "--family", "any"])
    assert "--family is for a launch that is drafted" in capsys.readouterr().err


def test_a_kernel_of_triton_by_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="the triton wheel is not installed")
    from pipeloom.drive.triton_kernels import compile_triton
    from tests.unit.judge.check.test_check_triton import row_sum

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x, out = np.zeros((2, 500), np.float32), np.zeros(2, np.float32)
    compile_triton(row_sum, (x, out, 500), {"B": 512}, "gfx950")
    (code,) = tmp_path.rglob("*.hsaco")
    command = ["check", str(code), "--sizes", "grid_x=2,x=1000,out=2,n=500", "--seeds", "0"]
    assert main(command) == 0
