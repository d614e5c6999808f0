"""Machines are facts with sources; names of MFMAs mean what a reader expects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.errors import ConfigError
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.machine.facts import FactKind
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target


@pytest.mark.parametrize("machine", TARGETS, ids=lambda m: str(m.arch))
def test_every_number_has_a_unit_and_a_source(machine: Target) -> None:
    facts = dict(machine.facts())
    assert len(facts) > 35
    for name, fact in facts.items():
        assert fact.unit, name
        assert len(fact.source) > 1, name
        assert fact.value > 0, name
    for op in machine.matrix_ops:
        assert op.cycles.source
        assert op.cycles.value % 4 == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("16x16x32_f16", 16),
        ("16x16x32_bf16", 16),
        ("v_mfma_f32_16x16x32_bf16", 16),
        ("32x32x16", 32),
        ("16x16x128_fp8", 32),
        ("16x16x128_f8f6f4", 32),
        ("16x16x128_fp4", 16),
        ("32x32x64_fp4", 32),
        ("32x32x64_mxfp8", 64),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", 32),
    ],
)
def test_gfx950_names(name: str, value: int) -> None:
    op = GFX950.matrix_op(name)
    assert op.cycles.value == value
    assert op.scaled == ("scale" in name or "mxfp" in name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("16x16x16_f16", 16),
        ("32x32x8_bf16", 32),
        ("f32_16x16x32 fp8", 16),
        ("32x32x16_fp8", 32),
        ("xf32_16x16x8", 16),
        ("16x16x4_f32", 32),
        ("32x32x2", 64),
    ],
)
def test_gfx942_names(name: str, value: int) -> None:
    assert GFX942.matrix_op(name).cycles.value == value


def test_names_print_back() -> None:
    for machine in TARGETS:
        for op in machine.matrix_ops:
            assert machine.matrix_op(op.name) == op


def test_machines_are_found_by_arch_and_chip() -> None:
    assert target_for("gfx950") is GFX950
    assert target_for("MI300X") is GFX942


def test_a_changed_constant_says_who_changed_it() -> None:
    changed = GFX950.with_value("global_latency", 900, "what if")
    fact = changed.global_latency
    assert (fact.value, fact.kind, fact.source) == (900, FactKind.ASSUMED, "what if")
    assert GFX950.global_latency.value != 900
    assert isinstance(GFX950.with_value("hbm_gb_per_s", 9e3, "x").hbm_gb_per_s.value, int)


def test_a_counter_counts() -> None:
    for counter in GFX950.counters:
        with pytest.raises(ConfigError, match=f"Counter {counter.name}.limit is 0"):
            replace(counter, limit=replace(counter.limit, value=0))
