"""Whole matrix products: any size, any grid, nothing outside of C, in the emulator."""

from functools import cache

import pytest

from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import GemmProblem, ReadyGemm, run_gemm
from pipeloom.errors import ConfigError
from pipeloom.write import EmitError


@cache
def ready(**options: object) -> ReadyGemm:
    small = {"BM": 64, "BN": 64, "waves_m": 2, "waves_n": 2, "search": False}
    return ReadyGemm.of(gemm_kernel(GemmSpec(**{**small, **options})))  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, 8, 72, 200, 520])
def test_any_k_is_summed_and_no_more(k: int) -> None:
    """From nothing to more than a trip; what lies between the rows is NaN."""
    problem = GemmProblem(m=70, n=33, k=k, spare=(8, 16, 3), seed=k)
    assert run_gemm(ready(), problem).summary().startswith("correct")


def test_a_workgroup_too_many_does_nothing() -> None:
    problem = GemmProblem(m=1, n=1, k=8, batches=2, gap=(8, 16, 5), excess=(2, 1, 2))
    assert run_gemm(ready(batched=True), problem).summary().startswith("correct")


def test_nothing_is_computed_of_nothing() -> None:
    assert run_gemm(ready(), GemmProblem(m=0, n=5, k=8, excess=(1, 1, 0))).ok


def test_what_a_kernel_does_not_allow_is_refused() -> None:
    with pytest.raises(EmitError, match="'k' is 9"):
        run_gemm(ready(), GemmProblem(m=1, n=1, k=9))
    with pytest.raises(ConfigError, match="layout"):
        GemmSpec(layout="XY")


def test_the_contract_says_what_a_caller_must_know() -> None:
    contract = ready(batched=True).made.contract()
    assert contract["verdict"] == "PROVED"
    assert contract["grid"] == ["ceil(n / 64)", "ceil(m / 64)", "batches"]
    assert (contract["k_min"], contract["k_step"], contract["layout"]) == (0, 8, "NT")
    names = [argument["name"] for argument in contract["arguments"]]
    assert names[:6] == ["A", "B", "out", "bs_A", "bs_B", "bs_out"]
