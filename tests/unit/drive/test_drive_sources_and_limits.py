"""The driver: declarations of one's own, the fastest form, sizes refused before memory is taken."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

import pipeloom as pl
from benchmarks.random_loops import Shape, random_problem
from pipeloom.cli.main import main
from pipeloom.drive import running
from pipeloom.drive.emitting import EmitJob, emit, fitted, open_to_emit
from pipeloom.drive.loops import LoopSource
from pipeloom.drive.sources import Source, load_declaration
from pipeloom.errors import SpecError

OWN = """
from pipeloom import DeclarativeSchedule, compile_schedule
class Mine(DeclarativeSchedule):
    pass
class Needy(DeclarativeSchedule):
    def __init__(self, depth):
        super().__init__()
ready = Mine(lgkm_a=8, lgkm_b=4)
compiled = compile_schedule(ready)
def made():
    return Mine()
def broken():
    return 1 / 0
number = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize("name", ["Mine", "ready", "compiled", "made"])
def test_every_kind_of_declaration_is_judged(
    own: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", f"{own}:{name}", "--json"]) == 3
    assert '"status": "timing"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (":Mien", "did you mean 'Mine'"),
        ("", "needs the name of a declaration"),
        (":number", "is a int, not a loop"),
        (":Needy", "Needy() raised TypeError"),
        (":broken", "return 1 / 0"),
    ],
)
def test_a_declaration_that_cannot_be_used_says_why(own: str, name: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_declaration(own + name)
    assert said in str(caught.value)


def test_a_file_that_is_missing_or_raises_is_shown_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no file"):
        load_declaration(str(tmp_path / "none.py") + ":X")
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\ny = undefined_name\n")
    with pytest.raises(SpecError) as caught:
        load_declaration(f"{bad}:x")
    assert "NameError" in str(caught.value)
    assert f"{bad}:2: y = undefined_name" in str(caught.value)


def test_settings_do_not_change_a_declaration(own: str) -> None:
    with pytest.raises(SpecError, match="declared in Python"):
        pl.fix(pl.Source(f"{own}:Mine", ("scheduling=csp",)))


@pytest.mark.parametrize(
    ("size", "given", "tiles"), [(512, None, 8), (500, None, None), (512, 5, 5), (None, None, None)]
)
def test_a_loop_is_derived_for_the_size_that_is_asked_for(
    size: int | None, given: int | None, tiles: int | None
) -> None:
    """Where it is whole tiles, of 64 here; what was asked for in tiles counts first."""
    source = Source(pl.kernels.gemm(64, 64, 64), k_tiles=given)
    origin = fitted(open_to_emit(EmitJob(source)), size).origin
    assert isinstance(origin, LoopSource)
    assert origin.options["k_tiles"] == tiles


def test_fix_takes_the_fastest_proved_form_and_says_what_it_costs() -> None:
    fixed = pl.fix(pl.Source("ping_pong", tile="bf16"))
    assert fixed.verdict_after.proved
    assert fixed.choice.form.sync == "repaired"
    proven = pl.fix(pl.Source("ping_pong", tile="bf16", sync="proven"))
    assert fixed.choice.form.cycles is not None
    assert proven.choice.form.cycles is not None
    assert fixed.choice.form.cycles < proven.choice.form.cycles
    assert proven.choice.percent is not None
    assert proven.choice.percent > 30
    assert "against the 4236 of the input" in proven.choice.cost()


def test_emit_report_and_verify_speak_of_the_same_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["verify", "single_buffer"])
    said = capsys.readouterr().out
    emission = emit("single_buffer")
    assert emission.choice is not None
    assert f"emit writes its fastest proved form: {emission.sync}" in " ".join(said.split())


def test_a_problem_too_large_is_refused_before_memory_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tracemalloc.start()
    code = main(["run", "ping_pong", "--m", "1000000", "--n", "1000000"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code == 1
    assert peak < 1 << 28
    err = capsys.readouterr().err
    assert "GB of memory" in err
    assert "--max-memory" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gemm_tile --m -2 --n 5", "along 'm' is -2"),
        ("gemm_tile --k -1", "along 'k' is -1"),
        ("ping_pong --m -1", "along 'm' is -1"),
        ("ping_pong --size keys=3", "no dimension 'keys'"),
        ("attention --size q=1000000 --size keys=1000000", "GB of memory"),
        ("gemm_tile --m 1000000 --n 1000000", "GB of memory"),
    ],
)
def test_sizes_are_refused_before_anything_is_made(
    words: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def emitted(*job: object) -> None:
        pytest.fail("it was emitted first")

    monkeypatch.setattr(running, "emit", emitted)
    assert main(["run", *words.split()]) == 1
    assert said in capsys.readouterr().err


def test_too_much_work_is_refused_with_the_limit_that_would_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "ping_pong", "--max-instructions", "1000"]) == 1
    err = capsys.readouterr().err
    assert "instructions to emulate" in err
    assert "--max-instructions " in err


def test_ctrl_c_in_solve_prints_the_best_and_exits_130(tmp_path: Path) -> None:
    shape = Shape(
        ops=60,
        units=3,
        second_use=0.9,
        longest_hold=9,
        longest_latency=30,
        edges_per_op=1.5,
        carried=0.3,
    )
    path = tmp_path / "hard.json"
    path.write_text(random_problem(3, shape).to_json())
    said = tmp_path / "said"
    with (
        open(said, "w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "pipeloom", "solve", str(path), "--time-limit", "300"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PIPELOOM_PROGRESS": "0.05"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process,
    ):
        while process.poll() is None and not _has_found_one(said.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    err = said.read_text()
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert "interrupted" in err
    assert "proved, smaller than found: interrupted" in " ".join(out.split())


def _has_found_one(said: str) -> bool:
    """And searches on, as the lines for whoever waits have it."""
    return re.search(r"exact search: II \d+, bound \d+, best \d+", said) is not None
