"""Registers: shared where lifetimes allow, refused with names where they do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.machine.chips import target_for
from pipeloom.machine.occupancy import Resources
from pipeloom.write import RegisterLimitError
from pipeloom.write.allocate import LiveValue, allocate
from pipeloom.write.isa import Bank

GFX950 = target_for("gfx950")


def test_values_that_never_meet_share_registers() -> None:
    values = [
        LiveValue("a", Bank.VECTOR, 8, frozenset({0, 1})),
        LiveValue("b", Bank.VECTOR, 4, frozenset({1, 2})),
        LiveValue("c", Bank.VECTOR, 8, frozenset({2, 3})),
    ]
    placed = allocate(values, GFX950, waves=8)
    assert placed["a"] == placed["c"]
    assert not placed["a"].overlaps(placed["b"])
    assert placed.used[Bank.VECTOR] == 12


def test_over_the_limit_names_what_is_live_where() -> None:
    values = [
        LiveValue("accumulators", Bank.ACCUMULATOR, 128, frozenset({0, 1, 2})),
        LiveValue("A0", Bank.VECTOR, 100, frozenset({0, 1})),
        LiveValue("B0", Bank.VECTOR, 60, frozenset({1, 2})),
    ]
    allocate(values, GFX950, waves=4)
    with pytest.raises(RegisterLimitError, match="288 vector and accumulator registers") as caught:
        allocate(values, GFX950, waves=8)
    assert "at step 1 these are live (288 in all)" in str(caught.value)
    assert "A0 100 (v[0:99])" in str(caught.value)
    assert "has 256 on gfx950" in str(caught.value)


def test_one_file_over_its_own_limit() -> None:
    values = [LiveValue("big", Bank.VECTOR, 300, frozenset({0}))]
    with pytest.raises(RegisterLimitError, match="300 vector registers are needed"):
        allocate(values, GFX950, waves=4)


def test_fragments_share_registers_where_lifetimes_allow(built: Callable[..., Launchable]) -> None:
    """A0 is used up before A1 is read; B0 and B1 are live together."""
    placed = built("ping_pong", "bf16", (128, 128, 64, 16, 32)).emitted.allocation
    assert placed["A0 #0"] == placed["A1 #0"]
    assert not placed["B0 #0"].overlaps(placed["B1 #0"])


def test_report(built: Callable[..., Launchable]) -> None:
    emitted = built("ping_pong", "bf16", (128, 128, 64, 16, 32)).emitted
    resources = emitted.resources
    assert resources.agprs == 0
    assert resources.lds_bytes == 2 * 256 * 64 * 2
    assert str(resources) in emitted.text
    assert "0 AGPRs" in str(resources)
    assert "v_accvgpr" not in emitted.text
    assert "A0 #0, A1 #0" in emitted.allocation.report()


@pytest.mark.parametrize(
    ("vgprs", "agprs", "lds", "waves", "expected"),
    [
        (80, 128, 131072, 8, 2),
        (152, 256, 131072, 4, 1),
        (60, 0, 16384, 4, 8),
        (60, 8, 0, 4, 7),
        (22, 0, 12288, 1, 4),  # 13 workgroups in all
        (160, 0, 0, 8, 2),  # of registers for three waves: two are a workgroup's
    ],
)
def test_waves_per_simd(vgprs: int, agprs: int, lds: int, waves: int, expected: int) -> None:
    made = Resources(vgprs, agprs, 40, lds, waves, GFX950)
    assert made.waves_per_simd == expected
