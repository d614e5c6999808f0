"""Chip files and measurement files: written, read back, taken by commands, refused where wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pipeloom as pl
from pipeloom.calibrate import read_measurements
from pipeloom.calibrate.measurements import measurements_text
from pipeloom.calibrate.probes import PROBES
from pipeloom.drive.calibrating import CalibrateJob, calibrate_job, read_measured
from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.sources import Source
from pipeloom.drive.trial import run_program
from pipeloom.errors import ScheduleError, SpecError
from pipeloom.machine.chip_file import UNREAD, chip_text, read_chip
from pipeloom.machine.facts import FactKind
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target
from pipeloom.machine_code import simulate_emitted
from pipeloom.write import assemble
from tests.unit.cli.ran import ran
from tests.unit.thread_trace.traces import put, trace_files

FACTS = {"lds_latency": (80.0, 'a "quoted" source'), "global_bytes_per_clk": (41.5, "us")}


def test_a_chip_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(chip_text(GFX950, FACTS, "mine"))
    found = read_chip(path)
    assert (found.arch, found.chip) == ("gfx950", "mine")
    assert (found.lds_latency.value, found.lds_latency.kind) == (80, FactKind.MEASURED)
    assert found.lds_latency.source == FACTS["lds_latency"][1]
    assert found.global_bytes_per_clk.value == 41.5
    assert found.branch_cycles == GFX950.branch_cycles


def test_every_fact_of_a_chip_file_is_read_somewhere() -> None:
    """Or refused, so that no file sets a number that changes nothing."""
    text = "\n".join(p.read_text() for p in Path(pl.__file__).parent.rglob("*.py"))
    unread = {n for n, _ in GFX950.facts() if f".{n}" not in text and not n.endswith("_limit")}
    assert unread == set(UNREAD)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base = ", "not TOML"),
        ('base = "gfx1"', "unknown architecture"),
        ("chip = 'x'", "lacks base"),
        ('base = "gfx950"\n[facts.nothing]\nvalue = 1\nsource = ""', "no machine constant"),
        ('base = "gfx950"\n[facts.lds_latency]\nvalue = -1\nsource = ""', "negative"),
        ('base = "gfx950"\n[facts.lds_latency]\nvalue = "x"\nsource = ""', "value"),
        ('base = "gfx950"\n[facts.l2_mib_per_xcd]\nvalue = 8\nsource = ""', "no model reads"),
        ('base = "gfx950"\n[facts.wave_lanes]\nvalue = 32\nsource = ""', "waves of 32 lanes"),
        ('base = "gfx950"\nmore = 1', "no key 'more'"),
    ],
)
def test_a_wrong_chip_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ScheduleError, match=said):
        read_chip(path)


def test_a_chip_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read"):
        read_chip(tmp_path / "none.toml")


def test_commands_take_a_chip_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(chip_text(GFX950, {"branch_cycles": (40.0, "test")}))
    stream = ("simulate", "--stream", "V4 branch", "--json")
    usual = ran(capsys, *stream).data["steady_cycles_per_iteration"]
    mine = ran(capsys, *stream, "--target-file", str(path)).data["steady_cycles_per_iteration"]
    assert mine == usual + 20
    named = ("simulate", "single_buffer", "--k-tiles", "8", "--json")
    assert ran(capsys, *named, "--target-file", str(path)).code == 0
    assert ran(capsys, *named, "--arch", str(tmp_path / "none.toml")).field == "arch"


def test_a_program_takes_a_chip_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chip, program = tmp_path / "slow.toml", tmp_path / "program.json"
    chip.write_text(chip_text(GFX950, {"branch_cycles": (40.0, "test")}))
    loop = pl.Loop("row_sums", over="k")
    x = loop.stream("x", pl.F32, m=64, k=32)
    total = loop.carry("total", pl.F32, start=0, m=64)
    total += x.sum("k")
    loop.store("out", total)
    program.write_text(pl.pipeline(loop, GFX950, {"m": 1}).to_json())
    asked = ("simulate", str(program), "--json")
    usual = ran(capsys, *asked, "--arch", "gfx950").data["steady_cycles_per_iteration"]
    assert usual == ran(capsys, *asked).data["steady_cycles_per_iteration"]
    mine = ran(capsys, *asked, "--target-file", str(chip)).data["steady_cycles_per_iteration"]
    assert mine > usual
    other = tmp_path / "other.toml"
    other.write_text(chip_text(GFX942, {"branch_cycles": (40.0, "test")}))
    assert ran(capsys, *asked, "--target-file", str(other)).field == "arch"


def put_measured(path: Path, true: Target, count: int) -> None:
    """What a chip with these constants would take for the first probes, as a file."""
    loops = (one.measured(true.arch, one.modelled(true), "simulated") for one in PROBES[:count])
    path.write_text(measurements_text(tuple(loops)))


def test_the_command_refits_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    true = GFX950.with_value("branch_cycles", 36, "test")
    results, chip = tmp_path / "results.json", tmp_path / "mine.toml"
    put_measured(results, true, 3)
    found = ran(capsys, "calibrate", str(results), "-o", str(chip), "--json")
    assert found.data["changed"] == ["branch_cycles"]
    low, high = (found.data["constants"]["branch_cycles"][end] for end in ("low", "high"))
    assert low <= 36 <= high
    assert read_chip(chip).branch_cycles.kind is FactKind.MEASURED
    listed = ran(capsys, "calibrate", "--probes", str(results), "--json").data["probes"]
    assert [row["measured"] is not None for row in listed] == [n < 3 for n in range(len(PROBES))]


def test_a_thread_trace_is_a_measurement(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    put_measured(results, GFX950, 1)
    trace = put(tmp_path, trace_files())
    found = calibrate_job(CalibrateJob((str(results), str(trace))))
    assert found.fit.before[str(trace)] == pytest.approx(64 / 40 - 1)


def test_a_timed_kernel_is_a_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, records = tmp_path / "k.hsaco", tmp_path / "records.bin"
    assert (
        ran(capsys, "emit", "single_buffer", "--timed", "--no-witness", "-o", str(code)).code == 0
    )
    kernel = emit(EmitJob(Source("single_buffer"), timed=True)).kernel
    sizes = {"m": 128, "n": 128, "k": 512}
    timings = run_program(kernel, assemble(kernel), sizes=sizes).timings
    assert timings is not None
    records.write_bytes(timings.words.tobytes())
    (found,) = read_measured(f"{code}={records}", GFX950)
    assert found.measured == timings.cycles_per_trip
    assert found.modelled(GFX950) == simulate_emitted(kernel).steady_cycles_per_iteration
    with pytest.raises(SpecError, match="cannot read the records"):
        next(read_measured(f"{code}={tmp_path / 'none'}", GFX950))
    sizes["k"] = kernel.k_min
    timings = run_program(kernel, assemble(kernel), sizes=sizes).timings
    assert timings is not None
    records.write_bytes(timings.words.tobytes())
    with pytest.raises(SpecError, match=r"no wave .* looped"):
        next(read_measured(f"{code}={records}", GFX950))
    code.write_bytes(code.read_bytes() + b"changed")
    with pytest.raises(SpecError, match="not what single_buffer gives today"):
        next(read_measured(f"{code}={records}", GFX950))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "x"}, "format"),
        ({"loops": [{"id": "a"}]}, "lacks"),
        ({"more": 1}, "no key"),
    ],
)
def test_wrong_measurements_are_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"format": "pipeloom-measured-1", "loops": [], **change}))
    with pytest.raises(SpecError, match=said):
        read_measurements(path)
