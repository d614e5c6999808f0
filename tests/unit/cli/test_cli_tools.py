"""doctor, cache, completion, version, and lines that say what goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeloom
from pipeloom.cli.main import main
from pipeloom.device.hip import Hip
from pipeloom.device.hip_errors import DeviceError
from pipeloom.drive import environment
from pipeloom.drive.environment import State, examine
from pipeloom.drive.store import FILE, Store
from pipeloom.machine.cdna import PROCESSORS
from pipeloom.machine.chips import TARGETS


def _data(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main([*words, "--json"])
    return json.loads(capsys.readouterr().out)


# ---------------------------------------------------------------- version and doctor


def test_the_version_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    plain = capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    first, *rest = plain.splitlines(keepends=True)
    assert first == capsys.readouterr().out == f"pipeloom {pipeloom.__version__}\n"
    found = _data(capsys, "version")
    assert {line.split()[0] for line in rest} == {"Python", *found["packages"]}
    assert "triton" in found["packages"]
    assert found["pipeloom"] == pipeloom.__version__
    assert found["packages"]["numpy"]


def _no_hip() -> Hip:
    raise DeviceError("no HIP runtime here", hint="install ROCm")


def test_gpus_are_found_through_hip(hip: Hip, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library, its version, and each device with what is written for it."""
    library, *gpus = environment._hip(lambda: hip)
    assert library.state is State.OK
    assert hip.version in library.found
    assert [probe.name for probe in gpus] == ["GPU 0", "GPU 1", "GPU 2"]
    assert all(probe.state is State.OK for probe in gpus)
    other = environment._gpu(replace(hip.gpu(0), arch="gfx1100"))
    assert other.state is State.ABSENT
    assert "gfx950" in other.remedy
    (absent,) = environment._hip(_no_hip)
    assert (absent.state, absent.remedy) == (State.ABSENT, "install ROCm")
    monkeypatch.setenv("PIPELOOM_STANDIN_FAIL", "hipRuntimeGetVersion=3")
    (broken,) = environment._hip(lambda: hip)
    assert broken.state is State.ABSENT
    assert "hipErrorNotInitialized" in broken.found
    monkeypatch.delenv("PIPELOOM_STANDIN_FAIL")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "-1")
    hip.library.hipDeviceReset()
    (alone,) = environment._hip(lambda: Hip(hip.library, hip.place))
    assert alone.state is State.ABSENT
    assert "HIP_VISIBLE_DEVICES" in alone.remedy


def test_every_shipped_chip_has_an_encoding() -> None:
    assert set(PROCESSORS) == {target.arch for target in TARGETS}


@pytest.mark.parametrize(
    ("build", "says"),
    [("hip: str = '7.1.2'\n", "for ROCm 7.1.2"), ("hip = None\n", "not for ROCm")],
)
def test_which_build_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str, says: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "version.py").write_text(f"cuda = None\n{build}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(environment, "_version", lambda name: "2.13.0")
    assert says in environment._torch().found


def test_a_sound_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    states = {probe["name"]: probe["state"] for probe in found["probes"]}
    assert {"Python", "numpy", "assembler", "HIP", "store", "browser"} <= states.keys()
    assert states["assembler"] == states["store"] == "ok"


def test_what_is_missing_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "file" / "store"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(environment, "NEEDED", ("no-such-package",))
    monkeypatch.setattr(environment, "OPTIONAL", {"no-such-other": ("emit", "for emit")})
    monkeypatch.setattr(environment, "PROCESSORS", {"gfx000": None})
    found = {probe.name: probe for probe in examine(_no_hip)}
    failed = {name for name, probe in found.items() if probe.state is State.FAILED}
    assert failed == {"no-such-package", "assembler", "store"}
    assert {"no-such-other", "HIP", "browser"} == {
        name for name, probe in found.items() if probe.state is State.ABSENT
    } - {"torch"}
    assert all(probe.remedy for probe in found.values() if probe.state is not State.OK)
    assert main(["doctor"]) == 1
    assert all(found[name].remedy in capsys.readouterr().out for name in ("store",))


# ---------------------------------------------------------------- cache


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "store"))
    return Store.usual()


def test_an_empty_cache(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert _data(capsys, "cache")["entries"] == 0
    assert _data(capsys, "cache", "prune")["dropped"] == 0


def test_the_cache_is_listed_and_pruned(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.write("one", {"bounds": []})
    store.write("two", {"codes": {}, "record": "x" * 20_000})
    store.write("old.damaged", {})
    assert store.path is not None
    (store.path.parent / f"{FILE}.aside1").write_bytes(b"damaged")
    found = _data(capsys, "cache", "list")
    assert [(row["key"], row["kind"]) for row in found["listed"]] == [
        ("old.damaged", "damaged"),
        ("one", "bounds"),
        ("two", "kernel"),
    ]
    assert found["bytes"] == store.size() > 0
    assert _data(capsys, "cache", "prune")["dropped"] == 2
    assert store.keys() == ("one", "two")
    assert not list(store.path.parent.glob("*.aside*"))
    assert _data(capsys, "cache", "prune", "--all")["dropped"] == 2
    assert _data(capsys, "cache")["entries"] == 0
    assert main(["cache", "list"]) == 0


def test_a_cache_that_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIPELOOM_STORE", "off")
    assert _data(capsys, "cache") == {"path": None, "entries": 0, "bytes": 0}
    assert _data(capsys, "cache", "prune")["dropped"] == 0
    assert main(["cache"]) == 0


def test_all_is_for_prune() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cache", "list", "--all"])


# ---------------------------------------------------------------- completion


def test_bash_completes_commands_options_and_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "pipeloom.bash"
    script.write_text(capsys.readouterr().out)
    asked = (["ver"], ["show", "--sy"], ["show", "--sync", "r"])
    lines = [f"source {script}"]
    for words in asked:
        lines += [f"COMP_WORDS=(pipeloom {' '.join(words)})", f"COMP_CWORD={len(words)}"]
        lines += ["_shtab_pipeloom", 'echo "${COMPREPLY[@]}"']
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["verify", "version"],
        ["--sync"],
        ["reference", "repaired"],
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = _data(capsys, "completion", shell)
    assert found["shell"] == shell
    assert all(word in found["script"] for word in ("verify", "doctor", "sync"))


# ---------------------------------------------------------------- what goes on


def _process(*words: str, progress: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PIPELOOM_PROGRESS": progress,
    }
    command = [sys.executable, "-m", "pipeloom", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_lines_on_stderr_say_that_it_goes_on() -> None:
    words = ["simulate", "ping_pong", "--json"]
    told = _process(*words, progress="0.01")
    lines = [line for line in told.stderr.splitlines() if line.startswith("pipeloom simulate: ")]
    assert lines
    quiet = _process(*words, "--quiet", progress="0.01")
    assert not quiet.stderr
    assert json.loads(told.stdout) == json.loads(quiet.stdout)
