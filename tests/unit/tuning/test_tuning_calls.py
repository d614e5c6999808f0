"""``tune``, ``gemm`` and ``library``: as commands and from Python, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.emulate import load_code_object
from pipeloom.write.assemble import assemble_text

pytestmark = pytest.mark.usefixtures("short_search")


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipeloom.tuning import candidates

    monkeypatch.setattr(candidates, "SIDES", (32,))
    monkeypatch.chdir(tmp_path)
    assert main(["gemm", "64", "48", "128", "--jobs", "1", "-o", "k.hsaco"]) == 0
    assert "TFLOPS predicted" in capsys.readouterr().out
    record = json.loads((tmp_path / "k.json").read_text())
    assert record["verdict"] == "PROVED"
    assert record["predicted"]["m"] == 64
    assert load_code_object(str(tmp_path / "k.hsaco")).kernel(record["kernel"])
    assert main(["gemm", "32", "32", "8192", "--jobs", "1", "-o", "s.hsaco"]) == 0
    record = json.loads((tmp_path / "s.json").read_text())["then"]
    assert load_code_object(str(tmp_path / record["file"])).kernel(record["kernel"])
    asked = ["--batches", "2", "--bias", "--activation", "relu", "-o", "b.hsaco"]
    assert main(["gemm", "64", "48", "128", "--jobs", "1", *asked]) == 0
    record = json.loads((tmp_path / "b.json").read_text())
    assert {"bias", "bs_bias", "batches"} <= {a["name"] for a in record["arguments"]}
    assert (record["predicted"]["batches"], record["predicted"]["finish"]) == (2, "bias, relu")
    assert (
        main(["gemm", "64", "48", "128", "--jobs", "1", "--dtype", "mxfp8", "-o", "x.hsaco"]) == 0
    )
    record = json.loads((tmp_path / "x.json").read_text())
    assert {"blocks_A", "ld_blocks_B"} <= {a["name"] for a in record["arguments"]}
    assert main(["gemm", "64", "48", "129", "--jobs", "1", "-o", "odd.hsaco"]) == 0
    assert "gemm_pack_columns_16, then " in capsys.readouterr().out
    record = json.loads((tmp_path / "odd.json").read_text())
    assert record["predicted"]["parts_us"]["copies to aligned rows"] > 0
    for copy in record["before"].values():
        assert load_code_object(str(tmp_path / copy["file"])).kernel(copy["kernel"])
    _run_by_their_records(tmp_path, capsys)
    ops = ["--torch", "--name", "my_gemms"]
    assert main(["library", "64x48x128", "--jobs", "1", "-o", "lib", "--json", *ops]) == 0
    assert (tmp_path / "lib" / "my_gemms" / "ops.py").is_file()
    named = {Path(one) for one in json.loads(capsys.readouterr().out)["files"]}
    written = (tmp_path / "lib").rglob("*")
    assert named == {one.relative_to(tmp_path) for one in written if one.is_file()}
    assert main(["tune", "64x48x128", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["tuned"]
    assert found["block"]["m"] == 32
    assert main(["tune", "64x48x128", "-o", "found.json"]) == 0
    assert json.loads((tmp_path / "found.json").read_text())["tuned"] == [found]
    assert "64x48x128" in capsys.readouterr().out
    _same_from_python(tmp_path, found, capsys)


def _run_by_their_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever ``gemm`` wrote, with its copies and its sums, is run at its own sizes or others."""
    once = ["--timings", "1", "--json"]
    for name, smaller in (("k", []), ("s", ["--k", "512"]), ("b", []), ("x", []), ("odd", [])):
        capsys.readouterr()
        assert main(["run", f"{name}.hsaco", *once, *smaller]) == 0
        ran = json.loads(capsys.readouterr().out)
        record = json.loads((folder / f"{name}.json").read_text())
        sizes = {dim: record["predicted"][dim] for dim in ("m", "n", "k", "batches")}
        assert ran["sizes"] == {**sizes, **({"k": 512} if smaller else {})}
        assert (ran["kernel"], ran["runs"], ran["wrong"]) == (record["kernel"], 1, [])
        assert ran["instructions"] > 0
    assert main(["run", "k.hsaco", "--max-instructions", "10"]) == 1
    assert main(["run", "k.hsaco", "--size", "rows=3"]) == 1
    assert main(["run", "k.hsaco", "--size", "batches=3"]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["run", "k.hsaco", "--sync", "proven"])
    with pytest.raises(SystemExit, match="2"):
        main(["run", "k.hsaco", "--scalar", "alpha=3"])
    code = bytearray((folder / "k.hsaco").read_bytes())
    code[-1] ^= 1
    (folder / "other.hsaco").write_bytes(code)
    record = json.loads((folder / "k.json").read_text())
    (folder / "other.json").write_text(json.dumps(record))
    assert main(["run", "other.hsaco"]) == 1
    changes: list[dict[str, Any]] = [{"sizes": {}}, {"gemm": {"BM": "wide"}}]
    for change in changes:
        told = {**record, "made_from": {**record["made_from"], **change}}
        (folder / "other.json").write_text(json.dumps(told))
        assert main(["run", "other.hsaco"]) == 1
    capsys.readouterr()
    del record["made_from"]
    (folder / "other.json").write_text(json.dumps(record))
    assert main(["run", "other.hsaco"]) == 1
    assert "no record" not in capsys.readouterr().err
    (folder / "odd_pack_columns_16.hsaco").unlink()
    assert main(["run", "odd.hsaco"]) == 1
    capsys.readouterr()


