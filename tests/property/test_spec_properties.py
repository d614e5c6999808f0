"""Damaged input is refused with ScheduleError: spec mappings, settings, compiled schedules.

Whatever is put in place of a key or a value, no other exception may escape, and every refusal
must come with a hint.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeloom import CompiledSchedule, ScheduleError, build_schedule

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


BASES: list[dict[str, Any]] = [
    {
        "schedule": "ping_pong",
        "is_fp8": False,
        "lgkm_a": 8,
        "lgkm_b": 4,
        "schedule_config": {"scheduling": 0, "auto_waits": True, "max_vgpr": 512},
        "target": {
            "name": "mi355x",
            "vm_per_load_a": 4,
            "block_sizing": {"heavy": 4, "light": 2, "max_globals": 1},
            "frag_order": {"b_before_a": True},
            "latency": {"MMA": 16},
        },
    },
    {
        "schedule": "four_wave",
        "geometry": {"BM": 256, "BK": 64, "MMA_K": 32, "elem_bytes": 2},
        "schedule_config": {"wrap_waits_with_sched_barrier": True},
    },
    {
        "schedule": "single_buffer",
        "num_k_tiles": 2,
        "hints": {"m_mmas": 4, "k_mmas": 2},
        "target": {"name": "mi355x", "latency": {"COMPUTE": 64}},
    },
]

Path = tuple[str, ...]


def mappings(data: dict[str, Any], path: Path = ()) -> list[Path]:
    """The paths of every mapping whose keys the spec fixes."""
    found = [path]
    for key, value in data.items():
        if isinstance(value, dict) and key != "latency":
            found += mappings(value, (*path, key))
    return found


def leaves(data: dict[str, Any], path: Path = ()) -> list[Path]:
    found = []
    for key, value in data.items():
        inner = leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
        found += inner
    return found


def with_value(data: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    head, *rest = path
    return {**data, head: with_value(data[head], tuple(rest), value) if rest else value}


def reach(data: dict[str, Any], path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("base", BASES, ids=lambda b: b["schedule"])
def test_the_bases_themselves_compile(base: dict[str, Any]) -> None:
    build_schedule(base)


@settings(COMMON, max_examples=60)
@given(st.data(), st.sampled_from(BASES), st.text(min_size=1, max_size=12), plain_values)
def test_an_unknown_key_is_always_named(
    data: st.DataObject, base: dict[str, Any], key: str, value: Any
) -> None:
    path = data.draw(st.sampled_from(mappings(base)))
    known = {"schedule", *reach(base, path)}
    with pytest.raises(ScheduleError) as caught:
        build_schedule(with_value(base, (*path, f"{key}?"), value))
    assert f"{key}?" not in known
    assert repr(f"{key}?") in caught.value.message
    assert caught.value.hint


@settings(COMMON, max_examples=120)
@given(st.data(), st.sampled_from(BASES), plain_values)
def test_a_value_of_the_wrong_type_is_always_refused(
    data: st.DataObject, base: dict[str, Any], value: Any
) -> None:
    path = data.draw(st.sampled_from(leaves(base)))
    same_kind = type(value) is type(reach(base, path))
    optional = value is None
    enum_name = isinstance(value, str) and path[-1] == "scheduling"
    mutated = with_value(base, path, value)
    if same_kind or optional or enum_name:
        compile_or_error(mutated)
        return
    with pytest.raises(ScheduleError) as caught:
        build_schedule(mutated)
    assert path[-1] in caught.value.message
    assert caught.value.hint


def compile_or_error(spec: Any, settings: tuple[str, ...] = ()) -> None:
    try:
        build_schedule(spec, settings)
    except ScheduleError as error:
        check_helpful(error)


def check_helpful(error: ScheduleError) -> None:
    assert error.message
    assert error.hint, f"no hint: {error.message}"


@settings(COMMON, max_examples=100)
@given(st.data(), st.sampled_from(BASES), plain_values)
def test_any_subtree_may_be_replaced_by_anything(
    data: st.DataObject, base: dict[str, Any], value: Any
) -> None:
    nodes = leaves(base) + [path for path in mappings(base) if path]
    compile_or_error(with_value(base, data.draw(st.sampled_from(nodes)), value))


@settings(COMMON, max_examples=60)
@given(plain_values)
def test_any_value_at_all_as_a_spec(value: Any) -> None:
    if isinstance(value, str):
        return
    compile_or_error(value)


keys = [".".join(path) for base in BASES for path in leaves(base)]
setting_texts = st.text(max_size=30) | st.builds(
    "{}={}".format,
    st.sampled_from([*keys, *(key.rsplit(".", 1)[-1] for key in keys), "target.latency.MMA"]),
    plain_values.map(json.dumps) | st.text(max_size=8),
)


@settings(COMMON, max_examples=100)
@given(st.sampled_from([*BASES, "ping_pong", "four_wave", "single_buffer"]), setting_texts)
def test_any_setting_at_all(source: Any, setting: str) -> None:
    compile_or_error(source, (setting,))


COMPILED = {base["schedule"]: build_schedule(base).to_dict() for base in BASES}


def node_paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every node of a compiled schedule, the long lists sampled at their ends."""
    found = [path] if path else []
    if isinstance(data, dict):
        items: list[tuple[Any, Any]] = list(data.items())
    elif isinstance(data, list):
        items = [(i, data[i]) for i in sorted({0, len(data) - 1}) if data]
    else:
        return found
    for key, value in items:
        found += node_paths(value, (*path, key))
    return found


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    head, *rest = path
    inner = replaced(data[head], tuple(rest), value) if rest else value
    if isinstance(data, dict):
        return {**data, head: inner}
    return [*data[:head], inner, *data[head + 1 :]]


@settings(COMMON, max_examples=120)
@given(st.data(), st.sampled_from(sorted(COMPILED)), plain_values)
def test_a_damaged_compiled_schedule_is_refused_or_reads_back(
    data: st.DataObject, name: str, value: Any
) -> None:
    plain = COMPILED[name]
    path = data.draw(st.sampled_from(node_paths(plain)))
    damaged = replaced(plain, path, value)
    try:
        loaded = CompiledSchedule.from_dict(damaged)
    except ScheduleError as error:
        check_helpful(error)
        return
    assert CompiledSchedule.from_dict(loaded.to_dict()) == loaded
