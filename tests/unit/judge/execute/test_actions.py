"""What a step makes of the numbers that it reads: which operand each is, what is undefined, where
a condition decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipeloom.declare import Loop, maximum, where
from pipeloom.errors import StructureError
from pipeloom.judge.execute.actions import Action, Side, Storage
from pipeloom.program import Access, Meaning, Program, Work
from tests.unit.judge.verify.programs import attention, changed, lowered, producer_consumer

NAN = float("nan")


def chosen() -> Meaning:
    """One carry that is replaced under a condition."""
    loop = Loop("chosen", over="k")
    x = loop.stream("X", "f32", k=1, c=4)
    row = x.sum("k").named("row")
    kept = loop.carry("kept", start=1, c=4)
    with loop.when((row > kept).named("big")):
        kept = kept.becomes((row - kept).named("taken"))
    loop.store("out", kept)
    return loop.meaning


def action_of(made: Program, label: str) -> Action:
    steps = [s for _, _, s in made.groups[0].steps() if isinstance(s, Work)]
    return Storage(made).action(next(s for s in steps if s.label == label), 0, 0)


def skipping(*, other: bool) -> Program:
    """``taken`` in place, where its condition holds; it may still read what it is otherwise."""
    made = lowered(chosen())
    reads = ("r.row", "r.kept", *(["r.kept"] * other), "r.big")
    return changed(
        made,
        "loop",
        "taken",
        reads=tuple(map(Access, reads)),
        writes=(Access("r.kept"),),
        when="big",
    )


@pytest.mark.parametrize(
    ("made", "operands"),
    [
        (lowered(chosen()), ("row", "kept", "kept", "big")),
        (skipping(other=False), ("row", "kept", "big")),
        (skipping(other=True), ("row", "kept", "kept", "big")),
    ],
    ids=["chosen", "skipped", "skipped, with the other value"],
)
def test_every_read_is_for_one_operand(made: Program, operands: tuple[str, ...]) -> None:
    found = action_of(made, "taken")
    assert found.operands == operands
    assert found.skips is (made is not None and found.work.when is not None)
    assert found.has_otherwise is (found.work.when is None)


@pytest.mark.parametrize(
    "reads", [(), ("r.row",), ("r.row", "r.kept", "r.kept", "r.kept", "r.big")]
)
def test_reads_for_no_operand_are_refused(reads: tuple[str, ...]) -> None:
    made = changed(skipping(other=False), "loop", "taken", reads=tuple(map(Access, reads)))
    with pytest.raises(StructureError, match=f"reads {len(reads)} places, but needs row, kept"):
        action_of(made, "taken")


def column(*numbers: float) -> np.ndarray:
    """Four elements for one set of inputs."""
    return np.array(numbers, float).reshape(-1, 1)


def test_a_condition_decides_element_by_element() -> None:
    row, kept, big = column(5, 6, 7, 8), column(1, 2, 3, NAN), column(1, 0, NAN, 1)
    want = [4.0, 2.0, NAN, NAN]
    found = action_of(lowered(chosen()), "taken").result([row, kept, kept, big], None)
    assert np.array_equal(found[:, 0], want, equal_nan=True)
    skips = action_of(skipping(other=False), "taken")
    assert np.array_equal(skips.result([row, kept, big], kept)[:, 0], want, equal_nan=True)
    taken = skips.taken([row, kept, big])
    assert taken is not None
    assert taken[:, 0].tolist() == [True, False, True, True]
    assert action_of(lowered(chosen()), "taken").taken([row, kept, kept, big]) is None


def ops() -> Meaning:
    """Ops that would not notice an undefined operand."""
    loop = Loop("ops", over="k")
    x, y = loop.stream("X", "f32", k=2, c=2), loop.stream("Y", "f32", k=2, c=2)
    loop.store("least", maximum(x, y).named("larger"))
    loop.store("which", where((x > y).named("more"), x, y).named("either"))
    loop.store("rounded", (x + y).to("bf16").named("near"))
    top = loop.carry("top", start=-9, c=2)
    top = top.becomes(maximum(top, x.max("k").named("best")).named("top.max"))
    total = loop.carry("total", start=0, c=2)
    total += y.sum("k")
    loop.store("out", top)
    loop.store("sum", total)
    return loop.meaning


def square(*numbers: float) -> np.ndarray:
    return np.array(numbers, float).reshape(2, 2, 1)


@pytest.mark.parametrize(
    ("label", "operands", "want"),
    [
        ("larger", [square(1, NAN, 3, 4), square(5, 6, NAN, 2)], [5, NAN, NAN, 4]),
        ("more", [square(1, NAN, 3, 4), square(5, 6, NAN, 2)], [0, NAN, NAN, 1]),
        (
            "either",
            [square(1, NAN, 1, 0), square(1, 2, 3, 4), square(NAN, 6, 7, 8)],
            [NAN, NAN, 3, 8],
        ),
        ("best", [square(1, NAN, 3, 4)], [NAN, 4]),
        ("near", [square(257, 1, NAN, 3)], [256, 1, NAN, 3]),
    ],
)
def test_what_is_made_of_something_undefined_is_undefined(
    label: str, operands: Sequence[np.ndarray], want: list[float]
) -> None:
    found = action_of(lowered(ops()), label).result(operands, None)
    assert np.array_equal(found[:, 0], np.array(want, float), equal_nan=True)


def test_a_sum_starts_with_what_is_there_and_is_rounded() -> None:
    made = lowered(ops())
    (name,) = [n.name for n in made.meaning.nodes if n.init == "total"]
    start = np.array([2.0**25, NAN]).reshape(2, 1)
    plain = action_of(made, name)
    assert plain.has_init
    assert not plain.accumulates
    found = plain.result([square(1, 2, 3, 4), start], None)
    in_place = changed(
        made, "loop", name, reads=(Access("r.Y"),), writes=(), accumulates=(Access("r.total"),)
    )
    added = action_of(in_place, name)
    assert added.accumulates
    assert not added.has_init
    again = added.result([square(1, 2, 3, 4)], start)
    for one in (found, again):
        assert np.array_equal(one[:, 0], [2.0**25 + 4, NAN], equal_nan=True)
        assert np.float32(one[0, 0]) == one[0, 0]


def test_places_are_told_apart_by_where_they_lie() -> None:
    made = lowered(attention())
    storage = Storage(made)
    sizes = {r.name: r.copies * r.type.elements for r in made.resources}
    assert storage.size == sum(sizes.values())
    starts = {r.start: r for r in made.resources if r.start is not None}
    assert sorted(number for _, _, number in storage.starts) == sorted(
        r.start for r in made.resources if r.start is not None
    )
    assert all(stop - start == sizes[starts[n].name] or n == 0 for start, stop, n in storage.starts)
    load = action_of(made, "copy K")
    assert (load.reads[0].side, load.write.side) == (Side.INPUT, Side.REGISTERS)
    assert load.reads[0].tiles
    assert load.reads[0].stride == made.meaning["K"].type.elements
    resident = action_of(made, "copy Q")
    assert not resident.reads[0].tiles
    assert resident.reads[0].stride == 0
    store = action_of(made, "store out")
    assert store.write.side is Side.OUTPUT
    assert not store.write.tiles


def test_registers_are_each_wave_s_own_and_lds_is_not() -> None:
    made = lowered(chosen())
    group = replace(made.groups[0], waves=(0, 1))
    two = replace(made, groups=(group,))
    step = next(s for _, _, s in group.steps() if isinstance(s, Work) and s.label == "row")
    storage = Storage(two)
    mine, other = (storage.action(step, wave, wave) for wave in (0, 1))
    assert not set(mine.write.index) & set(other.write.index)
    assert storage.action(step, 0, 0) is mine


def test_an_op_that_the_boxes_do_not_fit_is_refused() -> None:
    made = lowered(chosen())
    half = Access("r.X", (((0, 1), (0, 2)),))
    with pytest.raises(StructureError, match=r"reads boxes of .* and writes one of"):
        action_of(changed(made, "loop", "row", reads=(half,)), "row")
    two = (Access("r.row"), Access("r.kept"))
    with pytest.raises(StructureError, match="writes 2 places"):
        action_of(changed(made, "loop", "row", writes=two), "row")
    computed = changed(made, "loop", "copy X", is_copy=False)
    with pytest.raises(StructureError, match="which no op computes"):
        action_of(computed, "copy X")


@pytest.mark.parametrize("says_so", [True, False])
def test_a_write_is_shared_if_it_is_of_lds_and_says_so(says_so: bool) -> None:
    """Waves that write parts of their own end apart, each when its own part is there."""
    steps = [
        replace(step, writes=tuple(replace(a, shared=says_so) for a in step.writes))
        for group in producer_consumer().groups
        for _, _, step in group.steps()
        if isinstance(step, Work) and step.writes
    ]
    storage = Storage(producer_consumer())
    found = {(w.side, w.shared) for w in (storage.action(s, 0, 0).write for s in steps)}
    assert found == {(Side.LDS, says_so), (Side.REGISTERS, False), (Side.OUTPUT, False)}
