"""Waits, barriers and loops of recorded runs: small questions, each with an answer by hand."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeloom.judge.check import drift
from pipeloom.judge.check.drift import plain_skips
from pipeloom.judge.check.missing_sync import _counts, pruned
from pipeloom.judge.check.needless import _loosest
from pipeloom.judge.check.nominal import _WaveClock
from pipeloom.judge.check.pairs import Conflict, Pairs
from pipeloom.judge.check.prepared import Sources
from pipeloom.judge.check.record import LDS, GroupRecord, Recorder, WaveTrace, _digest
from pipeloom.judge.check.register_flow import PathFlow, Taint
from pipeloom.judge.check.retirement import Order, Retirement, SyncPlan
from pipeloom.judge.check.static import Static
from pipeloom.judge.check.trip_counts import claims
from pipeloom.judge.emulate import AddressSpace, CodeObject, Effect
from pipeloom.judge.emulate.pending import WaitCounts, WaitQueue
from pipeloom.judge.emulate.register_numbers import ALL_LANES, M0, VGPR, register_bits
from pipeloom.machine.cdna import LGKMCNT_LIMIT, VMCNT_LIMIT

V1, V2, V3 = (register_bits(VGPR + n, 1) for n in (1, 2, 3))
NO_FLOW = PathFlow((), frozenset(), frozenset(), (), (), frozenset(), frozenset())


@dataclass(eq=False)
class Step:
    """An instruction of a program without any code."""

    instruction: Any


def step(name: str, encoding: str = "SOPP", target: int | None = None, pc: int = 0) -> Any:
    one = SimpleNamespace(name=name, encoding=encoding, target=target, pc=pc, fields={})
    return Step(one)


def program(*rows: tuple[str, str] | tuple[str, str, int]) -> tuple[Any, ...]:
    """At position n lies pc 4 n; a third item is the position that it jumps to."""
    return tuple(
        step(row[0], row[1], None if len(row) < 3 else 4 * row[2], 4 * n)
        for n, row in enumerate(rows)
    )


def static(**changed: Any) -> Static:
    numbers = dict.fromkeys(
        ("reads", "writes", "touched", "overwrites", "saves", "local", "place", "stored"), 0
    ) | dict.fromkeys(("lasting", "whole", "branch", "scalar", "joins"), False)
    return Static(**(numbers | changed))


def trace(steps: list[int], index: int = 0, **fields: Any) -> WaveTrace:
    return WaveTrace(index, steps=steps, masks=[(0, ALL_LANES)], **fields)


# ------------------------------------------------------------------------------------------ loops


def test_a_loop_may_begin_with_the_first_instruction() -> None:
    code = program(("s_nop", "SOPP"), ("s_cbranch_scc1", "SOPP", 0), ("s_endpgm", "SOPP"))
    assert drift.loop_body(code, 0) == {1}


def watched(retired: list[int], dead: frozenset[int] = frozenset()) -> drift.Watched:
    return drift.Watched(frozenset(), frozenset(), 0, np.array(retired, np.int64), dead)


def test_registers_are_busy_from_issue_until_they_have_retired() -> None:
    """v1 comes at time 3, v2 never."""
    wave = trace([0] * 5, loads=[(0, WaitQueue.VM, V1, 1), (1, WaitQueue.VM, V2, 1)])
    known = watched([6, 99, 4, 6, 8])
    assert [drift._busy(wave, time, known) for time in range(5)] == [0, V1, V1 | V2, V1 | V2, V2]


def test_only_m0_says_which_register_is_used() -> None:
    for held, asks in ((V1, ""), (1 << M0, "which register is used")):
        taint = Taint(trace([0]), [static(indexed=True)], [1], lambda time, asked: asked, held)
        assert drift._asks(taint, 0, watched([0])) == asks


@pytest.mark.parametrize(("loaded", "plain"), [(V3, True), (V1, False)], ids=["v3", "v1"])
def test_a_skip_must_not_read_what_seemed_to_reach_nothing(loaded: int, plain: bool) -> None:
    """s_cbranch over an instruction that reads v1, by a register that differs from trip to trip."""
    code = program(
        ("s_load", "SMEM"), ("s_cbranch_scc1", "SOPP", 3), ("v_mov_b32", "VOP1"), ("s_nop", "SOPP"),
        ("s_cbranch_vccz", "SOPP", 0), ("s_endpgm", "SOPP"),
    )  # fmt: skip
    counter = 1 << 8
    statics = [
        static(), static(branch=True, reads=counter), static(reads=V1, writes=V2, touched=V1 | V2),
        static(), static(), static(),
    ]  # fmt: skip
    path = [0, 1, 2, 3, 4] * 4 + [5]
    starts = [0, 5, 10, 15]
    heads = [(time, np.eye(1, 16, 8, dtype=np.uint64)[0] * time) for time in starts]
    wave = trace(path, loads=[(0, WaitQueue.VM, loaded, 1)], heads={0: heads})
    known = drift.Watched(
        frozenset(), frozenset(), 20, 2 * np.arange(21, dtype=np.int64), frozenset({0})
    )
    reason = drift.drifts(code, statics, wave, starts, 20, 1, known)
    assert (reason == "") is plain
    assert plain or "branch" in reason


def test_a_skip_is_judged_by_what_it_jumps_over() -> None:
    """Not by the load before it, nor by the one that it leads to."""
    code = program(
        ("global_load_dword", "GLOBAL"), ("s_cbranch_scc1", "SOPP", 3), ("v_mov_b32", "VOP1"),
        ("global_load_dword", "GLOBAL"),
    )  # fmt: skip
    statics = [static(reads=V3, lasting=True), static(lasting=True), static(reads=V1, writes=V2)]
    skip = plain_skips(code, [*statics, static(lasting=True)])[1]
    assert (skip.join, skip.reads, skip.writes) == (3, V1, V2)


def test_what_others_jump_into_is_no_skip() -> None:
    """Whoever comes in from elsewhere has not passed the branch."""
    code = program(
        ("s_cbranch_scc1", "SOPP", 3), ("v_mov_b32", "VOP1"), ("v_mov_b32", "VOP1"),
        ("s_cbranch_vccz", "SOPP", 2),
    )  # fmt: skip
    plain = static(reads=V1, writes=V2)
    steps = [static(lasting=True), plain, plain, static(lasting=True)]
    assert plain_skips(code, steps) == {}
    alone = (*code[:3], step("s_nop", pc=12))
    assert list(plain_skips(alone, steps)) == [0]


def waves_of(*paths: list[int]) -> tuple[GroupRecord, list[Retirement]]:
    traces = [trace(path, index) for index, path in enumerate(paths)]
    return GroupRecord((0, 0, 0), traces, 0), [Retirement(one) for one in traces]


def test_waves_may_run_loops_of_their_own_in_step() -> None:
    """Odd positions are barriers; one wave loops over 0 and 1, the other over 2 and 3."""
    sync = SyncPlan({}, frozenset({1, 3}))
    for paths, heads, in_step in (
        (([0, 1] * 3, [2, 3] * 3), [0, 2], True),
        (([0, 1] * 3, [0, 1] * 2), [0], False),
    ):
        group, timelines = waves_of(*paths)
        found = claims((), group, timelines, [NO_FLOW] * 2, sync, {})
        assert [claim.head for claim in found] == heads
        assert {"in step" in claim.reason for claim in found} == {not in_step}


def test_two_waves_store_alike_as_far_as_both_run() -> None:
    """The second ends after two of the first's three stores; v2 differs from the beginning."""
    first, second = trace([0, 1, 0]), trace([0, 1], 1)
    first.start, second.start = np.zeros(VGPR + 9, np.uint64), np.zeros(VGPR + 9, np.uint64)
    second.start[VGPR + 2] = 1
    group = GroupRecord((0, 0, 0), [first, second], 0)
    sources = Sources(group, [static(stored=V1), static(stored=V2)], [NO_FLOW] * 2)
    assert sources._compare(0, 1) == sources._compare(1, 0) == {0}