def _same_from_python(
    folder: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """``pl.tune``, ``pl.gemm`` and ``pl.library`` find and write what the commands did."""
    assert [one.to_dict() for one in pl.tune((64, 48, 128))] == [told]
    made = pl.gemm(64, 48, 128)
    assert made.run(sizes={"m": 33, "k": 64}).ok
    kernels: list[Any] = [made, made.kernel]
    for given in kernels:
        with pytest.raises(ConfigError) as error:
            pl.run(given, sizes={"m": 64})
        assert ".run(" in str(error.value.hint)
    for path in made.write(folder / "p.hsaco"):
        other = folder / path.name.replace("p", "k", 1)
        assert path.read_bytes().replace(b'"p.hsaco"', b'"k.hsaco"') == other.read_bytes()
    assert main(["gemm", "64", "48", "128", "--jobs", "1", "-o", "k.s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["k.s"]
    (text,) = made.assembly().values()
    assert (folder / "k.s").read_text() == text
    assert load_code_object(assemble_text(text, "gfx950")).kernel(made.kernel.name)
    written = pl.library(["64x48x128"], folder / "again", torch=True, name="my_gemms")
    assert written.kernels == 1
    for one in (made, made.kernel, made.tuned, written):
        assert len(repr(one)) < 500
    for path in written.files:
        assert path.read_bytes() == (folder / "lib" / path.relative_to(written.folder)).read_bytes()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"shapes": (64, 48)}, "shapes"),
        ({"shapes": [(64, 48, 1.5)]}, "shapes"),
        ({"shapes": "64x48x0"}, "m|n|k"),
        ({"on": "cloud"}, "on"),
        ({"address": "auto"}, "on"),
        ({"tokens": [64]}, "tokens"),
        ({"activation": "gleu"}, "activation"),
        ({"dtype": "fp7"}, "dtype"),
        ({"close": 9.0}, "close"),
    ],
)
def test_calls_that_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ScheduleError) as error:
        pl.tune(**{"shapes": "64x48x128", **options})
    assert str(error.value.field) in field.split("|")
    assert error.value.hint


@pytest.mark.parametrize(
    ("sizes", "options", "field"),
    [
        ((64, 48, 128), {"dtyp": "fp8"}, "dtyp"),
        ((64.0, 48, 128), {}, "m"),
        ((64, 48, 128), {"dtype": "mxfp4", "target": "MI300X"}, "dtype"),
        ((64, 48, 0), {}, "k"),
    ],
)
def test_products_that_are_refused(
    sizes: tuple[Any, Any, Any], options: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as error:
        pl.gemm(*sizes, **options)
    assert str(error.value.field).endswith(field)
    assert error.value.hint


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["tune", "64x48"], 1),
        (["tune", "64x48x128", "--dtype", "fp7"], 1),
        (["tune", "64x48x128", "--target", "H100"], 1),
        (["tune", "64x48x128", "--layout", "XY"], 1),
        (["tune", "64x48x128", "--close", "9"], 1),
        (["gemm", "64", "48", "128", "-o", "k.txt"], 1),
        (["gemm", "64", "48", "128", "--dtype", "mxfp8", "--target", "MI300X"], 1),
        (["library", "64x48x128", "-o", "/dev/null/lib"], 1),
        (["library", "64x48x128", "-o", "lib", "--name", "torch"], 1),
        (["tune", "64x48x128", "--page", "/dev/null/page"], 1),
        (["tune", "64x48x128", "--seconds", "nan"], 2),
        (["tune"], 2),
        (["tune", "64x48x128", "--jobs", "0"], 2),
        (["tune", "64x48x128", "--activation", "gleu"], 2),
        (["tune", "64x48x128", "--batches", "0"], 2),
        (["tune", "64x48x128", "--address", "auto"], 2),
        (["tune", "llama-3-8b", "--tokens", "x"], 2),
        (["gemm", "64", "48", "-1"], 2),
        (["gemm", "64x48x128"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes(
    command: list[str], code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        found = main(command)
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert capsys.readouterr().err


@pytest.mark.parametrize("sizes", [(0, 8, 8), (8, 0, 8), (8, 8, 0), (1, 1, 1)])
def test_a_product_has_at_least_one_of_each(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(pl.ScheduleError) as caught:
        pl.gemm(*sizes, nonsense=1)
    assert caught.value.field == ("nonsense" if min(sizes) else f"gemm.{'mnk'[sizes.index(0)]}")
