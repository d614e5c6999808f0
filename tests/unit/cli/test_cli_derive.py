"""``pipeloom derive``: progress, result, program; and who cannot be derived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeloom.cli.main import main
from pipeloom.drive import deriving, loop_cycles
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Program

LOOPS = """
import pipeloom as pl
small = pl.kernels.gemm(64, 64, 64)
large = pl.kernels.gemm(128, 128, 64)
rows = pl.kernels.row_sum()
"""


@pytest.fixture
def loops(tmp_path: Path) -> str:
    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    return str(path)


def test_derive_writes_a_proved_program(
    loops: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    assert main(["derive", f"{loops}:small", "-o", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    program = Program.from_json(file.read_text())
    assert verify(program).proved
    assert told["program"] == program.content_hash
    assert told["bound"] <= told["cycles"] <= 1.03 * told["bound"]
    assert main(["derive", f"{loops}:small"]) == 0
    assert "PROVED" in capsys.readouterr().out
    assert main(["verify", f"{loops}:small"]) == 0
    capsys.readouterr()
    assert main(["run", f"{loops}:small", "--timings", "1", "--m", "50"]) == 0
    assert "equal to NumPy in 1 timing" in capsys.readouterr().out
    assert main(["run", str(file), "--timings", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wrong"] == []


def test_a_loop_without_a_product_is_ordered_by_the_modulo_solver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of the README: its bound is that of the memory, 24 cycles a row."""
    own = Path(__file__).parents[3] / "examples" / "own_kernel.py"
    file = tmp_path / "p.json"
    assert main(["derive", f"{own}:row_sum", "--json", "-o", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    program = Program.from_json(file.read_text())
    assert told["program"] == program.content_hash
    assert told["ordered"]["cycles"] == told["ordered"]["bound"] == 24
    assert verify(program).proved


def test_what_cannot_be_derived(loops: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["derive", f"{loops}:pl"]) == 1
    assert main(["derive", "ping_pong"]) == 1
    assert "only loops are derived" in capsys.readouterr().err
    assert main(["derive", "gemm_tile", "--set", "depth=2"]) == 1
    assert "depth is for the modulo solver" in capsys.readouterr().err
    assert main(["derive", "gemm_tile", "--set", "work_limit=1"]) == 1
    assert "work_limit is for the modulo solver" in capsys.readouterr().err


def test_shipped_loops_are_derived_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written is what ``emit`` takes: masks in a loop of their own."""
    file = tmp_path / "p.json"
    small = ["--set", "rows=32", "--set", "keys=32", "--set", "d=64", "--waves", "1"]
    assert main(["derive", "attention", *small, "-o", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    program = Program.from_json(file.read_text())
    assert told["program"] == program.content_hash
    assert sum(s.trips is not None for s in program.groups[0].sections) == 2


def test_ctrl_c_keeps_the_best_so_far_and_the_next_call_goes_on(loops: str, tmp_path: Path) -> None:
    """A real signal in a real process, once the first figures are told."""
    file = tmp_path / "best.json"
    with subprocess.Popen(
        [sys.executable, "-m", "pipeloom", "derive", f"{loops}:large", "-o", str(file)],
        env={**os.environ, "PIPELOOM_STORE": str(tmp_path / "store")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert "cycles, bound 728 (memory)" in first
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert err.count("interrupted") == 1
    assert "PROVED" in out
    assert verify(Program.from_json(file.read_text())).proved
    assert main(["show", str(file)]) == 0


def test_who_waits_for_a_search_is_told_how_it_goes(loops: str, tmp_path: Path) -> None:
    """On a terminal; scripts see nothing of it."""
    command = [sys.executable, "-m", "pipeloom", "show", f"{loops}:small"]
    quiet = {**os.environ, "PIPELOOM_STORE": "off"}
    ours, theirs = os.openpty()
    subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    assert b"cycles, bound" in os.read(ours, 4096)
    os.close(ours)


@pytest.mark.parametrize("command", ["emit -o k.s", "verify", "show"])
def test_ctrl_c_in_the_search_is_no_success(
    loops: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``emit`` writes the fastest or nothing; what shows the best so far says that it is that.

    Nothing is proved that is not kept.
    """
    once = iter([None])

    def interrupted(program: Program, **options: int) -> float:
        if next(once, 1) is None:
            return steady(program, **options)
        raise KeyboardInterrupt

    steady = loop_cycles.steady_cycles
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(deriving, "steady_cycles", interrupted)
    proofs: list[Program] = []

    def counted(program: Program, **options: Any) -> Verdict:
        proofs.append(program)
        return verify(program, **options)

    monkeypatch.setattr(deriving, "verify", counted)
    monkeypatch.chdir(tmp_path)
    name, *options = command.split()
    assert main([name, f"{loops}:small", *options]) == 130
    err = capsys.readouterr().err
    assert "interrupted" in err
    assert (deriving.KEPT in err, len(proofs)) == ((False, 1) if name == "show" else (True, 0))
    assert not Path("k.s").exists()