# ---------------------------------------------------------------------------------------- waits


def test_a_wait_leaves_what_was_issued_behind_the_operation() -> None:
    """Of four operations, at times 0 to 3, each is waited for at time 3, and behind all."""
    for queue in (WaitQueue.VM, WaitQueue.LGKM):
        group, _ = waves_of([0] * 6)
        group.waves[0].queues[queue] += range(4)
        study: Any = SimpleNamespace(
            record=group, order=SimpleNamespace(timelines=[Retirement(group.waves[0])])
        )
        for first in range(3):
            assert _counts(study, 0, first, 5).left_of(queue) == 2 - first
            assert _counts(study, 0, first, 9).left_of(queue) == 3 - first


@pytest.mark.parametrize("limit", [5, VMCNT_LIMIT])
def test_the_loosest_count_is_found(limit: int) -> None:
    for count in range(limit + 1):
        for best in range(count, limit + 1):

            def holds(tried: int, count: int = count, best: int = best) -> bool:
                assert count <= tried <= limit
                return tried <= best

            assert _loosest(count, limit, holds) == best


def test_a_pair_of_one_wave_is_late_until_the_first_has_retired() -> None:
    """A load at time 0, waited for at time 4, and a step at each time."""
    group, _ = waves_of([0, 1, 2, 3, 4, 5])
    group.waves[0].queues[WaitQueue.VM] += [0]
    rows = [(0, 0, 0, time, int(Conflict.REGISTER_READ), LDS, 0) for time in range(1, 6)]
    order = Order([Retirement(group.waves[0])], Pairs.of(rows))
    late = order.unordered(SyncPlan({4: WaitCounts.for_(WaitQueue.VM, 0)}, frozenset()))
    assert late.tolist() == [True, True, True, True, False]


