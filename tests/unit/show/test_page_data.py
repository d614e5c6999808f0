"""The data of the report page: complete, consistent, small, and safe to embed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from pipeloom import CompiledSchedule, ConfigError, Phase, build_schedule, verify
from pipeloom.drive.programs import simulate
from pipeloom.errors import InternalError
from pipeloom.judge.simulate import Trace
from pipeloom.show import page as page_module
from pipeloom.show.page import SCRIPTS, asset, embedded_json, render_page
from pipeloom.show.page_data import body_ops_of_entries, page_data

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]
ASSETS = files("pipeloom.show") / "assets"


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule("ping_pong", TILE)


@pytest.fixture(scope="module")
def trace(compiled: CompiledSchedule) -> Trace:
    return simulate(compiled, k_tiles=16)


@pytest.fixture(scope="module")
def data(compiled: CompiledSchedule, trace: Trace) -> dict[str, Any]:
    return page_data(compiled, verify(compiled), trace, timeline_iterations=2)


def test_the_figures_are_those_of_the_trace(data: dict[str, Any], trace: Trace) -> None:
    figures = {name: value for value, name, _ in data["headline"]}
    assert figures["cycles per iteration"] == f"{trace.steady_cycles_per_iteration:.0f}"
    assert figures["verdict"] == "TIMING"
    assert figures["waits / barriers"] == "10 / 16"
    assert data["meta"]["iterations"] == trace.iterations == 7
    assert data["timeline"]["iterations"] == 2


def test_entries_are_the_compiled_ones_in_order(
    data: dict[str, Any], compiled: CompiledSchedule
) -> None:
    assert len(data["entries"]) == sum(len(compiled.phase(p)) for p in Phase)
    for row, entry in zip(
        data["entries"], [e for p in Phase for e in compiled.phase(p)], strict=True
    ):
        assert row[0] == entry.phase
        assert row[1] == entry.time_slot


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_every_op_of_the_body_is_one_entry_of_the_kernel(name: str) -> None:
    compiled = build_schedule(name)
    found = body_ops_of_entries(compiled)
    kernel = [op for (phase, _), op in found.items() if phase is Phase.KERNEL]
    data_ops = [i for i, op in enumerate(compiled.body) if not op.is_framework]
    assert sorted(kernel) == data_ops
    for (phase, slot), op in found.items():
        entry, body = compiled.phase(phase)[slot].op, compiled.body[op]
        assert (entry.tag, entry.stage, entry.subtile) == (body.tag, body.stage, body.subtile)


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
            phase = 0 if iteration < 0 else 2 if iteration == run["iterations"] else 1
            assert data["entries"][entry][0] == phase
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
    assert len(data["timeline"]["regions"]) == 8


def test_barriers_release_in_order(data: dict[str, Any]) -> None:
    rows = data["timeline"]["barriers"]
    assert [r[1] for r in rows] == sorted(r[1] for r in rows)
    assert all(first <= release for first, release, _ in rows)


def test_depth_counts_what_is_in_flight(data: dict[str, Any], compiled: CompiledSchedule) -> None:
    depth = data["timeline"]["depth"]
    # 46 of 1 KB under the cap, and up to four of each of eight waves ahead of the texture path.
    assert max(depth["loads"]) <= 46.0 + 4 * 8
    assert len(depth["lds"]) == len(depth["loads"]) <= 1200
    assert max(depth["lds"]) > 4


def test_every_finding_has_its_counterexample_on_the_entries(data: dict[str, Any]) -> None:
    verdict = data["verdict"]
    assert len(verdict["examples"]) == len(verdict["findings"]) == 4
    assert 0 <= verdict["shortest"] < 4
    assert [example["waves"] for example in verdict["examples"]] == [[0, 4], [0], [0, 4], [0]]
    for example in verdict["examples"]:
        for wave, text, place in example["steps"]:
            assert text
            if place is not None:
                assert place[0] == wave
                assert 0 <= place[1] < len(data["entries"])


def test_knobs_mark_what_was_changed(data: dict[str, Any]) -> None:
    scheduler = {name: (value, changed) for name, value, changed in data["knobs"][0][1]}
    assert scheduler["scheduling"] == ("csp", True)
    assert scheduler["auto_waits"] == ("true", False)
    assert [title for title, _ in data["knobs"]] == ["schedule_config", "config", "geometry"]


def test_a_proved_schedule_has_no_counterexample() -> None:
    compiled = build_schedule("four_wave", sync="proven", reorder=True)
    data = page_data(compiled, verify(compiled), None, unsimulated="left out")
    assert data["verdict"]["status"] == "PROVED"
    assert data["verdict"]["shortest"] == -1
    assert data["verdict"]["examples"] == []
    assert data["timeline"] is None
    assert data["unsimulated"] == "left out"


def test_no_iteration_is_refused(compiled: CompiledSchedule, trace: Trace) -> None:
    with pytest.raises(ConfigError, match="timeline_iterations = 0") as caught:
        page_data(compiled, verify(compiled), trace, timeline_iterations=0)
    assert "at least one" in str(caught.value)


def test_the_same_schedule_gives_the_same_page(
    compiled: CompiledSchedule, trace: Trace, data: dict[str, Any]
) -> None:
    again = page_data(compiled, verify(compiled), trace, timeline_iterations=2)
    assert render_page(again) == render_page(data)


def test_the_page_is_whole_and_small(data: dict[str, Any]) -> None:
    page = render_page(data)
    assert len(page.encode()) < 500_000
    assert "%%" not in page
    assert page.count("</script>") == 2
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", outside)
    match = re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert match is not None
    assert json.loads(match[1])["meta"]["schedule"] == "ping_pong"


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "<!--", '"><img src=x onerror=alert(1)>', "a&b\u2028"],
)
def test_names_cannot_become_markup(name: str, compiled: CompiledSchedule) -> None:
    hostile = replace(compiled, notes=(name,))
    data = page_data(hostile, verify(compiled), None, unsimulated=name)
    data["meta"]["schedule"] = name
    text = embedded_json(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["notes"] == [name]
    page = render_page(data)
    assert page.count("</script>") == 2
    assert "<img" not in page


def test_every_asset_is_ours_and_used() -> None:
    names = {entry.name for entry in ASSETS.iterdir()}
    assert names == {"page.html", "page.css", *SCRIPTS}
    assert all(len(line) < 400 for name in names for line in asset(name).splitlines())


def test_a_script_that_would_close_its_element_is_refused(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    monkeypatch.setattr(
        page_module, "asset", lambda name: "'</SCRIPT>'" if name == "main.js" else ""
    )
    with pytest.raises(InternalError, match="close its own element"):
        render_page(data)


def test_scripts_take_no_markup_from_data() -> None:
    for name in SCRIPTS:
        script = asset(name)
        assert "innerHTML" not in script
        assert "insertAdjacentHTML" not in script
        assert "document.write" not in script
        assert script.startswith("// @ts-check")
