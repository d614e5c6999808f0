"""Waits and barriers of programs: sound by another checker, with nothing to spare."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pipeloom.declare import Loop
from pipeloom.errors import OrderError
from pipeloom.judge.verify import proves, verify
from pipeloom.program import Access, Barrier, Box, Program, Section, Step, SyncMethod, Wait, Work
from pipeloom.program.provenance import OrderedBy
from pipeloom.sync import REPAIRED, synchronize
from pipeloom.sync.flow import Flow
from pipeloom.sync.nearest_order import precedences
from pipeloom.sync.script import Around, Kept, Row
from pipeloom.sync.strip import stripped
from pipeloom.sync.study import Study
from pipeloom.sync.touches import _parts
from pipeloom.sync.walk import sample_runs
from tests.unit.judge.verify.programs import (
    ROW,
    TILE,
    changed,
    copy,
    edited,
    lowered,
    producer_consumer,
    register,
)


def words(program: Program, group: int = 0) -> dict[str, str]:
    def word(step: object) -> str:
        if isinstance(step, Wait):
            return f"{step.counter.removesuffix('cnt')}{step.count}"
        return "bar" if isinstance(step, Barrier) else getattr(step, "label", "?")

    return {s.name: ", ".join(map(word, s.steps)) for s in program.groups[group].sections}


def with_steps(program: Program, changed: dict[tuple[int, int], list[Step]]) -> Program:
    """With the steps of some sections (group, section) replaced."""
    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(section, steps=tuple(changed.get((g, s), section.steps)))
                for s, section in enumerate(group.sections)
            ),
        )
        for g, group in enumerate(program.groups)
    )
    return replace(program, groups=groups)


def weakened(program: Program) -> Iterator[tuple[str, Program]]:
    """Every program with one wait looser by an entry, or one barrier less in every group."""
    meetings: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for g, group in enumerate(program.groups):
        for s, section in enumerate(group.sections):
            stage = sum(x.trips is not None for x in group.sections[: s + 1])
            stage = 2 * stage - (section.trips is not None)
            for at, step in enumerate(section.steps):
                if isinstance(step, Wait):
                    steps = list(section.steps)
                    steps[at] = replace(step, count=step.count + 1)
                    yield f"{section.name}[{at}] {step}", with_steps(program, {(g, s): steps})
                elif isinstance(step, Barrier):
                    number = sum(isinstance(x, Barrier) for x in section.steps[:at])
                    meetings.setdefault((stage, number), {})[g, s] = at
    for meeting, places in meetings.items():
        changed = {}
        for (g, s), at in places.items():
            steps = list(program.groups[g].sections[s].steps)
            changed[g, s] = steps[:at] + steps[at + 1 :]
        yield f"barrier {meeting}", with_steps(program, changed)


def bare(program: Program) -> list[list[Work]]:
    return [[s for _, _, s in g.steps() if isinstance(s, Work)] for g in program.groups]


CASES = {
    "gemm 1": ("gemm", (1,)),
    "gemm 2": ("gemm", (2,)),
    "gemm 3": ("gemm", (3,)),
    "gemm 2, one wave": ("gemm", (2, 1)),
    "specialised 1": ("specialised", (1,)),
    "specialised 2": ("specialised", (2,)),
    "specialised 3": ("specialised", (3, 4, 2)),
    "row sum": ("row_sum", ()),
}


@pytest.mark.parametrize("name", CASES)
def test_sound_and_nothing_to_spare(programs: Any, name: str) -> None:
    builder, arguments = CASES[name]
    program: Program = getattr(programs, builder)(*arguments)
    assert programs.troubles(program)
    fixed = synchronize(program)
    assert verify(fixed).proved
    assert not programs.troubles(fixed)
    assert bare(fixed) == bare(program)
    assert fixed.provenance.synchronised is SyncMethod.PROVEN
    candidates = list(weakened(fixed))
    assert candidates
    for what, weaker in candidates:
        assert programs.troubles(weaker), what
        assert not proves(weaker), what
    assert synchronize(fixed) == fixed
    kept = synchronize(fixed, method=REPAIRED)
    assert kept.groups == fixed.groups


def test_single_buffer_by_hand(programs: Any) -> None:
    """One barrier publishes the loads, one protects the reads."""
    loop = words(synchronize(programs.gemm(1)))["loop"]
    assert loop == "bar, load A, load B, vm0, bar, read A, read B, lgkm0, mma"


def test_no_barrier_for_registers(programs: Any) -> None:
    assert words(synchronize(programs.row_sum()))["loop"] == "load X, vm3, add, load X, vm3, add"


def test_one_wave_needs_no_barrier(programs: Any) -> None:
    fixed = synchronize(programs.gemm(2, 1))
    assert not [s for _, _, s in fixed.groups[0].steps() if isinstance(s, Barrier)]


def test_producer_and_consumer_meet_equally_often(programs: Any) -> None:
    """While the consumer multiplies one iteration, the producer loads the next."""
    fixed = synchronize(programs.specialised(2))
    assert words(fixed, 0) == {
        "fill": "load A, load B, vm0, bar",
        "loads": "load A, load B, vm0, bar, load A, load B, vm0, bar",
    }
    assert list(words(fixed, 1).values()) == [
        "bar",
        "read A, read B, lgkm0, mma, bar, read A, read B, lgkm0, mma, bar",
        "read A, read B, lgkm0, mma, store C",
    ]


def test_sections_are_added_where_a_group_has_none(programs: Any) -> None:
    fixed = synchronize(programs.specialised(2))
    assert [s.trips for s in fixed.groups[1].sections] == [None, "T", None]


def test_barriers_follow_a_proposal_that_waits_can_make_sound(programs: Any) -> None:
    program = programs.gemm(1)
    fixed = synchronize(program, barrier_gaps={"loop": (0, 2)})
    assert words(fixed)["loop"] == "bar, load A, load B, vm0, bar, read A, read B, lgkm0, mma"
    assert synchronize(program, barrier_gaps={"loop": (1,)}) == synchronize(program)
    late = synchronize(program, barrier_gaps={"loop": (2, 4)})
    assert words(late)["loop"] == "load A, load B, vm0, bar, read A, read B, lgkm0, bar, mma"


def test_what_is_loaded_once_is_waited_for_before_the_loop() -> None:
    """Q is used by the first step of the loop, before any wait for X."""
    loop = Loop("scaled", over="k")
    x, q = loop.stream("X", "f32", k=1, c=8), loop.resident("Q", "f32", c=8)
    s = loop.carry("S", c=8)
    s += x.sum("k") * q
    loop.store("out", s)
    base = lowered(loop.as_written, [register("again", ROW)])
    base = changed(base, "loop", "mul", reads=(Access("r.sum"), Access("again")))
    again = edited(base, 0, "loop", lambda steps: steps.insert(0, copy("Q", "r.Q", "again", 0)))
    found = words(synchronize(again))
    assert found["before"] == "copy Q, vm0"
    assert found["loop"] == "copy Q, copy X, vm0, sum, mul, S.next, carry S"


@pytest.mark.parametrize(("newer", "early"), [(104, True), (105, False), (106, False)])
def test_only_what_comes_before_a_read_is_written_too_early(newer: int, early: bool) -> None:
    """Another group of the same order writes what a read at 5 means at 102, the next at ``newer``:
    105 is the step of the read itself."""

    def access(group: int, event: int) -> Any:
        return SimpleNamespace(event=event, touch=SimpleNamespace(group=group))

    walks = [SimpleNamespace(events=range(start, start + 10)) for start in (0, 100)]
    flow: Any = SimpleNamespace(
        _scripts=SimpleNamespace(script_of=[0, 0]),
        run=SimpleNamespace(walks=walks),
        _first=lambda writes, read: writes[:1],
    )
    conflicts: list[tuple[object, ...]] = []
    read, writes = access(0, 5), [access(1, 102), access(1, newer)]
    found: Any = SimpleNamespace(
        read=read, meant=[], conflict=lambda *what: conflicts.append(what[:2])
    )
    around = Flow._among(flow, found, writes, [0])
    assert found.meant == writes[:1]
    assert conflicts == [(writes[1], read)] * early
    assert around == (([], []) if early else ([], writes[1:]))


def test_a_kept_barrier_is_named_by_its_label() -> None:
    for label, name in (("stagger", "stagger"), ("", "barrier")):
        kept = Kept(Barrier(label=label), frozenset({0}), 3)
        row = Row(Section(name="loop", steps=(kept.barrier,)), (kept,), (Around(), Around()))
        assert row.name(0) == f"[3] {name}"


def test_parts_of_an_operand_are_those_of_the_result_that_need_it(programs: Any) -> None:
    """Rows of C are split among the waves, and those of A with them; B is read whole."""
    program: Program = programs.gemm(1)
    mma = next(s for _, _, s in program.groups[0].steps() if getattr(s, "label", "") == "mma")
    assert isinstance(mma, Work)
    rows = [part[0] for part in mma.parts]
    assert rows == [(0, 16), (16, 32)]
    assert _parts(program.meaning, mma, "A") == tuple((row, (0, 16)) for row in rows)
    assert _parts(program.meaning, mma, "B") == (((0, 32), (0, 16)),) * 2
    assert _parts(program.meaning, mma, None) == ()
    copied = replace(mma, is_copy=True)
    assert _parts(program.meaning, copied, "A") == _parts(program.meaning, copied, None)
    assert _parts(program.meaning, copied, None) == mma.parts


def test_entries_of_a_step_that_may_be_skipped_are_not_counted_on(programs: Any) -> None:
    program: Program = programs.row_sum()
    steps = list(program.groups[0].sections[1].steps)
    assert isinstance(steps[0], Work)
    steps[0] = replace(steps[0], when="S")
    fixed = synchronize(with_steps(program, {(0, 1): steps}), prove=False)
    assert words(fixed)["loop"] == "load X, vm0, add, load X, add"


def test_a_count_fits_its_counter(programs: Any) -> None:
    """A wait for 63 is none, so what 63 younger entries follow is waited for with 62."""
    program: Program = programs.row_sum()

    def sized(section: int, *entries: int) -> list[Step]:
        sizes = iter(entries)
        return [
            replace(s, entries=next(sizes)) if isinstance(s, Work) and s.counter else s
            for s in program.groups[0].sections[section].steps
        ]

    changed = with_steps(program, {(0, 0): sized(0, 70), (0, 1): sized(1, 80, 21)})
    fixed = synchronize(changed)
    assert words(fixed)["loop"] == "load X, vm62, add, load X, vm21, add"


def test_an_order_that_nothing_can_save(programs: Any) -> None:
    """The next generation is loaded before the old one is read; with ``reorder`` the load waits."""
    program: Program = programs.gemm(2)
    steps = list(program.groups[0].sections[1].steps)
    early = steps.pop(5)
    steps.insert(2, early)
    mixed = with_steps(program, {(0, 1): steps})
    with pytest.raises(OrderError, match="no synchronisation can save this order") as caught:
        synchronize(mixed)
    assert "loads the next generation before the last read of the old one" in caught.value.message
    assert "[2] load A moves after [3] read A. reorder=True" in (caught.value.hint or "")
    fixed = synchronize(mixed, reorder=True)
    assert verify(fixed).proved
    assert [(move.label, move.by) for move in fixed.provenance.moved] == [("[2] load A", 1)]


def test_groups_that_wait_for_each_other_in_a_circle(programs: Any) -> None:
    """One copy, loaded in order, but read in the other order."""
    program: Program = programs.specialised(2)
    one = programs.specialised(1)
    sections = tuple(
        with_one_copy(section) for group in program.groups for section in group.sections
    )
    producer, consumer = (
        replace(group, sections=part)
        for group, part in zip(program.groups, (sections[:2], sections[2:]), strict=True)
    )
    hopeless = replace(program, groups=(producer, consumer), resources=one.resources)
    assert verify(synchronize(hopeless)).proved
    steps = list(consumer.sections[0].steps)
    hopeless = with_steps(hopeless, {(1, 0): steps[3:] + steps[:3]})
    with pytest.raises(OrderError, match="no barriers can order"):
        synchronize(hopeless)


def with_one_copy(section: Any) -> Any:
    def single(step: Step) -> Step:
        if not isinstance(step, Work):
            return step
        reads, writes = (
            tuple(replace(access, copy=0) for access in part) for part in (step.reads, step.writes)
        )
        return replace(step, reads=reads, writes=writes)

    return replace(section, steps=tuple(map(single, section.steps)))


def test_waits_alone_cannot_replace_a_barrier(programs: Any) -> None:
    with pytest.raises(OrderError, match="waits alone cannot save this order"):
        synchronize(programs.gemm(2), method=REPAIRED)


def test_labelled_barriers_are_kept(programs: Any) -> None:
    program: Program = programs.gemm(1)
    own = Barrier(label="own")
    steps = [own, *program.groups[0].sections[2].steps]
    fixed = synchronize(with_steps(program, {(0, 2): steps}))
    assert own in fixed.groups[0].sections[2].steps


@pytest.mark.parametrize("copies", [1, 2])
def test_random_legal_orders(programs: Any, copies: int) -> None:
    rng = random.Random(f"orders {copies}")
    program: Program = programs.gemm(copies)
    for _ in range(8):
        study = Study.of(stripped(program, keep_barriers=False))
        pairs = precedences(study.scripts, study.flows)[0, 1]
        left = list(range(len(program.groups[0].sections[1].steps)))
        order: list[int] = []
        while left:
            ready = [n for n in left if not any(v == n and u in left for u, v in pairs)]
            order.append(rng.choice(ready))
            left.remove(order[-1])
        steps = [program.groups[0].sections[1].steps[n] for n in order]
        fixed = synchronize(with_steps(program, {(0, 1): steps}))  # raises unless proved
        assert not programs.troubles(fixed)


def test_figures_hold_only_for_the_waits_they_were_found_with(programs: Any) -> None:
    arranged = synchronize(programs.gemm(2))
    how = OrderedBy("woven", cycles=384, bound=384, proved=True, stages=3)
    known = replace(arranged.provenance, ordered=how, notes=("384 cycles per iteration",))
    found = replace(arranged, provenance=known)
    assert synchronize(found).provenance == known
    _, weaker = next(weakened(found))
    fixed = synchronize(weaker).provenance
    assert fixed.ordered == OrderedBy("woven", stages=3)
    assert not fixed.notes
    # What an order claims before it has any waits stays with it.
    given = replace(programs.gemm(2), provenance=replace(known, synchronised=SyncMethod.GIVEN))
    assert synchronize(given).provenance.ordered == how


def in_halves(step: Step) -> list[Step]:
    """A load of B as two, of half the rows each."""
    if not isinstance(step, Work) or step.label != "load B":
        return [step]
    halves = [((0, 16), (0, 16)), ((16, 32), (0, 16))]
    return [
        replace(
            step,
            reads=tuple(replace(x, boxes=(box,)) for x in step.reads),
            writes=tuple(replace(x, boxes=(box,)) for x in step.writes),
            parts=(box,),
            entries=1,
        )
        for box in halves
    ]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_tile_that_another_group_brings_in_pieces(programs: Any, copies: int) -> None:
    """Every piece of this generation is waited for, and none of the next."""
    program: Program = programs.specialised(copies)
    changed = {
        (0, s): [half for step in section.steps for half in in_halves(step)]
        for s, section in enumerate(program.groups[0].sections)
    }
    fixed = synchronize(with_steps(program, changed))
    assert not programs.troubles(fixed)
    for what, weaker in weakened(fixed):
        assert programs.troubles(weaker), what


@pytest.mark.parametrize(("ahead", "advance", "apart"), [(6, 1, 6), (11, 2, 6), (12, 2, 6)])
def test_runs_are_long_enough_for_what_is_loaded_far_ahead(
    programs: Any, ahead: int, advance: int, apart: int
) -> None:
    """Past the trip that reads what the first one loads, there are two more."""
    program: Program = programs.gemm(1)
    group = program.groups[0]
    steps = tuple(
        replace(s, iteration=3 + ahead * (s.counter == "vmcnt"))
        for s in group.sections[1].steps
        if isinstance(s, Work)
    )
    loop = replace(group.sections[1], steps=steps, advance=advance)
    far = replace(group, sections=(group.sections[0], loop, group.sections[2]))
    runs = sample_runs(stripped(replace(program, groups=(far,)), keep_barriers=False))
    assert [dict(run.trips)["T"] for run in runs] == list(range(apart + 3))


def test_of_several_faults_the_first_of_the_proof_is_told(programs: Any) -> None:
    program: Program = programs.gemm(2)
    loop, end = (program.groups[0].sections[n].steps for n in (1, 2))
    changed = {
        (0, 1): list(loop[:-1]),
        (0, 2): [s for s in end if getattr(s, "label", "") != "mma"],
    }
    wrong = with_steps(program, changed)
    findings = verify(synchronize(wrong, prove=False)).findings
    assert len({(f.where, f.why) for f in findings}) > 1
    with pytest.raises(OrderError) as caught:
        synchronize(wrong)
    assert findings[0].where in caught.value.message
    assert findings[0].why in caught.value.message


def test_waves_that_use_other_halves_of_a_register() -> None:
    """Beside registers that all of them use whole: the waits are those of the plain program."""
    halves: tuple[Box, ...] = (((0, 1), (0, 4)), ((0, 1), (4, 8)))
    base = producer_consumer()
    steps: list[Step] = list(base.groups[1].sections[0].steps)
    for at, step in enumerate(steps):
        if isinstance(step, Work) and step.label == "fetch":
            steps[at] = replace(step, writes=(Access("R", halves),))
        elif isinstance(step, Work):
            steps[at] = replace(step, reads=(Access("R", halves),))
    wide = tuple(register("R", TILE) if r.name == "R" else r for r in base.resources)
    fills, uses = base.groups
    loop = replace(uses.sections[0], steps=tuple(steps))
    uses = replace(uses, sections=(loop, *uses.sections[1:]))
    apart = replace(base, resources=wide, groups=(fills, uses))
    found = synchronize(apart)
    assert proves(found)
    for group in (0, 1):
        assert words(found, group) == words(synchronize(base), group)


def test_the_first_load_of_all_is_awaited_before_its_register_is_used_for_another_value() -> None:
    """Nothing reads it, and no load behind it is waited for."""
    base = producer_consumer()
    first, second = base.groups
    loop, end = second.sections
    fetch = next(s for s in loop.steps if isinstance(s, Work) and s.label == "fetch")
    halves = fetch.reads[0].boxes
    spare = replace(fetch, label="spare", reads=(Access("X", halves),), counter="vmcnt")
    spare = replace(spare, writes=(Access("Y"),), entries=1)
    move = replace(fetch, label="move", reads=(Access("R"),), writes=(Access("Y"),))
    move = replace(move, counter=None, entries=0)
    add = next(s for s in loop.steps if isinstance(s, Work) and s.node == "S.next")
    add = replace(add, reads=(Access("Y"),))
    steps = tuple(s for s in loop.steps if not isinstance(s, Work) or s.label == "fetch")
    held = base.resource("R")
    program = replace(
        base,
        resources=(*base.resources, replace(held, name="Y")),
        groups=(
            replace(first, sections=(replace(end, name="start", steps=()), *first.sections)),
            replace(
                second,
                sections=(
                    replace(end, name="start", steps=(spare,)),
                    replace(loop, steps=(*steps, move, add)),
                    end,
                ),
            ),
        ),
    )
    assert not proves(program)
    synchronised = synchronize(program)
    assert "vm0" in words(synchronised, 1)["start"]
    assert proves(synchronised)
