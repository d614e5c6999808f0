"""The memory model in one-line programs: which are right under every timing, and which are not.

All waves run the same line unless a word names one. ``load.a1`` brings K tile 1 of A (4 entries of
vmcnt), ``read.a`` reads it to a register (4 entries of lgkmcnt), ``mma`` multiplies.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom import CompiledSchedule
from pipeloom.judge.execute import (
    TIMINGS,
    Access,
    Executor,
    FlightState,
    Status,
    SymptomKind,
    adversarial_orders,
    classify,
    dry_run,
    provoke,
)
from pipeloom.reference.kernels import Kernel

Litmus = Callable[..., tuple[CompiledSchedule, Kernel]]

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
    "dead read of nothing": f"read.a {ONE_TILE}",
    "second tile after drain and barrier": f"{ONE_TILE} barrier {NEXT}",
    "second tile: reads of two registers": (
        f"{LOADED} read.a read.b lgkm0 barrier load.a1 load.b1 vm0 barrier read.a1 read.b1 "
        "mma lgkm0 mma1"
    ),
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
    "a tile twice": f"{ONE_TILE} mma",
    "two loads of one slice in flight": f"load.a1 {ONE_TILE}",
    "a tile outside K": f"load.a7 load.b vm0 barrier {MULTIPLIED}",
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_under_every_timing_and_order(litmus: Litmus, name: str) -> None:
    compiled, kernel = litmus(RIGHT[name], tiles=1 + ("second" in name))
    executor = Executor(compiled, kernel)
    orders: list[str | tuple[int, ...]] = [*adversarial_orders(2), "random"]
    for timing in TIMINGS:
        for order in orders:
            for seed in range(5):
                execution = executor.run(trips=0, timing=timing, order=order, seed=seed)
                assert execution.correct, (timing, order, execution.describe())


@pytest.mark.parametrize("name", WRONG)
def test_wrong_when_it_matters(litmus: Litmus, name: str) -> None:
    second = any(word in name for word in ("second", "refilled", "two loads"))
    compiled, kernel = litmus(WRONG[name], tiles=1 + second)
    assert not classify(compiled, kernel, trips=(0,), random_runs=0).correct


def test_luck_hides_a_race_and_worst_does_not(litmus: Litmus) -> None:
    compiled, kernel = litmus(WRONG["no vm wait"])
    assert dry_run(compiled, trips=0, kernel=kernel, timing="early").correct
    execution = dry_run(compiled, trips=0, kernel=kernel, timing="worst")
    assert execution.has_poison
    read = execution.poisoned_reads[0]
    assert read.at == Access(0, 3)
    assert Access(0, 0) in read.causes
    assert read.consumed
    assert str(read).startswith("wave 0 step 3 read LDS A, stage 0, half 0: the load of wave 0")


def test_a_dead_read_is_listed_but_not_wrong(litmus: Litmus) -> None:
    compiled, kernel = litmus(RIGHT["dead read of nothing"])
    execution = dry_run(compiled, trips=0, kernel=kernel)
    assert execution.correct
    assert [read.consumed for read in execution.poisoned_reads] == [False, False]
    assert "no MMA takes it" in str(execution.poisoned_reads[0])


def test_memory_shows_the_old_tile_where_poison_would_hide_it(litmus: Litmus) -> None:
    text = f"{ONE_TILE} barrier load.a1 load.b1 vm4 barrier read.a read.b lgkm0 mma"
    compiled, kernel = litmus(text, tiles=2)
    execution = dry_run(compiled, trips=0, kernel=kernel, timing="stale", undefined="memory")
    kinds = [symptom.kind for symptom in execution.symptoms]
    assert kinds == [SymptomKind.MIXED] * 2 + [SymptomKind.MISSING] * 2
    assert execution.symptoms[0].tiles == (1, 0)
    assert "took different K tiles: tile 1, tile 0" in str(execution.symptoms[0])
    assert "C(0, 0) lacks K tiles: tile 1" in str(execution.symptoms[2])


def test_back_pressure_retires_the_oldest(litmus: Litmus) -> None:
    """Where assumed. With 8 entries a read, the third issue leaves 15: the first is done."""
    first = f"{LOADED} read.a read.b read.a1 read.b1 mma"
    almost = litmus(first, fragment_entries=7)
    assert not classify(*almost, trips=(0,), counter_stall=True).correct
    full = litmus(first, fragment_entries=8)
    assert classify(*full, trips=(0,), counter_stall=True).correct


def test_a_full_counter_alone_retires_nothing(litmus: Litmus) -> None:
    """20 reads of 8 entries, and none of them known to be done, until a wait says so."""
    reads = f"{LOADED} read.a read.b " + "read.a1 read.b1 " * 9
    assert not classify(*litmus(f"{reads} mma", fragment_entries=8), trips=(0,)).correct
    assert not classify(*litmus(f"{reads} lgkm15 mma", fragment_entries=8), trips=(0,)).correct
    assert classify(*litmus(f"{reads} lgkm14 mma", fragment_entries=8), trips=(0,)).correct


def test_a_wave_without_its_barrier_deadlocks(litmus: Litmus) -> None:
    compiled, kernel = litmus(f"{ONE_TILE} 0:barrier")
    execution = dry_run(compiled, trips=0, kernel=kernel)
    assert execution.status is Status.DEADLOCK
    assert not execution.correct
    assert [str(standing) for standing in execution.standing] == [
        "wave 0 waits at step 8, its barrier 2",
        "wave 1 has ended after 1 barriers",
    ]
    assert execution.describe().startswith("deadlock:")


def test_an_unequal_barrier_early_on_deadlocks_later(litmus: Litmus) -> None:
    compiled, kernel = litmus(f"1:barrier {ONE_TILE}")
    execution = dry_run(compiled, trips=0, kernel=kernel, order="random")
    assert execution.status is Status.DEADLOCK
    assert execution.standing[1].step == 4
    assert execution.standing[0].step is None


@pytest.mark.parametrize(
    ("text", "first", "second", "state"),
    [
        ("load.a load.b barrier read.a read.b lgkm0 mma", (1, 0), (0, 3), FlightState.IN_FLIGHT),
        ("load.a load.b vm0 read.a read.b lgkm0 mma", (1, 0), (0, 3), FlightState.NOT_ISSUED),
        (ONE_TILE, (1, 0), (0, 4), FlightState.RETIRED),
        (f"{LOADED} read.a read.b lgkm4 mma", (0, 5), (0, 7), FlightState.IN_FLIGHT),
        (f"{LOADED} read.a read.b lgkm4 mma", (0, 4), (0, 7), FlightState.RETIRED),
    ],
)
def test_provoke_tells_how_far_the_first_access_was(
    litmus: Litmus,
    text: str,
    first: tuple[int, int],
    second: tuple[int, int],
    state: FlightState,
) -> None:
    compiled, kernel = litmus(text)
    execution = provoke(compiled, kernel=kernel, trips=0, first=first, second=second)
    assert execution.pair is not None
    assert execution.pair.state is state
    assert execution.pair.unordered is (state is not FlightState.RETIRED)
    assert execution.pair.witnessed is execution.pair.unordered
    if execution.pair.unordered:
        assert not execution.correct


def test_provoke_makes_both_flights_overlap_within_one_segment(litmus: Litmus) -> None:
    """Wave 1 reloads the same tile: either order gives the same number, the overlap does not."""
    text = f"{LOADED} read.a 1:load.a lgkm0 vm0 barrier read.b lgkm0 mma"
    compiled, kernel = litmus(text)
    execution = provoke(compiled, kernel=kernel, trips=0, first=(0, 4), second=(1, 5))
    assert execution.pair is not None
    assert execution.pair.witnessed
    assert execution.has_poison
