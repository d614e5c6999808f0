"""``emit`` and ``run`` on the command line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from pipeloom import CompiledSchedule, OrderError, PipelineSchedule, compile_schedule
from pipeloom.cli.main import main
from pipeloom.drive import opening

needs_assembler = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or importlib.util.find_spec("tinygrad") is None,
    reason="assembling needs the ziglang wheel, emulating the tinygrad wheel",
)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_emit_prints_assembly(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "emit", "ping_pong")
    assert code == 0
    assert "PROVED" in out.splitlines()[0]
    assert ".amdhsa_kernel" in out
    assert "v_mfma_f32_16x16x32_bf16" in out


def test_emit_refuses_what_is_not_proved(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "emit", "ping_pong", "--sync", "reference")
    assert code == 1
    assert "is TIMING, so it is not emitted" in err
    assert "--allow-timing" in err
    code, _, _ = _run(capsys, "emit", "ping_pong", "--sync", "reference", "--allow-timing")
    assert code == 0


def test_emit_refuses_another_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "emit", "ping_pong", "-o", str(tmp_path / "k.elf"))
    assert code == 1
    assert "use .s for assembly or .hsaco" in err


@needs_assembler
def test_emit_writes_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, binary = tmp_path / "k.s", tmp_path / "k.hsaco"
    assert _run(capsys, "emit", "four_wave", "-o", str(text))[0] == 0
    code, out, _ = _run(capsys, "emit", "four_wave", "-o", str(binary), "--json")
    assert code == 0
    data = json.loads(out)
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
    code, out, _ = _run(capsys, "run", "ping_pong", *tile, *problem)
    assert code == 0
    assert "equal to NumPy in all 2 timings" in out
    assert "VGPRs" in out


@needs_assembler
def test_run_json_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(
        capsys, "run", "single_buffer", "--target", "gfx942", "--timings", "1", "--json"
    )
    assert code == 0
    assert json.loads(out)["wrong"] == []
    code, _, err = _run(capsys, "run", "ping_pong", "--k", "100")
    assert code == 1
    assert "100" in err
    assert "hint: " in err
    code, _, err = _run(capsys, "emit", "ping_pong", "--target", "gfx90a")
    assert code == 1
    assert "gfx90a" in err


# ------------------------------------------------------------------- which chip

TINY = ["--set", "BM=64", "--set", "BN=64"]


@pytest.mark.usefixtures("short_search")
def test_a_loop_is_pipelined_for_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "k.s")
    grid = [*TINY, "-o", path]
    code, out, _ = _run(capsys, "emit", "gemm_tile", "--target", "gfx942", *grid)
    assert code == 0
    assert "for gfx942, 64x64x32 bf16" in out
    assert "v_mfma_f32_16x16x16_bf16" in Path(path).read_text()
    # and the target follows where only the schedule names a chip
    code, out, _ = _run(capsys, "emit", "gemm_tile", "--set", "arch=MI300X", *grid)
    assert code == 0
    assert "for gfx942, 64x64x32 bf16" in out
    code, out, _ = _run(capsys, "emit", "gemm_tile", "--dtype", "fp8", *grid)
    assert code == 0
    assert "for gfx950, 64x64x128 fp8" in out


@pytest.mark.usefixtures("short_search")
def test_another_target_than_the_schedules_chip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = ["--set", "arch=gfx950", "--target", "gfx942"]
    code, _, err = _run(capsys, "emit", "gemm_tile", *TINY, *chip)
    assert code == 1
    assert "is derived for arch gfx950, not for gfx942" in err
    path = str(tmp_path / "c.json")
    assert _run(capsys, "compile", "gemm_tile", *TINY, "--set", "arch=gfx942", "-o", path)[0] == 0
    code, _, err = _run(capsys, "emit", path, "--target", "gfx950")
    assert code == 1
    assert "is a program for gfx942, which --arch gfx950 cannot change" in err
    code, out, _ = _run(capsys, "emit", path, "-o", str(tmp_path / "k.s"))
    assert code == 0
    assert "for gfx942, 64x64x32 bf16: sync as it is" in out


@needs_assembler
@pytest.mark.usefixtures("short_search")
def test_run_a_loop_on_the_other_chip(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--target", "gfx942", "--m", "60", "--n", "64", "--timings", "1"]
    spec = TINY
    for k in ("224", "256"):  # 7 and 8 K tiles: the epilogue is made for the K at hand
        code, out, _ = _run(capsys, "run", "gemm_tile", *spec, *problem, "--k", k)
        assert code == 0
        assert "equal to NumPy in 1 timing " in out
    odd = [*spec, "--set", "k_tiles=7"]
    code, _, err = _run(capsys, "run", "gemm_tile", *odd, *problem, "--k", "256")
    assert code == 1
    assert "k is 256, but the kernel starts with" in err
    code, _, err = _run(capsys, "run", "gemm_tile", *spec, *problem, "--k", "100")
    assert code == 1
    assert "k is 100, but the kernel starts with" in err


# ---------------------------------------------------------------- whose waits, which tile


def test_emit_keeps_the_barriers_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = _run(capsys, "emit", "ping_pong")[1]
    assert chosen == _run(capsys, "emit", "ping_pong", "--sync", "repaired", "--reorder")[1]
    assert chosen != _run(capsys, "emit", "ping_pong", "--sync", "proven")[1]


def test_emit_derives_barriers_too_where_they_cannot_be_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def build(schedule: PipelineSchedule, **options: Any) -> CompiledSchedule:
        if options["sync"] == "repaired":
            raise OrderError("no such order", hint="none")
        return compile_schedule(schedule, **options)

    monkeypatch.setattr(opening, "compile_schedule", build)
    code, out, err = _run(capsys, "emit", "ping_pong", "-o", str(tmp_path / "k.s"))
    assert code == 0
    assert "note: the barriers cannot be kept (no such order)" in err
    assert "sync proven, 8 barriers per trip, PROVED" in out


def test_one_schedule_through_all_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kernel = str(tmp_path / "c.json"), str(tmp_path / "k.s")
    for tile, text, name in (
        ("bf16", "256x256x64 bf16", "ping_pong_bf16_bf16"),
        ("fp8", "256x256x128 fp8", "ping_pong_fp8_f32"),
    ):
        assert text in _run(capsys, "compile", "ping_pong", "--dtype", tile, "-o", path)[1]
        code, out, _ = _run(capsys, "simulate", path, "--k-tiles", "4")
        assert (code, out.splitlines()[0]) == (0, f"ping_pong, {text}")
        code, out, _ = _run(capsys, "emit", path, "-o", kernel)
        assert code == 0
        assert out.startswith(f"{name} for gfx950, {text}: sync repaired, 16 barriers")


def test_emit_takes_a_proved_file_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c.json")
    _run(capsys, "compile", "ping_pong", "--dtype", "bf16", "--sync", "proven", "-o", path)
    code, out, _ = _run(capsys, "emit", path, "-o", str(tmp_path / "k.s"))
    assert code == 0
    assert "sync as compiled, 8 barriers per trip, PROVED" in out


def test_a_tile_and_a_dtype_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c.json")
    _run(capsys, "compile", "ping_pong", "--dtype", "fp8", "-o", path)
    code, _, err = _run(capsys, "emit", path, "--dtype", "bf16")
    assert code == 1
    assert (
        "emit it with --dtype fp8, or compile it anew: pipeloom compile ping_pong --dtype bf16"
        in err
    )
    _run(capsys, "compile", "ping_pong", "-o", path)
    code, _, err = _run(capsys, "emit", path)
    assert code == 1
    assert "has no tile shape" in err
    assert "--dtype bf16" in err


# ---------------------------------------------------------------- races and wrong results


@needs_assembler
def test_allowing_timing_leaves_the_race_check_on(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "ping_pong", "--sync", "reference", "--allow-timing", "--timings", "1"]
    code, out, _ = _run(capsys, *command)
    assert code == 5
    assert "lds-race" in out
    assert "WRONG in 1 of 1 timing (" in out
    data = json.loads(_run(capsys, *command, "--json")[1])
    assert data["race_check"] is True
    (trial,) = data["wrong"]
    assert (trial["m"], trial["n"], trial["k"], trial["seed"]) == (256, 256, 512, 0)
    assert any("lds-race" in finding for finding in trial["findings"])
    code, out, _ = _run(capsys, *command, "--no-race-check")
    assert "race check off" in out
    assert "lds-race" not in out


@pytest.mark.parametrize("timings", ["0", "-1", "x"])
def test_timings_are_at_least_one(timings: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "ping_pong", f"--timings={timings}"])
    assert caught.value.code == 2
    assert "is not a whole number of 1 or more" in capsys.readouterr().err
