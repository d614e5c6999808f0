"""``pipeloom bench`` on the stand-in: what is timed, how, and what stands beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.device.hip import Hip
from pipeloom.device.laid_arrays import ArrayRule
from pipeloom.device.stopwatch import TimeSpread, timed_launches
from pipeloom.drive.benching import (
    Benched,
    BenchJob,
    Share,
    made_up_arrays,
    sizes_of,
    torch_product_us,
)
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.machine.dtypes import dtype_for

SMALL = ["--m", "128", "--n", "128", "--k", "512", "--warm-up", "1", "--rotate", "1"]


def test_a_schedule_with_its_model_and_its_clock(
    hip: Hip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench.json"
    assert main(["bench", "single_buffer", *SMALL, "--runs", "2", "-o", str(out), "--json"]) == 0
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
    (array,) = made_up_arrays({"A": rule}, {"m": 6, "k": 64}, 1).values()
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
    told = {**record, "made_from": {"sizes": {"m": 5, "n": 6, "k": 64, "batches": 1}}}
    assert sizes_of(told, {"n": 40}) == {"m": 5, "k": 64, "n": 40}


def test_which_part_is_off() -> None:
    shares = (Share("loop", 110, 100), Share("clock", 1000, 2000), Share("whole", 9, 10))
    found = Benched.__new__(Benched)
    object.__setattr__(found, "shares", shares)
    assert found.most_off is shares[1]
    assert shares[0].off == pytest.approx(0.1)


class FakeTorch(SimpleNamespace):
    """As much of PyTorch as a comparison takes: every product has taken 0.25 ms."""

    def __init__(self) -> None:
        event = SimpleNamespace(record=lambda: None, elapsed_time=lambda last: 0.25)
        cuda = SimpleNamespace(
            is_available=lambda: True,
            Event=lambda enable_timing: event,
            synchronize=lambda device: None,
        )
        matrix = SimpleNamespace(t=lambda: None)
        super().__init__(
            cuda=cuda, bfloat16="bf16", randn=lambda *shape, **options: matrix, matmul=max
        )
        self.matmul = lambda a, b: None


def test_torch_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"m": 8, "n": 8, "k": 8}
    record: dict[str, Any] = {"dtype": "bf16", "scalars": {}}
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(fake, "__spec__", SimpleNamespace(), raising=False)
    assert torch_product_us(record, sizes, BenchJob("k.hsaco", runs=3), 2) == 250.0
    assert torch_product_us({**record, "dtype": "fp8"}, sizes, BenchJob("k.hsaco"), 2) is None
    assert torch_product_us(record, {**sizes, "q": 1}, BenchJob("k.hsaco"), 2) is None
    fake.cuda.is_available = lambda: False
    assert torch_product_us(record, sizes, BenchJob("k.hsaco"), 2) is None
