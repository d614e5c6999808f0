"""``pipeloom emit --witness``: our proof, for other checkers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main


def test_every_executed_wait_of_our_own_kernel_has_a_reason(tmp_path: Path) -> None:
    for wheel in ("ziglang", "tinygrad"):
        if importlib.util.find_spec(wheel) is None:
            pytest.skip(f"the {wheel} wheel is not installed")
    path = tmp_path / "k.hsaco"
    assert main(["emit", "single_buffer", "--tile", "bf16", "-o", str(path), "--witness"]) == 0
    plain = json.loads((tmp_path / "k.witness.json").read_text())
    assert plain["verdict"] == "proved"
    assert plain["summary"].startswith("PROVED for every trip count")
    assert plain["lds"]
    assert all(wait["orders"] for wait in plain["waits"][:-1])


def test_a_witness_is_of_a_code_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["emit", "single_buffer", "--witness"])
    assert ended.value.code == 2
    assert "--witness" in capsys.readouterr().err