def test_what_was_added_is_found_again_in_the_repaired_kernel() -> None:
    """Before each of two own barriers a wait and a barrier were put in, before the second a nop:
    wait, barrier, own, wait, barrier, nop, own. Nothing is needless; each is tried at its place."""
    added = {at: (WaitCounts.for_(WaitQueue.VM, 0), True) for at in (0, 1)}
    own = frozenset({0, 1})
    tried: list[SyncPlan] = []

    def unordered(plan: SyncPlan) -> Any:
        tried.append(plan)
        return np.array([True])

    before: Any = SimpleNamespace(
        program=[0, 1],
        sync=SyncPlan({}, own),
        executed=own,
        unordered=lambda sync=None: [np.array([False])],
    )
    after: Any = SimpleNamespace(
        sync=SyncPlan(
            {0: WaitCounts.for_(WaitQueue.VM, 0), 3: WaitCounts.for_(WaitQueue.VM, 0)},
            frozenset({1, 2, 4, 6}),
        ),
        groups=[SimpleNamespace(order=SimpleNamespace(barriers_met=bool, unordered=unordered))],
    )
    plan = SyncPlan({}, own, added)
    assert pruned(before, plan, after, {1}) == plan
    whole = after.sync
    assert tried == [
        whole.without_barrier(1),
        whole.with_wait(0, WaitCounts()),
        whole.without_barrier(2),
        whole.without_barrier(4),
        whole.with_wait(3, WaitCounts()),
        whole.without_barrier(6),
    ]


@pytest.mark.parametrize(
    ("queue", "counts", "cycles"),
    [
        (WaitQueue.VM, WaitCounts.for_(WaitQueue.VM, 0), 100 + 19),
        (WaitQueue.VM, WaitCounts.for_(WaitQueue.VM, 18), 100 + 1),
        (WaitQueue.VM, WaitCounts.for_(WaitQueue.LGKM, 0), 20),
        (WaitQueue.LGKM, WaitCounts.for_(WaitQueue.LGKM, 0), 100 + 19),
        (WaitQueue.LGKM, WaitCounts.for_(WaitQueue.VM, 0), 20),
    ],
)
def test_a_nominal_wait_is_for_its_own_counter(
    queue: WaitQueue, counts: WaitCounts, cycles: int
) -> None:
    """Twenty operations, one per cycle, of 100 cycles each; then the wait."""
    wave = trace([0] * 20 + [1])
    wave.queues[queue] += range(20)
    clock = _WaveClock(
        wave, SyncPlan({1: counts}, frozenset()), [1, 1], dict.fromkeys(WaitQueue, 100)
    )
    clock.advance()
    assert clock.windows[-1].issue == cycles
    assert LGKMCNT_LIMIT < 20 < VMCNT_LIMIT


# --------------------------------------------------------------------------------------- records


def test_registers_are_told_apart_by_which_lane_holds_what() -> None:
    def digest(*lanes: int) -> tuple[int, ...]:
        rows = np.zeros((2, 64), np.uint64)
        rows[1, list(lanes)] = 1
        wave: Any = SimpleNamespace(s=[0], v=rows, exec_mask=0, scc=False)
        return tuple(map(int, _digest(wave)))

    found = [digest(), *(digest(lane) for lane in range(64)), digest(0, 1), digest(2, 3)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("body", "granules"),
    [
        ("ds_read_b32 v1, v0\n global_load_dword v1, v0, s[0:1]", (4, 4)),
        ("ds_read_u8 v1, v0\n global_load_dword v1, v0, s[0:1]", (4, 1)),
        ("ds_read_b32 v1, v0\n global_load_ushort v1, v0, s[0:1]", (1, 4)),
    ],
    ids=["dwords", "bytes of LDS", "shorts of memory"],
)
def test_bytes_are_kept_where_less_than_a_dword_is_touched(
    bench: Any, body: str, granules: tuple[int, int]
) -> None:
    assert recorder(bench, body).granules == granules


def recorder(bench: Any, body: str) -> Recorder:
    code: CodeObject = bench.code(body)
    return Recorder(code.kernel())


def test_only_what_touches_lds_is_kept_lane_by_lane(bench: Any) -> None:
    """One position touches LDS, one global memory, one nothing (no lane is active)."""
    kept = recorder(bench, "s_nop 0\n s_nop 0\n s_nop 0")
    wave = trace([])
    kept._group = GroupRecord((0, 0, 0), [wave], 64)
    kept._bases, kept._ends = np.array([0], np.int64), np.array([64], np.int64)
    kept._numbers, kept.buffers = [0], ["A"]
    touches = [
        SimpleNamespace(
            space=space,
            effect=Effect.READ,
            addresses=np.arange(1),
            lanes=np.arange(1),
            values=None,
            size=4,
        )
        for space in (AddressSpace.LDS, AddressSpace.GLOBAL)
    ]
    for at, touched in enumerate([touches[:1], touches[1:], []]):
        wave.steps.append(at)
        pending: Any = SimpleNamespace(
            counter=WaitQueue.VM, registers=0, lanes=1, instruction=step("x").instruction,
            touches=tuple(touched),
        )  # fmt: skip
        kept.issue(SimpleNamespace(index=0), pending)  # type: ignore[arg-type]
    assert list(wave.local) == [0]
    assert wave.reads_lds == {0}
