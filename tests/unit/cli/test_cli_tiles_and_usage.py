"""Which tile a command is about, options that do not go together, and quick, plain output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pipeloom
from pipeloom import build_schedule
from pipeloom.cli.commands import COMMANDS
from pipeloom.cli.main import main
from pipeloom.drive.sources import Source
from pipeloom.errors import SpecError
from tests.unit.cli.ran import ran

SOURCE = str(Path(pipeloom.__file__).parents[1])
NO_TILE = "no tile: 4 + 4 vmcnt entries per load"
BF16 = "256x256x64 bf16"


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ---------------------------------------------------------------- the tile


@pytest.mark.parametrize("command", ["show", "verify", "fix", "compile", "graph"])
def test_commands_on_schedules_say_that_there_is_no_tile(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert NO_TILE in _run(capsys, command, "ping_pong")[1]
    assert BF16 in _run(capsys, command, "ping_pong", "--dtype", "bf16")[1]
    assert "256x256x64 fp16" in _run(capsys, command, "ping_pong", "--dtype", "fp16")[1]


def test_the_default_tile_of_compile_and_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        _run(capsys, "compile", "ping_pong", "--json")[1] == build_schedule("ping_pong").to_json()
    )
    shape = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
    tiled = build_schedule({"schedule": "ping_pong", "geometry": shape})
    assert _run(capsys, "compile", "ping_pong", "--dtype", "bf16", "--json")[1] == tiled.to_json()
    default = _run(capsys, "simulate", "ping_pong", "--k-tiles", "4", "--json")[1]
    assert json.loads(default)["tile"] == BF16
    chosen = _run(capsys, "simulate", "ping_pong", "--k-tiles", "4", "--dtype", "bf16", "--json")[1]
    assert chosen == default


def test_four_wave_keeps_its_own_tile_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--k-tiles", "4", "--json"]
    own = json.loads(_run(capsys, "simulate", "four_wave", *short)[1])
    told = json.loads(_run(capsys, "simulate", "four_wave", "--dtype", "bf16", *short)[1])
    assert (own["tile"], told["tile"]) == ("256x256x128 fp8", BF16)


def test_settings_change_a_tile_that_the_option_gave(capsys: pytest.CaptureFixture[str]) -> None:
    out = _run(capsys, "show", "ping_pong", "--dtype", "bf16", "--set", "geometry.BM=128", "--json")
    assert json.loads(out[1])["tile"] == "128x256x64 bf16"


@pytest.mark.parametrize("command", ["show", "verify", "compile", "simulate", "emit"])
@pytest.mark.parametrize(
    "given",
    [
        ["--tile", "192x256x64"],
        ["--set", "geometry.BM=192"],
        ["--set", "BM=192"],
        ["--tile", "192x256x64", "--dtype", "bf16"],
    ],
    ids=" ".join,
)
def test_a_tile_by_its_sizes(
    command: str, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command takes the same sizes; where no type is named they are of the bf16 tile."""
    file = tmp_path / "c.json"
    more = ["-o", str(file)] if command == "compile" else ["--json"]
    code, out, _ = _run(capsys, command, "ping_pong", *given, *more)
    if command == "compile":
        out = _run(capsys, "verify", str(file), "--json")[1]
    assert code in (0, 3)
    found = json.loads(out)["tile"]
    assert found == ({"m": 192, "n": 256, "k": 64} if command == "emit" else "192x256x64 bf16")


def test_a_tile_by_its_sizes_in_another_type(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--tile", "256x128x128", "--dtype", "fp8", "--json"]
    assert json.loads(_run(capsys, "show", "ping_pong", *given)[1])["tile"] == "256x128x128 fp8"
    out = _run(capsys, "compare", "ping_pong", "ping_pong:tile=192x256x64", "--json")[1]
    assert [row["tile"] for row in json.loads(out)] == [BF16, "192x256x64 bf16"]


def test_a_type_as_the_tile_is_taken_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    out = _run(capsys, "show", "ping_pong", "--tile", "fp8", "--json")[1]
    assert out == _run(capsys, "show", "ping_pong", "--dtype", "fp8", "--json")[1]


@pytest.mark.parametrize("tile", ["192x256", "0x256x64", "f8", "256x256x64x2"])
def test_what_is_no_tile(tile: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["show", "ping_pong", "--tile", tile])
    assert "--dtype" in capsys.readouterr().err
    with pytest.raises(SpecError) as error:
        Source("ping_pong", tile=tile)
    assert error.value.field == "tile"


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "attention", "--tile", "128x128x64"],
        ["verify", "ping_pong", "--tile", "fp8", "--dtype", "bf16"],
    ],
)
def test_a_tile_that_does_not_fit(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, *arguments)
    assert (done.code, done.field) == (1, "tile")


