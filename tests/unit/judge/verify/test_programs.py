"""Programs followed from outputs to inputs: the right ones are proved, the wrong ones not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.declare import Loop
from pipeloom.errors import ScheduleError, StructureError
from pipeloom.judge.verify import FindingKind, Status, Verdict, proves, verify
from pipeloom.machine.dtypes import F32
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Box,
    Program,
    Step,
    TileType,
    TripCount,
    Work,
)
from tests.unit.judge.verify.programs import (
    BARRIER,
    ROW,
    TILE,
    add_up,
    attention,
    changed,
    copy,
    edited,
    lds,
    load_row,
    looped,
    lowered,
    producer_consumer,
    program,
    register,
    row_sum,
    row_sum_program,
    straight,
    wait,
    without,
)


def kinds(verdict: Verdict) -> set[FindingKind]:
    return {f.kind for f in verdict.findings}


def refuted(base: Program, *expected: FindingKind) -> Verdict:
    verdict = verify(base)
    assert not verdict.proved
    assert not proves(base)
    assert kinds(verdict) & set(expected), verdict.findings
    for finding in verdict.findings:
        assert finding.describe()
        if finding.kind is FindingKind.ENCODING:
            continue
        assert finding.counterexample is not None
        assert finding.counterexample.steps
    return verdict


# --- the row sum of examples/own_kernel.py --------------------------------------------------------


def test_a_row_sum_is_proved() -> None:
    verdict = verify(row_sum_program())
    assert verdict.proved
    assert verdict.coverage.repeats_from is not None
    assert verdict.dead_work == ()


@pytest.mark.parametrize("offset", [1, 2, 4, 5])
def test_one_wrong_k_offset_is_found(offset: int) -> None:
    verdict = refuted(row_sum_program(last=offset), FindingKind.ACCOUNTING)
    assert verdict.status is Status.RACE
    assert min(f.trips for f in verdict.findings) == 1


def test_a_register_read_while_its_load_is_in_flight() -> None:
    verdict = refuted(without(row_sum_program(), 0, "loop", 3), FindingKind.REGISTER)
    assert "wait" in verdict.findings[0].why


def test_a_register_overwritten_while_in_flight() -> None:
    """The second load of R0 may land before the first: a register has no queue."""
    base = edited(
        row_sum_program(),
        0,
        "prologue",
        lambda steps: steps.insert(0, load_row("R0", 1)),
    )
    verdict = refuted(base, FindingKind.REGISTER)
    assert verdict.findings[0].first is not None
    assert verdict.findings[0].first.entry == "prologue[0]"
    waited = edited(base, 0, "prologue", lambda steps: steps.insert(1, wait("vm")))
    verdict = verify(waited)
    assert verdict.proved
    assert [d.slot for d in verdict.dead_work] == [0]


def test_an_iteration_added_twice() -> None:
    base = edited(
        row_sum_program(), 0, "loop", lambda steps: steps.insert(2, add_up(["R0"], "sum", 0))
    )
    refuted(base, FindingKind.ACCOUNTING)


def test_an_iteration_never_added() -> None:
    verdict = refuted(without(row_sum_program(), 0, "epilogue", 2), FindingKind.ACCOUNTING)
    assert verdict.findings[0].trips == 0


def test_iterations_in_another_order_are_fine() -> None:
    def swap(steps: list[Step]) -> None:
        steps[1], steps[2] = steps[2], steps[1]

    assert verify(edited(row_sum_program(), 0, "epilogue", swap)).proved


def test_a_wrong_start_value() -> None:
    base = row_sum_program()
    resources = (*base.resources[:2], register("sum", ROW, 1.0))
    refuted(replace(base, resources=resources), FindingKind.ACCOUNTING)
    resources = (*base.resources[:2], register("sum", ROW))
    refuted(replace(base, resources=resources), FindingKind.ACCOUNTING)


def test_a_missing_store() -> None:
    verdict = refuted(without(row_sum_program(), 0, "epilogue", 3), FindingKind.STORE)
    assert "no step" in verdict.findings[0].why


def test_half_a_store() -> None:
    half = (((0, 4),),)
    base = changed(
        row_sum_program(),
        "epilogue",
        "store",
        reads=(Access("sum", half),),
        writes=(Access("out", half),),
    )
    assert kinds(verify(base)) == {FindingKind.STORE}


def test_a_store_of_the_wrong_part() -> None:
    low, high = (((0, 4),),), (((4, 8),),)
    base = edited(
        row_sum_program(),
        0,
        "epilogue",
        lambda steps: steps.append(
            copy("out", Access("sum", low), Access("out", high), None, "vm", label="again")
        ),
    )
    verdict = refuted(base, FindingKind.ACCOUNTING)
    assert any("again" in f.second.op for f in verdict.findings)


def test_part_of_a_tile_moved_to_another_place_is_still_itself() -> None:
    """Halves exchanged on the way into the register and back on the way out."""
    low, high = (((0, 4),),), (((4, 8),),)

    def exchange(steps: list[Step]) -> None:
        steps[-1:] = [
            copy("S", Access("sum", low), Access("moved", high), None, label="up"),
            copy("S", Access("sum", high), Access("moved", low), None, label="down"),
            copy("out", Access("moved", high), Access("out", low), None, "vm", label="store low"),
            copy("out", Access("moved", low), Access("out", high), None, "vm", label="store high"),
        ]

    base = row_sum_program()
    base = replace(base, resources=(*base.resources, register("moved", ROW)))
    base = edited(base, 0, "epilogue", exchange)
    assert verify(base).proved
    refuted(
        changed(base, "epilogue", "store low", reads=(Access("moved", low),)),
        FindingKind.ACCOUNTING,
    )


def test_a_count_over_the_limit_is_no_wait() -> None:
    """80 entries behind the load: vmcnt(64) cannot be encoded, and nothing else waits."""
    tile = register("R", TILE)
    load = load_row("R", 0)
    noise = replace(load_row("spare", 0), entries=80)
    base = program(
        row_sum(),
        [tile, register("spare", TILE), register("sum", ROW, 0.0)],
        [
            (
                (0,),
                [
                    looped(load, noise, wait("vm", 64), add_up(["R"], "sum", 0), wait("vm", 0)),
                    straight("end", copy("out", "sum", "out", None, "vm")),
                ],
            )
        ],
    )
    verdict = refuted(base, FindingKind.REGISTER)
    assert FindingKind.ENCODING in kinds(verdict)
    stalled = verify(base, counter_stall=True)
    assert stalled.proved  # the issue of 80 entries through a counter of 63 retires the load
    fits = edited(base, 0, "loop", lambda steps: steps.__setitem__(2, wait("vm", 62)))
    assert verify(fits).proved


# --- attention ------------------------------------------------------------------------------------


def test_attention_is_proved() -> None:
    verdict = verify(lowered(attention()))
    assert verdict.proved, [f.describe() for f in verdict.findings]
    assert not [d for d in verdict.dead_work if d.always]


def test_the_p_of_the_neighbouring_tile() -> None:
    """P @ V stands before P: it multiplies the probabilities of one tile with the V of the next."""

    def early(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == "P")
        steps.append(steps.pop(at))

    verdict = refuted(edited(lowered(attention()), 0, "loop", early), FindingKind.ACCOUNTING)
    assert any("P of iteration" in f.why for f in verdict.findings)


def test_a_softmax_that_reads_a_register_nobody_writes() -> None:
    base = lowered(attention())
    tile = base.resource("r.S").type
    base = replace(base, resources=(*base.resources, register("stray", tile)))
    p = next(
        s for _, _, s in base.groups[0].steps() if isinstance(s, Work) and s.node.startswith("sub")
    )
    wrong = changed(base, "loop", p.label, reads=(Access("stray"), *p.reads[1:]))
    verdict = refuted(wrong, FindingKind.UNWRITTEN)
    assert "stray" in verdict.findings[0].where


def test_a_wrong_carried_maximum() -> None:
    base = lowered(attention())
    resources = tuple(replace(r, start=0.0) if r.name == "r.m" else r for r in base.resources)
    refuted(replace(base, resources=resources), FindingKind.ACCOUNTING)


def test_work_that_nothing_depends_on_is_dead_not_wrong() -> None:
    base = lowered(attention())
    base = replace(base, resources=(*base.resources, register("spare", base.resource("r.S").type)))
    again = next(s for _, _, s in base.groups[0].steps() if isinstance(s, Work) and s.node == "S")
    wrong = replace(again, label="idle", writes=(Access("spare"),), reads=(Access("r.Q"),) * 2)
    with pytest.raises(StructureError, match="shape"):
        verify(edited(base, 0, "loop", lambda steps: steps.append(wrong)))
    stale = replace(again, label="idle", iteration=5, writes=(Access("spare"),))
    verdict = verify(edited(base, 0, "loop", lambda steps: steps.append(stale)))
    assert verdict.proved
    assert [d.op for d in verdict.dead_work if d.always] == ["idle"]


# --- conditions -----------------------------------------------------------------------------------


def rescaling() -> Program:
    """A carried value that changes only where a condition holds; the step is skipped elsewhere."""
    loop = Loop("rescale", over="k")
    x = loop.stream("X", "f32", k=1, c=8)
    s = loop.carry("S", c=8)
    row = x.sum("k").named("row")
    big = (row > 1.0).any("c").named("big")
    with loop.when(big):
        s = s.becomes((s + row).named("grown"))
    loop.store("out", s)
    base = lowered(loop.as_written)

    def in_place(steps: list[Step]) -> None:
        at = next(
            i
            for i, s in enumerate(steps)
            if isinstance(s, Work) and s.when is None and s.node == "grown"
        )
        step = steps[at]
        assert isinstance(step, Work)
        steps[at] = replace(step, writes=(Access("r.S"),), when="big")
        del steps[-1]

    return edited(base, 0, "loop", in_place)


def test_a_skipped_step_keeps_the_old_value() -> None:
    verdict = verify(rescaling())
    assert verdict.proved, [f.describe() for f in verdict.findings]


def test_a_skipped_step_over_something_else() -> None:
    """Written beside its carry and copied back: where it is skipped, the copy brings the past."""
    base = rescaling()

    def beside(steps: list[Step]) -> None:
        step = steps[-1]
        assert isinstance(step, Work)
        steps[-1] = replace(step, writes=(Access("r.grown"),))
        steps.append(copy("grown", "r.grown", "r.S", 0))

    refuted(edited(base, 0, "loop", beside), FindingKind.ACCOUNTING, FindingKind.UNWRITTEN)


def test_a_step_skipped_by_the_condition_of_another_iteration() -> None:
    def late(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.node == "big")
        steps.append(steps.pop(at))

    refuted(edited(rescaling(), 0, "loop", late), FindingKind.ACCOUNTING)


def test_work_for_a_skipped_step_may_be_skipped_as_well() -> None:
    base = rescaling()

    def guarded(steps: list[Step]) -> None:
        # row is needed for the condition, so a copy of it is what gets skipped
        step = steps[-1]
        assert isinstance(step, Work)
        steps[-1:] = [
            copy("row", "r.row", "spare", 0, when=("big", Access("r.big"))),
            replace(step, reads=(step.reads[0], Access("spare"), *step.reads[2:])),
        ]

    base = replace(base, resources=(*base.resources, register("spare", ROW)))
    assert verify(edited(base, 0, "loop", guarded)).proved


# --- several waves --------------------------------------------------------------------------------


def test_a_producer_and_two_consumers_are_proved() -> None:
    verdict = verify(producer_consumer())
    assert verdict.proved, [f.describe() for f in verdict.findings]


@pytest.mark.parametrize(
    ("group", "slot", "expected"),
    [
        (0, 1, FindingKind.RAW),
        (0, 2, FindingKind.BARRIER),
        (0, 3, FindingKind.BARRIER),
        (1, 0, FindingKind.BARRIER),
        (1, 2, FindingKind.REGISTER),
        (1, 3, FindingKind.BARRIER),
    ],
)
def test_every_wait_and_barrier_counts(group: int, slot: int, expected: FindingKind) -> None:
    refuted(without(producer_consumer(), group, "loop", slot), expected)


@pytest.mark.parametrize(
    ("slots", "expected"), [((2, 0), FindingKind.RAW), ((3, 3), FindingKind.WAR)]
)
def test_a_barrier_missing_in_both(slots: tuple[int, int], expected: FindingKind) -> None:
    base = without(without(producer_consumer(), 0, "loop", slots[0]), 1, "loop", slots[1])
    refuted(base, expected)


def test_barriers_that_agree_at_zero_trips_only() -> None:
    base = edited(producer_consumer(), 0, "loop", lambda steps: steps.append(BARRIER))
    verdict = refuted(base, FindingKind.BARRIER)
    assert verdict.findings[0].trips == 1
    assert "forever" in verdict.findings[0].why


def test_a_wait_that_is_never_met_is_a_barrier_others_do_not_reach() -> None:
    base = edited(producer_consumer(), 1, "end", lambda steps: steps.insert(0, BARRIER))
    verdict = refuted(base, FindingKind.BARRIER)
    assert verdict.findings[0].trips == 0


def test_a_consumer_that_reads_the_other_half() -> None:
    halves = (((0, 1), (4, 8)), ((0, 1), (0, 4)))
    base = producer_consumer()

    def swap(steps: list[Step]) -> None:
        fetch = steps[1]
        assert isinstance(fetch, Work)
        steps[1] = replace(fetch, reads=(Access("buffer", halves),))

    refuted(edited(base, 1, "loop", swap), FindingKind.ACCOUNTING)


def test_every_fault_of_a_run_is_told() -> None:
    """Two rows, each stored where the other belongs: two findings, not the first alone."""
    loop = Loop("two", over="k")
    sums = []
    for name in "XY":
        total = loop.carry(f"S{name}", c=8)
        total += loop.stream(name, "f32", k=1, c=8).sum("k")
        sums.append(total)
    for name, total in zip("XY", sums, strict=True):
        loop.store(f"out{name}", total)
    wrong = lowered(loop.as_written)
    for name, other in ("XY", "YX"):
        wrong = changed(wrong, "after", f"store out{name}", reads=(Access(f"r.S{other}"),))
    found = refuted(wrong, FindingKind.ACCOUNTING).findings
    assert {(f.second.op, f.trips) for f in found} == {("store outX", 1), ("store outY", 1)}


def shared_and_own(*behind: Step) -> Program:
    """All waves fill LDS; each then puts twice of it in a place of its own, next to that, and both
    read the first wave's."""
    loop = Loop("twice", over="k")
    x = loop.stream("X", "f32", k=1, c=4)
    total = loop.carry("S", c=4)
    total += (x + x).named("twice").sum("k")
    loop.store("out", total)
    tile, row = TileType(("k", "c"), (1, 4), F32), TileType(("c",), (4,), F32)
    filled, first, second = ((((0, 1), (at, at + 4)),) for at in (0, 4, 8))
    twice = Work(
        node="twice",
        label="twice",
        iteration=0,
        reads=(Access("R"), Access("R")),
        writes=(Access("D"),),
    )
    steps: list[Step] = [
        BARRIER,
        copy("X", "X", Access("L", filled, shared=True), 0, "vm", label="fill"),
        wait("vm"),
        BARRIER,
        copy("X", Access("L", filled), "R", 0, "lgkm"),
        wait("lgkm"),
        twice,
        copy("twice", "D", Access("L", (*first, *second)), 0, "lgkm", label="put"),
        wait("lgkm"),
        *behind,
        copy("twice", Access("L", first), "E", 0, "lgkm", label="get"),
        wait("lgkm"),
        add_up(["E"], "sum", 0),
    ]
    return program(
        loop.as_written,
        [
            lds("L", TileType(("k", "c"), (1, 12), F32)),
            *(register(name, tile) for name in "RDE"),
            register("sum", row, 0.0),
        ],
        [((0, 1), [looped(*steps), straight("end", copy("out", "sum", "out", None, "vm"))])],
    )


