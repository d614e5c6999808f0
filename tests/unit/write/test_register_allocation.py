"""Registers: shared where lifetimes allow, refused with names where they do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Register, kernel_for
from pipeloom.write import (
    CHIPS,
    RegisterLimitError,
    Resources,
    default_geometry,
    plan_kernel,
    single_buffer_costs,
)
from pipeloom.write.allocate import Value, allocate
from pipeloom.write.isa import Bank
from pipeloom.write.plan import register_lifetimes

GFX950 = CHIPS["gfx950"]


def test_values_that_never_meet_share_registers() -> None:
    values = [
        Value("a", Bank.VECTOR, 8, frozenset({0, 1})),
        Value("b", Bank.VECTOR, 4, frozenset({1, 2})),
        Value("c", Bank.VECTOR, 8, frozenset({2, 3})),
    ]
    placed = allocate(values, GFX950, waves=8)
    assert placed["a"] == placed["c"]
    assert not placed["a"].overlaps(placed["b"])
    assert placed.used[Bank.VECTOR] == 12


def test_over_the_limit_names_what_is_live_where() -> None:
    values = [
        Value("accumulators", Bank.ACCUMULATOR, 128, frozenset({0, 1, 2})),
        Value("A0", Bank.VECTOR, 100, frozenset({0, 1})),
        Value("B0", Bank.VECTOR, 60, frozenset({1, 2})),
    ]
    allocate(values, GFX950, waves=4)
    with pytest.raises(RegisterLimitError, match="288 vector and accumulator registers") as caught:
        allocate(values, GFX950, waves=8)
    assert "at step 1 these are live (288 in all)" in str(caught.value)
    assert "A0 100 (v[0:99])" in str(caught.value)
    assert "has 256 on gfx950" in str(caught.value)


def test_one_file_over_its_own_limit() -> None:
    values = [Value("big", Bank.VECTOR, 300, frozenset({0}))]
    with pytest.raises(RegisterLimitError, match="300 vector registers are needed"):
        allocate(values, GFX950, waves=4)


def test_fragment_lifetimes_of_the_ping_pong(proved: Callable[..., CompiledSchedule]) -> None:
    compiled = proved("ping_pong", "bf16", (128, 128, 64, 16, 32))
    live = register_lifetimes(plan_kernel(kernel_for(compiled), compiled), compiled)
    a0, a1 = live[Register("A", 0)], live[Register("A", 1)]
    b0, b1 = live[Register("B", 0)], live[Register("B", 1)]
    assert not a0 & a1, "A0 is used up before A1 is read"
    assert b0 & b1


def test_a_fragment_that_nothing_reads_keeps_its_registers(
    proved: Callable[..., CompiledSchedule],
) -> None:
    compiled = proved("four_wave", "bf16", (128, 128, 64, 16, 32))
    plan = plan_kernel(kernel_for(compiled), compiled)
    live = register_lifetimes(plan, compiled)
    last = len(plan.steps()) - 1
    assert last in live[Register("A", 0)], "the epilogue reads A0 for a tile that never comes"


def test_report(built: Callable[..., Launchable]) -> None:
    emitted = built("ping_pong", "bf16", (256, 256, 64, 32, 16)).emitted
    resources = emitted.resources
    assert resources.agprs == 128
    assert resources.lds_bytes == 2 * 512 * 64 * 2
    assert resources.waves_per_simd == 2
    assert str(resources) in emitted.text
    assert "128 AGPRs" in str(resources)
    report = emitted.allocation.report()
    assert "A0, A1" in report


@pytest.mark.parametrize(
    ("vgprs", "agprs", "lds", "waves", "expected"),
    [(80, 128, 131072, 8, 2), (152, 256, 131072, 4, 1), (60, 0, 16384, 4, 8), (60, 8, 0, 4, 7)],
)
def test_waves_per_simd(vgprs: int, agprs: int, lds: int, waves: int, expected: int) -> None:
    made = Resources(vgprs, agprs, 40, lds, waves, "gfx950", 160 * 1024)
    assert made.waves_per_simd == expected


@pytest.mark.parametrize(
    ("schedule", "target", "dtype", "tile"),
    [
        ("ping_pong", "gfx950", "bf16", (256, 256, 64, 32)),
        ("four_wave", "gfx950", "fp8", (256, 256, 128, 128)),
        ("single_buffer", "gfx942", "fp16", (128, 128, 64, 16)),
        ("single_buffer", "gfx942", "fp8", (128, 128, 128, 32)),
    ],
)
def test_default_tiles(
    schedule: str, target: str, dtype: str, tile: tuple[int, int, int, int]
) -> None:
    made = default_geometry(schedule, target, dtype)
    assert tile == (made.BM, made.BN, made.BK, made.MMA_K)


def test_single_buffer_costs_are_what_is_emitted(built: Callable[..., Launchable]) -> None:
    emitted = built("single_buffer", "bf16", (128, 128, 64, 16, 0)).emitted
    assert emitted.geometry is not None
    costs = single_buffer_costs(emitted.geometry, k_steps=2)
    for family, what, cost in (
        ("buffer_load", "prologue[0]", "vm_per_load_a"),
        ("ds_read", "FRAGMENT_LOAD", "lgkm_per_load_a"),
    ):
        served = [
            source.entry
            for source in emitted.line_map.values()
            if source.entry and what in source.entry and source.text.startswith(family)
        ]
        assert served.count(served[0]) == costs[cost]
