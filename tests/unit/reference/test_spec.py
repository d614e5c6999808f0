"""Spec files: JSON and TOML, defaults, overlays and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeloom import (
    BlockSizing,
    DeclarativeSchedule,
    FragOrder,
    KernelGeometry,
    OrderError,
    Pipeline4Wave,
    ScheduleConfig,
    ScheduleError,
    SchedulingStrategy,
    SingleBufferSchedule,
    SpecError,
    build_schedule,
    compile_schedule,
    load_spec,
    mi355x_target,
)
from pipeloom.reference.spec import apply_settings, find_spec, read_spec

SPEC: dict[str, Any] = {
    "schedule": "ping_pong",
    "lgkm_a": 8,
    "lgkm_b": 4,
    "schedule_config": {"scheduling": "greedy", "max_vgpr": 512},
    "target": {
        "name": "mi355x",
        "vm_per_load_a": 2,
        "block_sizing": {"heavy": 5, "light": 3, "max_globals": 0},
        "frag_order": {"b_before_a": False},
        "latency": {"MMA": 32, "LOAD_A": 300},
    },
}
TOML = """\
schedule = "ping_pong"
lgkm_a = 8
lgkm_b = 4
[schedule_config]
scheduling = "greedy"
max_vgpr = 512
[target]
name = "mi355x"
vm_per_load_a = 2
block_sizing = { heavy = 5, light = 3, max_globals = 0 }
frag_order = { b_before_a = false }
latency = { MMA = 32, LOAD_A = 300 }
"""


def test_a_shipped_name_is_a_spec() -> None:
    named = load_spec("ping_pong")
    assert named.build_body() == load_spec({"schedule": "ping_pong"}).build_body()
    with pytest.raises(SpecError, match="neither a shipped schedule nor a spec file"):
        load_spec("ping_pung")


def test_json_toml_and_mapping_agree(tmp_path: Path) -> None:
    as_json, as_toml = tmp_path / "s.json", tmp_path / "s.toml"
    as_json.write_text(json.dumps(SPEC))
    as_toml.write_text(TOML)
    assert read_spec(as_json) == read_spec(as_toml) == SPEC
    from_mapping = load_spec(SPEC)
    for source in (as_json, str(as_toml)):
        loaded = load_spec(source)
        assert loaded.config() == from_mapping.config()
        assert loaded.schedule_config() == from_mapping.schedule_config()
        assert loaded.build_body() == from_mapping.build_body()


def test_every_key_arrives() -> None:
    schedule = load_spec(SPEC)
    assert isinstance(schedule, DeclarativeSchedule)
    config, knobs = schedule.config(), schedule.schedule_config()
    assert knobs == ScheduleConfig(
        scheduling=SchedulingStrategy.GREEDY, max_vgpr=512, lgkm_per_load_a=8, lgkm_per_load_b=4
    )
    assert (config.vm_per_load_a, config.vm_per_load_b) == (2, 4)
    assert config.block_sizing == BlockSizing(5, 3, 0)
    assert config.frag_order == FragOrder.a_first()
    assert {op.latency for op in schedule.build_body() if op.tag == 5} == {32}
    assert {op.latency for op in schedule.build_body() if op.tag == 0} == {300}


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("ping_pong", DeclarativeSchedule()),
        (
            "four_wave",
            Pipeline4Wave(
                KernelGeometry.four_wave(
                    BM=256, BN=256, BK=128, MMA_M=16, MMA_N=16, MMA_K=128, elem_bytes=1
                )
            ),
        ),
        ("single_buffer", SingleBufferSchedule(2)),
    ],
)
def test_a_name_alone_is_the_schedule_with_its_defaults(name: str, schedule: Any) -> None:
    expected = compile_schedule(schedule)
    by_name, by_mapping = build_schedule(name), build_schedule({"schedule": name})
    assert by_name == by_mapping
    assert by_name.kernel == expected.kernel
    assert by_name.schedule_config == expected.schedule_config


def test_partial_groups_keep_the_schedules_own_defaults() -> None:
    ping_pong = load_spec({"schedule": "ping_pong", "schedule_config": {"max_vgpr": 99}})
    assert ping_pong.schedule_config().scheduling is SchedulingStrategy.CSP
    four_wave = load_spec({"schedule": "four_wave", "geometry": {"BM": 128}})
    assert four_wave.geometry() == KernelGeometry.four_wave(
        BM=128, BN=256, BK=128, MMA_M=16, MMA_N=16, MMA_K=128, elem_bytes=1
    )


def test_lgkm_costs_may_come_from_the_schedule_config() -> None:
    spec = {"schedule": "ping_pong", "schedule_config": {"lgkm_per_load_a": 6}}
    assert load_spec(spec).schedule_config().lgkm_per_load_a == 6
    # the schedule's own argument wins
    assert load_spec({**spec, "lgkm_a": 7}).schedule_config().lgkm_per_load_a == 7


def test_a_geometry_gives_the_counter_costs_that_the_spec_leaves_out() -> None:
    shape = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
    schedule = load_spec({"schedule": "ping_pong", "geometry": shape})
    config, knobs = schedule.config(), schedule.schedule_config()
    assert (config.vm_per_load_a, config.vm_per_load_b) == (2, 2)
    assert (knobs.lgkm_per_load_a, knobs.lgkm_per_load_b) == (8, 4)
    given = load_spec(
        {
            "schedule": "ping_pong",
            "geometry": {**shape, "vm_per_load_a": 9, "lgkm_per_load_b": 1},
            "lgkm_a": 5,
            "target": {"vm_per_load_b": 6},
        }
    )
    assert (given.config().vm_per_load_a, given.config().vm_per_load_b) == (9, 6)
    assert given.schedule_config().lgkm_per_load_a == 5
    assert given.schedule_config().lgkm_per_load_b == 1


def test_max_globals_alone_keeps_the_block_sizes() -> None:
    schedule = load_spec({"schedule": "ping_pong", "target": {"max_globals": 0}})
    assert schedule.config() == mi355x_target(max_globals=0).pipeline


class TestSettings:
    def test_by_path_or_by_last_part(self) -> None:
        long = build_schedule("ping_pong", ["schedule_config.scheduling=greedy"])
        short = build_schedule("ping_pong", ["scheduling=greedy"])
        assert long == short
        assert long.schedule_config.scheduling is SchedulingStrategy.GREEDY

    def test_values_are_json_or_strings(self) -> None:
        settings = ["auto_waits=false", "lgkm_a=8", 'target.name="mi355x"', " scheduling =csp"]
        assert apply_settings({"schedule": "ping_pong"}, settings) == {
            "schedule": "ping_pong",
            "lgkm_a": 8,
            "schedule_config": {"auto_waits": False, "scheduling": "csp"},
            "target": {"name": "mi355x"},
        }

    def test_a_value_may_hold_the_separator(self) -> None:
        assert apply_settings({"schedule": "ping_pong"}, ["target.name=a=b"])["target"] == {
            "name": "a=b"
        }

    def test_open_maps_take_any_key(self) -> None:
        compiled = build_schedule("ping_pong", ["target.latency.MMA=40"])
        assert {op.latency for op in compiled.body if op.tag == 5} == {40}

    def test_the_last_setting_wins_over_the_spec_and_the_others(self) -> None:
        data = {"schedule": "ping_pong", "lgkm_a": 1}
        assert apply_settings(data, ["lgkm_a=2", "lgkm_a=3"])["lgkm_a"] == 3

    def test_the_given_mapping_is_not_changed(self) -> None:
        data: dict[str, Any] = {"schedule": "ping_pong", "target": {"latency": {"MMA": 1}}}
        before = json.dumps(data)
        changed = apply_settings(data, ["target.latency.MMA=2", "target.vm_per_load_a=3"])
        assert json.dumps(data) == before
        assert changed["target"] == {"latency": {"MMA": 2}, "vm_per_load_a": 3}

    def test_no_settings_change_nothing(self) -> None:
        assert apply_settings(SPEC, []) == SPEC

    @pytest.mark.parametrize(
        ("setting", "message", "hint"),
        [
            ("scheduling", "'scheduling' is not of the form key=value", "scheduling=greedy"),
            ("=3", "no key ''", "valid"),
            ("schedulign=csp", "no key 'schedulign'", "did you mean 'scheduling'"),
            (
                "max_globals=1",
                "'max_globals' is ambiguous",
                "target.max_globals, target.block_sizing.max_globals",
            ),
            (
                "target.vm_per_lod_a=1",
                "no key 'target.vm_per_lod_a'",
                "did you mean 'target.vm_per_load_a'",
            ),
            ("schedule=four_wave", "no key 'schedule'", "did you mean"),
            ("target.latency.FOO=1", "unknown op 'FOO'", "valid: LOAD_A"),
            ("max_vgpr=lots", "max_vgpr is 'lots', but must be an integer", "an integer"),
        ],
    )
    def test_errors(self, setting: str, message: str, hint: str) -> None:
        with pytest.raises(ScheduleError, match=message) as caught:
            build_schedule("ping_pong", [setting])
        assert hint in (caught.value.hint or "")

    def test_a_parent_that_is_no_mapping(self) -> None:
        with pytest.raises(SpecError, match="target is not a mapping in this spec"):
            apply_settings({"schedule": "ping_pong", "target": 5}, ["target.name=x"])


def test_find_spec_takes_a_name_a_file_or_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SPEC))
    assert find_spec("four_wave") == {"schedule": "four_wave"}
    assert find_spec(str(path)) == find_spec(path) == find_spec(SPEC) == SPEC


def test_build_schedule_takes_a_schedule_object() -> None:
    schedule = DeclarativeSchedule(lgkm_a=8, lgkm_b=4)
    assert build_schedule(schedule) == compile_schedule(schedule)


def test_ops_move_only_where_that_is_asked_for() -> None:
    """The ping-pong's barriers cannot stay with its loads where they are."""
    with pytest.raises(OrderError):
        build_schedule("ping_pong", sync="repaired")
    assert build_schedule("ping_pong", sync="repaired", reorder=True).moved


@pytest.mark.parametrize(
    ("spec", "is_fp8"),
    [
        ({}, False),
        ({"is_fp8": True}, True),
        ({"geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}}, False),
        ({"geometry": {"BK": 128, "MMA_K": 128, "elem_bytes": 1}}, True),
    ],
)
def test_the_elements_of_a_ping_pong_are_its_tiles_unless_given(
    spec: dict[str, Any], is_fp8: bool
) -> None:
    schedule = load_spec({"schedule": "ping_pong", **spec})
    assert isinstance(schedule, DeclarativeSchedule)
    assert schedule.is_fp8 is is_fp8