def test_a_place_that_is_filled_together_and_alone() -> None:
    """The first wave may read at once what it put there, the second only behind a barrier."""
    assert verify(shared_and_own(BARRIER)).proved
    verdict = refuted(shared_and_own(), FindingKind.RAW)
    assert {f.second.wave for f in verdict.findings} == {1}


# --- several loops --------------------------------------------------------------------------------


def two_loops(second: int = 0) -> Program:
    """T trips, then U: the second loop goes on where the first ends."""

    def body(at: int) -> tuple[Step, ...]:
        return (load_row("R", at), wait("vm"), add_up(["R"], "sum", at))

    return program(
        row_sum(),
        [register("R", TILE), register("sum", ROW, 0.0)],
        [
            (
                (0,),
                [
                    looped(*body(0)),
                    looped(*body(second), trips="U", first=Affine(0, (("T", 1),))),
                    straight("end", copy("out", "sum", "out", None, "vm", label="store")),
                ],
            )
        ],
        iterations=Affine(0, (("T", 1), ("U", 1))),
        trips=(TripCount("T"), TripCount("U")),
    )


def test_two_loops_in_sequence() -> None:
    verdict = verify(two_loops())
    assert verdict.proved
    assert proves(two_loops())
    assert "of each of 2 loops" in verdict.summary()


