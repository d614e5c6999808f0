"""What stays in lanes' parts: sums that only the end reads, maxima that only decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.declare import Loop, maximum
from pipeloom.declare.kernels import attention
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.instructions import refine
from pipeloom.order.node_tasks import lower
from pipeloom.order.partial import in_parts, kept_partial
from pipeloom.order.spread import accumulator, shared_lanes
from pipeloom.order.tasks import Lowered
from pipeloom.program.nodes import Region
from pipeloom.program.resources import Layout
from pipeloom.program.vocabulary import Reduce


def lowered(loop: Loop, waves: int = 4) -> Lowered:
    return lower(loop.meaning, GFX950, loop.ops, loop.staged, {"q": waves})


def parts(loop: Loop) -> set[str]:
    places = lowered(loop).places
    return {p.name for p in places if p.layout and "partial" in dict(p.layout.numbers)}


def rows(*, plain: bool = False, turned: bool = False, used: bool = False) -> Loop:
    """Sums and maxima of rows of a product, kept or spoilt in one way."""
    loop = Loop("rows", over="k")
    a = loop.resident("A", "bf16", q=64, d=32)
    b = loop.stream("B", "bf16", k=32, d=32)
    total = loop.carry("total", "f32", start=0, q=64)
    top = loop.carry("top", "f32", start=-1e30, q=64)
    scores = a @ b.staged()
    best = scores.max("k").named("best")
    with loop.when((top < best) if turned else (best > top)):
        total = total.becomes(total * 0.5)
        top = top.becomes(maximum(top, best))
    total += scores.sum("k")
    if used:
        top = top.becomes(top + best)
    loop.store("sums", total if plain else total * 1.0)
    loop.store("tops", top)
    return loop


def test_attention_exchanges_nothing_in_the_common_path() -> None:
    assert parts(attention(64, 32, 32)) == {"best", "gt", "l"}


def test_a_part_is_combined_with_no_other_lane() -> None:
    row = Layout("accumulator", (("side", 16), ("only", 0)))
    assert shared_lanes(accumulator(16), (64, 64), in_parts(row, Reduce.ADD)) == 1
    assert shared_lanes(accumulator(16), (64, 64), row) == 64 // 16


def test_steps_that_only_skipped_ones_need_are_skipped() -> None:
    tasks = {task.node: task.when for task in lowered(attention(64, 32, 32)).tasks}
    skipped = {"max.2", "max", "sub", "mul.2", "alpha", "l.next", "O.next", "m.next"}
    assert {node for node, when in tasks.items() if when == "gt"} <= skipped
    assert tasks["alpha"] == tasks["O.next"] == tasks["m.next"] == "gt"
    assert tasks["P"] is None
    assert tasks["O.next.2"] is None


@pytest.mark.parametrize(
    ("loop", "kept"),
    [
        (rows(), {"total", "best", "gt"}),
        (rows(plain=True), {"best", "gt"}),  # stored as it lies
        (rows(turned=True), {"total"}),  # a bound below a part is no bound below the whole
        (rows(used=True), {"total"}),  # needed in any case
    ],
)
def test_what_something_else_needs_is_whole(loop: Loop, kept: set[str]) -> None:
    assert parts(loop) == kept


def test_what_is_carried_as_a_maximum_is_no_sum_of_parts() -> None:
    """The magnitudes of what is scaled begin at 0, like a sum, and lanes' parts do not add up."""
    loop = Loop("magnitudes", over="k")
    scores = loop.resident("A", "bf16", q=64, d=32) @ loop.stream("B", "bf16", k=32, d=32).staged()
    top = loop.carry("top", "f32", start=0, q=64)
    top += scores.sum("k").named("most")
    loop.store("scale", top * 0.5)
    assert kept_partial(loop.meaning, loop.ops, {}) == {"top": Reduce.ADD, "most": Reduce.ADD}
    nodes = (replace(n, op="amax") if n.op == "sum" else n for n in loop.meaning.nodes)
    assert kept_partial(replace(loop.meaning, nodes=tuple(nodes)), loop.ops, {}) == {}


def test_lanes_are_joined_once_in_the_last_part() -> None:
    """Registers are divided among the parts of a maximum; what joins its lanes is not."""
    coarse = lowered(rows(used=True))
    (whole,) = (t for t in coarse.of(Region.LOOP) if t.node == "best")
    *parts, last = (t for t in refine(coarse).of(Region.LOOP) if t.node == "best")
    assert parts
    first, *joining = whole.issues
    assert joining
    assert list(last.issues[1:]) == joining
    assert all(len(part.issues) == 1 for part in parts)
    assert sum(part.issues[0].count for part in (*parts, last)) == first.count
