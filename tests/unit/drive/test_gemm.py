"""Whole matrix products: any size, any grid, nothing outside of C, in the emulator."""

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.random_gemms import run_one
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.hip_errors import DeviceError
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import GemmCall, ReadyGemm, run_gemm
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.errors import ConfigError
from pipeloom.machine.chips import target_for
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import bound_of, woven

pytestmark = pytest.mark.usefixtures("short_search")


@cache
def ready(**options: object) -> ReadyGemm:
    small = {"BM": 64, "BN": 64, "waves_m": 2, "waves_n": 2, "search": False}
    return ReadyGemm.of(gemm_kernel(GemmSpec(**{**small, **options})))  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, 8, 200, 520])
def test_any_k_is_summed_and_no_more(k: int) -> None:
    """From nothing to more than a trip; what lies between the rows is NaN."""
    problem = GemmCall(m=70, n=33, k=k, spare=(8, 16, 3), seed=k)
    assert run_gemm(ready(), problem).ok


def test_a_workgroup_too_many_does_nothing() -> None:
    problem = GemmCall(m=1, n=1, k=8, batches=2, gap=(8, 16, 5), excess=(2, 1, 2))
    assert run_gemm(ready(batched=True), problem).ok


def test_nothing_is_computed_of_nothing() -> None:
    got = run_gemm(ready(), GemmCall(m=0, n=5, k=8))
    assert (got.ok, got.executed) == (True, 0)


@pytest.mark.parametrize(
    ("layout", "arch", "dtype"),
    [
        ("NN", "gfx950", "bf16"),
        ("TN", "gfx950", "fp8"),
        ("TT", "gfx950", "fp16"),
        ("TN", "gfx942", "bf16"),
        ("NN", "gfx942", "fp8"),
    ],
)
def test_operands_stored_transposed(layout: str, arch: str, dtype: str) -> None:
    """By transposed reads of LDS, or element by element; rows are padded, M and N are odd."""
    whole = 16 if dtype == "fp8" else 8
    problem = GemmCall(m=67, n=35, k=4 * whole, spare=(0, 0, 1))
    pads = [-columns % whole for columns in _columns(layout, problem)]
    problem = replace(problem, spare=(pads[0], pads[1], 1))
    got = run_gemm(ready(layout=layout, arch=arch, dtype=dtype), problem)
    assert got.ok


@pytest.mark.parametrize(
    ("layout", "dtype", "BM", "BN"),
    [("TN", "bf16", 96, 160), ("TT", "fp8", 224, 32), ("NN", "fp16", 32, 208)],
)
def test_tiles_that_are_no_power_of_two_wide_are_read_across(
    layout: str, dtype: str, BM: int, BN: int
) -> None:
    """Their columns lie in panels; sizes end inside of a panel, and K inside of a tile."""
    problem = GemmCall(m=112, n=176, k=144)
    waves = {"waves_m": 2, "waves_n": 1 if BN == 208 else 2}
    assert run_gemm(ready(layout=layout, dtype=dtype, BM=BM, BN=BN, **waves), problem).ok


def _columns(layout: str, problem: GemmCall) -> tuple[int, int]:
    a = problem.k if layout[0] == "N" else problem.m
    return a, problem.k if layout[1] == "T" else problem.n


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, -2.0), (1.0, 0.0), (0.0, 3.0)])
def test_alpha_and_beta(alpha: float, beta: float) -> None:
    """Where beta is 0, C is NaN before and never read; in place, and any row length."""
    problem = GemmCall(m=33, n=71, k=72, spare=(0, 8, 2), alpha=alpha, beta=beta)
    got = run_gemm(ready(finish=Finish(alpha=True, beta=True)), problem)
    assert got.ok


@pytest.mark.parametrize("k", [0, 200])
def test_slices_of_k_are_added_up_in_order(k: int) -> None:
    """Slices that have nothing to sum store zeros; a second kernel does what follows the sum."""
    made = ready(splits=3, finish=Finish(beta=True), batched=True)
    problem = GemmCall(m=33, n=70, k=k, batches=2, gap=(8, 8, 3), beta=2.0, excess=(1, 1, 1))
    assert run_gemm(made, problem).ok
    contract = made.made.contract()
    assert contract["workspace"] == "4 * 3 * batches * m * n"
    assert contract["grid"][2] == "3 * batches"
    assert contract["then"]["verdict"] == "PROVED"
    assert (contract["call"]["bs_out"], contract["then"]["call"]["bs_P"]) == ("m * n", "3 * m * n")


@pytest.mark.parametrize(
    ("align", "dtype", "layout"),
    [
        (4, "bf16", "NT"),
        (2, "fp16", "NN"),
        (1, "bf8", "TT"),
        (1, "mxfp4", "NT"),
        (1, "mxfp8", "TN"),
    ],
)
def test_rows_of_any_alignment(align: int, dtype: str, layout: str) -> None:
    """Loads of 4 bytes; or copies to aligned rows, zeros before their K, for every K there is."""
    made = ready(align=align, dtype=dtype, layout=layout, splits=2 if align == 2 else 1)
    assert made.made.program.target == target_for("gfx950")
    assert {made.made.program.meaning[name].align for name in "AB"} == {4 if align == 4 else 16}
    k = 96 if made.made.spec.blocks else 70 if align == 4 else 71
    spare = (2, 6, 1) if dtype == "mxfp4" else (0, 0, 1)
    problem = GemmCall(m=35, n=67, k=k, spare=spare, gap=(0, 0, 1))
    got = run_gemm(made, problem)
    assert got.ok
    assert made.made.before.keys() == (set() if align == 4 else {"A", "B"})