def test_the_second_loop_off_by_one() -> None:
    verdict = refuted(two_loops(second=1), FindingKind.ACCOUNTING)
    assert dict(verdict.findings[0].counts) == {"T": 0, "U": 1}


def test_a_second_loop_that_starts_over_is_right_at_zero_trips_only() -> None:
    base = two_loops()
    sections = base.groups[0].sections
    again = replace(sections[1], first=Affine())
    group = replace(base.groups[0], sections=(sections[0], again, sections[2]))
    verdict = refuted(replace(base, groups=(group,)), FindingKind.ACCOUNTING)
    shortest = verdict.shortest()
    assert shortest is not None
    assert dict(shortest.counts) == {"T": 1, "U": 1}


def test_what_cannot_be_decided_is_an_error() -> None:
    """Even iterations in the first loop, odd ones in the second: right, but no trip repeats."""
    base = two_loops()
    sections = base.groups[0].sections
    even = replace(sections[0], advance=2)
    odd = replace(sections[1], advance=2, trips="T", first=Affine(1))
    group = replace(base.groups[0], sections=(even, odd, sections[2]))
    base = replace(
        base,
        groups=(group,),
        iterations=Affine(0, (("T", 2),)),
        trips=(TripCount("T"),),
    )
    for judge in (verify, proves):
        with pytest.raises(ScheduleError, match="cannot decide"):
            judge(base)


