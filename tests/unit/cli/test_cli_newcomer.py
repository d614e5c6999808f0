"""What a newcomer meets: every hint can be followed, every file and unit is called by its name."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pipeloom
from pipeloom.cli.main import main
from pipeloom.declare.kernels import row_sum
from pipeloom.order.in_order import in_order
from pipeloom.program.vocabulary import OpDef
from tests.unit.cli.ran import ran


def _hinted_command(text: str) -> list[str]:
    """The words after ``pipeloom`` of the command in a hint, up to the parenthesis behind it."""
    return shlex.split(text.split(": pipeloom ", 1)[1].split(" (")[0])


@pytest.mark.parametrize("command", ["compile", "fix"])
def test_a_file_without_a_tile_is_announced_and_its_hint_works(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, "ping_pong", "-o", "fx.json"]) == 0
    assert capsys.readouterr().err.startswith("note: no tile shape")
    for taker in ("simulate", "emit"):
        assert main([taker, "fx.json"]) == 1
        said = capsys.readouterr().err
        options = " --keep-barriers --reorder" if command == "fix" else ""
        assert f"pipeloom {command} ping_pong --dtype bf16{options} -o fx.json" in said
    assert main(_hinted_command(said)) == 0
    assert "no tile shape" not in capsys.readouterr().err
    assert main(["simulate", "fx.json", "--k-tiles", "4"]) == 0


def test_the_hint_for_a_file_with_kept_barriers_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["compile", "ping_pong", "--sync", "repaired", "--reorder", "-o", "c.json"])
    capsys.readouterr()
    assert main(["simulate", "c.json"]) == 1
    assert (
        "fix ping_pong --dtype bf16 --keep-barriers --reorder -o c.json" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["ping_pong"], "verify ping_pong --dtype bf16"),
        (["ping_pong", "--dtype", "fp8"], "verify ping_pong --dtype fp8"),
        (
            ["single_buffer", "--arch", "gfx942"],
            "verify single_buffer --dtype bf16 --arch gfx942",
        ),
        (
            ["ping_pong", "--set", "scheduling=identity"],
            "verify ping_pong --set scheduling=identity --dtype bf16",
        ),
    ],
)
def test_simulate_names_the_verify_of_the_same_schedule(
    given: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *given, "--k-tiles", "4"]) == 0
    assert f"\n  pipeloom {command}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("command", ["show", "verify", "graph", "compile"])
def test_arch_and_its_alias_derive_gemm_tile_for_that_chip(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for option in ("--arch", "--target"):
        small = ["--set", "BM=64", "--set", "BN=64"]
        assert main([command, "gemm_tile", option, "gfx942", *small]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "64x64x32 bf16" in outputs[0]


@pytest.mark.parametrize("command", ["show", "verify", "fix"])
def test_an_arch_without_effect_is_said_to_have_none(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "ping_pong", "--arch", "gfx942"])
    assert "--arch" in capsys.readouterr().err
    main([command, "single_buffer", "--arch", "gfx942", "--dtype", "bf16"])
    assert "--arch" not in capsys.readouterr().err


def test_emit_takes_tile_and_arch_as_the_other_commands_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "a.s", tmp_path / "b.s"
    main(["emit", "ping_pong", "--dtype", "fp16", "--arch", "gfx950", "-o", str(one)])
    main(["emit", "ping_pong", "--dtype", "fp16", "--target", "gfx950", "-o", str(two)])
    assert one.read_bytes() == two.read_bytes()
    assert "fp16" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "ping_pong", "--tiel", "bf16"], "--tile"),
        (["simulate", "ping_pong", "--ktiles=4"], "--k-tiles"),
        (["list", "--zzz"], "--zzz"),
    ],
)
def test_an_unknown_option_names_the_nearest(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


# ---------------------------------------------------------------- units and figures


def test_solve_speaks_of_the_steps_that_it_counts_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["solve", "gemm_tile", "--explain"]) == 0
    said = capsys.readouterr().out
    assert all(part in said for part in ("II 128 steps", "16 cycles", "mfma", "127"))
    quoted = (Path(__file__).parents[3] / "docs" / "modulo.md").read_text()
    assert all(line.rstrip() in quoted for line in said.splitlines()[-3:])


def test_solve_of_a_declared_schedule_speaks_of_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "single_buffer"]) == 0
    why = capsys.readouterr().out.rpartition("why: ")[2]
    assert "cycles per" in why
    assert "steps" not in why


def test_solve_for_another_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "gemm_tile", "--arch", "gfx942"]) == 0
    assert "LDS 32768 bytes" in " ".join(capsys.readouterr().out.split())
    done = ran(capsys, "solve", "ping_pong", "--arch", "gfx942")
    assert done.code == 1
    assert "gemm_tile" in done.err


def test_the_emitted_summary_says_which_loads_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emit", "ping_pong", "-o", str(tmp_path / "k.s")]) == 0
    assert "PROVED; 4 loads moved" in capsys.readouterr().out.splitlines()[0]
    assert main(["emit", "ping_pong", "--sync", "proven", "-o", str(tmp_path / "k.s")]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("PROVED")


def test_a_loop_that_does_not_run_has_no_figures_per_iteration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "ping_pong", "--k-tiles", "2"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\d{4} cycles, prologue \d{4} and epilogue \d{4}", said)
    assert "per K tile" not in said
    page = tmp_path / "r.html"
    assert main(["report", "ping_pong", "--k-tiles", "2", "-o", str(page)]) == 0
    assert "2 K tiles" in capsys.readouterr().out
    assert "does not run for 2 K tiles" in page.read_text()
    assert '"cycles per K tile"' not in page.read_text()
    sizes = ["--m", "256", "--n", "256", "--k", "256"]
    done = ran(capsys, "simulate", "ping_pong", "--k-tiles", "2", *sizes)
    assert done.code == 1
    assert "--k-tiles" in done.err


def test_compare_is_whole_in_a_pipe_and_says_what_a_narrow_terminal_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", "ping_pong", "ping_pong:dtype=fp8", "--k-tiles", "4"]
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(words) == 0
    said = capsys.readouterr().out
    header = said.splitlines()[0]
    for column in ("waits", "barriers", "stalled", "tile", "limit", "top stall, cycles"):
        assert column in header
    assert "left out" not in said
    monkeypatch.setenv("COLUMNS", "50")
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"left out[^:]*: stalled, waits", said)


@pytest.mark.parametrize(
    ("k", "hint"),
    [("500", "k = 384 or 512"), ("64", "k = 128;")],
)
def test_run_names_the_nearest_depth(k: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "run", "ping_pong", "--k", k)
    assert (done.code, done.field) == (1, "k")
    assert hint in done.err


@pytest.mark.parametrize("k", ["0", "-64"])
def test_run_refuses_a_depth_of_nothing(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "run", "ping_pong", "--k", k)
    assert (done.code, k in done.err) == (1, True)


def test_the_estimate_names_a_legal_depth(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "simulate", "ping_pong", "--m", "256", "--n", "256", "--k", "64")
    assert (done.code, done.field) == (1, "k")
    assert "--k 128, 256, 384" in done.err


@pytest.mark.parametrize("command", ["simulate", "verify"])
def test_a_specification_without_waits_says_where_to_get_them(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, noted in (
        (["single_buffer"], True),
        (["single_buffer", "--sync", "proven"], False),
        (["ping_pong"], False),
    ):
        main([command, *words])
        note = capsys.readouterr().out.partition("note: the specification")[2]
        assert ("--sync proven" in " ".join(note.split())) == noted


def test_the_legend_explains_waits_and_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "ping_pong", "--k-tiles", "4"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\bw: .*wait", said)
    assert re.search(r"which is 9: \d+ for LDS depth, \d+ for loads", said)


# ---------------------------------------------------------------- files


def test_another_type_for_a_spec_is_hinted_by_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "my.toml"
    spec.write_text('schedule = "ping_pong"\n[geometry]\nBK = 64\nMMA_K = 32\nelem_bytes = 2\n')
    words = ["emit", str(spec), "--dtype", "fp8", "-o", str(tmp_path / "k.s")]
    assert main(words) == 1
    settings = capsys.readouterr().err.partition("change its tile: ")[2].split()
    assert settings[::2] == ["--set"] * 3
    assert main([*words, *settings]) == 0
    assert "256x256x128 fp8" in capsys.readouterr().out


def test_a_compiled_file_is_hinted_to_be_compiled_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = str(tmp_path / "c.json")
    main(["compile", "ping_pong", "--dtype", "bf16", "-o", compiled])
    assert main(["emit", compiled, "--dtype", "fp8"]) == 1
    assert f"pipeloom compile ping_pong --dtype fp8 -o {compiled}" in capsys.readouterr().err
    done = ran(capsys, "solve", compiled)
    assert (done.code, compiled in done.err) == (1, True)


@pytest.mark.parametrize("command", ["verify", "show", "emit", "solve", "simulate", "compile"])
def test_a_launch_record_is_recognised(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "k.json"
    record.write_text(json.dumps({"format": "pipeloom-launch-2", "kernel": "gemm"}))
    done = ran(capsys, command, str(record))
    assert (done.code, str(record) in done.err, "launch" in done.err) == (1, True, True)


def test_what_emit_writes_is_a_launch_record() -> None:
    from pipeloom.write import LAUNCH_FORMAT

    assert LAUNCH_FORMAT == "pipeloom-launch-2"


@pytest.mark.parametrize(
    ("command", "name", "hint"), [("report", "x.txt", ".html"), ("trace", "x.html", ".json")]
)
def test_pictures_are_not_written_under_another_ending(
    command: str, name: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "ping_pong", "-o", str(tmp_path / name)]) == 1
    assert hint in capsys.readouterr().err.split("hint: ")[1]
    assert not list(tmp_path.iterdir())


def test_list_names_the_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["architectures"] == {"gfx942": "MI300X", "gfx950": "MI355X"}
    assert "mi355x" in data["targets"]
    assert main(["list"]) == 0
    assert "--arch" in capsys.readouterr().out


def test_the_example_survives_a_reader_that_leaves() -> None:
    example = Path(__file__).parents[3] / "examples" / "own_schedule.py"
    source = str(Path(pipeloom.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, str(example)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait()
    process.stderr.close()


def test_compare_needs_loops_that_run(capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "compare", "ping_pong", "four_wave", "--k-tiles", "2")
    assert done.code == 1
    assert "ping_pong" in done.err
    assert "--k-tiles" in done.err.split("hint: ")[1]


def test_output_that_nobody_reads_is_no_success() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pipeloom.cli.main", "list"]
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


SCALED = """
import pipeloom as pl

