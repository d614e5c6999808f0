"""The witness beside a code object of ours: our proof, for other checkers."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeloom.cli import emit as command
from pipeloom.cli.main import main
from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.judge.emulate import EmulateError
from tests.unit.write.programs import loading_ahead

WAIT = "s_waitcnt vmcnt(0)"


def test_every_executed_wait_of_our_own_kernel_has_a_reason(tmp_path: Path) -> None:
    for wheel in ("ziglang", "tinygrad"):
        if importlib.util.find_spec(wheel) is None:
            pytest.skip(f"the {wheel} wheel is not installed")
    path = tmp_path / "k.hsaco"
    assert main(["emit", "single_buffer", "--dtype", "bf16", "-o", str(path)]) == 0
    plain = json.loads((tmp_path / "k.witness.json").read_text())
    assert plain["verdict"] == "proved"
    assert plain["summary"].startswith("PROVED for every trip count")
    assert plain["lds"]
    assert all(wait["orders"] for wait in plain["waits"][:-1])


def test_without_a_run_there_is_no_witness_but_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ziglang")

    def refuse(_: object, **__: object) -> object:
        raise EmulateError("no emulator here")

    monkeypatch.setattr("pipeloom.drive.witnessing.emitted_witness", refuse)
    path = tmp_path / "k.hsaco"
    asked = ["emit", "single_buffer", "--dtype", "bf16", "-o", str(path)]
    assert main(asked) == 0
    assert "no emulator here" in capsys.readouterr().err
    assert main([*asked, "--witness"]) != 0
    assert main([*asked, "--no-witness", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["witness"] is None
    assert path.is_file()
    assert not path.with_suffix(".witness.json").exists()


def test_a_kernel_that_the_witness_finds_wrong_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The writer's own faults: here it forgets a wait of a program that is proved."""
    pytest.importorskip("ziglang")

    def forgetful(job: EmitJob) -> Emission:
        found = emit(job)
        text = found.kernel.text
        assert text.count(WAIT) == 1
        return replace(found, kernel=replace(found.kernel, text=text.replace(WAIT, "s_nop 0")))

    monkeypatch.setattr(command, "emit", forgetful)
    (tmp_path / "p.json").write_text(loading_ahead(unread=False).to_json())
    path = tmp_path / "k.hsaco"
    asked = ["emit", str(tmp_path / "p.json"), "-o", str(path)]
    assert main(asked) != 0
    assert "is RACE" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["p.json"]
    assert main([*asked, "--no-witness"]) == 0


def test_a_witness_is_of_a_code_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["emit", "single_buffer", "--witness"])
    assert ended.value.code == 2
    assert "--witness" in capsys.readouterr().err
