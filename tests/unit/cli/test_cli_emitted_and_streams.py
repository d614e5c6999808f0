"""Emitted kernels and hand-written streams through the simulating commands; tiles by machine."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import pipeloom
from pipeloom import SpecError, build_schedule, emit
from pipeloom.cli.main import main
from pipeloom.drive.programs import simulate
from pipeloom.drive.tiling import tile_for
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.reference.compiler import Sync
from pipeloom.reference.schedules import DEFAULT_TILES
from tests.unit.cli.ran import ran

GFX942, GFX950 = target_for("gfx942"), target_for("gfx950")
REPAIRED = ["--sync", "repaired", "--reorder"]
DERIVED = ["gemm_tile", "--set", "BM=64", "--set", "BN=64"]
"""A tile whose order is found in a fraction of the default one's time."""


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def _data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, _ = _run(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


# ---------------------------------------------------------------- tiles by machine


def test_default_tiles_are_the_bf16_tiles_of_gfx950() -> None:
    for name, tile in DEFAULT_TILES.items():
        assert tile_for(name, "bf16", GFX950) == tile


@pytest.mark.parametrize(
    ("machine", "elements", "depth", "mma"),
    [
        (GFX950, "bf16", 64, 32),
        (GFX950, "fp8", 256, 128),
        (GFX942, "fp16", 64, 16),
        (GFX942, "fp8", 128, 32),
    ],
)
def test_single_buffer_has_a_tile_on_every_machine(
    machine: Any, elements: str, depth: int, mma: int
) -> None:
    tile = tile_for("single_buffer", elements, machine)
    assert (tile["BK"], tile["MMA_K"]) == (depth, mma)
    compiled = build_schedule({"schedule": "single_buffer", "geometry": tile})
    assert simulate(compiled, machine, k_tiles=4).iterations == 2


def test_wide_loads_to_lds_are_refused_where_the_machine_has_none() -> None:
    with pytest.raises(SpecError, match="gfx942") as caught:
        tile_for("ping_pong", "bf16", GFX942)
    assert caught.value.field == "geometry"


@pytest.mark.parametrize("name", ["single_buffer", "gemm_tile"])
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
def test_simulate_by_name_alone(
    name: str, arch: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    asked = [name]
    if name == "gemm_tile":
        request.getfixturevalue("short_search")
        if arch == "gfx942":  # a search for the whole tile takes half a minute
            asked = DERIVED
    data = _data(capsys, "simulate", *asked, "--arch", arch)
    assert data["arch"] == arch
    assert data["steady_cycles_per_iteration"] > 0
    assert data["verdict"] == ("RACE" if name == "single_buffer" else "PROVED")


def test_compare_trace_and_report_of_single_buffer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--k-tiles", "6"]
    rows = _data(capsys, "compare", "single_buffer", "single_buffer:sync=proven", *short)
    assert [row["verdict"] for row in rows] == ["RACE", "PROVED"]
    assert {row["tile"] for row in rows} == {"128x128x64 bf16"}
    for command, suffix in (("trace", "json"), ("report", "html")):
        target = tmp_path / f"x.{suffix}"
        assert _run(capsys, command, "single_buffer", *short, "-o", str(target))[0] == 0
        assert target.stat().st_size > 10_000


def test_the_default_k_is_one_that_the_kernel_can_sum(capsys: pytest.CaptureFixture[str]) -> None:
    """ping_pong sums 2, 4, 6, ... tiles: 33 is not among them."""
    assert _data(capsys, "simulate", "ping_pong")["iterations"] == 15
    done = ran(capsys, "simulate", "ping_pong", "--k-tiles", "33")
    assert (done.code, done.field) == (1, "k_tiles")


@pytest.mark.usefixtures("short_search")
def test_the_machine_of_a_derived_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    derived = ["simulate", *DERIVED, "--set", "arch=gfx942"]
    assert _data(capsys, *derived)["arch"] == "gfx942"
    done = ran(capsys, *derived, "--arch", "gfx950")
    assert (done.code, done.field) == (1, "arch")


# ---------------------------------------------------------------- emitted kernels


@pytest.mark.parametrize(("name", "sync"), [("ping_pong", "repaired"), ("single_buffer", "proven")])
def test_simulate_emitted_is_the_library_s(
    name: str, sync: Sync, capsys: pytest.CaptureFixture[str]
) -> None:
    data = _data(capsys, "simulate", name, "--emitted", "--k-tiles", "8")
    compiled = build_schedule(
        {"schedule": name, "geometry": dict(DEFAULT_TILES[name])}, sync=sync, reorder=True
    )
    expected = simulate_emitted(emit(compiled), k_tiles=8).summary()
    assert data["total_cycles"] == expected["total_cycles"]
    assert data["steady_cycles_per_iteration"] == expected["steady_cycles_per_iteration"]
    assert (data["verdict"], data["emitted"]["sync"]) == ("PROVED", f"sync {sync}")
    assert data["emitted"]["kernel"] == f"{name}_bf16_bf16"


def test_simulate_emitted_is_exported() -> None:
    assert pipeloom.simulate_emitted is simulate_emitted
    assert "simulate_emitted" in pipeloom.__all__


def test_emitted_entries_are_called_as_in_the_schedule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    short = ["--k-tiles", "8"]
    out = _run(capsys, "simulate", "ping_pong", "--emitted", *short)[1]
    assert all(name in out for name in ("ping_pong_bf16_bf16", "gfx950", "256x256x64 bf16"))
    assert re.search(r"loop\[\d+\] frag [AB]\[\d,\d\]", out)


def test_dtype_and_target_as_emit_spells_them(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--emitted", "--k-tiles", "4"]
    fp8 = _data(capsys, "simulate", "ping_pong", "--dtype", "fp8", "--target", "gfx950", *short)
    assert (fp8["tile"], fp8["emitted"]["dtype"]) == ("256x256x128 fp8", "fp8")
    gfx942 = _data(capsys, "simulate", "single_buffer", "--target", "gfx942", *short)
    assert (gfx942["arch"], gfx942["emitted"]["target"]) == ("gfx942", "gfx942")


def test_compare_sets_the_emitted_kernel_beside_its_schedule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    variants = ["ping_pong:sync=repaired,reorder=true", "ping_pong:emitted=true"]
    model, real = _data(capsys, "compare", *variants)
    assert model["cycles_per_trip"] <= real["cycles_per_trip"]
    assert real["cycles_per_trip"] < 1.02 * model["cycles_per_trip"]
    assert (real["waits"], real["barriers"]) == (model["waits"], model["barriers"])


def test_trace_and_report_of_an_emitted_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.json"
    short = ["--emitted", "--k-tiles", "8"]
    figures = _data(capsys, "trace", "four_wave", *short, "-o", str(target))
    assert figures["emitted"]
    names = {row["name"] for row in json.loads(target.read_text())["traceEvents"]}
    assert {"store C(0, 0)", "frag A[0,0]"} <= names
    page = tmp_path / "r.html"
    code, out, _ = _run(capsys, "report", "four_wave", *short, "-o", str(page))
    assert (code, "four_wave_fp8_f32" in out) == (0, True)
    assert out.count("PROVED") == 1
    assert '"stream":"four_wave_fp8_f32"' in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "field", "named"),
    [
        (["ping_pong", "--emitted", "--sync", "reference"], "schedule", "TIMING"),
        (["ping_pong", "--allow-timing"], None, "--allow-timing"),
        (["ping_pong", "--emitted", "--arch", "gfx942"], "geometry", "gfx942"),
        (["ping_pong", "--emitted", "--k-tiles", "7"], "k_tiles", "7"),
        (["ping_pong", "--emitted", "--m", "64", "--n", "64", "--k", "64"], "k", "64"),
    ],
)
def test_emitted_refuses(
    arguments: list[str], field: str | None, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(capsys, "simulate", *arguments)
    assert (done.code, done.out, done.field) == (1, "", field)
    assert named in done.err


def test_the_estimate_of_an_emitted_kernel_stores_c_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For the simulated K, a tile takes as long as the simulated run, store included."""
    problem = ["--m", "4096", "--n", "4096", "--k", str(8 * 64), "--k-tiles", "8"]
    data = _data(capsys, "simulate", "ping_pong", "--emitted", *problem)
    estimate = data["estimate"]
    assert estimate["tile_cycles"] == pytest.approx(data["total_cycles"])
    assert estimate["tile_cycles"] > 256 * 256 * 2 / 8
    assert any("as in the simulated tile" in text for text in estimate["assumptions"])
    plain = _data(capsys, "simulate", "ping_pong", *problem)
    added = plain["estimate"]["tile_cycles"] - plain["total_cycles"]
    assert added == pytest.approx(256 * 256 * 2 / 8)
    assert any("not overlapped" in text for text in plain["estimate"]["assumptions"])
    wide = _data(
        capsys,
        "simulate",
        "ping_pong",
        "--tile",
        "fp8",
        *problem[:4],
        "--k",
        "1024",
        "--k-tiles",
        "8",
    )
    added = wide["estimate"]["tile_cycles"] - wide["total_cycles"]
    assert added == pytest.approx(256 * 256 * 4 / 8), "of 8-bit operands emit stores f32"


def test_too_long_a_run_names_the_option_that_shortens_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = ran(capsys, "simulate", "ping_pong", "--k-tiles", "100000000")
    assert (done.code, done.field) == (1, "k_tiles")
    assert "--k-tiles" in done.err


def test_one_of_a_thing_is_not_plural(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, "simulate", "--stream", "M4", "--iterations", "1")
    assert "4 waves, 1 trip: 64 cycles" in out
    problem = ["--m", "256", "--n", "256", "--k", "512", "--k-tiles", "8"]
    _, out, _ = _run(capsys, "simulate", "ping_pong", *problem)
    assert "1 workgroup in 1 round, the last" in " ".join(out.split())


def test_a_loop_of_no_unit_is_limited_by_issue_or_barriers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for stream, limit in (("S16", "instruction issue"), ("B8", "barriers")):
        _, out, _ = _run(capsys, "simulate", "--stream", stream)
        assert limit in out


def test_a_timing_schedule_is_emitted_when_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    allowed = ["--emitted", "--sync", "reference", "--allow-timing", "--k-tiles", "4"]
    assert _data(capsys, "simulate", "ping_pong", *allowed)["verdict"] == "TIMING"


def test_a_compiled_file_is_emitted_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c.json")
    _run(capsys, "compile", "single_buffer", "--dtype", "bf16", "--sync", "proven", "-o", path)
    data = _data(capsys, "simulate", path, "--emitted", "--k-tiles", "4")
    assert data["emitted"]["sync"] == "sync as compiled"
    done = ran(capsys, "simulate", path, "--emitted", "--dtype", "bf16")
    assert (done.code, "--dtype" in done.err) == (1, True)


# ---------------------------------------------------------------- synchronised by construction


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("command", ["verify", "simulate", "compile", "show"])
def test_sync_of_a_derived_schedule_is_said_to_change_nothing(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, plain, silent = _run(capsys, command, *DERIVED, "--json")
    assert (code, silent) == (0, "")
    code, out, err = _run(capsys, command, *DERIVED, "--sync", "proven", "--json")
    assert (code, out) == (0, plain)
    assert err.startswith("note: gemm_tile ")


@pytest.mark.usefixtures("short_search")
def test_emitting_a_derived_schedule_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "emit", *DERIVED, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["sync"] == "sync as derived"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["compare", "ping_pong", "ping_pong:sync=repaired"], "reorder=true"),
        (["simulate", "ping_pong", "--sync", "repaired"], "--reorder"),
        (["fix", "ping_pong", "--keep-barriers"], "--reorder"),
    ],
)
def test_hints_are_spelt_as_the_command_spells_them(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(capsys, *arguments)
    assert (done.code, done.field) == (1, "order")
    assert hint in done.err


def test_what_a_compare_hint_says_works(capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["ping_pong", "ping_pong:sync=repaired,reorder=true"]
    assert _run(capsys, "compare", *variants, "--k-tiles", "4")[0] == 0


def test_unlike_iterations_are_not_ranked_by_cycles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    unlike = _run(capsys, "compare", "ping_pong", "single_buffer")[1]
    assert "variants differ in work" in unlike
    assert "K tiles" in unlike
    like = _run(capsys, "compare", "ping_pong", "ping_pong:scheduling=identity")[1]
    assert "per trip of 2 K tiles" in like


# ---------------------------------------------------------------- streams

LOOP = "wv10 B R8 G2 wl0 B M16 branch"


def test_a_stream_from_text_file_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--waves-per-simd", "2", "--stagger", "--iterations", "12", "--mfma", "32x32x16_f16"]
    told = _data(capsys, "simulate", "--stream", LOOP, *options)
    file = tmp_path / "loop.txt"
    file.write_text(LOOP.replace(" B", "\nB"))
    assert _data(capsys, "simulate", "--stream", str(file), *options) == told
    monkeypatch.setattr("sys.stdin", io.StringIO(LOOP))
    assert _data(capsys, "simulate", "--stream", "-", *options) == told
    assert (told["waves"], told["iterations"]) == (8, 12)


def test_every_option_of_a_stream_matters(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--waves-per-simd", "2"]
    plain = _data(capsys, "simulate", "--stream", LOOP, *base)
    for option in (
        ["--arch", "gfx942"],
        ["--mfma", "32x32x16_f16"],
        ["--mfma", "64"],
        ["--waves-per-simd", "4"],
        ["--stagger"],
        ["--iterations", "30"],
        ["--lds-conflict", "4"],
        ["--jitter", "0.5"],
    ):
        changed = _data(capsys, "simulate", "--stream", LOOP, *base, *option)
        assert changed["total_cycles"] != plain["total_cycles"], option


def test_a_busy_matrix_unit_is_no_stall(capsys: pytest.CaptureFixture[str]) -> None:
    out = _run(capsys, "simulate", "--stream", "M16 branch")[1]
    assert "no stalls" in out
    assert "stalls" in _run(capsys, "simulate", "--stream", "G2 wv0 M16 branch")[1]
    assert "the matrix unit is busy" not in out


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("M4\n  R8 Q3\n", ":2:6: "),
        ("M4\n(R8\n", ":2:1: "),
        ("wv1+wv2 M", ":1:1: "),
        ("", ":1:1: "),
    ],
)
def test_the_bad_token_of_a_file_by_line_and_column(
    text: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loop.txt"
    file.write_text(text)
    done = ran(capsys, "simulate", "--stream", str(file))
    assert (done.code, done.out) == (1, "")
    assert f"error: {file}{place}" in done.err


def test_bad_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(capsys, "simulate", "--stream", "M4 Q2 R8")
    assert done.code == 1
    assert "\n  M4 Q2 R8\n     ^" in done.err
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    for arguments, field in (
        ([str(tmp_path / "none.txt")], "stream"),
        (["M4 B", "--stagger"], "stagger"),
        (["R4 wl0", "--lds-conflict", "0"], "simulation.lds_conflict"),
        ([str(binary)], "stream"),
    ):
        done = ran(capsys, "simulate", "--stream", *arguments)
        assert (done.code, done.field) == (1, field)


# ---------------------------------------------------------------- the table of docs/looking.md

PAGE = Path(pipeloom.__file__).parents[2] / "docs" / "looking.md"


@pytest.mark.parametrize("name", ["ping_pong", "four_wave", "single_buffer"])
def test_the_page_states_both_ways_of_simulating(name: str) -> None:
    tile = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
    compiled = build_schedule({"schedule": name, "geometry": tile}, sync="repaired", reorder=True)
    runs = (simulate(compiled), simulate_emitted(emit(compiled)))
    shape = compiled.geometry
    assert shape is not None
    firsts = (f"| {name}, {shape.BM}x{shape.BN}x{shape.BK} | op-level |", "| | emitted |")
    text = PAGE.read_text("utf-8")
    for first, run in zip(firsts, runs, strict=True):
        busy = max(run.steady_matrix_efficiency())
        assert (
            f"{first} {run.steady_cycles_per_iteration:.0f} | {100 * busy:.1f} % | "
            f"{run.prologue_cycles} | {run.epilogue_cycles} | {run.total_cycles} |"
        ) in text
