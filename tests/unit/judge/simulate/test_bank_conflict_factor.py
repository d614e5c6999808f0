"""Bank conflicts of address patterns whose answer is known."""

from __future__ import annotations

import pytest

from pipeloom.judge.simulate.bank_conflicts import bank_conflict
from pipeloom.judge.simulate.instruction import WaveOp
from pipeloom.machine.chips import TARGETS
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target


@pytest.mark.parametrize("machine", TARGETS, ids=lambda m: str(m.arch))
@pytest.mark.parametrize("width", [4, 8, 16])
def test_phases_serve_every_lane_once_at_the_measured_bandwidth(
    machine: Target, width: int
) -> None:
    (phases,) = [p for p in machine.lds_phases if p.bytes_per_lane == width]
    assert sorted(lane for group in phases.lanes for lane in group) == list(range(64))
    read = WaveOp.lds_read(width)
    assert len(phases.lanes) == read.cost(machine).array


@pytest.mark.parametrize("machine", TARGETS, ids=lambda m: str(m.arch))
@pytest.mark.parametrize("width", [4, 8, 16])
def test_consecutive_lanes_do_not_conflict(machine: Target, width: int) -> None:
    assert bank_conflict([width * lane for lane in range(64)], width, machine) == 1.0


@pytest.mark.parametrize("machine", TARGETS, ids=lambda m: str(m.arch))
def test_one_word_for_all_lanes_is_a_broadcast(machine: Target) -> None:
    assert bank_conflict([64] * 64, 4, machine) == 1.0


@pytest.mark.parametrize(("stride", "ways"), [(4, 1), (8, 2), (16, 4), (128, 32), (256, 64)])
def test_strided_dwords_on_gfx950(stride: int, ways: int) -> None:
    assert bank_conflict([stride * lane for lane in range(64)], 4, GFX950) == ways


def test_a_column_of_rows_conflicts_in_full() -> None:
    assert bank_conflict([256 * lane for lane in range(64)], 16, GFX950) == 16.0
    assert bank_conflict([128 * lane for lane in range(64)], 16, GFX942) == 8.0
    padded = [(256 + 16) * lane for lane in range(64)]
    assert bank_conflict(padded, 16, GFX950) < 16.0


def test_the_gfx950_phases_are_not_consecutive_lanes() -> None:
    # Lanes 0-3 and 12-15 share a phase, lanes 0-3 and 4-7 do not.
    addresses = [16 * lane for lane in range(64)]
    together = addresses.copy()
    together[12] = together[0] + 256
    apart = addresses.copy()
    apart[4] = apart[0] + 256
    assert bank_conflict(together, 16, GFX950) == 1.25
    assert bank_conflict(apart, 16, GFX950) == 1.0


def test_two_gfx942_phases_make_one_of_gfx950() -> None:
    """Independent sources for the two chips, one structure."""
    narrow = [set(p.lanes[i]) for p in GFX942.lds_phases[:1] for i in range(8)]
    for wide in GFX950.lds_phases[0].lanes:
        assert set().union(*(group for group in narrow if group <= set(wide))) == set(wide)


def test_an_unaligned_access_takes_sixteen_times_as_long() -> None:
    assert bank_conflict([16 * lane + 4 for lane in range(64)], 16, GFX950) == 16.0
