"""Traces as others write them: both headers, unknown keys, and what is broken in each way."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeloom.errors import ScheduleError, SpecError
from pipeloom.judge.simulate.trace import Cause
from pipeloom.machine.gfx950 import GFX950
from pipeloom.thread_trace import lay_over, read_capture
from pipeloom.thread_trace.code_table import read_sums
from tests.unit.thread_trace.traces import TRIPS, put, trace_files

Change = Callable[[dict[str, Any]], None]
WAVE = "se0_sm0_sl0_wv0.json"


def test_a_trace_by_hand_means_what_the_format_says(tmp_path: Path) -> None:
    capture = read_capture(put(tmp_path, trace_files()).parent)
    assert capture.clock_mhz == pytest.approx(2100.0)
    overlay = lay_over(capture, GFX950)
    assert overlay.trips == TRIPS
    assert overlay.measured_cycles == 40.0
    product = next(row for row in overlay.rows if "mfma" in row.row.text)
    assert (product.measured.stall, product.measured.issue) == (28.0, 4.0)
    assert (product.row.kernel, product.row.pc) == ("k", 16)
    # Two waves share the matrix unit: 32 cycles each.
    assert overlay.simulated_cycles == 64.0
    event = next(e for e in overlay.measured.events if e.stall)
    assert event.cause is Cause.NOT_RECORDED


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    files = trace_files()
    code = files["code.json"]
    names = [name.strip() for name in code["header"].split(",")]
    order = [9, 8, 0, 5, 4, 2, 1, 3, 6, 7]
    code["header"] = [names[at] for at in order] + ["ServiceType"]
    code["code"] = [[row[at] for at in order] + ["x"] for row in code["code"]]
    code["later"] = {"unknown": [1]}
    for name in (WAVE, "se0_sm0_sl1_wv0.json"):
        files[name]["wave"]["later"] = None
        files[name]["wave"]["instructions"] = [
            [*row, 99] for row in files[name]["wave"]["instructions"]
        ]
    plain, moved = (
        lay_over(read_capture(put(_made(tmp_path / name), given)), GFX950)
        for name, given in (("a", trace_files()), ("b", files))
    )
    assert plain.rows == moved.rows
    assert plain.measured.events == moved.measured.events


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("more", ["", "ServiceType,Issued,Stalled,"])
def test_both_forms_of_the_stats_file(tmp_path: Path, more: str) -> None:
    path = tmp_path / "stats.csv"
    cells = "VALU,1,2," if more else ""
    path.write_text(
        f'"CodeObj","Vaddr","Instruction","Hitcount","Latency","Stall","Idle",{more}"Source"\n'
        f'4,6144,"; k",0,0,0,0,{cells}\n'
        f'4,6148,"s_load_dwordx2 s[38:39], s[0:1], 0x28",48,192,7,5,{cells}k.py:391\n'
    )
    (found,) = read_sums(path).items()
    assert found[0] == (4, 6148)
    assert (found[1].hits, found[1].latency, found[1].stall, found[1].idle) == (48, 192, 7, 5)


def _code(change: Callable[[list[Any]], None]) -> Change:
    return lambda files: change(files["code.json"]["code"])


def _rows(change: Callable[[list[Any]], None]) -> Change:
    return lambda files: change(files[WAVE]["wave"]["instructions"])


def _drop(name: str, *keys: str) -> Change:
    def change(files: dict[str, Any]) -> None:
        at = files[name]
        for key in keys[:-1]:
            at = at[key]
        del at[keys[-1]]

    return change


BROKEN: tuple[tuple[str, Change, str], ...] = (
    ("no code", _drop("code.json", "code"), "code"),
    ("code null", lambda f: f["code.json"].update(code=None), "no code object"),
    ("no header", _drop("code.json", "header"), "header"),
    ("header lacks", lambda f: f["code.json"].update(header="ISA, Vaddr"), "LineNumber"),
    ("short row", _code(lambda rows: rows[1].pop()), "row 1"),
    ("number twice", _code(lambda rows: rows.append(rows[1])), "twice"),
    ("address", _code(lambda rows: rows[1].__setitem__(5, -4)), "Vaddr"),
    ("no text", _code(lambda rows: rows[1].__setitem__(0, 5)), "ISA"),
    ("unknown line", _rows(lambda rows: rows[0].__setitem__(4, 77)), "line 77"),
    ("not numbers", _rows(lambda rows: rows[0].__setitem__(0, 1.5)), "whole numbers"),
    ("huge", _rows(lambda rows: rows[0].__setitem__(0, 1 << 70)), "whole numbers"),
    ("short step", _rows(lambda rows: rows.__setitem__(0, [1, 2])), "5 numbers"),
    ("back in time", _rows(lambda rows: rows[0].__setitem__(0, 10**6)), "before the one"),
    ("stall too long", _rows(lambda rows: rows[0].__setitem__(2, 9)), "longer than it lasts"),
    ("no begin", _drop(WAVE, "wave", "begin"), "begin"),
    ("ends before", lambda f: f[WAVE]["wave"].update(end=1), "'wave.end'"),
    ("no steps", _drop(WAVE, "wave", "instructions"), "instructions"),
    ("SIMD", lambda f: f[WAVE]["wave"].update(simd=9), "SIMD 9"),
    ("no names", _drop("filenames.json", "wave_filenames"), "wave_filenames"),
    (
        "outside",
        lambda f: f["filenames.json"].update(
            wave_filenames={"0": {"0": {"0": {"0": ["../../etc/passwd", 0, 0]}}}}
        ),
        "not the name",
    ),
    ("flat names", lambda f: f["filenames.json"].update(wave_filenames={"0": []}), "nested"),
    ("not JSON", lambda f: f.update({WAVE: "{"}), "not JSON"),
    ("NaN", lambda f: f.update({WAVE: '{"wave": NaN}'}), "not JSON"),
    ("deep", lambda f: f.update({WAVE: "[" * 100_000}), "not JSON"),
    ("no object", lambda f: f.update({WAVE: "[]"}), "object"),
    ("clock", lambda f: f["realtime.json"].update(SE0=[[0], [1]]), "pairs"),
    ("two lines", _code(lambda rows: rows[1].__setitem__(0, "s_nop 0\ns_nop 0")), "one instruc"),
    ("unknown unit", _code(lambda rows: rows[1].__setitem__(0, "image_load v0")), "not model"),
)


@pytest.mark.parametrize(
    ("change", "said"), [row[1:] for row in BROKEN], ids=[r[0] for r in BROKEN]
)
def test_what_is_broken_is_named(tmp_path: Path, change: Change, said: str) -> None:
    files = copy.deepcopy(trace_files())
    change(files)
    place = put(tmp_path, files)
    with pytest.raises(ScheduleError, match=said) as caught:
        lay_over(read_capture(place), GFX950)
    assert caught.value.hint


def test_a_folder_without_waves_says_where_they_ran(tmp_path: Path) -> None:
    files = trace_files()
    files["filenames.json"]["wave_filenames"] = {}
    files["occupancy.json"] = {"3": [[10, 5, 0, 0, 1, 1], [20, 6, 0, 0, 1, 1]], "dispatches": {}}
    with pytest.raises(SpecError, match=r"engine 3: 5, 6"):
        read_capture(put(tmp_path, files))


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no thread trace"):
        read_capture(tmp_path)
    for number in (1, 2):
        place = tmp_path / f"ui_output_agent_1_dispatch_{number}"
        place.mkdir()
        (place / "filenames.json").write_text(json.dumps({}))
    with pytest.raises(SpecError, match="2 dispatches"):
        read_capture(tmp_path)


def test_waves_that_begin_apart_are_different_workgroups(tmp_path: Path) -> None:
    files = trace_files()
    later = files["se0_sm0_sl1_wv0.json"]["wave"]
    for row in later["instructions"]:
        row[0] += 10_000
    later["begin"], later["end"] = later["begin"] + 10_000, later["end"] + 10_000
    overlay = lay_over(read_capture(put(tmp_path, files)), GFX950)
    assert len(overlay.measured.programs) == 1
    assert overlay.others == (40.0, 40.0)
    # Alone on its SIMD, a product is the matrix unit's 32 cycles, and the rest stands behind it.
    assert overlay.simulated_cycles < 64
