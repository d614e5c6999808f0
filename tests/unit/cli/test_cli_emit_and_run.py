"""``emit`` and ``run`` on the command line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main

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
    assert json.loads(out)["target"] == "gfx950"
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
