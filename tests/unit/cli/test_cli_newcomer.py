"""What a newcomer meets: every hint can be followed, every file and unit is called by its name."""

import shlex
from pathlib import Path

import pytest

from pipeloom.cli.main import main


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
    assert "no tile shape: this file can be verified, not simulated" in capsys.readouterr().err
    for taker in ("simulate", "emit"):
        assert main([taker, "fx.json"]) == 1
        said = capsys.readouterr().err
        assert f"pipeloom {command} ping_pong --tile bf16 -o fx.json" in said
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
        "fix ping_pong --tile bf16 --keep-barriers --reorder -o c.json" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["ping_pong"], "pipeloom verify ping_pong --tile bf16 shows which"),
        (["ping_pong", "--dtype", "fp8"], "pipeloom verify ping_pong --tile fp8 shows which"),
        (
            ["single_buffer", "--arch", "gfx942"],
            "pipeloom verify single_buffer --tile bf16 --arch gfx942 shows how",
        ),
        (
            ["ping_pong", "--set", "scheduling=identity"],
            "pipeloom verify ping_pong --set scheduling=identity --tile bf16 shows which",
        ),
    ],
)
def test_simulate_names_the_verify_of_the_same_schedule(
    given: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *given, "--k-tiles", "4"]) == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "verify", "graph", "compile", "fix"])
def test_arch_and_its_alias_derive_gemm_tile_for_that_chip(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for option in ("--arch", "--target"):
        assert main([command, "gemm_tile", option, "gfx942"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "256x256x32 bf16" in outputs[0]


def test_emit_takes_tile_and_arch_as_the_other_commands_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "a.s", tmp_path / "b.s"
    main(["emit", "ping_pong", "--tile", "fp16", "--arch", "gfx950", "-o", str(one)])
    main(["emit", "ping_pong", "--dtype", "fp16", "--target", "gfx950", "-o", str(two)])
    assert one.read_bytes() == two.read_bytes()
    assert "fp16" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "ping_pong", "--tiel", "bf16"], "did you mean --tile?"),
        (["simulate", "ping_pong", "--ktiles=4"], "did you mean --k-tiles?"),
        (["list", "--zzz"], "unrecognized arguments: --zzz\n"),
    ],
)
def test_an_unknown_option_names_the_nearest(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
