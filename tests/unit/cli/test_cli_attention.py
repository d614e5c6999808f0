"""Attention by its name: emitted with its launch contract, run against NumPy, judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main

SMALL = ["attention", "--d", "32", "--causal", "--set", "keys=32", "--waves", "2"]


def test_emit_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", *SMALL, "-o", str(tmp_path / "fa.hsaco")]) == 0
    record = json.loads((tmp_path / "fa.json").read_text())
    assert record["grid"] == ["batch * heads * group", "ceil(v / 32)", "ceil(q / 64)"]
    assert (record["k_min"], record["k_step"], record["verdict"]) == (0, 1, "PROVED")
    assert record["scalars"] == {"scale": 32**-0.5}
    assert record["positive"] == ["scale"]
    assert "stride_K_heads" in [a["name"] for a in record["arguments"]]
    sizes = [f"--size={size}" for size in ("q=70", "keys=45", "q_heads=4", "kv_heads=2")]
    assert main(["run", *SMALL, *sizes, "--timings", "1"]) == 0
    assert "heads=2 group=2: equal to NumPy" in capsys.readouterr().out


@pytest.mark.parametrize("setting", ["d=0", "waves=0", "keys=0"])
def test_sizes_are_checked(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "attention", "--set", setting]) != 0
    assert setting[:-2] in capsys.readouterr().err


@pytest.mark.parametrize("scale", ["0", "-0.5", "nan", "inf", "1e-300", "1e30"])
def test_a_scale_that_is_not_positive_is_refused(
    scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *SMALL, "--scalar", f"scale={scale}"]) == 1
    assert "relies on a positive 'scale'" in capsys.readouterr().err
