"""``pipeloom run --on gpu``: the trials of the emulator, launched through HIP."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.gemm_trial import ReadyGemm
from pipeloom.drive.on_gpu import OnGpu
from pipeloom.drive.run_limits import RunLimits
from pipeloom.drive.runners import Launched
from pipeloom.drive.running_gemms import gemm_trials
from pipeloom.drive.trial import run_program
from pipeloom.write import assemble, launch_record

pytestmark = pytest.mark.usefixtures("short_search")

TILE: dict[str, Any] = {"BM": 32, "BN": 32, "BK": 64, "waves_m": 2, "waves_n": 2, "search": False}


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"splits": 2, "finish": Finish(bias=True, scales=True)}, {"m": 33, "n": 40, "k": 136}),
        ({"batched": True, "layout": "NN"}, {"m": 20, "n": 24, "k": 72, "batches": 2}),
        ({"BK": 256, "dtype": "mxfp4", "BM": 64, "BN": 64}, {"m": 20, "n": 33, "k": 160}),
    ],
    ids=["slices and scales", "batches", "block scales"],
)
def test_products(hip: Hip, options: dict[str, Any], sizes: dict[str, int]) -> None:
    ready = ReadyGemm.of(gemm_kernel(GemmSpec(**{**TILE, **options})))
    (trial,) = gemm_trials(ready, sizes, [3], RunLimits(), on=OnGpu())
    assert trial.ok, trial.summary()
    assert trial.executed == 0


@cache
def row_sums() -> pl.EmittedKernel:
    """A loop of one's own: no product, an output of one dimension."""
    loop = pl.Loop("row_sums", over="k")
    x = loop.stream("x", pl.F32, m=64, k=32)
    total = loop.carry("total", pl.F32, start=0, m=64)
    total += x.sum("k")
    loop.store("out", total)
    return pl.emit(pl.pipeline(loop, pl.target_for("gfx942"), {"m": 1}), ops=loop.ops)


def test_a_loop_of_ones_own_on_another_device(hip: Hip) -> None:
    kernel = row_sums()
    code = assemble(kernel)
    image = KernelImage(launch_record(kernel), {kernel.name: code.data})
    sizes = {"m": 70, "k": kernel.k_min + kernel.k_step}
    trial = run_program(kernel, code, sizes=sizes, spare={"x": 4}, runner=OnGpu(1).runner(image))
    assert trial.ok, trial.summary()


def test_bytes_outside_are_counted(hip: Hip, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose record says fewer rows than it is told of stores behind its output."""
    kernel = row_sums()
    record = launch_record(kernel)
    arguments = [dict(one) for one in record["arguments"]]
    places = {one["name"]: one for one in arguments}
    wide = {**record, "arguments": arguments}
    data = kernel.launch.meaning
    assert data.outputs[0].name == "out"
    places["out"]["dims"] = ["rows"]  # the kernel stores m of them
    wide["tile"] = {**record["tile"], "rows": 64}
    image = KernelImage(wide, {kernel.name: assemble(kernel).data})
    trial_sizes = {"m": 70, "k": kernel.k_min}
    runner = OnGpu(1).runner(image)

    def cut(arrays: Any, scalars: Any) -> Launched:
        return runner({**arrays, "out": arrays["out"][:60]}, scalars)

    trial = run_program(kernel, assemble(kernel), sizes=trial_sizes, runner=cut)
    assert trial.spoilt == 40
    assert not trial.ok


def test_only_what_is_proved(hip: Hip) -> None:
    kernel = row_sums()
    record = {**launch_record(kernel), "verdict": "TIMING"}
    image = KernelImage(record, {kernel.name: assemble(kernel).data})
    with pytest.raises(pl.DeviceError, match="not PROVED"):
        OnGpu(1).runner(image)
    OnGpu(1, unproved=True).runner(image)


def test_the_command(hip: Hip, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "single_buffer", "--m", "40", "--n", "24", "--on", "gpu", "--timings", "1"]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["on"] == str(hip.gpu(0))
    assert found["wrong"] == []
    assert main([*asked, "--timed"]) == 0
    shown = capsys.readouterr().out
    assert "timed: " in shown
    assert "equal to NumPy in 1 run " in shown
    assert "emulat" not in shown
    with pytest.raises(SystemExit):
        main(["run", "ping_pong", "--device", "1"])
    assert "--on gpu" in capsys.readouterr().err
    assert main([*asked, "--device", "1"]) != 0
    assert "device 1 is gfx942" in capsys.readouterr().err