def test_a_verdict_is_plain_data() -> None:
    plain = verify(row_sum_program(last=2)).to_dict()
    assert plain["status"] == "race"
    assert plain["findings"][0]["second"]["section"] in ("loop", "epilogue")


def put_and_fetch(claimed: int, barrier: bool) -> Program:
    """Both waves put a row into LDS and fetch their half; ``claimed`` is whose row they say."""
    halves: tuple[Box, ...] = (((0, 1), (0, 4)), ((0, 1), (4, 8)))
    parts: tuple[Box, ...] = (((0, 4), (0, 1)), ((4, 8), (0, 1)))
    outs: tuple[Box, ...] = (((0, 4),), ((4, 8),))
    resources = [
        lds("buffer", TILE),
        register("G", TILE),
        register("R", TileType(("k", "c"), (1, 4), F32)),
        register("sum", TileType(("c",), (4,), F32), 0.0),
    ]
    loop = looped(
        load_row("G", 0),
        wait("vm"),
        copy("X", "G", Access("buffer", shared=True), claimed, "lgkm", label="put"),
        wait("lgkm"),
        *([BARRIER] if barrier else []),
        copy("X", Access("buffer", halves), "R", 0, "lgkm", label="fetch"),
        wait("lgkm"),
        BARRIER,
        add_up(["R"], "sum", 0, parts=parts),
    )
    store = replace(copy("out", "sum", "out", None, "vm"), writes=(Access("out", outs),))
    return program(row_sum(), resources, [((0, 1), [loop, straight("end", store)])])


