"""The data of the report page: complete, consistent, small, and safe to embed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from pipeloom import ConfigError, build_schedule
from pipeloom.drive.programs import as_program
from pipeloom.errors import InternalError
from pipeloom.judge.simulate import Trace, simulate
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Program
from pipeloom.show import page as page_module
from pipeloom.show.page import SCRIPTS, asset, embedded_json, fill_page
from pipeloom.show.page_data import page_data
from tests.unit.show.programs import producer_consumer, straight, two_loops

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]
ASSETS = files("pipeloom.show") / "assets"


@pytest.fixture(scope="module")
def program() -> Program:
    return as_program(build_schedule("ping_pong", TILE))


@pytest.fixture(scope="module")
def verdict(program: Program) -> Verdict:
    return verify(program)


@pytest.fixture(scope="module")
def trace(program: Program) -> Trace:
    return simulate(program, iterations=16)


@pytest.fixture(scope="module")
def data(program: Program, verdict: Verdict, trace: Trace) -> dict[str, Any]:
    return page_data(program, verdict, trace, timeline_iterations=2)


def test_the_figures_are_those_of_the_trace(data: dict[str, Any], trace: Trace) -> None:
    figures = {name: value for value, name, _ in data["headline"]}
    assert figures["cycles per K tile"] == f"{trace.steady_cycles_per_iteration / 2:.0f}"
    assert figures["verdict"] == "TIMING"
    assert figures["waits / barriers"] == "10 / 16"
    assert data["meta"]["iterations"] == trace.iterations == 7
    assert data["timeline"]["iterations"] == 2


def test_entries_are_the_steps_in_order(data: dict[str, Any], program: Program) -> None:
    assert data["sections"] == [
        ["prologue", 0, "", False],
        ["loop", 0, "", True],
        ["epilogue", 0, "", False],
        ["store", 0, "", False],
    ]
    first = [row[:2] for row in data["entries"] if row[6] != "waves 4-7"]
    steps = program.groups[0].steps()
    names = [name for name, *_ in data["sections"]]
    assert first == [[names.index(section.name), slot] for section, slot, _ in steps]
    some = {row[2]: row[6] for row in data["entries"] if row[6]}
    assert some == {"barrier (stagger)": "waves 4-7", "barrier (closing)": "waves 0-3"}


def test_segments_point_to_their_entries(data: dict[str, Any]) -> None:
    run = data["timeline"]
    for row in run["segments"]:
        wave, entry, label, colour, iteration, ready, start, free, done = row[:9]
        assert 0 <= wave < 8
        assert ready <= start <= free
        assert free <= run["total"]
        assert done <= run["total"]
        assert sum(row[13]) == free - ready
        assert -1 <= iteration <= run["iterations"]
        assert 0 <= colour <= 5
        if entry >= 0:
            section = 0 if iteration < 0 else 2 if iteration == run["iterations"] else 1
            assert data["entries"][entry][0] == section
            if label.startswith(("load", "frag", "mma")):
                assert data["entries"][entry][2].startswith(label)
                assert row[12] >= 0
        assert all(0 <= n < len(run["segments"]) for n in [*row[14], max(row[11], 0)])


def test_the_matrix_unit_runs_one_wave_at_a_time(data: dict[str, Any]) -> None:
    last: dict[int, int] = {}
    busy = 0
    for simd, begin, end, _ in data["timeline"]["matrix"]:
        assert begin >= last.get(simd, 0)
        last[simd] = end
        busy += end - begin
    # 256 x 256 x 64 x 6 tiles in MFMAs of 16 x 16 x 32, each 16 cycles.
    assert busy == 16 * 16 * 2 * 6 * 16


def test_buffers_show_every_tile_written_before_it_is_read(data: dict[str, Any]) -> None:
    written: dict[tuple[int, int], int] = {}
    tiles = set()
    for region, use, tile, begin, end, _ in data["timeline"]["buffers"]:
        assert begin < end
        tiles.add(tile)
        if use == 0:
            written[region, tile] = end
        else:
            assert begin >= written[region, tile], "a fragment before its load has landed"
    assert tiles == set(range(6))
    assert len(data["timeline"]["regions"]) == 16  # each half of a piece by one group of waves


def test_barriers_release_in_order(data: dict[str, Any]) -> None:
    rows = data["timeline"]["barriers"]
    assert [r[1] for r in rows] == sorted(r[1] for r in rows)
    assert all(first <= release for first, release, _ in rows)


def test_depth_counts_what_is_in_flight(data: dict[str, Any]) -> None:
    depth = data["timeline"]["depth"]
    # 46 of 1 KB under the cap, and up to four of each of eight waves ahead of the texture path.
    assert max(depth["loads"]) <= 46.0 + 4 * 8
    assert len(depth["lds"]) == len(depth["loads"]) <= 1200
    assert max(depth["lds"]) > 4


def test_every_finding_has_its_counterexample_on_the_entries(data: dict[str, Any]) -> None:
    verdict = data["verdict"]
    assert len(verdict["examples"]) == len(verdict["findings"]) == 4
    assert 0 <= verdict["shortest"] < 4
    assert {len(example["waves"]) for example in verdict["examples"]} == {2}
    for example in verdict["examples"]:
        for wave, text, place in example["steps"]:
            assert text
            if place is not None:
                assert place[0] == wave
                assert 0 <= place[1] < len(data["entries"])


def test_knobs_are_shown_only_if_given(program: Program, data: dict[str, Any]) -> None:
    assert data["knobs"] == []
    given = page_data(program, None, None, knobs=[("config", [("depth", "2", True)])])
    assert given["knobs"] == [["config", [["depth", "2", True]]]]


def test_a_proved_schedule_has_no_counterexample() -> None:
    program = as_program(build_schedule("four_wave", sync="proven", reorder=True))
    data = page_data(program, verify(program), None, unsimulated="left out")
    assert data["verdict"]["status"] == "PROVED"
    assert data["verdict"]["shortest"] == -1
    assert data["verdict"]["examples"] == []
    assert data["timeline"] is None
    assert data["unsimulated"] == "left out"


def test_no_iteration_is_refused(program: Program, trace: Trace) -> None:
    with pytest.raises(ConfigError, match="timeline_iterations = 0") as caught:
        page_data(program, None, trace, timeline_iterations=0)
    assert "at least one" in str(caught.value)


def test_the_same_program_gives_the_same_page(
    program: Program, verdict: Verdict, trace: Trace, data: dict[str, Any]
) -> None:
    again = page_data(program, verdict, trace, timeline_iterations=2)
    assert fill_page(again) == fill_page(data)


def test_groups_with_different_work_have_entries_of_their_own() -> None:
    program = producer_consumer()
    data = page_data(program, verify(program), simulate(program, iterations=17))
    assert [row[:3] for row in data["sections"]] == [
        ["fill", 0, "wave 0"],
        ["steady", 0, "wave 0"],
        ["drain", 0, "wave 0"],
        ["fill", 1, "waves 1-4"],
        ["steady", 1, "waves 1-4"],
        ["drain", 1, "waves 1-4"],
        ["finish", 1, "waves 1-4"],
    ]
    assert len(data["entries"]) == sum(1 for g in program.groups for _ in g.steps())
    assert {row[2] for row in data["entries"]} > {"fetch A k+2", "my product", "my scaling"}
    run = data["timeline"]
    for wave, entry, label, _, _, *_ in run["segments"]:
        if entry >= 0:
            track = data["sections"][data["entries"][entry][0]][1]
            assert track == (0 if wave == 0 else 1)
            assert data["entries"][entry][2].startswith(label)
    assert {s[3] for s in run["segments"] if s[2] == "my scaling"} == {6}
    assert [row[1] for row in run["waves"]] == [0, 1, 1, 1, 1]
    assert run["regions"] == ["A copy 0", "A copy 1", "B copy 0", "B copy 1"]
    assert {tile for _, _, tile, *_ in run["buffers"]} == set(range(9))
    assert {row[1] for row in data["stalls"] if row[7]} >= {"steady[7] of wave 0"}
    assert data["verdict"]["status"] == "PROVED"
    assert data["notes"] == ["written down"]


def test_an_earlier_loop_has_its_iterations_too() -> None:
    program = two_loops(least=3)
    data = page_data(program, None, simulate(program, iterations=5))
    run = data["timeline"]
    assert [name for *_, name in run["frames"]] == [
        "first",
        "trip 0",
        "trip 1",
        "finish",
    ]
    fetched = [s[12] for s in run["segments"] if s[0] == 0 and s[2] == "fetch A"]
    assert fetched == [0, 1, 2, 3, 4]
    assert data["verdict"] is None
    assert "verdict" not in [name for _, name, _ in data["headline"]]


def test_a_program_without_a_loop_has_a_page() -> None:
    program = straight()
    data = page_data(program, verify(program), simulate(program, iterations=1))
    assert data["headline"][0][1] == "cycles in all"
    assert [op[0] for op in data["ops"]][-2:] == ["my scaling", "put out"]
    assert data["meta"]["tile"] == "64x64x32 bf16"
    assert data["meta"]["strategy"] == ""


def test_the_page_is_whole_and_small(data: dict[str, Any]) -> None:
    page = fill_page(data)
    assert len(page.encode()) < 500_000
    assert "%%" not in page
    assert page.count("</script>") == 2
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", outside)
    match = re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert match is not None
    assert json.loads(match[1])["meta"]["program"] == "ping_pong"


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "<!--", '"><img src=x onerror=alert(1)>', "a&b\u2028"],
)
def test_names_cannot_become_markup(name: str, program: Program) -> None:
    hostile = replace(program, name=name, provenance=replace(program.provenance, notes=(name,)))
    data = page_data(hostile, None, None, unsimulated=name)
    text = embedded_json(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["notes"] == [name]
    page = fill_page(data)
    assert page.count("</script>") == 2
    assert "<img" not in page


def test_every_asset_is_ours_and_used() -> None:
    names = {entry.name for entry in ASSETS.iterdir()}
    assert names == {"page.html", "page.css", "bench.css", "tuning.css", *SCRIPTS}
    assert all(len(line) < 400 for name in names for line in asset(name).splitlines())


def test_a_script_that_would_close_its_element_is_refused(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    monkeypatch.setattr(
        page_module, "asset", lambda name: "'</SCRIPT>'" if name == "main.js" else ""
    )
    with pytest.raises(InternalError, match="close its own element"):
        fill_page(data)


def test_scripts_take_no_markup_from_data() -> None:
    for name in SCRIPTS:
        script = asset(name)
        assert "innerHTML" not in script
        assert "insertAdjacentHTML" not in script
        assert "document.write" not in script
        assert script.startswith("// @ts-check")
