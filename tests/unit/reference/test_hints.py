"""The AMD hint pattern of section 9."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom import (
    AMDScheduleHints,
    OpDesc,
    OpRole,
    OpTag,
    Phase,
    ScheduleEntry,
    append_amd_hints,
)

READ, WRITE, VMEM, MFMA = 0, 1, 2, 3


def body(fragments: int) -> list[OpDesc]:
    return [OpDesc(2, subtile=i, role=OpRole.FRAGMENT_LOAD) for i in range(fragments)]


def pattern(fragments: int, hints: AMDScheduleHints, selector: int = 0) -> list[tuple[int, int]]:
    entries = append_amd_hints((), body(fragments), hints, selector)
    assert all(e.op.tag == OpTag.SCHED_GROUP_BARRIER for e in entries)
    return [(e.op.subtile, e.op.wait_value) for e in entries]


def test_defaults() -> None:
    assert asdict(AMDScheduleHints()) == {
        "m_mmas": 4,
        "n_mmas": 4,
        "k_mmas": 2,
        "mma_m": 16,
        "mma_n": 16,
        "a_loads_per_thread": 2,
        "b_loads_per_thread": 2,
    }


def test_worked_example() -> None:
    # F = 2, L = 1, r = 2, R = 4, M = 1*1*13 = 13, S = 2; per_read = min(2, 13 // 4) = 2
    # rest = 13 - 8 = 5, (q, x) = (2, 1): c = 3, then 2
    hints = AMDScheduleHints(
        m_mmas=1, n_mmas=1, k_mmas=13, a_loads_per_thread=1, b_loads_per_thread=1
    )
    assert pattern(2, hints) == [
        (READ, 1),
        (MFMA, 2),
        (READ, 1),
        (MFMA, 2),
        (WRITE, 1),
        (MFMA, 1),
        (VMEM, 1),
        (MFMA, 2),
        (WRITE, 1),
        (MFMA, 1),
        (VMEM, 1),
        (MFMA, 1),
        (READ, 1),
        (MFMA, 2),
        (READ, 1),
        (MFMA, 2),
    ]


@pytest.mark.parametrize(
    ("mma_m", "mma_n", "per_read"), [(32, 32, 1), (32, 16, 2), (16, 32, 2), (16, 16, 2)]
)
def test_large_mmas_pair_one_per_read(mma_m: int, mma_n: int, per_read: int) -> None:
    hints = AMDScheduleHints(m_mmas=4, n_mmas=4, k_mmas=4, mma_m=mma_m, mma_n=mma_n)
    assert pattern(2, hints)[1] == (MFMA, per_read)


def test_fewer_mmas_than_reads_leave_none_for_the_reads() -> None:
    # M = 1, R = 4: per_read = 0; all of them go to the first store
    hints = AMDScheduleHints(m_mmas=1, n_mmas=1, k_mmas=1)
    found = pattern(2, hints)
    assert found[:2] == [(READ, 1), (MFMA, 0)]
    assert found[4:8] == [(WRITE, 1), (MFMA, 0), (VMEM, 1), (MFMA, 1)]


def test_without_stores_only_reads_remain() -> None:
    hints = AMDScheduleHints(a_loads_per_thread=0, b_loads_per_thread=0)
    assert {group for group, _ in pattern(2, hints)} == {READ, MFMA}


def test_the_carried_fragments_reads_come_last() -> None:
    hints = AMDScheduleHints(m_mmas=1, n_mmas=1, a_loads_per_thread=1, b_loads_per_thread=0)
    groups = [group for group, _ in pattern(3, hints, selector=1)]
    # r = 2: four reads before the store, two after
    assert groups.index(WRITE) == 8
    assert groups.count(READ) == 6
    # a selector that no fragment has: all reads come first
    assert [g for g, _ in pattern(3, hints, selector=9)].index(WRITE) == 12


def test_entries_continue_the_kernel() -> None:
    kernel = (ScheduleEntry(body(1)[0], 0, Phase.KERNEL),)
    result = append_amd_hints(kernel, body(1), AMDScheduleHints())
    assert result[0] == kernel[0]
    assert [e.time_slot for e in result] == list(range(len(result)))
    assert all(e.phase is Phase.KERNEL and not e.is_prefetch for e in result)
    assert len(result) == 1 + AMDScheduleHints().pattern_length(1)


@given(
    st.integers(1, 6),
    st.builds(
        AMDScheduleHints,
        m_mmas=st.integers(1, 5),
        n_mmas=st.integers(1, 5),
        k_mmas=st.integers(1, 5),
        mma_m=st.sampled_from([16, 32]),
        mma_n=st.sampled_from([16, 32]),
        a_loads_per_thread=st.integers(0, 4),
        b_loads_per_thread=st.integers(0, 4),
    ),
)
def test_the_pattern_accounts_for_every_instruction(
    fragments: int, hints: AMDScheduleHints
) -> None:
    totals = dict.fromkeys(range(4), 0)
    for group, count in pattern(fragments, hints):
        totals[group] += count
    stores = hints.a_loads_per_thread + hints.b_loads_per_thread
    assert totals[READ] == (hints.m_mmas + hints.n_mmas) * fragments
    assert totals[WRITE] == totals[VMEM] == stores
    if stores:
        assert totals[MFMA] == hints.m_mmas * hints.n_mmas * hints.k_mmas