@pytest.mark.parametrize("claimed", [0, 1])
def test_what_is_told_of_a_copy_is_what_it_brings_and_not_what_it_says(claimed: int) -> None:
    assert verify(put_and_fetch(claimed, barrier=True)).proved
    (found,) = verify(put_and_fetch(claimed, barrier=False)).findings
    assert found.kind is FindingKind.RAW
    assert found.first is not None
    assert (found.first.slot, found.second.slot) == (2, 4)
    assert found.first.wave != found.second.wave


def test_registers_of_other_waves_are_others() -> None:
    """Each wave then loads something else to where the other one has its row."""
    base = put_and_fetch(0, barrier=True)
    halves: tuple[Box, ...] = (((0, 1), (0, 4)), ((0, 1), (4, 8)))

    def elsewhere(steps: list[Step]) -> None:
        at, fetch = next(
            (n, s) for n, s in enumerate(steps) if isinstance(s, Work) and s.label == "fetch"
        )
        spare = copy("X", Access("X", halves), Access("Q", halves[::-1]), 0, "vm", label="spare")
        steps[at : at + 2] = [replace(fetch, writes=(Access("Q", halves),)), wait("lgkm"), spare]
        add = steps[-1]
        assert isinstance(add, Work)
        steps[-1:] = [wait("vm"), replace(add, reads=(Access("Q", halves),))]

    wider = replace(base, resources=(*base.resources, register("Q", TILE)))
    assert verify(edited(wider, 0, "loop", elsewhere)).proved


