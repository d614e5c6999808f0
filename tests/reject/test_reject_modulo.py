"""Problems and arguments that must be refused, each with its message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.errors import ConfigError, GraphError, OrderError, ScheduleError, SpecError
from pipeloom.order.modulo import (
    Budget,
    Channel,
    Edge,
    MachineUnit,
    ModuloProblem,
    Op,
    Reader,
    Reservation,
    Value,
    explain_ii,
    solve_modulo,
)

A, B = Op("a"), Op("b")
U = MachineUnit("u", 1)
ONE = ModuloProblem("one", (), (A, B), (Edge(0, 1, 1),))


def problem(
    ops: tuple[Op, ...] = (A, B),
    edges: tuple[Edge, ...] = (Edge(0, 1, 1),),
    units: tuple[MachineUnit, ...] = (U,),
    values: tuple[Value, ...] = (),
    channels: tuple[Channel, ...] = (),
    budget: Budget | None = None,
) -> ModuloProblem:
    return ModuloProblem("p", units, ops, edges, values, channels, budget or Budget())


def record(**fields: object) -> ModuloProblem:
    return ModuloProblem.from_dict({"ops": [{"name": "a"}, {"name": "b"}], **fields})


BAD: list[tuple[Callable[[], object], type[ScheduleError], str]] = [
    (lambda: problem(ops=()), ConfigError, "at least one op"),
    (lambda: problem(ops=(A, A)), ConfigError, "two ops are called 'a'"),
    (lambda: problem(units=(U, U)), ConfigError, "two units are called 'u'"),
    (lambda: problem(units=(MachineUnit("u", 0),)), ConfigError, r"units\[u\].capacity is 0"),
    (lambda: problem(ops=(Op("a", -1), B)), ConfigError, r"ops\[a\].latency is -1"),
    (
        lambda: problem(ops=(Op("a", 0, (Reservation("x"),)), B)),
        ConfigError,
        r"op 'a' uses unit 'x', which is not declared(.|\n)*the units are u",
    ),
    (
        lambda: problem(ops=(Op("a", 0, (Reservation("u", 0),)), B)),
        ConfigError,
        "occupancy is 0",
    ),
    (
        lambda: problem(ops=(Op("a", 0, (Reservation("u", 3), Reservation("u", 1, 2))), B)),
        ConfigError,
        "op 'a' holds 'u' 2 times at once, capacity 1",
    ),
    (lambda: problem(edges=(Edge(0, 2, 1),)), GraphError, "edge 0 names op 2, but there are 2"),
    (lambda: problem(edges=(Edge(0, 1, 1, -1),)), ConfigError, r"edges\[0\].distance is -1"),
    (
        lambda: problem(edges=(Edge(0, 1, 1), Edge(1, 0, 0))),
        GraphError,
        "wait for each other within one iteration",
    ),
    (lambda: problem(edges=(Edge(0, 0, 1),)), GraphError, "ops a -> a wait for each other"),
    (lambda: problem(budget=Budget(stages=0)), ConfigError, "budget.stages is 0"),
    (
        lambda: problem(values=(Value("v", 0, 4, (Reader(1, 1),)),)),
        GraphError,
        "value 'v' is read by 'b' at distance 1, but no edge of that distance",
    ),
    (lambda: problem(values=(Value("v", 0, 4, ()),)), ConfigError, "needs a writer and a reader"),
    (
        lambda: problem(channels=(Channel("c", 8, (0,), (Reader(5),)),)),
        ConfigError,
        "channel 'c' names op 5, but there are 2 ops",
    ),
    (lambda: ModuloProblem.from_json("{"), ConfigError, "the problem is not JSON"),
    (lambda: ModuloProblem.from_json("[]"), SpecError, "a problem is a mapping, not list"),
    (lambda: ModuloProblem.from_dict({"x": 1}), SpecError, "the problem has no key 'x'"),
    (lambda: ModuloProblem.from_dict({"name": "x"}), SpecError, "the problem lacks ops"),
    (lambda: record(time_unit="step"), SpecError, "the problem has no key 'time_unit'"),
    (lambda: record(colour=1), SpecError, "the problem has no key 'colour'"),
    (lambda: record(edges=[{"from": "a", "to": "z"}]), SpecError, "edges.to is 'z'"),
    (lambda: record(edges=[{"from": "a", "to": "b", "latency": "x"}]), SpecError, "is 'x'"),
    (lambda: record(edges=3), SpecError, "edges is 3"),
    (lambda: record(budget=[]), SpecError, r"budget is \[\], but must be a mapping"),
    (lambda: record(units=[{"name": "u", "size": 1}]), SpecError, r"units\[0\] has no key 'size'"),
    (lambda: record(edges=[{"source": "a", "to": "b"}]), SpecError, "an edge has the key 'source'"),
    (lambda: record(edges=[{"to": "b"}]), SpecError, "edges.from is None"),
    (lambda: record(edges=[{"from": "a", "to": 2}]), SpecError, "edges.to is 2"),
    (lambda: record(values=[{"name": "v", "op": "z"}]), SpecError, "values.op is 'z'"),
    (lambda: record(channels=[{"name": "c", "fills": ["z"]}]), SpecError, "fills is 'z'"),
    (lambda: record(values=[{"readers": [{"op": 9}]}]), SpecError, "values.readers.op is 9"),
    (lambda: record(values=[3]), SpecError, r"values\[0\] is 3"),
    (lambda: solve_modulo(ONE, time_limit=0), ConfigError, "time_limit is 0"),
    (lambda: solve_modulo(ONE, work_limit=0), ConfigError, "work_limit is 0"),
    (lambda: solve_modulo(ONE, workers=0), ConfigError, "workers is 0"),
    (lambda: solve_modulo(ONE, seed=-1), ConfigError, "seed is -1"),
    (lambda: solve_modulo(ONE, max_ii=0), ConfigError, "max_ii is 0"),
    (lambda: explain_ii(ONE, 0), ConfigError, "ii is 0"),
    (
        lambda: solve_modulo(
            problem(channels=(Channel("c", 64, (0,), (Reader(1),)),), budget=Budget(lds_bytes=32))
        ),
        OrderError,
        "one buffer per channel of 'p' takes 64 bytes of LDS, budget 32",
    ),
    (
        lambda: solve_modulo(problem(edges=(Edge(0, 1, 9), Edge(1, 0, 0, 1))), max_ii=8),
        OrderError,
        "'p' has no schedule with II up to 8",
    ),
    (
        lambda: solve_modulo(problem(edges=(Edge(0, 1, 10**9), Edge(1, 0, 0, 1)))),
        OrderError,
        "needs 1000000000 cycles per iteration; the solver goes up to 1000000",
    ),
    (
        lambda: solve_modulo(
            problem(edges=(Edge(0, 1, 10**9),), budget=Budget(stages=1)), work_limit=0.01
        ),
        OrderError,
        "no schedule of 'p' was found before the search was stopped",
    ),
    (
        lambda: solve_modulo(
            problem(
                edges=(Edge(0, 1, 1), Edge(0, 1, 0, 2)),
                channels=(Channel("c", 1, (0,), (Reader(1, 2),), 1),),
            )
        ),
        OrderError,
        "has no schedule at any II within its budgets",
    ),
]


@pytest.mark.parametrize(("act", "kind", "message"), BAD)
def test_modulo_mistakes_are_named(
    act: Callable[[], object], kind: type[ScheduleError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        act()