@pytest.mark.parametrize(("arch", "a", "b"), [("gfx950", "bf8", "fp8"), ("gfx942", "fp8", "bf8")])
def test_both_kinds_of_8_bit_floats(arch: str, a: str, b: str) -> None:
    problem = GemmCall(m=20, n=70, k=160)
    assert run_gemm(ready(arch=arch, dtype=a, dtype_b=b), problem).ok


@pytest.mark.parametrize(
    ("options", "k"),
    [
        ({"dtype": "mxfp8"}, 416),
        ({"dtype": "mxfp4", "align": 4, "batched": True, "finish": Finish(alpha=True)}, 544),
        (
            {
                "dtype": "mxfp8",
                "layout": "TN",
                "splits": 2,
                "finish": Finish(bias=True),
                "out": "bf16",
            },
            288,
        ),
    ],
)
def test_blocks_along_k_with_scales_of_their_own(options: dict[str, object], k: int) -> None:
    """Ends of K inside a tile, rows of scales at any address, after slices, and in batches."""
    made = ready(**options)
    batches = 2 if made.made.spec.batched else 1
    spare = (13, 3, 1) if made.made.spec.layout == "TN" else (0, 32, 1)
    problem = GemmCall(m=67, n=45, k=k, batches=batches, spare=spare, gap=(32, 64, 3), seed=7)
    assert run_gemm(made, problem).ok
    assert made.made.kernel.launch.multiples["k"] == 32


def test_loads_of_scales_are_woven_between_products() -> None:
    """An order that waits for them little: near what memory takes, in the simulator."""
    spec = GemmSpec(dtype="mxfp8", BM=128, BN=128)
    loop = spec.loop()
    lowered = lower(loop.meaning, spec.target, loop.ops, loop.staged, {"m": 2, "n": 2})
    program = woven(lowered, Pattern(deep=4, margin=128))
    assert steady_cycles(program) < 1.01 * bound_of(lowered)[0]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"dtype": "mxfp8", "dtype_b": "fp8"}, "dtype_b"),
        ({"dtype": "mxfp4", "layout": "NN"}, "layout"),
    ],
)
def test_what_block_scales_do_not_go_with(options: dict[str, object], wrong: str) -> None:
    with pytest.raises(ConfigError) as error:
        GemmSpec(**options)  # type: ignore[arg-type]
    assert error.value.field == wrong


def test_block_scales_need_a_matrix_unit_that_takes_them() -> None:
    with pytest.raises(ConfigError, match="no scaled matrix instruction of gfx942"):
        gemm_kernel(GemmSpec(arch="gfx942", dtype="mxfp8"))


@pytest.mark.parametrize(
    "options",
    [
        {"finish": Finish(bias=True, activation="gelu", alpha=True, beta=True)},
        {"dtype": "fp8", "out": "fp8", "finish": Finish(scales=True, beta=True), "batched": True},
        {"arch": "gfx942", "dtype": "fp8", "out": "fp8", "splits": 2,
         "finish": Finish(scales=True, bias=True, activation="relu")},
    ],
)  # fmt: skip
def test_what_follows_the_sum(options: dict[str, object]) -> None:
    """Scales by row and column, bias, activation, outputs of 8 bits; after slices too."""
    made = ready(**options)
    batches = 2 if made.made.spec.batched else 1
    problem = GemmCall(m=37, n=70, k=192, batches=batches, spare=(0, 0, 2), alpha=0.5, beta=2.0)
    assert run_gemm(made, problem).ok


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match="'gleu'"):
        Finish(activation="gleu")


@pytest.mark.parametrize("number", [22, 4009])
def test_random_products(number: int) -> None:
    """One of those that benchmarks/random_gemms.py draws."""
    assert run_one(number)[2].ok


def test_what_a_kernel_does_not_allow_is_refused() -> None:
    with pytest.raises(DeviceError, match="along k is 9"):
        run_gemm(ready(), GemmCall(m=1, n=1, k=9))
    for wrong in ({"layout": "XY"}, {"align": 3}, {"align": 1}, {"dtype_b": "fp8"}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            GemmSpec(**wrong)


def test_the_contract_says_what_a_caller_must_know() -> None:
    contract = ready(batched=True).made.contract()
    assert contract["verdict"] == "PROVED"
    assert contract["grid"] == ["ceil(n / 64)", "ceil(m / 64)", "batches"]
    assert (contract["k_min"], contract["k_step"], contract["layout"]) == (0, 8, "NT")
    names = [argument["name"] for argument in contract["arguments"]]
    assert names[:6] == ["A", "B", "out", "bs_A", "bs_B", "bs_out"]
    a, b, out = contract["arguments"][:3]
    assert (a["dims"], b["dims"], out["dims"]) == (["m", "k"], ["n", "k"], ["m", "n"])
    assert (a["dtype"], out["dtype"], contract["size_limit"]) == ("bf16", "bf16", 2**31)
