"""What a launch record may say: its formulas, its files, and what is refused of it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest

import pipeloom as pl
from benchmarks.gpu_launches import cases
from pipeloom.device.contracts import FORMAT, KernelContract, block_span, whole_trips
from pipeloom.device.formulas import value_of
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1", 1),
        ("ceil(n / 256)", 2),
        ("ceil(k / 64) * 64", 128),
        ("4 * 3 * batches * m * n", 4 * 3 * 2 * 5 * 257),
        ("(64 + 32 * ceil(max(k / 2 - 64, 0) / 32)) - k / 2", 64 - 50),
    ],
)
def test_formulas(formula: str, value: int) -> None:
    assert value_of(formula, {"m": 5, "n": 257, "k": 100, "batches": 2}) == value


@pytest.mark.parametrize(
    "formula",
    ["n //", "q", "__import__('os')", "n.real", "m / 2", "1 / 0", "n ** 9", "(" * 200, "1+" * 600],
)
def test_what_is_no_formula(formula: str) -> None:
    """A record is a file: nothing of it is run, and nothing of it is taken for granted."""
    with pytest.raises(pl.DeviceError) as raised:
        value_of(formula, {"m": 5, "n": 257})
    assert raised.value.field == "record"


def test_records_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(pl.DeviceError, match="does not say how to launch"):
        KernelContract.of({"format": "pipeloom-launch-1"})
    with pytest.raises(pl.DeviceError, match="lacks 'arguments'"):
        KernelContract.of({"format": FORMAT})
    code = tmp_path / "k.hsaco"
    with pytest.raises(pl.DeviceError, match="no record beside"):
        KernelImage.read(code)
    code.with_suffix(".json").write_text("{")
    with pytest.raises(pl.DeviceError, match="no record beside"):
        KernelImage.read(code)
    record = {"kernel": "k", "arguments": [], "then": {"kernel": "sum", "file": "k_sum.hsaco"}}
    code.with_suffix(".json").write_text(json.dumps(record))
    with pytest.raises(pl.DeviceError, match=r"cannot read .*k\.hsaco"):
        KernelImage.read(code)
    code.write_bytes(b"code")
    with pytest.raises(pl.DeviceError, match=r"cannot read .*k_sum\.hsaco"):
        KernelImage.read(code)
    (tmp_path / "k_sum.hsaco").write_bytes(b"sum")
    image = KernelImage.read(code)
    assert dict(image.codes) == {"k": b"code", "sum": b"sum"}
    assert not image.proved


def test_how_far_a_loop_goes() -> None:
    assert [whole_trips(size, 64, 32) for size in (0, 64, 65, 96, 97)] == [64, 64, 96, 96, 128]
    assert whole_trips(100, 64, 0) == 64


def test_what_a_block_spans() -> None:
    """Rows of the tile, whether they exist or not; along the loop as far as it goes."""
    tile = {"m": 256, "k": 64}
    rows = block_span((16, 1), ("m", "k"), 1000, {"m": 10, "k": 640}, tile, ("k", 704))
    assert rows == 255 * 2000 + 2 * 704
    along = block_span((16, 1), ("k", "m"), 1000, {"m": 10, "k": 640}, tile, ("k", 704))
    assert along == max(704 * 2000, 703 * 2000 + 2 * 256)
    scales = block_span((8, 32), ("m", "k"), 20, {"m": 300, "k": 640}, tile, ("k", 704))
    assert scales == 256 * 20 + 22


def test_drawn_launches(hip: Hip) -> None:
    """The first of benchmarks/gpu_launches.py, which has every family."""
    for name, run in islice(cases(Random(5), hip), 2):
        trial = run()
        assert trial.ok, f"{name}: {trial.summary()}"
