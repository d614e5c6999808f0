"""What a launch record may say: its formulas, its files, and what is refused of it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest

import pipeloom as pl
from benchmarks.gpu_launches import cases
from pipeloom.device.contracts import FORMAT, KernelContract, block_span, whole_trips
from pipeloom.device.formulas import value_of
from pipeloom.device.hip import Hip
from pipeloom.device.images import KernelImage, image_files, record_path
from pipeloom.device.tensors import view_of
from pipeloom.drive.gemm import GemmSpec, gemm_kernel
from pipeloom.drive.launching import image_of
from pipeloom.tuning.library import with_files
from pipeloom.write import launch_record


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
    record = {"format": FORMAT, "kernel": "k", "then": {"kernel": "sum", "file": "k_sum.hsaco"}}
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
    assert set(image_files(code)) == set(tmp_path.iterdir())


def test_which_file_is_the_record(tmp_path: Path) -> None:
    """k.json, unless a schedule has that name: one rule for whoever writes or reads."""
    code, usual, other = (tmp_path / f"k{end}" for end in (".hsaco", ".json", ".launch.json"))
    code.write_bytes(b"code")
    assert record_path(code) == usual
    for place, verdict in ((other, "TIMING"), (usual, "PROVED")):
        place.write_text(json.dumps({"format": FORMAT, "kernel": "k", "verdict": verdict}))
        assert record_path(code) == place
        assert KernelImage.read(code).record["verdict"] == verdict
        assert image_files(code) == (place, code)
    usual.write_text('{"schedule": "single_buffer"}')
    assert record_path(code) == other
    other.write_text('{"args": []}')
    assert record_path(code) == other
    with pytest.raises(pl.DeviceError, match=r"no record beside .*k\.launch\.json"):
        KernelImage.read(code)
    assert image_files(code) == (code,)


def test_a_kernel_is_read_again_where_any_of_its_files_changed(hip: Hip, tmp_path: Path) -> None:
    code, sums = tmp_path / "k.hsaco", tmp_path / "k_sum.hsaco"
    spec = GemmSpec(BM=32, BN=32, BK=64, waves_m=2, waves_n=2, search=False, splits=2)
    image = image_of(gemm_kernel(spec))
    main, last = str(image.record["kernel"]), str(image.record["then"]["kernel"])
    for name, place in ((main, code), (last, sums)):
        place.write_bytes(image.codes[name])
    record = tmp_path / "k.launch.json"
    text = json.dumps(with_files(image.record, {main: Path(code.name), last: Path(sums.name)}))
    record.write_text(text)
    first = pl.prepare(code)
    assert pl.prepare(code) is first
    record.write_text(text.replace('"PROVED"', '"TIMING"'))
    with pytest.raises(pl.DeviceError, match="TIMING"):
        pl.prepare(code)
    record.write_text(text)
    sums.write_bytes(b"no code")
    with pytest.raises(pl.DeviceError):
        pl.prepare(code)


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
    """The first of benchmarks/gpu_launches.py, which has every family, and both kinds of arrays."""
    for name, run in islice(cases(Random(5), hip), 2):
        trial = run()
        assert trial.ok, f"{name}: {trial.summary()}"


def test_the_smallest_blocks_say_where_a_matrix_ends() -> None:
    """Along each dimension, whichever array has them, for launches as for declarations."""
    loop = pl.Loop("two_orders", over="k")
    total = loop.carry("sum", pl.F32, n=16)
    streams = []
    for name, rows, columns in (("U", 8, 64), ("W", 16, 32)):
        one = loop.stream(name, pl.F32, n=16, k=64)
        block, row = pl.digit(f"b{name}", f"blocks_{name}"), pl.digit(f"r{name}", rows)
        chunk, part = pl.digit(f"c{name}", f"chunks_{name}"), pl.digit(f"p{name}", columns)
        place = {f"blocks_{name}": block, f"chunks_{name}": chunk, f"rows_{name}": row}
        loop.place(name, n=(block, row), k=(chunk, part), **place, **{f"parts_{name}": part})
        streams.append(one)
    total += (streams[0] * streams[1]).sum("k")
    loop.store("out", total)
    kernel = pl.emit(pl.pipeline(loop, "gfx950", waves=1))
    contract = KernelContract.of(launch_record(kernel))
    shapes = {"U": (3, 4, 8, 64), "W": (2, 7, 16, 32), "out": (20,)}
    views = {name: view_of(np.zeros(shape, np.float32), name) for name, shape in shapes.items()}
    sizes, _ = contract.sizes(contract.laid(views))
    blocks = {"blocks_U": 3, "blocks_W": 2, "chunks_U": 4, "chunks_W": 7}
    assert sizes.items() >= loop.meaning.all_sizes(blocks | {"n": 20}).items()
    assert (sizes["n"], sizes["k"]) == (20, 7 * 32)
    assert loop.meaning.all_sizes(blocks)["n"] == 3 * 8
