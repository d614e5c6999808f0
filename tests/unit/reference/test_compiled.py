"""CompiledSchedule: its plain form, its way back, and what it answers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from pipeloom import (
    CompiledSchedule,
    DepEdge,
    OpDesc,
    OpRole,
    Phase,
    ScheduleEntry,
    ScheduleError,
    build_schedule,
)
from pipeloom.program import SyncMethod
from pipeloom.reference.lift import lift
from pipeloom.reference.resync import synchronize
from pipeloom.show.headers import sync_text

SPECS: list[dict[str, Any]] = [
    {"schedule": "ping_pong", "lgkm_a": 8, "lgkm_b": 4},
    {"schedule": "ping_pong", "schedule_config": {"scheduling": "identity"}},
    {"schedule": "four_wave"},
    {"schedule": "single_buffer", "num_k_tiles": 3},
]


@pytest.fixture(params=SPECS, ids=lambda s: s["schedule"])
def compiled(request: pytest.FixtureRequest) -> CompiledSchedule:
    return build_schedule(request.param)


def test_round_trip(compiled: CompiledSchedule) -> None:
    assert CompiledSchedule.from_dict(compiled.to_dict()) == compiled
    through_json = json.loads(compiled.to_json())
    assert CompiledSchedule.from_dict(through_json) == compiled
    assert CompiledSchedule.from_dict(through_json).to_json() == compiled.to_json()


def test_what_synchronising_did_is_data_and_survives_a_file() -> None:
    repaired = build_schedule("ping_pong", sync="repaired", reorder=True)
    read = CompiledSchedule.from_dict(json.loads(repaired.to_json()))
    silent = replace(read, notes=())
    assert silent.synchronised is SyncMethod.REPAIRED
    assert len(silent.moved) == 4
    assert sync_text(lift(silent)) == sync_text(lift(repaired)) != ""
    four = build_schedule("four_wave", sync="repaired", reorder=True)
    assert (four.moved, four.barriers_added) == ((), 2)
    again = synchronize(four, keep_barriers=True)
    assert again.barriers_added == 2
    assert sync_text(lift(build_schedule("ping_pong"))) == ""


def test_files_without_that_are_read_too() -> None:
    compiled = build_schedule("ping_pong")
    plain = compiled.to_dict()
    for name in ("interrupted", "synchronised", "moved", "barriers_added"):
        del plain[name]
    assert CompiledSchedule.from_dict(plain) == compiled


def test_plain_form_has_the_names_of_the_issue(compiled: CompiledSchedule) -> None:
    plain = compiled.to_dict()
    assert {
        "config",
        "schedule_config",
        "body",
        "edges",
        "order",
        "certificate",
        "program",
        "prologue",
        "kernel",
        "epilogue",
        "kernel_deps",
        "warp_stagger_index",
    } <= plain.keys()
    assert set(plain["edges"][0]) == {"producer", "consumer", "kind", "loop_distance"}
    assert set(plain["kernel"][0]) == {"op", "time_slot", "phase", "is_prefetch"}
    assert set(plain["certificate"]) == {
        "strategy",
        "makespan",
        "vgpr_peak",
        "lower_bound",
        "proved",
        "nodes",
    }
    assert set(plain["body"][0]) == set(asdict(OpDesc(1)))


def test_enums_are_integer_codes(compiled: CompiledSchedule) -> None:
    plain = compiled.to_dict()
    for op, code in zip(compiled.body, plain["body"], strict=True):
        for field in ("tag", "role", "resource", "k_offset"):
            assert type(code[field]) is int
            assert code[field] == int(getattr(op, field))
    assert {entry["phase"] for entry in plain["epilogue"]} == {2}


def test_json_is_byte_stable_and_plain(compiled: CompiledSchedule) -> None:
    text = compiled.to_json()
    assert text == compiled.to_json()
    assert text.endswith("}\n")
    assert text.isascii()
    assert json.loads(text) == compiled.to_dict()


def test_a_change_anywhere_is_seen(compiled: CompiledSchedule) -> None:
    plain = compiled.to_dict()
    plain["kernel"][0]["op"]["stage"] += 1
    assert CompiledSchedule.from_dict(plain) != compiled


def test_phases_by_name(compiled: CompiledSchedule) -> None:
    assert compiled.phase(Phase.PROLOGUE) is compiled.prologue
    assert compiled.phase(Phase.KERNEL) is compiled.kernel
    assert compiled.phase(Phase.EPILOGUE) is compiled.epilogue


def test_loop_body_is_the_graph_of_the_schedule(compiled: CompiledSchedule) -> None:
    assert compiled.loop_body.ops == compiled.body
    assert compiled.loop_body.edges == compiled.edges


def kernel_of(*ops: OpDesc) -> CompiledSchedule:
    entries = tuple(ScheduleEntry(op, i, Phase.KERNEL) for i, op in enumerate(ops))
    return replace(build_schedule("ping_pong"), kernel=entries, kernel_deps=())


def test_an_entry_prefetches_where_that_is_said() -> None:
    assert not any(entry.is_prefetch for entry in kernel_of(OpDesc.barrier()).kernel)


def test_counts_by_kind() -> None:
    vm, lgkm, barrier = OpDesc.wait_vm(1), OpDesc.wait_lgkm(2), OpDesc.barrier()
    fences = [OpDesc.set_prio(1), OpDesc.schedule_barrier(), OpDesc.sched_group_barrier(3, 1)]
    mma = OpDesc(5, role=OpRole.COMPUTE)
    compiled = kernel_of(mma, vm, lgkm, barrier, lgkm, mma, *fences, lgkm, vm, vm, barrier)
    assert asdict(compiled.counts(Phase.KERNEL)) == {
        "entries": 13,
        "wait_vm": 3,
        "wait_lgkm": 3,
        "coalesced_waits": 3,  # vm+lgkm; lgkm; lgkm+vm+vm
        "barriers": 2,
        "fences": 3,
    }


def test_counts_of_an_empty_phase() -> None:
    assert set(asdict(kernel_of().counts(Phase.KERNEL)).values()) == {0}


def test_ops_per_block_add_up_to_the_kernel() -> None:
    for name in ("ping_pong", "four_wave"):
        compiled = build_schedule(name)
        assert len(compiled.ops_per_block()) == compiled.config.total_blocks()
        assert sum(compiled.ops_per_block()) == len(compiled.kernel)
    assert build_schedule("single_buffer").ops_per_block() == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warp_stagger_index": -1}, r"warp_stagger_index is -1, but must be at least 0"),
        ({"warp_stagger_index": True}, r"warp_stagger_index is True, but must be an integer"),
        ({"edges": (DepEdge(0, 99),)}, r"edges\[0\] joins 0 and 99, but there are only 24"),
        ({"edges": (DepEdge(0, 1), DepEdge(24, 0))}, r"edges\[1\] joins 24 and 0"),
        ({"kernel_deps": (DepEdge(0, 999),)}, r"kernel_deps\[0\] joins 0 and 999"),
    ],
)
def test_impossible_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        replace(build_schedule("ping_pong"), **changes)
    assert caught.value.hint
    assert caught.value.field