def test_two_barriers_are_not_decided() -> None:
    base = producer_consumer()
    target = base.target
    other = replace(target.barriers[0], name="other")
    base = replace(base, target=replace(target, barriers=(*target.barriers, other)))

    def rename(steps: list[Step]) -> None:
        at = next(n for n, s in enumerate(steps) if isinstance(s, Barrier))
        steps[at] = Barrier("other")

    both = edited(edited(base, 0, "loop", rename), 1, "loop", rename)
    with pytest.raises(StructureError, match="it uses several barriers, other, workgroup"):
        verify(both)


def test_a_third_wave_reads_at_once_what_two_have_written() -> None:
    halves: tuple[Box, ...] = (((0, 1), (0, 4)), ((0, 1), (4, 8)))
    fill = copy("X", Access("X", halves), Access("buffer", halves), 0, "vm", label="fill")
    fetch = copy("X", "buffer", "R", 0, "lgkm", label="fetch")
    consume = looped(BARRIER, fetch, wait("lgkm"), BARRIER, add_up(["R"], "sum", 0))
    store = copy("out", "sum", "out", None, "vm")
    made = program(
        row_sum(),
        [lds("buffer", TILE), register("R", TILE), register("sum", ROW, 0.0)],
        [
            ((0, 1), [looped(fill, wait("vm"), BARRIER, BARRIER)]),
            ((2,), [consume, straight("end", store)]),
        ],
    )
    assert verify(made).proved
    refuted(without(made, 0, "loop", 1), FindingKind.RAW)


def filled_twice(*between: Step) -> Program:
    """Two groups fill a place together, and again with the next tile, which one of them reads."""
    shared = Access("buffer", shared=True)
    fills = (
        copy("X", "X", shared, 0, "vm", label="old"),
        wait("vm"),
        *between,
        copy("X", "X", shared, 1, "vm", label="new"),
        wait("vm"),
        BARRIER,
    )
    rest = (
        copy("X", "buffer", "R", 1, "lgkm", label="get"),
        wait("lgkm"),
        add_up(["R"], "sum", 1),
        load_row("R", 0),
        wait("vm"),
        add_up(["R"], "sum", 0),
        copy("out", "sum", "out", None, "vm", label="store"),
    )
    return program(
        row_sum(),
        [lds("buffer", TILE), register("R", TILE), register("sum", ROW, 0.0)],
        [((0,), [straight("all", *fills, *rest)]), ((1,), [straight("all", *fills)])],
        iterations=Affine(2),
        trips=(),
    )


