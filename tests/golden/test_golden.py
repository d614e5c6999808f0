"""Every golden case, field by field: the definition of 'op for op'."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeloom import (
    CompiledSchedule,
    DepEdge,
    OpDesc,
    ScheduleEntry,
    ScheduleError,
    build_schedule,
    load_spec,
    lower_bound,
    order_cost,
)

_FILE = Path(__file__).with_name("schedules.jsonl.gz")
with gzip.open(_FILE, "rt", encoding="utf-8") as stream:
    CASES: list[dict[str, Any]] = [json.loads(line) for line in stream]
OK = [case for case in CASES if case["expect"] == "ok"]
ERROR = [case for case in CASES if case["expect"] == "error"]

_OP_FIELDS = (
    *("tag", "stage", "subtile", "k_offset", "vm_cost", "lgkm_cost", "wait_value"),
    *("resource", "latency", "role", "channel", "vgpr_def", "vgpr_kill"),
)


def _op(op: OpDesc) -> list[int]:
    return [int(getattr(op, name)) for name in _OP_FIELDS]


def _edges(edges: Iterable[DepEdge]) -> list[list[int]]:
    return [[e.producer, e.consumer, int(e.kind), e.loop_distance] for e in edges]


def _entries(entries: Iterable[ScheduleEntry]) -> list[list[Any]]:
    return [[e.time_slot, int(e.is_prefetch), _op(e.op)] for e in entries]


def _as_golden(compiled: CompiledSchedule) -> dict[str, Any]:
    body = compiled.loop_body
    identity = order_cost(body, range(len(body)))
    return {
        "lower_bound": lower_bound(body),
        "identity_makespan": identity.makespan,
        "identity_vgpr_peak": identity.vgpr_peak,
        "warp_stagger_index": compiled.warp_stagger_index,
        "body": [_op(op) for op in compiled.body],
        "edges": _edges(compiled.edges),
        "prologue": _entries(compiled.prologue),
        "kernel": _entries(compiled.kernel),
        "epilogue": _entries(compiled.epilogue),
        "kernel_deps": _edges(compiled.kernel_deps),
    }


def test_all_cases_are_here() -> None:
    assert (len(OK), len(ERROR)) == (352, 50)


@pytest.mark.parametrize("case", OK, ids=lambda case: case["case"])
def test_ok_case_is_identical(case: dict[str, Any]) -> None:
    got = _as_golden(build_schedule(case["spec"]))
    assert got.keys() == case["result"].keys()
    for field, expected in case["result"].items():
        assert got[field] == expected, field


@pytest.mark.parametrize("case", ERROR, ids=lambda case: case["case"])
def test_error_case_says_what_is_wrong_and_what_to_change(case: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError) as caught:
        build_schedule(case["spec"])
    error = caught.value
    assert error.hint
    assert error.field
    expected = {
        "block sizing leaves": ("unplaced", "block_sizing"),
        "a block holds more": ("has room for 2", "max_globals"),
        "reference verifier": ("cross-block LDS race", "max_globals"),
    }
    message, remedy = next(v for k, v in expected.items() if case["reason"].startswith(k))
    assert message in error.message
    assert remedy in error.hint


def test_schedules_read_back_equal() -> None:
    for case in OK[::7]:
        compiled = build_schedule(case["spec"])
        assert CompiledSchedule.from_dict(json.loads(compiled.to_json())) == compiled


def test_certificates_agree_with_the_golden_bounds() -> None:
    for case in OK:
        certificate = build_schedule(case["spec"]).certificate
        assert certificate.lower_bound == case["result"]["lower_bound"]
        knobs = case["spec"].get("schedule_config", {"scheduling": "identity"})
        if case["spec"]["schedule"] == "ping_pong" and knobs["scheduling"] != "identity":
            assert certificate.proved
            assert certificate.makespan == certificate.lower_bound


def test_spec_files_build_the_same_schedule_as_constructors() -> None:
    spec = OK[0]["spec"]
    assert load_spec(spec).build_body() == list(build_schedule(spec).body)
