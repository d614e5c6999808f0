"""Vector ops between products: what is cut, what depends on what, and that all of it is proved."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from pipeloom.declare import Loop
from pipeloom.declare.kernels import attention
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.errors import OrderError
from pipeloom.judge.simulate import simulate
from pipeloom.judge.verify import verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.dependences import dependences
from pipeloom.order.gaps import Gaps
from pipeloom.order.grains import is_vector
from pipeloom.order.instructions import refine
from pipeloom.order.interleave import Interleaver
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import bound_of, structures, timed, woven
from pipeloom.order.tasks import Lowered
from pipeloom.program.costs import loop_end_cycles
from pipeloom.program.nodes import Region
from pipeloom.program.program import Program
from pipeloom.program.steps import Priority, Unit, Work

PATTERN = Pattern(room=160, lead=64, quiet=(16, 16), priority=True)


def lowered_attention(queries: int, keys: int, depth: int, waves: int) -> Lowered:
    loop = attention(queries, keys, depth)
    return lower(loop.meaning, GFX950, loop.ops, loop.staged, waves)


SMALL = lowered_attention(64, 64, 32, 2)
LARGE = lowered_attention(256, 64, 128, 8)


def test_vector_ops_are_cut_and_skipped_ones_are_not() -> None:
    fine = refine(LARGE)
    work: dict[str, int] = {}
    for task in fine.of(Region.LOOP):
        if is_vector(task):
            size = prod(stop - start for start, stop in task.parts[0])
            work[task.node] = work.get(task.node, 0) + size
            assert task.when is None or "/" not in task.label
    assert work == {
        t.node: prod(stop - start for start, stop in t.parts[0])
        for t in LARGE.of(Region.LOOP)
        if is_vector(t)
    }
    exponentials = [t for t in fine.of(Region.LOOP) if t.node == "P"]
    assert [i.count for t in exponentials for i in t.issues] == [4] * 8, "registers of 8 keys"


def test_products_are_whole_instructions() -> None:
    """16 queries of a wave: P has blocks of 16 keys, and an instruction sums over 32."""
    lowered = lowered_attention(64, 64, 32, 4)
    products = [t for t in refine(lowered).of(Region.LOOP) if t.issues[0].unit is Unit.MATRIX]
    assert {t.issues[0].count for t in products} == {1}
    assert verify(woven(lowered, PATTERN)).proved


def test_instructions_of_the_published_loops() -> None:
    """ATTENTION.md, section 2: per wave and tile of 64 keys at a depth of 128."""
    count: dict[tuple[str, Unit], int] = {}
    for task in LARGE.of(Region.LOOP):
        for issue in task.issues:
            key = (LARGE.meaning[task.node].op, issue.unit)
            count[key] = count.get(key, 0) + issue.count * (task.when is None)
    assert count["matmul", Unit.MATRIX] == 32
    assert count["amax", Unit.VECTOR] == 16
    assert count["fma", Unit.VECTOR] == count["exp2", Unit.TRANS] == count["sum", Unit.VECTOR] == 32
    assert count["convert", Unit.VECTOR] == 16
    assert count["mul", Unit.VECTOR] < 4, "rescaling is skipped, and the scale is in the fma"


def test_parts_that_do_not_overlap_do_not_depend_on_each_other() -> None:
    fine = refine(SMALL)
    tasks = fine.of(Region.LOOP)
    found = {(tasks[x.first].label, tasks[x.second].label) for x in dependences(fine, tasks)}
    assert ("fma/0", "P/0") in found
    assert ("fma/0", "P/1") not in found
    assert ("best/0", "fma/0") in found, "in place: the maximum is of what fma overwrites"


@pytest.mark.parametrize("pattern", [PATTERN, replace(PATTERN, room=200, barriers=2, quiet=())])
def test_a_woven_loop_is_proved(pattern: Pattern) -> None:
    program = woven(SMALL, pattern)
    assert verify(program).proved, verify(program).summary()
    loop = next(s for s in program.groups[0].sections if s.trips)
    levels = [s.level for s in loop.steps if isinstance(s, Priority)]
    ahead = [level for level in levels if level != 1]
    assert ahead == [0, 2] * (len(ahead) // 2), "back behind a product, ahead for the next"
    assert levels.count(1) > len(levels) // 4
    assert _regions(program) == _rescales(program)


def test_priorities_leave_regions_whole() -> None:
    program = woven(LARGE, Pattern(room=40, lead=64, quiet=(16, 16), priority=True))
    assert _regions(program) == _rescales(program)


def _regions(program: Program) -> int:
    steps = next(s for s in program.groups[0].sections if s.trips).steps
    skipped = [isinstance(s, Work) and s.when is not None for s in steps]
    return sum(b and not a for a, b in zip([False, *skipped], skipped, strict=False))


def _rescales(program: Program) -> int:
    steps = next(s for s in program.groups[0].sections if s.trips).steps
    return sum(s.node == "O.next" for s in steps if isinstance(s, Work))


def test_structures_try_one_group_and_two() -> None:
    found = list(structures(LARGE))
    assert {p.groups for p in found} == {1, 2}
    assert bound_of(LARGE) == (2048, "matrix unit")


@pytest.mark.parametrize("made", [False, True])
def test_operands_are_made_ahead_only_where_there_are_any(made: bool) -> None:
    """Where vector ops make none, a whole iteration of registers would wait for nothing."""
    loop = Loop("either", over="k")
    a, b = loop.stream("A", "bf16", m=64, k=64), loop.stream("B", "bf16", n=64, k=64)
    c = loop.carry("C", m=64, n=64)
    if made:
        c += (a * 2.0).to("bf16") @ b.staged()
    else:
        c += ((a.staged() @ b.staged()) * 2.0).named("twice")
    loop.store("out", c)
    found = structures(lower(loop.meaning, GFX950, loop.ops, loop.staged, 4))
    assert {pattern.early for pattern in found} == ({0, 1} if made else {0})


def test_steps_under_one_condition_are_counted_as_one_branch() -> None:
    """A lone wave, whose issue binds: no order is faster than the bound."""
    lowered = lowered_attention(128, 64, 64, 4)
    program = woven(lowered, list(structures(lowered))[1])
    assert steady_cycles(program) >= bound_of(lowered)[0]


def test_skipped_steps_cost_a_branch() -> None:
    program = woven(SMALL, PATTERN)
    trace = simulate(program, iterations=program.iterations.at(program.min_trips))
    labels = {trace.instruction(event).label for event in trace.events}
    assert "skip" in labels
    assert "O.next" not in labels


def test_tiles_that_one_group_loads_alone() -> None:
    """64 rows of 64 bytes are one load of four waves: of eight in two groups, only some load."""
    loop = Loop("twice", over="k")
    a = loop.stream("A", "bf16", m=64, k=32).staged()
    b, d = (loop.stream(name, "bf16", n=64, k=32).staged() for name in "BD")
    c = loop.carry("C", "f32", m=64, n=64)
    c += a @ b
    c = c.becomes(c * 0.5)
    c += a @ d
    loop.store("out", c)
    lowered = lower(loop.meaning, GFX950, loop.ops, loop.staged, 8)
    with pytest.raises(OrderError, match="cannot be expanded"):  # an iteration needs the last one
        woven(lowered, Pattern(groups=2, barriers=2, room=200, lead=64))


def test_parts_of_a_sum_wait_for_each_others_result() -> None:
    fine = refine(SMALL)
    tasks = fine.of(Region.LOOP)
    parts = [n for n, t in enumerate(tasks) if t.node == "best"]
    found = {(x.first, x.second) for x in dependences(fine, tasks) if x.waits}
    assert len(parts) > 2
    assert {(parts[0], n) for n in parts[1:]} <= found
    assert {(n, parts[-1]) for n in parts[:-1]} <= found


def test_a_gap_weighs_by_what_the_other_wave_does_meanwhile() -> None:
    """It is ``apart`` gaps behind, or ahead, which is the same round the loop."""
    gaps = Gaps(5, 2)
    gaps.add(4, 8, port=8)
    assert [gaps.weight(gap, 1)[0] for gap in range(5)] == [0, 8, 8, 0, 24]
    assert gaps.weight(6, 1) == (8, 6)


def test_the_end_of_the_loop_has_room_in_its_gap() -> None:
    """A trip begins half way between two barriers; what ends it stands in the gap before."""
    weaver = Interleaver(refine(SMALL), replace(PATTERN, quiet=()))
    gaps = Gaps(weaver.count, 0)
    weaver._place_products([1])
    weaver._place_reads(gaps)
    reads = list(gaps.used)
    weaver._keep_free(gaps)
    more = [now - before for now, before in zip(gaps.used, reads, strict=True)]
    end = (weaver.start - 1) % weaver.count
    assert more == [loop_end_cycles(GFX950) * (gap == end) for gap in range(weaver.count)]


def test_slots_for_loads_are_pairs_behind_what_a_gap_has() -> None:
    weaver = Interleaver(refine(SMALL), PATTERN)
    issue, pitch = weaver.machine.issue, weaver.pitch
    ends = [pitch] * weaver.count
    ends[2] = pitch - 2 * issue
    ends[3] = pitch - 2 * issue + 1
    weaver._free_slots(ends)
    assert list(weaver.slots[0].pairs(0, weaver.ii)) == [3 * pitch - 2 * issue]


def test_what_a_product_gives_is_there_when_a_vector_op_asks_for_it() -> None:
    weaver = Interleaver(refine(SMALL), PATTERN)
    weaver.weave()
    at = [weaver.at[i] for i in weaver.members[0]]
    found = [
        at[x.second] + x.distance * weaver.ii - at[x.first] - weaver.machine.matrix(one)
        for x in weaver.links
        for one, two in [(weaver.mine[x.first], weaver.mine[x.second])]
        if x.waits and weaver.machine.matrix(one) and is_vector(two)
    ]
    assert found
    assert min(found) > 0


def test_barriers_are_evenly_spaced() -> None:
    found = timed(SMALL, replace(PATTERN, room=200, barriers=2, quiet=()))
    first, ii = len(found.loop.tasks), found.timetable.ii
    one, two = (start % ii for start in found.timetable.starts[first : first + 2])
    assert abs(one - two) == ii / 2


def test_a_copy_is_filled_again_behind_those_who_read_that_part_of_it() -> None:
    """Scores have two copies, what is read from LDS has one."""
    weaver = Interleaver(refine(SMALL), PATTERN)
    label = [task.label for task in weaver.mine]
    found = {(label[x.first], label[x.second]): x.distance for x in weaver._reuse()}
    assert found["O.next.2.0.0.0", "read V tile.0.0"] == 1
    assert found["best/0", "S.0.0.0"] == found["P/0", "S.0.0.0"] == 2
    for other in ("S.0.1.0", "fma/0", "P/0"):
        assert ("best/0", other) not in found, "of another part, or in place"
