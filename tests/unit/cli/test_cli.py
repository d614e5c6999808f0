"""The command line: every command, exit codes, and output that goes where it should."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeloom
from pipeloom import CompiledSchedule, build_schedule
from pipeloom.cli import list_command
from pipeloom.cli.main import main
from pipeloom.files import write_file
from tests.unit.cli.ran import ran

COMMANDS = ["list", "show", "compile", "graph", "verify", "fix", "simulate"]
SCHEDULES = ["ping_pong", "four_wave", "single_buffer"]
SOURCE = str(Path(pipeloom.__file__).parents[1])
ESCAPE = "\x1b["


def run(
    *arguments: str, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with a plain environment."""
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": SOURCE, **environment}
    return subprocess.run(
        [sys.executable, "-m", "pipeloom.cli.main", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        check=False,
    )


class Output:
    """One in-process run."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code = main(arguments)
        self.out, self.err = capsys.readouterr()


# ---------------------------------------------------------------- help and usage


@pytest.mark.parametrize("arguments", [["--help"], *[[c, "--help"] for c in COMMANDS]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: pipeloom")
    assert "``" not in out
    if len(arguments) == 1:
        assert all(command in out for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pipeloom {pipeloom.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["show"],
        ["compile"],
        ["graph"],
        ["show", "ping_pong", "--nonsense"],
        ["compile", "ping_pong", "-o"],
        ["compile", "ping_pong", "--set"],
        ["list", "ping_pong"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: pipeloom" in err


def test_help_imports_nothing_heavy() -> None:
    """What keeps ``--help`` fast: the solver, numpy and rich stay unloaded."""
    program = (
        "import sys, pipeloom.cli.main as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'ortools', 'numpy', 'rich', 'ziglang', 'tinygrad', 'triton'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.stderr.strip() == "[]"


# ---------------------------------------------------------------- list, show, graph


def test_list_names_everything_once(capsys: pytest.CaptureFixture[str]) -> None:
    done = Output(capsys, "list")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    names = [line.split()[0] for line in lines if line[:2] == "  " and line[2] != " "]
    assert {*SCHEDULES, "mi355x", "identity", "greedy", "csp"} <= set(names)
    assert len(set(names)) == len(names)
    groups = json.loads(Output(capsys, "list", "--json").out)
    assert len([line for line in lines if not line.startswith(" ")]) == len(groups)
    assert set(names) == {name for group in groups.values() for name in group}


def test_list_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(Output(capsys, "list", "--json").out)
    assert set(data) == {"schedules", "loops", "targets", "architectures", "strategies"}
    assert set(SCHEDULES) <= set(data["schedules"])
    assert all(text for group in data.values() for text in group.values())


@pytest.mark.parametrize("name", SCHEDULES)
def test_show(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Output(capsys, "show", name)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(name)
    for part in ("prologue: ", "loop: ", "epilogue: ", "synchronisation", "barrier"):
        assert part in done.out


@pytest.mark.parametrize("name", SCHEDULES)
def test_show_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(Output(capsys, "show", name, "--json").out)
    compiled = build_schedule(name)
    assert data["schedule"] == name
    assert {p: len(entries) for p, entries in data["phases"].items()} == {
        "prologue": len(compiled.prologue),
        "kernel": len(compiled.kernel),
        "epilogue": len(compiled.epilogue),
    }
    assert data["certificate"]["makespan"] == compiled.certificate.makespan
    assert data["counts"]["kernel"]["entries"] == len(compiled.kernel)
    assert data["ops_per_block"] == list(compiled.ops_per_block())
    assert data["warp_stagger_index"] == compiled.warp_stagger_index


@pytest.mark.parametrize("name", SCHEDULES)
def test_graph(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Output(capsys, "graph", name)
    assert (done.code, done.err) == (0, "")
    for part in ("ASAP", "ALAP", "slack", "Critical path"):
        assert part in done.out


def test_graph_json_and_dot(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(Output(capsys, "graph", "ping_pong", "--json").out)
    body = build_schedule("ping_pong").loop_body
    assert [row["asap"] for row in data["ops"]] == list(body.asap)
    assert [row["alap"] for row in data["ops"]] == list(body.alap)
    assert [row["slack"] for row in data["ops"]] == list(body.slack)
    assert data["longest_path"] == body.longest_path
    assert data["critical_path"] == list(body.critical_path)
    assert len(data["edges"]) == len(body.edges)
    dot = Output(capsys, "graph", "ping_pong", "--dot").out
    assert dot.startswith("digraph body {\n")


# ---------------------------------------------------------------- compile


@pytest.mark.parametrize("name", SCHEDULES)
def test_compile_json_is_the_compiled_schedule(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Output(capsys, "compile", name, "--json")
    assert done.code == 0
    assert done.out == build_schedule(name).to_json()
    assert CompiledSchedule.from_dict(json.loads(done.out)) == build_schedule(name)


def test_compile_summary_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    done = Output(capsys, "compile", "ping_pong", "--set", "omit_mma_set_prio=true")
    assert done.code == 0
    compiled = build_schedule("ping_pong")
    counts = {str(len(phase)) for phase in (compiled.prologue, compiled.kernel)}
    assert counts <= set(re.findall(r"\d+", done.out))
    assert done.err.startswith("note: ")
    assert all(name in done.err for name in ("omit_mma_set_prio", "minimal_barriers"))


def test_compile_takes_a_file_and_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "mine.toml"
    spec.write_text('schedule = "ping_pong"\nlgkm_a = 8\n')
    done = Output(
        capsys, "compile", str(spec), "--set", "lgkm_b=4", "--set", "scheduling=greedy", "--json"
    )
    expected = {
        "schedule": "ping_pong",
        "lgkm_a": 8,
        "lgkm_b": 4,
        "schedule_config": {"scheduling": "greedy"},
    }
    assert done.out == build_schedule(expected).to_json()


def test_output_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    done = Output(capsys, "compile", "four_wave", "-o", str(target))
    assert done.code == 0
    assert str(target) in done.out
    assert target.read_text() == build_schedule("four_wave").to_json()
    assert os.listdir(tmp_path) == ["out.json"]
    both = Output(capsys, "compile", "four_wave", "--json", "-o", str(target))
    assert both.out == target.read_text()


def test_output_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    target = tmp_path / "out"
    mask = os.umask(0o027)
    try:
        write_file(target, "x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("command", ["show", "compile", "graph"])
@pytest.mark.parametrize(
    ("arguments", "field", "named"),
    [
        (["nonsense"], "schedule", "nonsense"),
        (["nowhere.json"], None, "nowhere.json"),
        (["ping_pong", "--set", "schedulign=csp"], "schedulign", "'scheduling'"),
        (["ping_pong", "--set", "lgkm_a"], "lgkm_a", "key=value"),
        (["ping_pong", "--set", "target.block_sizing.heavy=4"], "target.block_sizing", "light"),
    ],
)
def test_an_error_is_one_message_on_stderr_and_exit_1(
    command: str,
    arguments: list[str],
    field: str | None,
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It names what is wrong, or what was meant; the hint is a paragraph of its own."""
    done = ran(capsys, command, *arguments)
    assert (done.code, done.out, done.field) == (1, "", field)
    assert named in done.err
    assert "\n\nhint: " in done.err
    assert "Traceback" not in done.err


def test_a_failing_compile_leaves_the_old_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    done = Output(capsys, "compile", "ping_pong", "--set", "lgkm_a=-1", "-o", str(target))
    assert done.code == 1
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_failing_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    done = Output(capsys, "compile", "ping_pong", "-o", str(target))
    assert done.code == 1
    assert str(target) in done.err
    assert os.strerror(errno.ENOSPC) in done.err
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_an_interrupted_write_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "out.json", b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("output", "number"), [("missing/out.json", errno.ENOENT), (".", errno.EISDIR)]
)
def test_an_unwritable_output(
    output: str, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    done = ran(capsys, "compile", "ping_pong", "-o", str(folder / output))
    assert (done.code, done.field) in ((1, None), (1, "output"))
    assert os.strerror(number) in done.err
    assert os.listdir(tmp_path) == ["folder"]


def test_an_interrupt_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(list_command, "print_json", interrupt)
    done = Output(capsys, "list", "--json")
    assert (done.code, done.err.count("\n")) == (130, 1)


# ---------------------------------------------------------------- pipes, devices and colour


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", "single_buffer"],
        ["graph", "ping_pong"],
        ["compile", "ping_pong", "--json"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_told_by_the_exit_code_alone(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert not done.stderr
    assert done.returncode in (0, 128 + signal.SIGPIPE)  # 0 only if it had come to its end


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments", [["show", "single_buffer"], ["compile", "ping_pong", "--json"]]
)
def test_a_full_device_is_one_message(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith(f"{os.strerror(errno.ENOSPC)}\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_colour_follows_the_environment() -> None:
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "200"}
    coloured = run("show", "single_buffer", **forced)
    plain = run("show", "single_buffer", **forced, NO_COLOR="1")
    piped = run("show", "single_buffer", COLUMNS="200")
    assert f"{ESCAPE}35m" in coloured.stdout  # magenta loads
    assert f"{ESCAPE}1m" in coloured.stdout  # bold
    assert ESCAPE not in plain.stdout
    assert ESCAPE not in piped.stdout
