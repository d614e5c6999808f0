"""Simulated runs in rocprofv3's format come back with the same cycles, and find their kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom.drive.emitting import Emission, EmitJob, emit
from pipeloom.drive.measuring import lay_over_trace
from pipeloom.drive.sources import Source
from pipeloom.errors import SpecError
from pipeloom.judge.simulate import Trace
from pipeloom.show.chrome_trace import MEASURED, chrome_trace
from pipeloom.show.overlay_page import overlay_page
from pipeloom.thread_trace import Overlay, read_capture
from tests.unit.thread_trace.traces import simulated_folder

Times = list[tuple[int, int, int, int, int, int]]


def times(trace: Trace) -> Times:
    """Who issued what when."""
    return sorted((e.wave, e.iteration, e.position, e.ready, e.start, e.free) for e in trace.events)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emission, Trace]:
    folder = tmp_path_factory.mktemp("trace")
    return folder, *simulated_folder(folder, "single_buffer")


@pytest.fixture(scope="module")
def overlay(kept: tuple[Path, Emission, Trace]) -> Overlay:
    return lay_over_trace(kept[0], of=kept[1])


def test_every_instruction_comes_back_with_its_cycles(
    kept: tuple[Path, Emission, Trace], overlay: Overlay
) -> None:
    _, _, trace = kept
    assert times(overlay.measured) == times(trace)
    assert overlay.measured.marks == trace.marks
    assert overlay.measured.total_cycles == trace.total_cycles


def test_the_text_of_a_kernel_simulates_as_its_lines_do(
    kept: tuple[Path, Emission, Trace], overlay: Overlay
) -> None:
    assert times(overlay.simulated) == times(kept[2])
    assert overlay.error == 0.0
    assert {row.difference for row in overlay.rows} == {0.0}
    assert overlay.measured_cycles == kept[2].steady_cycles_per_iteration


def test_instructions_are_named_by_the_steps_they_serve(overlay: Overlay) -> None:
    sources = {row.row.source for row in overlay.rows if "mfma" in row.row.text}
    assert any(source.startswith("loop[") for source in sources)


def test_the_stats_file_has_the_sums_of_the_waves(kept: tuple[Path, Emission, Trace]) -> None:
    capture = read_capture(kept[0])
    by_place = {(row.code_object, row.address): row.sums for row in capture.code.rows.values()}
    assert dict(capture.sums) == by_place
    assert sum(one.hits for one in capture.sums.values()) == len(kept[2].events)


def test_the_chip_is_that_of_the_traced_code_object(kept: tuple[Path, Emission, Trace]) -> None:
    assert lay_over_trace(kept[0]).simulated.machine.arch == kept[1].kernel.target


def test_a_trace_of_another_build_is_refused(kept: tuple[Path, Emission, Trace]) -> None:
    other = emit(EmitJob(Source("single_buffer", dtype="fp16"), name=kept[1].kernel.name))
    with pytest.raises(SpecError, match="another build"):
        lay_over_trace(kept[0], of=other)
    elsewhere = emit(EmitJob(Source("single_buffer", dtype="fp16"), name="elsewhere"))
    with pytest.raises(SpecError, match="not of elsewhere"):
        lay_over_trace(kept[0], of=elsewhere)


def test_without_the_code_object_the_instructions_are_compared(
    kept: tuple[Path, Emission, Trace], tmp_path: Path
) -> None:
    place = next(kept[0].glob("ui_output*"))
    copy = tmp_path / place.name
    copy.mkdir()
    for path in place.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert lay_over_trace(tmp_path, of=kept[1]).error == 0.0
    other = emit(EmitJob(Source("single_buffer", dtype="fp16"), name=kept[1].kernel.name))
    with pytest.raises(SpecError, match="another build"):
        lay_over_trace(tmp_path, of=other)


def test_perfetto_has_a_measured_lane_per_wave(overlay: Overlay) -> None:
    simulated, measured = overlay.aligned()
    rows = json.loads(chrome_trace(simulated, "k", measured))["traceEvents"]
    lanes = {row["pid"] for row in rows if row["tid"] == MEASURED and row["name"] == "thread_name"}
    assert len(lanes) == len(simulated.programs)
    issued = [row for row in rows if row["tid"] == MEASURED and row["ph"] == "X"]
    stalls = [row for row in issued if row["cat"] == "stall"]
    assert len(issued) - len(stalls) == len(measured.events)
    assert sum(row["dur"] for row in stalls) == sum(event.stall for event in measured.events)


def test_the_page_has_two_lanes_per_wave(overlay: Overlay) -> None:
    data = overlay_page(overlay, iterations=2)
    lanes = data["timeline"]
    count = len(overlay.simulated.programs)
    assert [name.split()[-1] for name in lanes["names"]] == ["simulated", "measured"] * count
    assert len(lanes["waves"]) == 2 * count
    for row in lanes["segments"][:50]:
        assert row[5] <= row[6] <= row[7]
    assert [row[-1] for row in data["beside"]] == [0.0] * len(data["beside"])
