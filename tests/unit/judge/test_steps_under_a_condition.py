"""A wait counts on no entry of a step that a wave may jump over: every judge and every maker of
waits says so alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom.declare import Loop
from pipeloom.judge.execute import Executor, Fault, adversarial_orders, execute
from pipeloom.judge.execute.unrolled import Outstanding
from pipeloom.judge.verify import FindingKind, Status, verify
from pipeloom.machine.dtypes import F32
from pipeloom.program import (
    Access,
    Box,
    Meaning,
    NodeKind,
    Program,
    Step,
    TileType,
    Wait,
    Work,
)
from pipeloom.sync import synchronize
from pipeloom.sync.draft import with_waits
from tests.unit.judge.verify.programs import (
    ROW,
    TILE,
    copy,
    edited,
    looped,
    program,
    register,
    straight,
    wait,
)

BIG = ("big", Access("r.big"))


def meaning() -> Meaning:
    """Adds a row of D where a row of X exceeds what was added up of it; and adds up Y."""
    loop = Loop("sometimes", over="k")
    x, y, d = (loop.stream(name, "f32", k=1, c=8) for name in "XYD")
    top, seen, total = (loop.carry(name, c=8) for name in ("top", "seen", "total"))
    row = x.sum("k").named("row")
    big = (row > top).named("big")
    top += row
    seen += y.sum("k")
    extra = d.sum("k").named("extra")
    with loop.when(big):
        total = total.becomes((total + extra).named("grown"))
    for name, carry in (("top", top), ("seen", seen), ("total", total)):
        loop.store(f"last_{name}", carry)
    made = loop.meaning  # which masks rows past the end: there are none in a tile of one row
    nodes = [n for n in made.nodes if n.kind is not NodeKind.LEFT and ".inside" not in n.name]
    uses = {n.name: tuple(use.removesuffix(".inside") for use in n.uses) for n in nodes}
    return replace(made, nodes=tuple(replace(n, uses=uses[n.name]) for n in nodes))


def sometimes(*, count: int | None = 0, late: int | None = 0) -> Program:
    """Y is loaded, then D if it is needed; a wait for ``count`` comes before Y is used, one for
    ``late`` before D is."""
    made = meaning()
    bool_row = made["big"].type
    grown = next(n.name for n in made.nodes if n.when == "big")
    update = {n.name: n.uses[0] for n in made.nodes if n.kind.value == "carry"}

    def op(node: str, reads: list[str], to: str, *, adds: bool = False, **more: object) -> Work:
        places = (Access(to),)
        return Work(
            node=node,
            label=node,
            iteration=0,
            reads=tuple(Access(name) for name in reads),
            **{"accumulates" if adds else "writes": places},  # type: ignore[arg-type]
            **more,  # type: ignore[arg-type]
        )

    first: list[Step] = [copy("X", "X", "r.X", 0, "vm"), wait("vm")]
    steps: list[Step | None] = [
        op("row", ["r.X"], "r.row"),
        op("big", ["r.row", "r.top"], "r.big"),
        op(update["top"], ["r.top", "r.row"], "r.top"),
        copy("Y", "Y", "r.Y", 0, "vm", label="load Y"),
        copy("D", "D", "r.D", 0, "vm", when=BIG, label="load D"),
        None if count is None else wait("vm", count),
        op(update["seen"], ["r.Y"], "r.seen", adds=True),
        None if late is None else wait("vm", late),
        op("extra", ["r.D", "r.big"], "r.extra", when="big"),
        op(grown, ["r.total", "r.extra", "r.big"], "r.total", when="big"),
    ]
    stores = [
        copy(f"last_{name}", f"r.{name}", f"last_{name}", None, "vm", label=f"store {name}")
        for name in ("top", "seen", "total")
    ]
    resources = [
        *(register(f"r.{name}", TILE) for name in "XYD"),
        *(register(f"r.{name}", ROW, 0.0) for name in ("top", "seen", "total")),
        register("r.row", ROW),
        register("r.extra", ROW),
        register("r.big", bool_row),
    ]
    loop = looped(*first, *(step for step in steps if step is not None))
    return program(made, resources, [((0,), [loop, straight("end", *stores)])])


def runs_right(made: Program) -> bool:
    executor = Executor(made)
    return all(executor.run(trips=t, seed=t).correct for t in range(4))


@pytest.mark.parametrize(
    ("count", "late", "right"),
    [
        (0, None, True),
        (1, 0, False),  # where D is skipped, Y is still on its way
        (0, 1, True),
        (1, 1, False),
        (None, 0, False),
    ],
)
def test_verify_and_execute_agree_on_which_waits_do(
    count: int | None, late: int | None, right: bool
) -> None:
    made = sometimes(count=count, late=late)
    assert runs_right(made) is right
    assert (verify(made).status is Status.PROVED) is right


def test_a_nominal_run_does_not_count_on_it() -> None:
    """If D counted, the wait for one would bring Y home a cycle before it is used: TIMING."""

    def later(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == "load D")
        steps.insert(at + 2, wait("lgkm"))

    verdict = verify(edited(sometimes(count=1), 0, "loop", later))
    found = [(f.kind, f.status) for f in verdict.findings]
    assert found == [(FindingKind.REGISTER, Status.RACE)]


def test_a_step_under_a_condition_is_in_flight_until_a_wait_is_due_to_itself() -> None:
    """A wait before it retires nothing of it, and neither does one that counts what follows."""
    made = sometimes(count=None)

    def earlier(steps: list[Step]) -> None:
        at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == "load D")
        steps.insert(at, Wait("vmcnt", 0))
        late = next(i for i, s in enumerate(steps) if i > at + 1 and isinstance(s, Wait))
        steps[late] = Wait("vmcnt", 1)

    wrong = edited(made, 0, "loop", earlier)
    assert verify(wrong).findings[0].kind is FindingKind.REGISTER
    outcome = execute(wrong, trips=1)
    assert not outcome.correct
    assert {s.fault for s in outcome.suspects} >= {Fault.IN_FLIGHT}


def test_a_counter_that_stalls_does_not_stall_for_a_step_that_may_not_issue() -> None:
    counter = Outstanding[str](15, stalls=True)
    counter.issue("old", 1)
    counter.issue("older than it", 14)
    assert counter.issue("maybe", 0) == ([], [])
    assert counter.wait(14) == ["old"]
    counter.issue("young", 3)
    assert counter.wait(4) == []
    assert counter.wait(3) == ["older than it", "maybe"]


def test_a_stall_is_none_for_the_verifier_either() -> None:
    """With 15 entries out, only the issue of one more would bring the first home."""

    def filled(when: tuple[str, Access] | None) -> Program:
        def more(steps: list[Step]) -> None:
            at = next(i for i, s in enumerate(steps) if isinstance(s, Work) and s.label == "load D")
            steps[at : at + 1] = [
                copy("X", "X", "r.X", 0, "vm", 62, label="many"),
                copy("D", "D", "r.D", 0, "vm", when=when, label="load D"),
            ]

        return edited(sometimes(count=None), 0, "loop", more)

    for when, right in ((None, True), (BIG, False)):
        made = filled(when)
        assert (verify(made, counter_stall=True).status is Status.PROVED) is right
        found = execute(made, trips=2, counter_stall=True)
        assert found.correct is right


def test_waits_that_are_filled_in_do_not_count_on_it_either() -> None:
    made = with_waits(sometimes(count=None, late=None))
    assert verify(made).status is Status.PROVED
    assert runs_right(made)


def test_synchronising_finds_the_waits_of_such_steps() -> None:
    made = synchronize(sometimes(count=None, late=None))
    assert verify(made).status is Status.PROVED
    assert runs_right(made)


def test_a_store_under_a_condition_leaves_elements_unstored() -> None:
    made = sometimes()

    def skipped(steps: list[Step]) -> None:
        steps[-1] = copy("last_total", "r.total", "last_total", None, "vm", when=BIG)

    wrong = edited(made, 0, "end", skipped)
    for policy in ("worst", "late"):
        outcome = execute(wrong, trips=2, policy=policy)
        assert [w.fault for w in outcome.wrong] == [Fault.MISSING]
        assert 0 < outcome.wrong[0].elements <= 8
    assert FindingKind.STORE in {finding.kind for finding in verify(wrong).findings}
    both = edited(made, 0, "end", lambda steps: steps.append(skipped_store()))
    assert all(
        Executor(both).run(trips=2, order=order).correct for order in adversarial_orders(both.waves)
    )


def skipped_store() -> Work:
    return copy("last_total", "r.total", "last_total", None, "vm", when=BIG)


TALL, PAIR = TileType(("k", "c"), (2, 8), F32), TileType(("c",), (16,), F32)
UPPER, LOWER = ((0, 1), (0, 8)), ((1, 2), (0, 8))


def two_orders(second: int) -> Program:
    """Where a row is big, two waves add up a tile to it: one from above, the other from below, in
    the place where the total must be already where it is not. There it was brought from 0 of a pair
    of rows by the first wave, and by the other from ``second``."""
    loop = Loop("two_orders", over="k")
    x, d = (loop.stream(name, "f32", k=2, c=8) for name in "XD")
    total = loop.carry("total", c=8)
    big = (x.max("k").named("row") > total).named("big")
    extra = d.sum("k").named("extra")
    with loop.when(big):
        total = total.becomes((total + extra).named("grown"))
    loop.store("out", total)
    made = loop.as_written

    def op(node: str, reads: tuple[str, ...], to: str, when: str | None = None) -> Work:
        return Work(
            node=node,
            label=node,
            iteration=0,
            reads=tuple(map(Access, reads)),
            writes=(Access(to),),
            when=when,
        )

    def half(rows: tuple[Box, Box]) -> Work:
        return replace(
            op("extra", ("r.D", "r.big"), "r.new", "big"),
            reads=(Access("r.D", rows), Access("r.big")),
            parts=tuple((columns, row) for row, columns in rows),
        )

    first = half((UPPER, LOWER))
    other = replace(half((LOWER, UPPER)), writes=(), accumulates=first.writes)
    steps = (
        copy("X", "X", "r.X", 0, "vm"),
        copy("D", "D", "r.D", 0, "vm"),
        wait("vm"),
        op("row", ("r.X",), "r.row"),
        op("big", ("r.row", "r.total"), "r.big"),
        copy("total", "r.total", Access("pair", (((0, 8),),)), 0),
        copy("total", Access("pair", (((0, 8),), ((second, second + 8),))), "r.new", 0),
        first,
        other,
        op("grown", ("r.total", "r.new", "r.big"), "r.new", "big"),
        copy("grown", "r.new", "r.total", 0),
    )
    resources = [
        *(register(f"r.{name}", TALL) for name in "XD"),
        *(register(f"r.{name}", ROW) for name in ("row", "new")),
        register("r.big", made["big"].type),
        register("r.total", ROW, 0.0),
        register("pair", PAIR, 1.0),
    ]
    end = straight("end", copy("out", "r.total", "out", None, "vm"))
    return program(made, resources, [((0, 1), [looped(*steps), end])])


@pytest.mark.parametrize(("second", "right"), [(0, True), (8, False)])
def test_every_wave_must_hold_what_a_skipped_step_leaves(second: int, right: bool) -> None:
    made = two_orders(second)
    assert [Executor(made).run(trips=trips).correct for trips in range(3)] == [True, right, right]
    verdict = verify(made)
    assert verdict.proved is right
    assert {finding.trips for finding in verdict.findings} == (set() if right else {1})