def test_what_one_group_wrote_may_land_on_what_the_other_writes_next() -> None:
    """Each has waited for its own, and which slice is whose may change from step to step."""
    assert verify(filled_twice(BARRIER)).proved
    (finding,) = refuted(filled_twice(), FindingKind.WAR).findings
    assert finding.first is not None
    assert (finding.first.wave, finding.second.wave) == (0, 1)
    assert (finding.first.slot, finding.second.slot) == (0, 2)


def last_fill(*, unrolled: bool) -> Program:
    """Two waves fill LDS in every trip; another adds up out of memory, and the last tile from LDS.

    ``unrolled`` has two steps do it in turn.
    """
    shared = Access("buffer", shared=True)
    fills: list[list[Step]] = [
        [copy("X", "X", shared, n, "vm"), BARRIER, wait("vm")]
        for n in range(1, 3 if unrolled else 2)
    ]
    adds: list[list[Step]] = [
        [load_row("R", n), wait("vm"), add_up(["R"], "sum", n), BARRIER] for n in range(len(fills))
    ]
    trips = len(fills)
    end = (
        BARRIER,
        copy("X", "buffer", "R", 0, "lgkm"),
        wait("lgkm"),
        add_up(["R"], "sum", 0),
        copy("out", "sum", "out", None, "vm", label="store"),
    )
    return program(
        row_sum(),
        [lds("buffer", TILE), register("R", TILE), register("sum", ROW, 0.0)],
        [
            (
                (0, 1),
                [
                    straight("first", copy("X", "X", shared, 0, "vm"), wait("vm"), BARRIER),
                    looped(*(step for fill in fills for step in fill), advance=trips),
                    straight("end", BARRIER),
                ],
            ),
            (
                (2,),
                [
                    straight("first", BARRIER),
                    looped(*(step for add in adds for step in add), advance=trips),
                    straight("end", *end, first=Affine(0, (("T", trips),))),
                ],
            ),
        ],
        iterations=Affine(1, (("T", trips),)),
    )


def test_each_wave_has_the_same_slice_whenever_a_step_runs() -> None:
    """So what it has waited for needs no barrier before it does it again; two steps may slice a
    tile in two ways."""
    assert verify(last_fill(unrolled=False)).proved
    refuted(last_fill(unrolled=True), FindingKind.WAR)


def test_of_groups_that_fill_a_place_the_one_that_did_not_wait_is_to_blame() -> None:
    """The reader's own part of the tile is there; the other's may still be the tile before."""
    shared = Access("buffer", shared=True)
    old = (copy("X", "X", shared, 0, "vm", label="old"), wait("vm"), BARRIER, BARRIER)
    new = copy("X", "X", shared, 1, "vm", label="new")
    rest = (
        copy("X", "buffer", "R", 1, "lgkm", label="get"),
        wait("lgkm"),
        add_up(["R"], "sum", 1),
        load_row("R", 0),
        wait("vm"),
        add_up(["R"], "sum", 0),
        copy("out", "sum", "out", None, "vm", label="store"),
    )

    def made(*late: Step) -> Program:
        return program(
            row_sum(),
            [lds("buffer", TILE), register("R", TILE), register("sum", ROW, 0.0)],
            [
                ((0,), [straight("all", *old, new, *late, BARRIER)]),
                ((1,), [straight("all", *old, new, wait("vm"), BARRIER, *rest)]),
            ],
            iterations=Affine(2),
            trips=(),
        )

    assert verify(made(wait("vm"))).proved
    (finding,) = refuted(made(), FindingKind.RAW).findings
    assert finding.first is not None
    assert (finding.first.wave, finding.first.slot) == (0, 4)
    assert (finding.second.wave, finding.second.slot) == (1, 7)