def test_tiles_that_cannot_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = str(tmp_path / "c.json")
    _run(capsys, "compile", "ping_pong", "-o", compiled)
    done = ran(capsys, "verify", compiled, "--dtype", "bf16")
    assert (done.code, "--dtype" in done.err) == (1, True)
    done = ran(capsys, "simulate", compiled)
    assert (done.code, done.field) == (1, "geometry")
    assert "compile ping_pong --dtype bf16 -o" in done.err
    spec = tmp_path / "s.toml"
    spec.write_text('schedule = "ping_pong"\ngeometry = {BK = 64, MMA_K = 32, elem_bytes = 2}\n')
    done = ran(capsys, "verify", str(spec), "--dtype", "fp8")
    assert (done.code, done.field) == (1, "geometry")


def test_compare_says_a_shared_tile_once_and_others_by_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    short = ["--k-tiles", "4"]
    same = _run(capsys, "compare", "ping_pong", "ping_pong:scheduling=identity", *short)[1]
    assert same.count(BF16) == 1
    mixed = _run(capsys, "compare", "ping_pong", "ping_pong:tile=fp8", *short)[1]
    assert BF16 in mixed
    assert "256x256x128 fp8" in mixed


def test_the_page_says_tile_and_synchronisation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "r.html"
    repaired = ["--sync", "repaired", "--reorder", "--k-tiles", "4"]
    _run(capsys, "report", "ping_pong", *repaired, "-o", str(page))
    text = page.read_text("utf-8")
    assert f'"tile":"{BF16}"' in text
    assert '"sync":"waits derived, barriers kept; 4 loads moved"' in text
    _run(capsys, "report", "four_wave", *repaired, "-o", str(page))
    assert '"sync":"waits derived, barriers kept; 2 barriers added"' in page.read_text("utf-8")


# ---------------------------------------------------------------- fix


def test_fix_leaves_what_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proved, fixed = tmp_path / "a.json", tmp_path / "b.json"
    _run(capsys, "compile", "ping_pong", "--sync", "repaired", "--reorder", "-o", str(proved))
    code, out, _ = _run(capsys, "fix", str(proved), "-o", str(fixed))
    assert (code, "PROVED" in out) == (0, True)
    assert fixed.read_text() == proved.read_text()
    data = json.loads(_run(capsys, "fix", str(proved), "--json")[1])
    assert (data["unchanged"], data["changes"]) == (True, [])
    code, out, _ = _run(capsys, "fix", str(proved), "--force", "--reorder", "-o", str(fixed))
    assert (code, "16 -> 4" in out) == (0, True)
    assert fixed.read_text() != proved.read_text()


# ---------------------------------------------------------------- usage


