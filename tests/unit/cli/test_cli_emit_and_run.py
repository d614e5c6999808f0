"""``emit`` and ``run`` on the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pipeloom import CompiledSchedule, OrderError, PipelineSchedule, compile_schedule
from pipeloom.cli.main import main
from pipeloom.drive import opening
from tests.unit.cli.ran import ran

needs_assembler = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or importlib.util.find_spec("tinygrad") is None,
    reason="assembling needs the ziglang wheel, emulating the tinygrad wheel",
)


def test_emit_prints_assembly(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "emit", "ping_pong")
    assert done.code == 0
    assert "PROVED" in done.out.splitlines()[0]
    assert ".amdhsa_kernel" in done.out
    assert "v_mfma_f32_16x16x32_bf16" in done.out


def test_emit_refuses_what_is_not_proved(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "emit", "ping_pong", "--sync", "reference")
    assert (done.code, done.out, done.field) == (1, "", "schedule")
    assert all(word in done.err for word in ("TIMING", "--allow-timing"))
    assert ran(capsys, "emit", "ping_pong", "--sync", "reference", "--allow-timing").code == 0


def test_emit_refuses_another_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "emit", "ping_pong", "-o", str(tmp_path / "k.elf"))
    assert (done.code, list(tmp_path.iterdir())) == (1, [])
    assert all(ending in done.err for ending in ("k.elf", ".s ", ".hsaco"))


@needs_assembler
def test_emit_writes_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, binary = tmp_path / "k.s", tmp_path / "k.hsaco"
    assert ran(capsys, "emit", "four_wave", "-o", str(text)).code == 0
    data = ran(capsys, "emit", "four_wave", "-o", str(binary), "--json").data
    assert data["target"] == "gfx950"
    assert (data["sync"], data["verdict"], data["barriers"]) == ("sync repaired", "PROVED", 4)
    assert all(type(value) is int for value in data["resources"].values())
    assert data["resources"]["waves"] == 4
    assert text.read_text().startswith("// four_wave")
    assert binary.read_bytes()[:4] == b"\x7fELF"


@needs_assembler
def test_run_compares_with_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    tile = ["--set", "geometry.BM=128", "--set", "geometry.BN=128"]
    problem = ["--m", "100", "--n", "70", "--k", "256", "--timings", "2"]
    data = ran(capsys, "run", "ping_pong", *tile, *problem, "--json").data
    assert (data["runs"], data["wrong"]) == (2, [])
    assert data["instructions"] > 0
    assert data["resources"]["vgprs"] > 0


@needs_assembler
def test_run_json_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "run", "single_buffer", "--target", "gfx942", "--timings", "1", "--json")
    assert (done.code, done.data["wrong"]) == (0, [])
    done = ran(capsys, "run", "ping_pong", "--k", "100")
    assert (done.code, done.field) == (1, "k")
    done = ran(capsys, "emit", "ping_pong", "--target", "gfx90a")
    assert (done.code, done.field) == (1, "arch")


# ------------------------------------------------------------------- which chip


def told(data: dict[str, Any]) -> tuple[str, str]:
    """The chip, and the tile as other commands call it."""
    sizes = "x".join(str(data["tile"][dim]) for dim in ("m", "n", "k"))
    return data["target"], f"{sizes} {data['dtype']}"


TINY = ["--set", "BM=64", "--set", "BN=64"]


@pytest.mark.usefixtures("short_search")
def test_a_loop_is_pipelined_for_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "k.s")
    grid = [*TINY, "-o", path, "--json"]
    data = ran(capsys, "emit", "gemm_tile", "--target", "gfx942", *grid).data
    assert told(data) == ("gfx942", "64x64x32 bf16")
    assert "v_mfma_f32_16x16x16_bf16" in Path(path).read_text()
    # and the target follows where only the schedule names a chip
    data = ran(capsys, "emit", "gemm_tile", "--set", "arch=MI300X", *grid).data
    assert told(data) == ("gfx942", "64x64x32 bf16")
    data = ran(capsys, "emit", "gemm_tile", "--dtype", "fp8", *grid).data
    assert told(data) == ("gfx950", "64x64x128 fp8")


@pytest.mark.usefixtures("short_search")
def test_another_target_than_the_schedules_chip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = ["--set", "arch=gfx950", "--target", "gfx942"]
    done = ran(capsys, "emit", "gemm_tile", *TINY, *chip)
    assert (done.code, done.field) == (1, "arch")
    path = str(tmp_path / "c.json")
    assert ran(capsys, "compile", "gemm_tile", *TINY, "--set", "arch=gfx942", "-o", path).code == 0
    done = ran(capsys, "emit", path, "--target", "gfx950")
    assert done.code == 1
    assert all(chip in done.err for chip in ("gfx942", "--arch gfx950"))
    data = ran(capsys, "emit", path, "-o", str(tmp_path / "k.s"), "--json").data
    assert told(data) == ("gfx942", "64x64x32 bf16")
    assert data["sync"] == "sync as it is"


@needs_assembler
@pytest.mark.usefixtures("short_search")
def test_run_a_loop_on_the_other_chip(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--target", "gfx942", "--m", "60", "--n", "64", "--timings", "1"]
    spec = TINY
    for k in ("224", "256"):  # 7 and 8 K tiles: the epilogue is made for the K at hand
        data = ran(capsys, "run", "gemm_tile", *spec, *problem, "--k", k, "--json").data
        assert (data["runs"], data["wrong"]) == (1, [])
    odd = [*spec, "--set", "k_tiles=7"]
    for settings, k in ((odd, "256"), (spec, "101")):  # a loop that adds up takes any K
        data = ran(capsys, "run", "gemm_tile", *settings, *problem, "--k", k, "--json").data
        assert (data["runs"], data["wrong"]) == (1, [])


# ---------------------------------------------------------------- whose waits, which tile


def test_emit_keeps_the_barriers_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ran(capsys, "emit", "ping_pong").out
    assert chosen == ran(capsys, "emit", "ping_pong", "--sync", "repaired", "--reorder").out
    assert chosen != ran(capsys, "emit", "ping_pong", "--sync", "proven").out


def test_emit_derives_barriers_too_where_they_cannot_be_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(schedule: PipelineSchedule, **options: Any) -> CompiledSchedule:
        if options["sync"] == "repaired":
            raise OrderError("no such order", hint="none")
        return compile_schedule(schedule, **options)

    monkeypatch.setattr(opening, "compile_schedule", build)
    done = ran(capsys, "emit", "ping_pong", "-o", str(tmp_path / "k.s"), "--json")
    assert done.err.startswith("note: ")
    assert "no such order" in done.err
    data = done.data
    assert (data["sync"], data["barriers"], data["verdict"]) == ("sync proven", 8, "PROVED")


def test_one_schedule_through_all_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kernel = str(tmp_path / "c.json"), str(tmp_path / "k.s")
    for tile, text, name in (
        ("bf16", "256x256x64 bf16", "ping_pong_bf16_bf16"),
        ("fp8", "256x256x128 fp8", "ping_pong_fp8_f32"),
    ):
        assert text in ran(capsys, "compile", "ping_pong", "--dtype", tile, "-o", path).out
        assert ran(capsys, "simulate", path, "--k-tiles", "4", "--json").data["tile"] == text
        data = ran(capsys, "emit", path, "-o", kernel, "--json").data
        assert (data["kernel"], *told(data)) == (name, "gfx950", text)
        assert (data["sync"], data["barriers"]) == ("sync repaired", 16)


def test_emit_takes_a_proved_file_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c.json")
    ran(capsys, "compile", "ping_pong", "--dtype", "bf16", "--sync", "proven", "-o", path)
    data = ran(capsys, "emit", path, "-o", str(tmp_path / "k.s"), "--json").data
    assert (data["sync"], data["barriers"], data["verdict"]) == ("sync as compiled", 8, "PROVED")


def test_a_tile_and_a_dtype_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c.json")
    ran(capsys, "compile", "ping_pong", "--dtype", "fp8", "-o", path)
    done = ran(capsys, "emit", path, "--dtype", "bf16")
    assert (done.code, done.field) == (1, "dtype")
    assert "pipeloom compile ping_pong --dtype bf16" in done.err
    ran(capsys, "compile", "ping_pong", "-o", path)
    done = ran(capsys, "emit", path)
    assert (done.code, done.field) == (1, "geometry")
    assert "--dtype bf16" in done.err


# ---------------------------------------------------------------- races and wrong results


@needs_assembler
def test_allowing_timing_leaves_the_race_check_on(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "ping_pong", "--sync", "reference", "--allow-timing", "--timings", "1"]
    done = ran(capsys, *command, "--json")
    data = done.data
    assert (done.code, data["race_check"], data["runs"]) == (5, True, 1)
    (trial,) = data["wrong"]
    assert (trial["m"], trial["n"], trial["k"], trial["seed"]) == (256, 256, 512, 0)
    assert any("lds-race" in finding for finding in trial["findings"])
    data = ran(capsys, *command, "--no-race-check", "--json").data
    assert data["race_check"] is False
    assert not [finding for trial in data["wrong"] for finding in trial["findings"]]


@pytest.mark.parametrize("timings", ["0", "-1", "x"])
def test_timings_are_at_least_one(timings: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "ping_pong", f"--timings={timings}"])
    assert caught.value.code == 2
    assert "--timings" in capsys.readouterr().err
