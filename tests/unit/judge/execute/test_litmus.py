"""The memory model in one-line programs: which are right under every policy, and which are not.

All waves run the same line unless a word names one. ``load.a1`` brings tile 1 of A (4 entries of
vmcnt), ``read.a`` reads it to a register (4 entries of lgkmcnt), ``mma`` multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.random_programs.classify import classify
from pipeloom.judge.execute import (
    TIMINGS,
    Executor,
    Fault,
    Meeting,
    StepAt,
    adversarial_orders,
    execute,
    provoke,
)
from pipeloom.judge.verify import verify
from pipeloom.program import Program

Litmus = Callable[..., Program]

LOADED = "load.a load.b vm0 barrier"
MULTIPLIED = "read.a read.b lgkm0 mma"
ONE_TILE = f"{LOADED} {MULTIPLIED}"
NEXT = "load.a1 load.b1 vm0 barrier read.a read.b lgkm0 mma"

RIGHT = {
    "wait, publish, drain": ONE_TILE,
    "fences do nothing": "load.a load.b fence vm0 fence barrier read.a read.b lgkm0 mma",
    "a wait for one load retires the older": (
        "load.a load.b vm4 barrier read.a vm0 barrier read.b lgkm0 mma"
    ),
    "dead read of nothing": f"read.a lgkm0 barrier {ONE_TILE}",
    "second tile after drain and barrier": f"{ONE_TILE} barrier {NEXT}",
    "second tile: reads of two registers": (
        f"{LOADED} read.a read.b lgkm0 barrier load.a1 load.b1 vm0 barrier read.a1 read.b1 "
        "mma lgkm0 mma1"
    ),
    "the same tile again harms nobody": f"{ONE_TILE} load.a load.b",
}
WRONG = {
    "no vm wait": "load.a load.b barrier read.a read.b lgkm0 mma",
    "vm wait without the barrier": "load.a load.b vm0 read.a read.b lgkm0 mma",
    "barrier before the wait": "load.a load.b barrier vm0 read.a read.b lgkm0 mma",
    "vm wait loose by one load": f"load.a load.b vm4 barrier {MULTIPLIED}",
    "vm wait loose by one entry": f"load.a load.b vm1 barrier {MULTIPLIED}",
    "wait past the limit": f"load.a load.b vm64 barrier {MULTIPLIED}",
    "no lgkm wait": f"{LOADED} read.a read.b mma",
    "lgkm wait loose by one read": f"{LOADED} read.a read.b lgkm4 mma",
    "stale wait after a swap": "load.b load.a vm4 barrier read.a vm0 barrier read.b lgkm0 mma",
    "second tile without barrier": f"{ONE_TILE} {NEXT}",
    "second tile over an undrained read": (
        f"{LOADED} read.a read.b barrier load.a1 load.b1 lgkm0 mma vm0 barrier {MULTIPLIED}"
    ),
    "register refilled before its mma": (
        f"{LOADED} read.a read.b lgkm0 barrier load.a1 load.b1 vm0 barrier read.a lgkm0 mma "
        "read.b lgkm0 mma"
    ),
    "two reads of one register in flight": (
        f"{LOADED} read.a read.b lgkm0 mma barrier load.a1 load.b1 vm0 barrier read.b lgkm0 "
        "barrier load.b vm0 barrier read.a read.b read.b lgkm4 mma"
    ),
    "a tile twice": f"{ONE_TILE} mma",
    "two loads of one slice in flight": f"load.a1 {ONE_TILE}",
    "a tile outside K": f"load.a7 load.b vm0 barrier {MULTIPLIED}",
    "nothing is multiplied": LOADED,
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_under_every_policy_and_order(litmus: Litmus, name: str) -> None:
    executor = Executor(litmus(RIGHT[name], tiles=1 + ("second" in name)))
    orders: list[str | tuple[int, ...]] = [*adversarial_orders(2), "random"]
    for policy in TIMINGS:
        for order in orders:
            for seed in range(5):
                outcome = executor.run(trips={}, policy=policy, order=order, seed=seed)
                assert outcome.correct, (policy, order, outcome.describe())


@pytest.mark.parametrize("name", WRONG)
def test_wrong_when_it_matters(litmus: Litmus, name: str) -> None:
    second = any(word in name for word in ("second", "refilled", "two "))
    program = litmus(WRONG[name], tiles=1 + second)
    assert not classify(program, random_runs=0).correct


def test_luck_hides_a_race_and_worst_does_not(litmus: Litmus) -> None:
    program = litmus(WRONG["no vm wait"])
    assert execute(program, trips={}, policy="early").correct
    outcome = execute(program, trips={})
    assert {wrong.fault for wrong in outcome.wrong} == {Fault.POISON}
    read = outcome.suspects[0]
    assert read.fault is Fault.IN_FLIGHT
    assert read.at == StepAt(0, "all", 3)
    assert StepAt(0, "all", 0) in read.causes
    assert str(read).startswith("wave 0, all[3]: read.a: read what was in flight, in LDS A (wave 0")


def test_a_dead_read_is_listed_but_not_wrong(litmus: Litmus) -> None:
    outcome = execute(litmus(RIGHT["dead read of nothing"]), trips={})
    assert outcome.correct
    assert not outcome.clean
    assert {read.fault for read in outcome.suspects} == {Fault.UNWRITTEN}
    assert outcome.describe().startswith("correct")


def test_real_numbers_show_the_old_tile_where_worst_shows_nothing(litmus: Litmus) -> None:
    text = f"{ONE_TILE} barrier load.a1 load.b1 vm4 barrier read.a read.b lgkm0 mma"
    outcome = execute(litmus(text, tiles=2), trips={}, policy="stale")
    assert {wrong.fault for wrong in outcome.wrong} == {Fault.WRONG}
    assert "in place of" in str(outcome.wrong[0])
    assert {(s.fault, s.resource) for s in outcome.suspects} == {
        (Fault.OTHER, "LDS B"),
        (Fault.OTHER, "b"),
        (Fault.OTHER, "sums"),
    }


def test_a_full_counter_stalls_only_where_one_assumes_it(litmus: Litmus) -> None:
    """With 8 entries a read, the third issue leaves at most 15: the first has retired."""
    text = f"{LOADED} read.a read.b read.a1 read.b1 mma"
    for entries, stalls, right in ((8, True, True), (7, True, False), (8, False, False)):
        program = litmus(text, read_entries=entries)
        executor = Executor(program, counter_stall=stalls)
        assert classify(executor).correct is right, (entries, stalls)


def test_the_target_says_whether_a_full_counter_stalls(litmus: Litmus) -> None:
    """To the executor as to the verifier."""
    program = litmus(f"{LOADED} read.a read.b read.a1 read.b1 mma", read_entries=8)
    counters = tuple(replace(c, stalls_when_full=True) for c in program.target.counters)
    stalling = replace(program, target=replace(program.target, counters=counters))
    for one, right in ((program, False), (stalling, True)):
        assert classify(Executor(one)).correct is right
        assert verify(one).proved is right


def test_a_wave_without_its_barrier_hangs(litmus: Litmus) -> None:
    outcome = execute(litmus(f"{ONE_TILE} 0:barrier"), trips={})
    assert not outcome.correct
    assert [str(standing) for standing in outcome.hang] == [
        "wave 0, all[8]: waits, at its barrier 2",
        "wave 1 has ended after 1 barriers",
    ]
    assert outcome.describe().startswith("hang: 2")


def test_an_unequal_barrier_early_on_hangs_later(litmus: Litmus) -> None:
    outcome = execute(litmus(f"1:barrier {ONE_TILE}"), trips={}, order="random")
    assert [standing.at for standing in outcome.hang] == [None, StepAt(1, "all", 4)]


@pytest.mark.parametrize(
    ("text", "first", "second", "meeting"),
    [
        ("load.a load.b barrier read.a read.b lgkm0 mma", (1, 0), (0, 3), Meeting.IN_FLIGHT),
        ("load.a load.b vm0 read.a read.b lgkm0 mma", (1, 0), (0, 3), Meeting.NOT_ISSUED),
        (ONE_TILE, (1, 0), (0, 4), Meeting.RETIRED),
        (f"{LOADED} read.a read.b lgkm4 mma", (0, 5), (0, 7), Meeting.IN_FLIGHT),
        (f"{LOADED} read.a read.b lgkm4 mma", (0, 4), (0, 7), Meeting.RETIRED),
    ],
)
def test_provoke_tells_how_far_the_first_access_was(
    litmus: Litmus,
    text: str,
    first: tuple[int, int],
    second: tuple[int, int],
    meeting: Meeting,
) -> None:
    x, y = ((wave, "all", slot) for wave, slot in (first, second))
    outcome = provoke(litmus(text), trips={}, first=x, second=y)
    assert outcome.meeting is meeting
    if meeting.unordered:
        assert not outcome.correct


def test_provoke_reports_a_hang_on_the_way(litmus: Litmus) -> None:
    program = litmus("load.a load.b vm0 0:barrier read.a read.b lgkm0 mma")
    outcome = provoke(program, trips={}, first=(1, "all", 0), second=(0, "all", 4))
    assert outcome.meeting is Meeting.UNREACHED
    assert outcome.hang
