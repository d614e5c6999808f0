"""``pipeloom bench`` on the stand-in: what is timed, how, and what stands beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.device_memory import DeviceArray
from pipeloom.device.hip import Hip
from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.stopwatch import TimeSpread, timed_launches
from pipeloom.drive.bench_subjects import TimedEmission
from pipeloom.drive.benching import Benched, BenchJob, Share, bench, torch_product_us
from pipeloom.drive.calibrating import read_measured
from pipeloom.drive.emitting import EmitJob
from pipeloom.drive.gemm import GemmSpec, gemm_kernel, gemm_made_from
from pipeloom.drive.launching import image_of
from pipeloom.drive.made_up_data import made_up_array, made_up_arrays, sizes_of
from pipeloom.drive.sources import Source
from pipeloom.drive.trial import Trial
from pipeloom.machine.dtypes import dtype_for
from pipeloom.machine.gfx950 import GFX950
from pipeloom.tuning.library import with_files
from pipeloom.write import assemble

pytestmark = pytest.mark.usefixtures("short_search")

SMALL = ["--m", "128", "--n", "128", "--k", "512", "--warm-up", "1", "--rotate", "1"]


def test_a_schedule_with_its_model_and_its_clock(
    hip: Hip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "bench.json", tmp_path / "bench.html"
    files = ["-o", str(out), "--page", str(page)]
    assert main(["bench", "single_buffer", *SMALL, "--runs", "2", *files, "--json"]) == 0
    assert "loop, cycles per trip, model" in page.read_text()
    (found,) = json.loads(capsys.readouterr().out)["measured"]
    assert json.loads(out.read_text()) == {"measured": [found]}
    assert found["sizes"] == {"m": 128, "n": 128, "k": 512}
    size = 2 * (2 * 128 * 512 + 128 * 128) / 1e6
    assert found["sets"] == -(-1 // size)
    assert found["megabytes"] == pytest.approx(found["sets"] * size)
    times = found["microseconds"]
    assert times["runs"] == 2
    assert 0 < times["least"] <= times["p20"] <= times["median"] <= times["p80"]
    assert found["tflops"] == pytest.approx(2 * 128 * 128 * 512 / times["median"] / 1e6)
    assert found["inside"]["trips"][0] > 0
    parts = {one["part"]: one for one in found["parts"]}
    assert set(parts) == {"whole kernel, us", "loop, cycles per trip", "clock, MHz"}
    assert parts["whole kernel, us"]["model"] == found["model_microseconds"]
    assert hip.library.standin_used(0) == 0
    assert found["right"]
    (loop,) = read_measured(str(out), GFX950)
    assert loop.modelled(GFX950) == pytest.approx(parts["loop, cycles per trip"]["model"], rel=0.02)


def test_a_wrong_result_is_told(
    hip: Hip,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = TimedEmission.trial

    def spoilt(self: TimedEmission, *given: Any) -> Trial:
        return replace(right(self, *given), wrong={"out": 3})

    monkeypatch.setattr(TimedEmission, "trial", spoilt)
    page = tmp_path / "bench.html"
    assert main(["bench", "single_buffer", *SMALL, "--runs", "1", "--page", str(page)]) == 5
    assert "WRONG" in capsys.readouterr().out
    assert "DIFFERS FROM NUMPY" in page.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"measured": [{}]}', "another format"),
        ('{"measured": [{"format": "pipeloom-bench-1"}]}', "damaged"),
        (
            '{"measured": [{"format": "pipeloom-bench-1", "inside": null, "made_from": null}]}',
            "no kernel that timed itself",
        ),
        ('{"loops": []}', "lacks format"),
    ],
)
def test_files_that_calibrate_cannot_use(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(pl.ScheduleError, match=said):
        list(read_measured(str(path), GFX950))


def test_launches_go_over_the_sets_in_turn(hip: Hip) -> None:
    seen: list[str] = []
    launches = [lambda name=name: seen.append(name) for name in "abc"]
    times = timed_launches(hip, 0, launches, runs=4, warm_up=2, apart=True)
    assert "".join(seen) == "ababca"
    assert len(times) == 4


def test_a_spread() -> None:
    spread = TimeSpread.of([5.0, 1.0, 3.0, 2.0, 4.0, 6.0])
    assert (spread.runs, spread.median, spread.least) == (6, 3.5, 1.0)
    assert (spread.p20, spread.p80) == (2.0, 5.0)
    assert TimeSpread.of([7.0]) == TimeSpread(1, 7.0, 7.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("dtype", "bits", "covers", "shape"),
    [("bf16", 16, 1, (6, 64)), ("fp4", 4, 1, (6, 32)), ("e8m0", 8, 32, (6, 2)),
     ("f32", 32, 1, (6, 64)), ("fp8", 8, 1, (6, 64))],
)  # fmt: skip
def test_data_are_random_in_every_type(
    dtype: str, bits: int, covers: int, shape: tuple[int, ...]
) -> None:
    rule = ArrayRule("A", 0, dtype, bits, ("m", "k"), (), covers, False, 1)
    array = made_up_array(rule, {"m": 6, "k": 64}, np.random.default_rng(1))
    assert array.shape == shape
    assert len(np.unique(array)) > 2
    if dtype in ("bf16", "fp8"):
        numbers = dtype_for(dtype).decode(array.astype(np.uint16))
        assert 0.5 < numbers.std() < 2


def test_sizes_are_usual_where_none_are_given() -> None:
    made = gemm_kernel(GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False))
    record = made.contract()
    assert sizes_of(record, {"n": 40}) == {"m": 4096, "k": 4096, "n": 40}
    with pytest.raises(pl.SpecError, match="no dimension 'q'"):
        sizes_of(record, {"q": 40})
    with pytest.raises(pl.SpecError, match="no dimension 'batches'"):
        sizes_of(record, {"batches": 2})
    told = {**record, "made_from": {"sizes": {"m": 5, "n": 6, "k": 64, "batches": 1}}}
    assert sizes_of(told, {"n": 40}) == {"m": 5, "k": 64, "n": 40}


def test_which_part_is_off() -> None:
    shares = (Share("loop", 110, 100), Share("clock", 1000, 2000), Share("whole", 9, 10))
    found = Benched.__new__(Benched)
    object.__setattr__(found, "shares", shares)
    assert found.most_off is shares[1]
    assert shares[0].off == pytest.approx(0.1)


class FakeMatrix:
    """Its shape, and in which order its dimensions lie."""

    def __init__(self, *shape: int, turned: bool = False, **options: Any) -> None:
        self.shape, self.turned = shape, turned

    @property
    def mT(self) -> FakeMatrix:
        *batches, rows, columns = self.shape
        return FakeMatrix(*batches, columns, rows, turned=not self.turned)


class FakeEvent:
    def __init__(self, torch: FakeTorch) -> None:
        self.torch = torch

    def record(self) -> None:
        self.torch.seen.append(("record", self.torch.current))

    def synchronize(self) -> None:
        self.torch.seen.append(("wait", self.torch.current))

    def elapsed_time(self, last: FakeEvent) -> float:
        return 0.25


class FakeTorch(SimpleNamespace):
    """As much of PyTorch as a comparison takes: every product has taken 0.25 ms."""

    bfloat16, randn, __spec__ = "bf16", FakeMatrix, SimpleNamespace()

    def __init__(self) -> None:
        self.current = 0
        self.seen: list[tuple[str, int]] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            device=self.on,
            Event=lambda enable_timing: FakeEvent(self),
            synchronize=lambda device: None,
        )
        self.last: tuple[FakeMatrix, FakeMatrix] | None = None

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        before, self.current = self.current, device
        yield
        self.current = before

    def matmul(self, a: FakeMatrix, b: FakeMatrix) -> None:
        self.last = a, b


def rules(layout: str = "NT", out: str = "bf16") -> dict[str, ArrayRule]:
    dims = {
        "A": ("m", "k") if layout[0] == "N" else ("k", "m"),
        "B": ("k", "n") if layout[1] == "N" else ("n", "k"),
        "out": ("m", "n"),
    }
    return {
        name: ArrayRule(name, 0, out if name == "out" else "bf16", 16, of, (), 1, False, 1)
        for name, of in dims.items()
    }


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
@pytest.mark.parametrize("apart", [False, True])
def test_torch_beside_it(monkeypatch: pytest.MonkeyPatch, layout: str, apart: bool) -> None:
    """On the same device, with operands that lie as the kernel has them, and waiting as it does."""
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    how: dict[str, Any] = {"device": 2, "runs": 3, "warm_up": 1, "apart": apart}
    sizes = {"batches": 5, "m": 8, "n": 16, "k": 32}
    assert torch_product_us(rules(layout), sizes, 2, **how) == 250.0
    assert {device for _, device in fake.seen} == {2}
    assert [what for what, _ in fake.seen].count("wait") == (4 if apart else 0)
    assert fake.last is not None
    a, b = fake.last
    assert (a.shape, b.shape) == ((5, 8, 32), (5, 32, 16))
    assert (a.turned, b.turned) == (layout[0] == "T", layout[1] == "T")


def test_no_torch_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    how: dict[str, Any] = {"device": 0, "runs": 1, "warm_up": 0, "apart": False}
    sizes = {"m": 8, "n": 8, "k": 8}
    assert torch_product_us(rules(out="f32"), sizes, 2, **how) is None
    more = {**rules(), "bias": rules()["A"]}
    assert torch_product_us(more, sizes, 2, **how) is None
    fake.cuda.is_available = lambda: False
    assert torch_product_us(rules(), sizes, 2, **how) is None


def test_a_kernel_that_times_itself(
    hip: Hip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = str(tmp_path / "k.hsaco")
    assert main(["emit", "single_buffer", "--timed", "--no-witness", "-o", code]) == 0
    capsys.readouterr()
    assert main(["bench", code, *SMALL, "--runs", "1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["measured"]
    assert found["inside"]["trips"][0] > 0
    with Path(code).open("ab") as file:
        file.write(b"changed")
    assert main(["bench", code, *SMALL, "--runs", "1", "--json"]) == 0
    (other,) = json.loads(capsys.readouterr().out)["measured"]
    assert (other["inside"], other["parts"]) == (None, [])
    assert (found["right"], other["right"]) == (True, None)
    assert any("not what single_buffer gives" in note for note in other["notes"])


def test_batches(hip: Hip, tmp_path: Path) -> None:
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False, batched=True)
    made = gemm_kernel(replace(spec, finish=Finish(bias=True)))
    sizes = sizes_of(made.contract(), {"m": 40, "n": 24, "k": 64, "batches": 3})
    arrays: dict[str, Any] = dict(made_up_arrays(made.contract(), sizes, 0))
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {"A": (3, 40, 64), "B": (3, 24, 64), "bias": (24,), "out": (3, 40, 24)}
    pl.launch(made, **arrays)
    code = tmp_path / "k.hsaco"
    image = image_of(made)
    code.write_bytes(image.codes[str(image.record["kernel"])])
    code.with_suffix(".json").write_text(json.dumps(dict(image.record)))
    found = bench(BenchJob(str(code), sizes, runs=1, warm_up=0, rotate_mb=0))
    assert found.flops == 3 * 2 * 40 * 24 * 64
    assert found.megabytes == sum(array.nbytes for array in arrays.values()) / 1e6


def test_what_is_written_outside_is_told(hip: Hip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceArray, "spoilt", lambda self: 3)
    with pytest.raises(pl.DeviceError, match="3 bytes around"):
        bench(BenchJob("single_buffer", {"m": 32, "n": 32}, runs=1, warm_up=0, rotate_mb=0))


def test_the_model_is_of_the_kernel_that_is_timed(hip: Hip) -> None:
    """With its type of C, which decides what is stored."""
    sizes = {"m": 128, "n": 128, "k": 512}
    jobs = [
        BenchJob("single_buffer", sizes, runs=1, warm_up=0, rotate_mb=0, emit=EmitJob(of, out))
        for of in [Source("single_buffer")]
        for out in ("bf16", "f32")
    ]
    narrow, wide = (bench(job).model_us for job in jobs)
    assert narrow is not None
    assert wide is not None
    assert wide > narrow


def test_a_product_of_gemm_is_timed_from_inside_and_compared(
    hip: Hip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With K cut and rows copied: the product has the clocks, the kernels around it have none."""
    options: dict[str, Any] = {"waves_m": 2, "waves_n": 2, "search": False, "splits": 2, "align": 2}
    made = gemm_kernel(GemmSpec(BM=32, BN=32, BK=64, **options))
    codes = {kernel.name: assemble(kernel).data for kernel in made.kernels}
    first = tmp_path / f"{made.kernel.name}.hsaco"
    places = {name: Path(f"{name}.hsaco") for name in codes}
    sizes = {"m": 40, "n": 33, "k": 2000, "batches": 1}
    record = {**with_files(made.contract(), places), "made_from": gemm_made_from(made.spec, sizes)}
    record["predicted"] = {**sizes, "microseconds": 5.0, "clock_ghz": 2.0}
    first.with_suffix(".json").write_text(json.dumps(record))
    for name, code in codes.items():
        (tmp_path / places[name]).write_bytes(code)
    command = ["bench", str(first), "--runs", "1", "--warm-up", "0", "--rotate", "0", "--json"]
    assert main(command) == 0
    (found,) = json.loads(capsys.readouterr().out)["measured"]
    assert found["right"] is True
    assert found["inside"]["waves"] == 2 * 2 * 2 * 4
    parts = {one["part"]: one["model"] for one in found["parts"]}
    assert (parts["whole kernel, us"], parts["clock, MHz"]) == (5.0, 2000.0)
    assert parts["loop, cycles per trip"] > 0
    assert hip.library.standin_used(0) == 0
    (tmp_path / "bench.json").write_text(json.dumps({"measured": [found]}))
    (loop,) = read_measured(str(tmp_path / "bench.json"), GFX950)
    assert loop.measured == found["inside"]["cycles_per_trip"]
    assert loop.modelled(GFX950) == parts["loop, cycles per trip"]