def scaled() -> pl.Loop:
    loop = pl.Loop("scaled", over="k")
    x = loop.stream("X", "f32", m=64, k=4)
    c = loop.carry("C", m=64)
    c += x.sum("k")
    loop.store("out", c * loop.scalar("alpha"))
    return loop

def helper(n): return n
def main() -> None: pass
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", "own.py"), ": scaled\n"),
        (("run", "own.py:scaled"), "--scalar alpha="),
        (("run", "own.py:scaled", "--size", "z=1"), "'z'"),
        (("run", "attention", "--size", "m=10"), "'m'"),
        (("run", "k.hsaco"), "pipeloom check k.hsaco --template"),
        (("report", "k.txt"), "attention"),
        (("library", "64x64x64", "-o", "none/of/lib"), "none/of/lib"),
        (("check", "k.hsaco", "--fix", "none/f.s"), "none/f.s"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SCALED)
    assert main(words) == 1
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.glob("*") if path.is_file()] == ["own.py"]


def test_the_hint_for_a_racing_program_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = pipeloom.pipeline(row_sum(), "gfx950", 1, strategy=in_order).to_dict()
    for section in program["groups"][0]["sections"]:
        section["steps"] = [step for step in section["steps"] if "count" not in step]
    Path("racing.json").write_text(json.dumps(program))
    for command in ("emit", "run"):
        assert main([command, "racing.json"]) == 1
        said = capsys.readouterr().err
        hinted = re.findall(r"`pipeloom (fix racing.json -o \S+)`", said)
        assert hinted, said
    assert main(hinted[0].split()) == 0
    assert main(["verify", hinted[0].split()[-1]]) == 0


def test_a_file_with_an_op_of_your_own_points_to_its_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = pipeloom.Loop("own", over="k")
    total = loop.carry("total", n=4)
    same = OpDef("acme.same", 1, lambda x: x, lowering=("v_mov_b32 {d}, {0}",))
    total += loop.apply(same, loop.stream("X", "f32", n=4, k=64)).sum("k")
    loop.store("out", total)
    file = tmp_path / "own.json"
    file.write_text(pipeloom.pipeline(loop, "gfx950", 1, strategy=in_order).to_json())
    assert main(["emit", str(file)]) == 1
    assert "my.py:NAME" in capsys.readouterr().err
