"""Where barriers are free, and what tasks cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeloom.declare import Loop, where
from pipeloom.declare.kernels import attention, gemm, row_sum
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import FP8
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange, fewest_points
from pipeloom.order.node_tasks import lower
from pipeloom.order.prices import Price, Prices
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.task_problem import _lds_left
from pipeloom.order.tasks import Lowered, Place
from pipeloom.order.unit_times import ISSUE, MATRIX, Machine
from pipeloom.program import Region, Space
from pipeloom.program.tiles import TileType


def lowered(loop: Loop, waves: int) -> Lowered:
    return lower(loop.meaning, GFX950, loop.ops, loop.staged, waves)


def price(item: Lowered, label: str) -> Price:
    return Prices(item).of(next(t for t in item.tasks if t.label == label))


@pytest.mark.parametrize(
    ("intervals", "points"),
    [
        ([], []),
        ([(3, 5)], [5]),
        ([(3, 5), (4, 9)], [5]),
        ([(0, 2), (5, 6)], [2, 6]),
        ([(8, 11), (0, 1)], [1]),
        ([(0, 30)], []),
    ],
)
def test_the_fewest_points_of_a_circle(intervals: list[tuple[int, int]], points: list[int]) -> None:
    assert fewest_points(intervals, 10) == points


@given(st.lists(st.tuples(st.integers(-9, 19), st.integers(0, 11)), max_size=5))
def test_no_fewer_points_of_a_circle_meet_all(arcs: list[tuple[int, int]]) -> None:
    """By trying all sets of points; what goes round meets any point, and asks for none."""
    ii = 8
    met = [{(a + n) % ii for n in range(length + 1)} for a, length in arcs if length < ii]
    found = set(fewest_points([(a, a + length) for a, length in arcs], ii))
    assert all(arc & found for arc in met)
    fewer = (set(points) for n in range(len(found)) for points in combinations(range(ii), n))
    assert not any(all(arc & points for arc in met) for points in fewer)


def test_a_gemm_has_a_barrier_before_each_quadrant() -> None:
    assert len(arrange(gemm(), GFX950, 4).barrier_gaps["loop"]) == 4


def test_no_lds_no_barriers() -> None:
    assert arrange(row_sum(), GFX950, 1, depth=2).barrier_gaps == {}


def test_prices_of_a_gemm_are_those_of_the_tile() -> None:
    """32 matrix instructions of 16 cycles; 8 reads of 1 KiB by 4 waves at 256 bytes per cycle."""
    item = lowered(gemm(), 4)
    mma, read, load = (price(item, x) for x in ("C.next00", "read A0", "load A0"))
    assert (mma.latency, mma.hold) == (512, 512)
    assert read.latency == 65 + 4 * 8 * 1024 // 256
    assert load.hold == 0
    assert {use.unit: use.occupancy for use in load.uses}["memory"] == -(-16384 // 45)


def test_vector_tasks_hold_the_issue_for_their_time() -> None:
    item = lowered(attention(128, 64, 64), 4)
    exp = price(item, "P")
    assert exp.latency == 32 * 8, "32 results per lane, 8 cycles each"
    assert {use.unit for use in exp.uses} == {"valu", "issue"}
    tiny = price(item, "m.next")
    assert [u.occupancy for u in tiny.uses if u.unit == "issue"] == [1]


def test_one_wave_needs_no_barriers() -> None:
    assert Prices(lowered(row_sum(), 1)).publish == 0
    assert Prices(lowered(gemm(), 4)).publish == GFX950.barrier_alone_cycles.value
    assert Prices(lowered(gemm(), 8)).publish == GFX950.barrier_shared_cycles.value


def test_every_barrier_costs_issue_slots() -> None:
    machine = Machine.of(lowered(gemm(), 4))
    cycles = [{t.unit: t.cycles for t in machine.times(n)}[ISSUE] for n in range(4)]
    assert machine.barrier > 1
    assert cycles == [cycles[0] + n * machine.barrier for n in range(4)]


def test_barriers_cost_no_products_where_there_are_none() -> None:
    machine = Machine.of(lowered(row_sum(), 4))
    assert {t.unit: t.cycles for t in machine.times(3)}[MATRIX] == 0


def test_a_condition_that_all_lanes_share_takes_no_vector_register() -> None:
    loop = Loop("either", over="k")
    x = loop.stream("X", "f32", k=4, c=256)
    total = loop.carry("total", "f32", start=0.0, c=256)
    total = total.becomes(where(loop.scalar("factor", usual=2.0) > 1.0, total, total + x.sum("k")))
    loop.store("out", total)
    scalars = [p for p in lowered(loop, 1).places if p.space is Space.SCALAR]
    assert scalars
    assert {p.registers for p in scalars} == {0}


def test_a_group_has_issue_slots_for_its_own_tasks() -> None:
    """Producers have no long task: all of theirs stand between two of the loop's."""
    loop = gemm(64, 128, 32)
    item = lower(loop.meaning, GFX950, loop.ops, loop.staged, 4, (Producer(2), Consumer(4)))
    loads = sum(t.group == "producer" for t in item.of(Region.LOOP))
    slots = {unit.name: unit.capacity for unit in Prices(item).units}
    assert loads > 2
    assert slots[f"{ISSUE} producer"] == loads
    assert slots[f"{ISSUE} consumer"] == 2, "as many reads as products"


def test_lds_is_full_with_its_last_byte() -> None:
    """A kept tile of one byte less leaves room for what rotates, however little."""
    item = lowered(gemm(64, 64, 32), 4)
    total = GFX950.lds_kib.value * 1024
    for size in (total - 1, total):
        tile = TileType(("n",), (size,), FP8)
        kept = Place(name="kept", space=Space.LDS, type=tile, members=("W",))
        full = replace(item, places=(kept,))
        if size < total:
            assert _lds_left(full) == 1
        else:
            with pytest.raises(ConfigError, match="kept take all of the"):
                _lds_left(full)
