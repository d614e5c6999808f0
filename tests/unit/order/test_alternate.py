"""Groups of waves that take turns: one multiplies while the other computes on vectors."""

from __future__ import annotations

from functools import cache

from pipeloom.declare import Loop, exp2
from pipeloom.declare.kernels import attention
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.judge.verify import verify
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target
from pipeloom.order.alternate import _Alternating
from pipeloom.order.gaps import Gaps
from pipeloom.order.grains import is_vector
from pipeloom.order.instructions import refine
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import turning, woven
from pipeloom.order.tasks import Lowered
from pipeloom.program import Barrier, Priority, Program, Work
from pipeloom.program.steps import Unit


@cache
def lowered(target: Target, keys: int, waves: int = 8) -> Lowered:
    loop = attention(32 * waves, keys, 64)
    return lower(loop.meaning, target, loop.ops, loop.staged, waves, turning=True)


def pattern(of: Lowered) -> Pattern:
    return next(turning(of))


@cache
def ordered(target: Target, keys: int) -> _Alternating:
    of = lowered(target, keys)
    weaver = _Alternating(refine(of, 2), pattern(of))
    weaver.weave()
    return weaver


@cache
def program(target: Target, keys: int) -> Program:
    return woven(lowered(target, keys), pattern(lowered(target, keys)))


def turn_of(weaver: _Alternating, task: int) -> int:
    """Of the iteration's turns, the one in which a task stands."""
    share = weaver.ii / len(weaver.products)
    return int(weaver.at[task] % weaver.ii // share)


def test_each_group_has_the_matrix_unit_for_half_of_an_iteration() -> None:
    for weaver in (ordered(GFX950, 64), ordered(GFX942, 32)):
        for group, products in enumerate(weaver.products):
            assert {turn_of(weaver, i) for i in products} == {group}
            begins = sorted(weaver.at[i] % weaver.ii for i in products)
            assert begins[0] == group * weaver.ii / 2
            assert weaver.count == 2 * sum(weaver._length(i) for i in products)


def test_vector_ops_stand_mostly_where_the_other_group_multiplies() -> None:
    weaver = ordered(GFX950, 64)
    cost = {True: 0, False: 0}
    for i in weaver.members[0]:
        if is_vector(weaver.tasks[i]):
            cost[turn_of(weaver, i) == 0] += weaver.machine.issued(weaver.tasks[i])
    assert cost[False] > 2 * cost[True] > 0


def test_reads_and_loads_stand_among_products_and_writes_to_lds_do_not() -> None:
    weaver = ordered(GFX942, 32)
    number = weaver.number_of
    for i, task in enumerate(weaver.tasks):
        if task.unit in (Unit.LOAD_LDS, Unit.LOAD):
            assert turn_of(weaver, i) == number[task.group], task.label
        elif task.unit is Unit.LDS_WRITE:
            assert turn_of(weaver, i) != number[task.group], task.label
    reads = [i for i in weaver.members[0] if weaver.tasks[i].unit is Unit.LDS_READ]
    assert sum(turn_of(weaver, i) == 0 for i in reads) > len(reads) / 2


def test_a_read_that_finds_no_room_among_products_stays() -> None:
    of = lowered(GFX950, 64)
    weaver = _Alternating(refine(of, 2), pattern(of))
    gaps = Gaps(weaver.count, 0)
    weaver._place_products([2])
    read = next(n for n, t in enumerate(weaver.mine) if t.unit is Unit.LDS_READ)
    wanted = weaver._wanted(read) - weaver._ahead(weaver.mine[read])
    for gap in range(weaver.count):
        gaps.add(gap, int(weaver.pitch))
    assert weaver._read_gap(read, gaps) == wanted


def test_the_rescale_is_jumped_over_behind_the_last_product_of_a_turn() -> None:
    weaver = ordered(GFX950, 64)
    regions = [n for n in range(len(weaver.mine)) if weaver._is_tied(n)]
    assert regions
    assert {weaver.gap[n] % weaver.count for n in regions} == {max(weaver.busy)}


def test_a_barrier_between_turns_and_the_turn_first_at_the_vector_port() -> None:
    steps = next(s for s in program(GFX950, 64).groups[0].sections if s.trips).steps
    kinds: list[object] = []
    for step in steps:
        if isinstance(step, Work) and any(i.unit is Unit.MATRIX for i in step.issues):
            step_kind: object = "product"
        elif isinstance(step, Priority):
            step_kind = step.level
        elif isinstance(step, Barrier):
            step_kind = "barrier"
        else:
            continue
        if not kinds or kinds[-1] != step_kind:
            kinds.append(step_kind)
    turn = ["barrier", 1, "product", 0]
    at = kinds.index("barrier")
    assert (kinds[at:] + kinds[:at]).count("barrier") % 2 == 0
    text = " ".join(map(str, kinds[at:] + kinds[:at]))
    assert " ".join(map(str, turn)) in text
    assert "product 1" not in text, "nothing is raised within a turn"


def test_proved_and_near_what_the_vector_port_allows() -> None:
    for target, keys, bound in ((GFX950, 64, 1448), (GFX942, 32, 1080)):
        assert bound <= steady_cycles(program(target, keys)) < 1.12 * bound
    assert verify(program(GFX942, 32)).proved


def test_no_turns_without_two_waves_on_a_simd() -> None:
    assert not [*turning(lowered(GFX950, 64, 4))]


def test_a_loop_of_one_product_takes_turns_too() -> None:
    """No product of it lags behind another."""
    loop = Loop("scaled", over="k")
    x = loop.stream("X", "bf16", m=256, k=32).staged()
    y = loop.stream("Y", "bf16", k=32, n=64).staged()
    c = loop.carry("C", m=256, n=64)
    c += (exp2(x) * loop.stream("w", "f32", k=32).staged()).to("bf16") @ y
    loop.store("out", c)
    of = lower(loop.meaning, GFX950, loop.ops, loop.staged, 8, turning=True)
    assert verify(woven(of, pattern(of))).proved
