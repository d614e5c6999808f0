"""The Perfetto file against the documented fields of the Trace Event Format."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pipeloom import build_schedule
from pipeloom.drive.programs import simulate
from pipeloom.judge.simulate import Trace
from pipeloom.show.chrome_trace import GLOBAL, LDS, SYNC, chrome_trace
from pipeloom.show.segments import retired_by

FIELDS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "M": {"name", "ph", "ts", "pid", "tid", "args"},
    "s": {"name", "cat", "id", "ph", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ph", "bp", "ts", "pid", "tid"},
    "C": {"name", "ph", "ts", "pid", "tid", "args"},
}
"""What the format's document asks of each phase."""
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return simulate(
        build_schedule(
            "ping_pong", ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]
        ),
        k_tiles=6,
    )


@pytest.fixture(scope="module")
def file(trace: Trace) -> dict[str, Any]:
    loaded = json.loads(chrome_trace(trace, "ping_pong"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(scope="module")
def slices(file: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in file["traceEvents"]:
        if row["ph"] == "X":
            found.setdefault((row["pid"], row["tid"]), []).append(row)
    return found


def test_the_file_is_the_object_form(file: dict[str, Any]) -> None:
    assert set(file) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert file["displayTimeUnit"] in ("ms", "ns")
    assert file["otherData"]["title"] == "ping_pong"


def test_every_event_has_the_documented_fields(file: dict[str, Any]) -> None:
    for row in file["traceEvents"]:
        assert set(row) == FIELDS[row["ph"]], row
        assert isinstance(row["name"], str)
        assert isinstance(row["ts"], int)
        assert row["ts"] >= 0
        if row["ph"] == "X":
            assert row["dur"] > 0
        if row["ph"] == "f":
            assert row["bp"] == "e"
        if row["ph"] == "C":
            assert all(isinstance(v, float) and v >= 0 for v in row["args"].values())
        if row["ph"] == "M":
            assert row["name"] in METADATA
            key = "sort_index" if row["name"].endswith("sort_index") else "name"
            assert set(row["args"]) == {key}


def test_every_track_is_named(
    file: dict[str, Any], slices: dict[tuple[int, int], list[dict[str, Any]]]
) -> None:
    names = {
        (row["pid"], row["tid"]): row["args"]["name"]
        for row in file["traceEvents"]
        if row["ph"] == "M" and row["name"] == "thread_name"
    }
    assert set(names) == set(slices)
    for wave in range(8):
        mine = {name for (pid, _), name in names.items() if pid == wave + 1}
        assert {"issue", "matrix unit", "LDS", "global memory", "waits and barriers"} <= mine
    processes = [r["args"]["name"] for r in file["traceEvents"] if r["name"] == "process_name"]
    assert processes[1] == "wave 0 (SIMD 0, group 0)"
    assert len(processes) == 9


def test_slices_of_a_track_do_not_overlap(
    slices: dict[tuple[int, int], list[dict[str, Any]]],
) -> None:
    for track, rows in slices.items():
        end = 0
        for row in sorted(rows, key=lambda r: r["ts"]):
            assert row["ts"] >= end, (track, row)
            end = row["ts"] + row["dur"]


def test_every_instruction_is_issued_once(
    trace: Trace, slices: dict[tuple[int, int], list[dict[str, Any]]]
) -> None:
    issued = [r for (_, tid), rows in slices.items() if tid == 1 for r in rows]
    assert sum(r["cat"] != "stall" for r in issued) == len(trace.events)
    assert sum(r["dur"] for r in issued if r["cat"] == "stall") == sum(
        e.stall for e in trace.events
    )


def test_arrows_lead_from_loads_to_their_waits(
    trace: Trace,
    file: dict[str, Any],
    slices: dict[tuple[int, int], list[dict[str, Any]]],
) -> None:
    def slice_at(row: dict[str, Any]) -> dict[str, Any]:
        found = [
            r for r in slices[row["pid"], row["tid"]] if r["ts"] <= row["ts"] < r["ts"] + r["dur"]
        ]
        assert len(found) == 1, row
        return found[0]

    starts = {r["id"]: r for r in file["traceEvents"] if r["ph"] == "s"}
    ends = {r["id"]: r for r in file["traceEvents"] if r["ph"] == "f"}
    assert starts
    assert set(starts) == set(ends)
    kinds: Counter[str] = Counter()
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        assert start["pid"] == end["pid"]
        assert start["tid"] >= LDS
        assert end["tid"] == SYNC
        source, target = slice_at(start), slice_at(end)
        counter = "vmcnt" if start["tid"] >= GLOBAL else "lgkmcnt"
        assert source["name"].startswith("load" if counter == "vmcnt" else "frag")
        assert target["name"].startswith(counter)
        assert source["ts"] + source["dur"] <= end["ts"]
        kinds[counter] += 1
    assert kinds["vmcnt"] > 8
    assert kinds["lgkmcnt"] > 8
    assert sum(kinds.values()) <= sum(len(r) for r in retired_by(trace).values())


def test_counters_return_to_zero(file: dict[str, Any]) -> None:
    last: dict[str, float] = {}
    for row in file["traceEvents"]:
        if row["ph"] == "C":
            (last[row["name"]],) = row["args"].values()
    assert last == {"LDS operations in flight": 0.0, "global loads in flight": 0.0}


def test_the_same_trace_gives_the_same_bytes(trace: Trace) -> None:
    assert chrome_trace(trace, "x") == chrome_trace(trace, "x")
