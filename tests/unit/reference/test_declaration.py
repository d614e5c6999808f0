"""PipelineSchedule: two methods to write, and hooks that do nothing by default."""

from __future__ import annotations

import pytest

from pipeloom import (
    ConfigError,
    DeclarativeSchedule,
    OpDesc,
    PipelineConfig,
    PipelineProgram,
    PipelineSchedule,
    ScheduleConfig,
    compile_schedule,
    derive_edges_from_ops,
    double_buffer_edge_rules,
    mi355x_double_buffer,
)


class Mine(PipelineSchedule):
    def config(self) -> PipelineConfig:
        return mi355x_double_buffer()

    def build_body(self) -> list[OpDesc]:
        return DeclarativeSchedule().build_body()


def test_config_and_build_body_are_required() -> None:
    assert PipelineSchedule.__abstractmethods__ == {"config", "build_body"}
    with pytest.raises(TypeError):
        PipelineSchedule()  # type: ignore[abstract]


def test_defaults_of_the_hooks() -> None:
    schedule = Mine()
    body = schedule.build_body()
    assert schedule.name == "Mine"
    assert schedule.schedule_config() == ScheduleConfig()
    assert schedule.edge_rules() == double_buffer_edge_rules()
    assert schedule.derive_edges(body) == derive_edges_from_ops(body, schedule.config())
    assert schedule.transform_kernel([], body) == []
    assert schedule.build_explicit_blocks(body, PipelineProgram((), 1)) == []
    assert schedule.bootstrap_frags() == []
    assert schedule.geometry() is None
    assert schedule.notes() == ()


def test_a_tile_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mine, "geometry", lambda self: (256, 256, 64))
    with pytest.raises(ConfigError, match="must be of type KernelGeometry") as caught:
        compile_schedule(Mine())
    assert caught.value.field == "Mine.geometry()"
