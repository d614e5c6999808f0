"""Spec files that must fail, with the message and the hint that ``specs/EXPECTED`` lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeloom import ScheduleError, SpecError, build_schedule, load_spec
from pipeloom.cli.main import main

SPECS = Path(__file__).parent / "specs"
LINES = (SPECS / "EXPECTED").read_text(encoding="utf-8").splitlines()[1:]
EXPECTED = [tuple(part.strip() for part in line.split(" | ")) for line in LINES]


@pytest.mark.parametrize(("name", "message", "hint"), EXPECTED, ids=[e[0] for e in EXPECTED])
def test_spec_file(name: str, message: str, hint: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        build_schedule(SPECS / name)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("name", "message", "hint"), EXPECTED[::6])
def test_the_command_line_says_the_same_and_exits_1(
    name: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", str(SPECS / name)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert "\n\nhint: " in err
    assert hint in err


def test_every_file_is_listed_once() -> None:
    files = sorted(p.name for p in SPECS.iterdir() if p.name != "EXPECTED")
    assert [e[0] for e in EXPECTED] == files


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "build_schedule needs a source"),
        ((False,), {}, "needs a source, or all of is_fp8, lgkm_a and lgkm_b"),
        ((False, 8), {}, "needs a source, or all of is_fp8, lgkm_a and lgkm_b"),
        ((), {"is_fp8": True, "lgkm_b": 4}, "needs a source, or all of is_fp8, lgkm_a and lgkm_b"),
        ((False, ["a=1"], 4), {"lgkm_a": 8}, "needs a source, or all of is_fp8"),
        (("ping_pong", 8, 4), {}, "make a schedule of their own, beside 'ping_pong'"),
        (("ping_pong",), {"lgkm_a": 8}, "make a schedule of their own, beside 'ping_pong'"),
        ((False, -1, 4), {}, "DeclarativeSchedule.lgkm_a is -1"),
    ],
)
def test_half_a_call_names_the_other_half(
    arguments: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    make: Any = build_schedule
    with pytest.raises(ScheduleError, match=message) as caught:
        make(*arguments, **keywords)
    assert caught.value.hint


@pytest.mark.parametrize("source", [5, None, 1.5, [], object()])
def test_sources_that_are_no_spec(source: Any) -> None:
    for call in (load_spec, build_schedule):
        with pytest.raises(SpecError, match=r"mapping or a path, not|needs a source") as caught:
            call(source)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("ping_pnog", "'ping_pnog' is neither a shipped schedule nor a spec file", "'ping_pong'"),
        ("x" * 5000, "is neither a shipped schedule nor a spec file", "valid: ping_pong"),
        ("a\0b", "is neither a shipped schedule nor a spec file", "valid: ping_pong"),
        ("nowhere.json", "cannot read nowhere.json: No such file or directory", "check the path"),
        ("nowhere.toml", "cannot read nowhere.toml: No such file or directory", "check the path"),
        ("a\0b.json", "is not JSON: embedded null byte", "check the path"),
        ("", "'' is neither a shipped schedule nor a spec file", "valid: ping_pong"),
    ],
)
def test_paths_that_lead_nowhere(source: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        build_schedule(source)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    folder = tmp_path / "spec.json"
    folder.mkdir()
    with pytest.raises(SpecError, match="Is a directory"):
        load_spec(folder)


@pytest.mark.parametrize("setting", [5, None, b"lgkm_a=3"])
def test_settings_that_are_no_text(setting: Any) -> None:
    with pytest.raises(SpecError, match=r"key=value|has no key"):
        build_schedule("ping_pong", [setting])