def test_a_chip_that_changes_nothing_is_not_in_the_header(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, plain, _ = _run(capsys, "show", "ping_pong")
    _, out, err = _run(capsys, "show", "ping_pong", "--arch", "gfx942")
    assert "--arch" in err
    assert out.splitlines()[0] == plain.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["verify", "ping_pong", "--reorder"], "--reorder"),
        (["simulate", "ping_pong", "--iterations", "4"], "--iterations"),
        (["simulate", "ping_pong", "--mfma", "16x16x32_f16"], "--mfma"),
        (["simulate", "ping_pong", "--stagger"], "--stagger"),
        (["simulate", "ping_pong", "--waves-per-simd", "2"], "--waves-per-simd"),
        (["simulate", "--stream", "M4", "--k-tiles", "4"], "--k-tiles"),
        (["simulate", "--stream", "M4", "--sync", "proven"], "--sync"),
        (["simulate", "--stream", "M4", "--dtype", "bf16"], "--dtype"),
        (["simulate", "--stream", "M4", "--set", "a=1"], "--set"),
        (["simulate", "--stream", "M4", "--emitted"], "--emitted"),
        (["simulate", "ping_pong", "--lds-conflict", "2"], "--lds-conflict"),
        (
            ["report", "ping_pong", "--timeline-iterations", "0", "-o", "x.html"],
            "--timeline-iterations",
        ),
        (["simulate", "--stream", "M4", "--iterations", "0"], "--iterations"),
        (["tune", "64x64x64", "--tokens", "64"], "--tokens"),
    ],
)
def test_options_without_effect_are_wrong_usage(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert f"usage: pipeloom {arguments[0]}" in err
    assert option in err.split("usage: ")[1].splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "field", "remedy"),
    [
        (["compare", "ping_pong:sync=foo"], "sync", "proven"),
        (["compare", "ping_pong", "four_wave:tile=f8"], "tile", "MxNxK"),
        (["compare", "ping_pong", "ping_pong:reorder=true"], "reorder", "sync"),
        (["compare", "ping_pong", "ping_pong:snyc=proven"], "snyc", "'sync'"),
        (["verify", "ping_pong", "--sync", "repaired"], "order", "--reorder"),
        (["fix", "ping_pong", "--keep-barriers"], "order", "--reorder"),
    ],
)
def test_messages_name_the_value_and_the_remedy(
    arguments: list[str], field: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(capsys, *arguments)
    assert (done.code, done.field) == (1, field)
    assert remedy in done.err.split("hint: ")[1]


def test_unknown_keys_are_answered_with_sorted_names(capsys: pytest.CaptureFixture[str]) -> None:
    err = _run(capsys, "show", "ping_pong", "--set", "zzz=1")[2]
    names = err.split("valid: ")[1].strip().split(", ")
    assert names == sorted(names)
    assert "latency" in names
    assert "*" not in err
    assert "sync" not in names


# ---------------------------------------------------------------- help and plain output


def _process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": SOURCE, **environment}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, check=False
    )


def test_help_lists_every_command_and_imports_none() -> None:
    program = (
        "import sys, pipeloom.cli.main as m\n"
        "try: m.main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "parts = {'pipeloom.cli.common', 'pipeloom.reference.compiler', 'pipeloom.order.modulo'}\n"
        "print(code, sorted(parts & set(sys.modules)))\n"
    )
    asked = _process("-c", program, "--help")
    assert asked.stdout.splitlines()[-1] == "0 []"
    assert all(command.help.split(",")[0] in " ".join(asked.stdout.split()) for command in COMMANDS)
    bare = _process("-c", program)
    assert bare.stdout == "2 []\n"
    assert bare.stderr.splitlines() == asked.stdout.splitlines()[:-1]


def test_the_package_runs_as_a_program() -> None:
    assert _process("-m", "pipeloom", "--version").stdout == f"pipeloom {pipeloom.__version__}\n"


def test_public_names_are_all_there_whatever_is_imported_first() -> None:
    program = (
        "import pipeloom.judge.verify.findings, pipeloom.reference.resync, pipeloom\n"
        "assert set(pipeloom.__all__) <= set(dir(pipeloom))\n"
        "assert all(hasattr(pipeloom, name) for name in pipeloom.__all__)\n"
        "verbs = 'verify synchronize execute simulate emit run report solve_modulo fix compare'\n"
        "assert all(callable(getattr(pipeloom, verb)) for verb in verbs.split())\n"
        "assert not hasattr(pipeloom, 'nonsense')\n"
    )
    done = _process("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


def test_list_wraps_at_narrow_widths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    out = _run(capsys, "list")[1]
    assert max(map(len, out.splitlines())) <= 50
    monkeypatch.setenv("COLUMNS", "300")
    assert " ".join(out.split()) == " ".join(_run(capsys, "list")[1].split())


def test_compare_keeps_names_whole_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "ping_pong:scheduling=identity,auto_waits=true"
    out = _run(capsys, "compare", "ping_pong", name, "--k-tiles", "4")[1]
    header, *rows = out.splitlines()[:3]
    assert rows[1].split()[0] == name
    assert header.split()[:3] == ["variant", "verdict", "cycles"]
    assert "stalled" not in header
    assert max(map(len, out.splitlines())) <= 80
